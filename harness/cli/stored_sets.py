"""Sets of the user's own without their files: what is stored of encoders on them can be compared all the same."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from harness.core.errors import InputError
from harness.data import DataDir
from harness.data.own import Kind, OwnSet

if TYPE_CHECKING:
    from harness.results.records import Result
    from harness.running.plan import Progress


@dataclass(frozen=True)
class StoredSet(OwnSet):
    """A set whose files are not given: it can be told from others, not read.

    Attributes:
        digest: its checksum, of a record.
    """

    digest: str = ""

    @cached_property
    def sha256(self) -> str:
        """The digest."""
        return self.digest


def stored_sets(
    records: Mapping[str, Sequence[Result]], tasks: Collection[str], subsets: Collection[str], progress: Progress
) -> DataDir | None:
    """The sets of the user's own that all of these encoders have records on, where such sets alone are asked for.

    Args:
        records: of each encoder, by its name.
        tasks, subsets: what is asked for, by name; no subsets: all.
        progress: is told which other sets there are.

    Returns:
        A data directory with nothing else; None where other tasks are asked for, too, or there are no such sets.

    Raises:
        InputError: an encoder has no such record of one of `subsets`, another has.
    """
    from harness.protocol.described import is_own

    if not tasks or not all(map(is_own, tasks)):
        return None
    stored = {name: _own_records(of_one, tasks) for name, of_one in records.items()}
    sets: list[StoredSet] = []
    others: dict[str, str] = {}
    for task, subset in dict.fromkeys(place for of_one in stored.values() for place in of_one):
        found = {name: of_one[task, subset] for name, of_one in stored.items() if (task, subset) in of_one}
        if lacking := [name for name in stored if name not in found]:
            others[subset] = f"{' and '.join(lacking)} ha{'s' if len(lacking) == 1 else 've'} no results on it"
        elif len({(r.signature, r.dataset.sha256) for r in found.values()}) > 1:
            others[subset] = "its files, or the columns of it, are not the same for all"
        else:
            sets.append(_stored_set(next(iter(found.values()))))
    for subset, why in others.items():
        if not subsets:
            progress.note(f"{subset} is left out: {why}")
        elif subset in subsets and subset not in {each.subset for each in sets}:
            raise InputError(f"{subset} cannot be compared: {why}; measure it with `run`, or give its files")
    return DataDir(Path(os.devnull), sets=tuple(sets)) if sets else None


def _own_records(records: Iterable[Result], tasks: Collection[str]) -> dict[tuple[str, str], Result]:
    """Those on single sets that were measured as the tasks measure now, by task and subset."""
    from harness.protocol import get_task

    current = {name: get_task(name) for name in tasks if name in get_args(Kind)}
    own = [r for r in records if r.task in current and not r.parts]
    return {(r.task, r.subset): r for r in own if current[r.task].is_current(r.signature)}


def _stored_set(record: Result) -> StoredSet:
    from harness.protocol import get_task

    first, second = [*record.languages, *record.languages, "", ""][:2]
    return StoredSet(
        record.subset,
        record.dataset.name,
        (),
        protocol=record.signature.removeprefix(get_task(record.task).full_signature).removeprefix("|"),
        kind=cast(Kind, record.task),
        languages=(first, second),
        digest=record.dataset.sha256,
    )

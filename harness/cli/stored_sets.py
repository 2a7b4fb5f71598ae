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
        A data directory with nothing else; None where no such sets are asked for, or stored.

    Raises:
        InputError: other tasks are asked for, too; or none of the sets that are asked for has records of all.
    """
    from harness.protocol.described import is_own

    own = [task for task in tasks if is_own(task)]
    if not own:
        return None
    if len(own) < len(tasks):
        raise InputError(
            f"{own[0]} is for data sets of your own; compare it alone, or give --pairs, --scored, --beir or --sets"
        )
    stored = {name: _own_records(of_one, own) for name, of_one in records.items()}
    places = dict.fromkeys(place for of_one in stored.values() for place in of_one)
    sets: list[StoredSet] = []
    left_out: dict[tuple[str, str], str] = {}
    for task, subset in (place for place in places if place[1] in (subsets or [place[1]])):
        of_set = {name: of_one.get((task, subset)) for name, of_one in stored.items()}
        if reason := _no_comparison(of_set):
            left_out[task, subset] = reason
        elif record := next(iter(of_set.values())):
            sets.append(_stored_set(record))
    kept = {each.subset for each in sets}
    for (task, subset), reason in left_out.items():
        if not kept or (subset in subsets and subset not in kept):
            raise InputError(f"{task}/{subset}: {reason}")
        progress.note(f"{task}/{subset} is left out: {reason}")
    return DataDir(Path(os.devnull), sets=tuple(sets)) if sets else None


def _no_comparison(records: Mapping[str, Result | None]) -> str:
    """Why encoders with these records of one set cannot be compared on it, and what to do; empty if they can."""
    if lacking := [name for name, record in records.items() if record is None]:
        has = "has" if len(lacking) == 1 else "have"
        return f"{' and '.join(lacking)} {has} no results on it; measure it with `run`, or give its files"
    if len({record.dataset.sha256 for record in records.values() if record}) > 1:
        return "the stored results are of different files; give its files"
    if len({record.signature for record in records.values() if record}) > 1:
        return "the stored results are of different columns or options; give its files"
    return ""


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

"""Sets of the user's own without their files: what is stored of encoders on them can be compared all the same."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from harness.data import DataDir
from harness.data.own import Kind, OwnSet

if TYPE_CHECKING:
    from harness.results.records import Result


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
    records: Sequence[Sequence[Result]], tasks: Collection[str], subsets: Collection[str]
) -> DataDir | None:
    """The sets of the user's own that all of these encoders have records on, where they alone are asked for.

    Args:
        records: of each encoder.
        tasks, subsets: what is asked for, by name; empty: everything.

    Returns:
        A data directory with nothing else; None where other sets are asked for, too, or there are no such sets.
    """
    from harness.protocol.described import described, is_own
    from harness.protocol.task import Task

    if not (all(map(is_own, tasks)) if tasks else subsets):
        return None
    own = [
        {r.key[1:]: r for r in of_one if is_own(r.task) and not r.parts and r.task in (tasks or [r.task])}
        for of_one in records
    ]
    common = [record for key, record in own[0].items() if all(key in of_one for of_one in own)]
    if not tasks and not {*subsets} <= {record.subset for record in common}:
        return None
    sets = []
    for record in common:
        task, kind = described(record.task), _kind(record.task)
        if isinstance(task, Task) and kind and task.is_current(record.signature):
            protocol = record.signature.removeprefix(task.full_signature).removeprefix("|")
            first, second = [*record.languages, *record.languages, "", ""][:2]
            sets.append(
                StoredSet(
                    record.subset,
                    record.dataset.name,
                    (),
                    protocol=protocol,
                    kind=kind,
                    languages=(first, second),
                    digest=record.dataset.sha256,
                )
            )
    return DataDir(Path(os.devnull), sets=tuple(sets)) if sets else None


def _kind(task: str) -> Kind | None:
    return next((kind for kind in get_args(Kind) if kind == task), None)

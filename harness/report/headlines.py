"""Which numbers stand for all of a task: those of the table over all tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.core.names import Subset
from harness.protocol.described import overview_columns, subset_order, task_order
from harness.report.cells import Column
from harness.results.records import Result
from harness.statistics.board import Key


def headlines(results: Sequence[Result]) -> list[tuple[Column, Key]]:
    """The columns of the table over all tasks that these results fill, in its order."""
    found = []
    for task in task_order(result.task for result in results):
        for column in overview_columns(task):
            measured = [r.subset for r in results if r.task == task and column.metric in r.metrics]
            for subset in subset_order(task, _fitting(measured, column.subsets)):
                found.append((Column(column.heading, subset), (task, subset, column.metric)))
    return found


def _fitting(subsets: Iterable[str], bases: Sequence[str]) -> list[str]:
    """The subsets of the first base that occurs, with all its stand-ins."""
    listed = list(subsets)
    for base in bases:
        fitting = [s for s in listed if Subset.parse(s).base == base or (base == "avg-*" and s.startswith("avg-"))]
        if fitting:
            return fitting
    return [] if bases else listed

"""Which numbers stand for all of a task: those of the table over all tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.core.names import Subset
from harness.protocol.described import described, overview_columns, subset_order, task_order, title_of
from harness.protocol.task import OverviewColumn
from harness.report.cells import Column
from harness.results.records import Result
from harness.statistics.board import Key

_FEW = 4


def headlines(results: Sequence[Result]) -> list[tuple[Column, Key]]:
    """The numbers that stand for all of each task, as far as these results have them, in the order of the tables."""
    return [
        (Column(column.heading, subset), (task, subset, column.metric))
        for task in task_order(result.task for result in results)
        for column in overview_columns(task)
        for subset in _fitting_subsets(task, column, results)
    ]


def one_each(results: Sequence[Result]) -> list[tuple[Column, Key]]:
    """The columns of the table over all tasks: of several averages or stand-ins the one that the task ranks by.

    That is the one of `rank_encoders`. Of a task without a measured average, each set has a column if they are few.
    """
    found = []
    for task in task_order(result.task for result in results):
        columns = overview_columns(task)
        of_task: list[tuple[Column, Key]] = []
        for column in columns:
            fitting = _fitting_subsets(task, column, results)
            if column.subsets and fitting:
                fitting = [_preferred(task, fitting, column.metric, results)]
            of_task += [(Column(column.heading, s), (task, s, column.metric)) for s in fitting]
        if not of_task and columns:
            metric, heading = columns[0].metric, columns[0].heading
            sets = _measured(task, metric, results)
            if len(set(sets)) <= _FEW:
                of_task = [(Column(heading, s), (task, s, metric)) for s in subset_order(task, sets)]
        found += of_task
    return found


def short_column(key: Key) -> Column:
    """The heading of a number in a table with little room: `BUCC mean@` of the average `avg@ntrex`."""
    task, subset, metric = key
    known = next((column for column in overview_columns(task) if column.metric == metric), None)
    base, tag = Subset.parse(subset)
    name = "mean" if base == "avg" else base.removeprefix("avg-")
    return Column((known.short or known.heading) if known else title_of(task), name + ("@" if tag else ""))


def _preferred(task: str, subsets: Sequence[str], metric: str, results: Sequence[Result]) -> str:
    ranking, frequency = described(task).display.ranking, Counter(_measured(task, metric, results))

    def place(subset: str) -> tuple[int, int, str]:
        base = Subset.parse(subset).base
        return (ranking.index(base) if base in ranking else len(ranking), -frequency[subset], subset)

    return min(subsets, key=place)


def _fitting_subsets(task: str, column: OverviewColumn, results: Sequence[Result]) -> list[str]:
    return subset_order(task, _fitting(_measured(task, column.metric, results), column.subsets))


def _measured(task: str, metric: str, results: Sequence[Result]) -> list[str]:
    return [result.subset for result in results if result.task == task and metric in result.metrics]


def _fitting(subsets: Iterable[str], bases: Sequence[str]) -> list[str]:
    """The subsets of the first base that occurs, with all its stand-ins."""
    listed = list(subsets)
    for base in bases:
        fitting = [s for s in listed if Subset.parse(s).base == base or (base == "avg-*" and s.startswith("avg-"))]
        if fitting:
            return fitting
    return [] if bases else listed

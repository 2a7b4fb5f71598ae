"""Language bias side by side, for the page: what joining two sets costs each encoder, and each set's rank shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report.tables import split_sample
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.tasks.joining_page import joinings


def biases(
    results: Sequence[Result], statistics: Mapping[str, Statistics], places: Mapping[str, int]
) -> list[dict[str, Any]]:
    """A matrix of each encoder, of the largest group of sets that was joined; real data before the bundled sample.

    Keys: task, group; of: a list of encoder (its place), sets, cost (a row and a column for each set), shift.

    Raises:
        InputError: stored costs or shifts are no numbers, or not one a set.
    """
    found = []
    for part in split_sample([result for result in results if result.base is None]):
        for task in sorted({result.task for result in part}):
            of_task = [result for result in part if result.task == task]
            group, of_group = joinings(of_task, statistics.get(task, Statistics()))
            matrices = [{"encoder": places[name], **values} for name, values in of_group.items()]
            if matrices:
                found.append({"task": task, "group": group, "of": matrices})
    return found

"""Language bias side by side, for the page: what joining two sets costs each encoder, and each set's rank shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.board.numbers import number
from harness.board.records import Places
from harness.report.tables import split_sample
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.tasks.joining_page import COST_LIMIT, SHIFT_LIMIT, joinings, paint

_DIGITS, _PRINTED = 2, 1


def biases(
    results: Sequence[Result], statistics: Mapping[str, Statistics], places: Mapping[str, int]
) -> dict[str, Any]:
    """A matrix of each encoder, of the largest group of sets that was joined; real data before the bundled sample.

    Keys: `groups`: a list of task, group and `matrices`, each of an encoder (its place), `sets`, `cost` (a row and a
    column for each set) and `shift`; a number is `[value, paint]`, and `paints` has the colours of cell and text, in
    the light and in the dark.

    Raises:
        InputError: stored costs or shifts are no numbers, or not one a set.
    """
    paints: Places[tuple[str, ...]] = Places()

    def painted(values: Sequence[float], limit: float) -> list[list[float | None]]:
        return [
            [number(value, _DIGITS, _PRINTED), paints.of(paint(value, limit) + paint(value, limit, is_dark=True))]
            for value in values
        ]

    groups = []
    for part in split_sample([result for result in results if result.base is None]):
        for task in sorted({result.task for result in part}):
            of_task = [result for result in part if result.task == task]
            group, of_group = joinings(of_task, statistics.get(task, Statistics()))
            matrices = [
                {
                    "encoder": places[name],
                    "sets": values["sets"],
                    "cost": [painted(row, COST_LIMIT) for row in values["cost"]],
                    "shift": painted(values["shift"], SHIFT_LIMIT),
                }
                for name, values in of_group.items()
            ]
            if matrices:
                groups.append({"task": task, "group": group, "matrices": matrices})
    return {"groups": groups, "paints": [list(pair) for pair in paints]}

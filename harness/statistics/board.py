"""The board: values, intervals and tests of stored results, and which encoders are the best. Imports no NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

from harness.core.errors import InputError
from harness.protocol.described import metric_of
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics

Key = tuple[str, str, str]
"""Task, subset and metric: they identify a number of an encoder."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Standing:
    """Which encoders are the best by one metric on one subset.

    Attributes:
        leader: the encoder with the highest value (of several, the first by name); empty if nothing is ranked.
        best: the leader, its equals, and those that are not significantly worse; empty if no other encoder was
            tested against it.
        equals: the leader and the encoders with the same value.
        untested: encoders that could not be tested against the leader, because rows of one of the two were not kept
            or the two were measured on different data.
        p: by encoder that was tested against the leader, the p-value corrected by Holm; NaN with too few items.
    """

    leader: str = ""
    best: frozenset[str] = frozenset()
    equals: frozenset[str] = frozenset()
    untested: frozenset[str] = frozenset()
    p: dict[str, float] = field(default_factory=dict)


def standing(values: Mapping[str, float], p: Callable[[str, str], float | None], alpha: float) -> Standing:
    """Determines which encoders are not significantly worse than the one with the highest value, corrected by Holm.

    A single encoder is not the best. An encoder with too few items to be tested is not significantly worse.

    Args:
        values: by encoder, the score.
        p: gives the p-value of the leader and another encoder; None if they were not tested.
        alpha: the level of the tests.
    """
    if len(values) < 2:
        return Standing()
    # Rounded, so that the leader does not depend on the order of the records.
    leader = min(values, key=lambda encoder: (-round(values[encoder], 9), encoder))
    equals = frozenset(encoder for encoder in values if abs(values[encoder] - values[leader]) < _ROUNDING)
    tests = {encoder: p(leader, encoder) for encoder in values if encoder != leader}
    tested = {encoder: value for encoder, value in tests.items() if value is not None}
    untested = frozenset(tests.keys() - tested.keys())
    if not tested:
        return Standing(leader, equals=equals, untested=untested)
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    not_worse = {encoder for encoder, value in corrected.items() if not value < alpha}
    return Standing(leader, equals | not_worse, equals, untested, corrected)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979), in the order given; NaN (not tested) stays NaN and is not counted.

    Raises:
        InputError: a p-value below 0 or above 1.
    """
    if any(p < 0 or p > 1 for p in p_values):
        raise InputError(f"p-values lie between 0 and 1, not {list(p_values)}")
    tested = sorted((place for place, p in enumerate(p_values) if not isnan(p)), key=lambda place: p_values[place])
    adjusted = [float(p) for p in p_values]
    highest = 0.0
    for rank, place in enumerate(tested):
        highest = max(highest, (len(tested) - rank) * float(p_values[place]))
        adjusted[place] = min(highest, 1.0)
    return adjusted


class Board:
    """The stored numbers of several encoders.

    Cut and quantised vectors are not ranked among them, and change nothing of what is said of the others. The best
    encoders are the best of the given results, so that a table of some encoders is right by itself.
    """

    def __init__(self, results: Sequence[Result], statistics: Mapping[str, Statistics]):
        """statistics: by task, those of these records."""
        self._results: dict[tuple[str, str], dict[str, Result]] = {}
        for result in results:
            self._results.setdefault((result.task, result.subset), {})[result.encoder] = result
        self._statistics = statistics
        self._standings: dict[Key, Standing] = {}
        self._p_zero: dict[tuple[str, str], dict[tuple[str, str], float]] = {}

    def results(self, task: str, subset: str) -> dict[str, Result]:
        """The results on one subset, by encoder."""
        return self._results.get((task, subset), {})

    def statistics(self, task: str) -> Statistics:
        """The intervals and tests of a task; empty ones if there are none."""
        return self._statistics.get(task) or Statistics()

    def entry(self, result: Result) -> Entry | None:
        """The intervals and tests of one record."""
        return self.statistics(result.task).entry(result)

    def interval(self, result: Result, metric: str) -> tuple[float, float] | None:
        """Both ends of the interval of a score; None if there is no interval."""
        entry = self.entry(result)
        ends = entry.interval.get(metric) if entry else None
        return None if ends is None or isnan(ends[0]) else ends

    def p(self, first: Result, second: Result, metric: str) -> float | None:
        """The p-value of two encoders on one subset, not corrected; None if they were not tested."""
        return self.statistics(first.task).p(first, second, metric)

    def standing(self, key: Key) -> Standing:
        """Which encoders are the best by one metric on one subset; by a difference or a threshold none is."""
        if key not in self._standings:
            task, subset, metric = key
            results = {e: r for e, r in self.results(task, subset).items() if metric in r.metrics and r.base is None}
            values = {encoder: result.metrics[metric] for encoder, result in results.items()}
            self._standings[key] = Standing()
            if metric_of(task, metric).is_ranked:
                p = lambda first, second: self.p(results[first], results[second], metric)  # noqa: E731
                self._standings[key] = standing(values, p, self.statistics(task).alpha)
        return self._standings[key]

    def against(self, key: Key, reference: str) -> dict[str, float]:
        """The p-value of every other encoder against this one, corrected by Holm over them; NaN if it was not tested.

        Empty where the reference has no result; without cut and quantised vectors, and by a difference or a threshold.
        """
        task, subset, metric = key
        results = {e: r for e, r in self.results(task, subset).items() if metric in r.metrics and r.base is None}
        if reference not in results or not metric_of(task, metric).is_ranked:
            return {}
        others = [encoder for encoder in results if encoder != reference]
        found = [self.p(results[other], results[reference], metric) for other in others]
        return dict(zip(others, holm([nan if p is None else p for p in found]), strict=True))

    def p_zero(self, result: Result, metric: str) -> float | None:
        """The p-value of a difference against zero, corrected by Holm over all of the task; None if there is none."""
        key = result.task, metric
        if key not in self._p_zero:
            tests = {
                (encoder, subset): entry.p_zero[metric]
                for (task, subset), results in self._results.items()
                if task == result.task
                for encoder, other in results.items()
                if other.base is None and (entry := self.entry(other)) and metric in entry.p_zero
            }
            self._p_zero[key] = dict(zip(tests, holm(list(tests.values())), strict=True))
        return self._p_zero[key].get((result.encoder, result.subset))

    def resampling(self, result: Result) -> str | None:
        """The signature of the resampling behind a record's intervals and tests; None if it has none."""
        return self.statistics(result.task).signature if self.entry(result) else None

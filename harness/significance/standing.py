"""Which encoders of a board are the best: the highest value, and all that are not significantly worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.results import Result
from harness.significance.holm import holm
from harness.significance.store import Statistics
from harness.tasks.described import metric_of


@dataclass(frozen=True)
class Standing:
    """Of one subset and metric.

    Attributes:
        best: the encoder with the highest value, its equals, and those that are not significantly worse; none where
            no other encoder was held against it.
        untested: encoders that could not be held against it: per-item rows of one of the two were not kept, or they
            were measured on different data.
        p: by encoder that was held against it, the test, corrected by Holm; NaN with too few items.
    """

    best: frozenset[str] = frozenset()
    untested: frozenset[str] = frozenset()
    p: dict[str, float] = field(default_factory=dict)


def standing(results: Sequence[Result], metric: str, statistics: Statistics) -> Standing:
    """Of several encoders' results on one subset, by the tests against the best of them, corrected by Holm.

    As `harness.stats.best_group`, over the encoders that are given. What has too few items to be tested is not
    significantly worse. A single encoder is not the best of anything, and nothing is best by a bias or a threshold.
    """
    own = [result for result in results if metric in result.metrics]
    if len(own) < 2 or not metric_of(own[0].task, metric).is_ranked:
        return Standing()
    # The same one, whatever the order of the records.
    best = min(own, key=lambda result: (-result.metrics[metric], result.encoder))
    tests = {result.encoder: statistics.p(best, result, metric) for result in own if result is not best}
    tested = {encoder: p for encoder, p in tests.items() if p is not None}
    untested = frozenset(tests.keys() - tested.keys())
    if not tested:
        return Standing(untested=untested)
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    alpha = round(1 - statistics.level, 12)
    alike = {encoder for encoder, p in corrected.items() if not p < alpha}
    equal = {result.encoder for result in own if result.metrics[metric] == best.metrics[metric]}
    return Standing(frozenset(alike | equal), untested, corrected)

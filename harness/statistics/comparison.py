"""Values, differences and tests of several encoders on every set, average and language bias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import isnan
from typing import Literal

from harness.protocol.described import metric_of, subset_order
from harness.protocol.task import Planned, Rows, Task
from harness.resampling.bootstrap import Interval, bca_interval
from harness.resampling.resamples import Resampling
from harness.resampling.tests import PairedTest, RankInterval, bootstrap_p, rank_intervals
from harness.statistics.board import Standing, holm, standing
from harness.statistics.evidence import Evidence
from harness.statistics.rows import EncoderRows

ComparisonKind = Literal["set", "average", "bias"]
WinTieLoss = Literal["win", "tie", "loss"]


@dataclass(frozen=True)
class Difference:
    """One encoder against another on the same items.

    Attributes:
        first, second: the encoders.
        test: of first minus second.
        p_holm: the p-value corrected by Holm over all sets (or averages, or biases) that these two are compared on.
        n_tests: the tests that it is corrected over.
    """

    first: str
    second: str
    test: PairedTest
    p_holm: float
    n_tests: int = 1

    def outcome(self, alpha: float) -> WinTieLoss:
        """The outcome for the first encoder at the corrected level; what cannot be tested is a tie."""
        if not self.p_holm < alpha:
            return "tie"
        return "win" if self.test.difference > 0 else "loss"

    def against(self, second: str) -> Difference:
        """The same difference with that encoder as the second."""
        if second == self.second:
            return self
        t = self.test
        # 0 - x and not -x, which makes -0.0 of 0.0.
        swapped = replace(t, difference=0 - t.difference, low=0 - t.high, high=0 - t.low, effect_size=0 - t.effect_size)
        return replace(self, first=self.second, second=self.first, test=swapped)


@dataclass(frozen=True)
class Comparison:
    """All encoders on one set, average or language bias.

    Attributes:
        kind: "set", "average" (`parts` are its sets) or "bias" (actual minus expected score; a higher one is not
            better, so it counts in no win / tie / loss).
        values: by encoder, the metric and its BCa interval, x 100.
        differences: every pair of these encoders, in the order in which they were given.
        standing: which encoders are the best, as on a board; by a bias none is.
        p_zero: of a bias, by encoder, the bootstrap test against 0, corrected by Holm over encoders and biases.
        missing: by encoder without a value, the reason.
        ranks: of an average of three or more encoders, the rank of each with its interval.
    """

    task: str
    subset: str
    metric: str
    kind: ComparisonKind
    values: dict[str, Interval]
    differences: tuple[Difference, ...] = ()
    standing: Standing = field(default_factory=Standing)
    parts: tuple[str, ...] = ()
    p_zero: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, RankInterval] = field(default_factory=dict)

    def between(self, first: str, second: str) -> Difference | None:
        """First minus second; None if one of them has no value."""
        pairs = (d for d in self.differences if {d.first, d.second} == {first, second})
        return next((d.against(second) for d in pairs), None)


def compare_rows(
    plan: Sequence[Planned], encoders: Sequence[EncoderRows], resampling: Resampling, metric: str | None = None
) -> list[Comparison]:
    """Compares the encoders on every set of the plan and every complete average, in the order of the tables.

    An encoder that lacks a set is in `missing` there; the others are compared all the same.

    metric: takes the place of each task's main metric; every task must have it.

    Raises:
        InputError: rows that are not of the same items, or hold no numbers.
    """
    comparisons: list[Comparison] = []
    for planned in plan:
        task, name = planned.task, metric or planned.task.main_metric
        rows = {encoder.encoder: _rows_with(task, name, encoder, planned) for encoder in encoders}
        failures = {e.encoder: {s: why for (t, s), why in e.failures.items() if t == task.name} for e in encoders}
        averages = task.averages([source.subset for source in planned.sources])
        parts = {source.subset: (source.subset,) for source in planned.sources} | averages
        for subset in subset_order(task.name, parts):
            comparison = _compare(task, name, subset, parts[subset], rows, failures, resampling)
            comparisons.append(replace(comparison, parts=averages.get(subset, ())))
    return _corrected(comparisons)


def win_tie_loss(comparisons: Iterable[Comparison], first: str, second: str, alpha: float) -> dict[WinTieLoss, int]:
    """On how many sets the first encoder is significantly better, neither, or worse, of those that both have."""
    counts: dict[WinTieLoss, int] = {"win": 0, "tie": 0, "loss": 0}
    for comparison in comparisons:
        difference = comparison.between(first, second) if comparison.kind == "set" else None
        if difference:
            counts[difference.outcome(alpha)] += 1
    return counts


def _rows_with(task: Task, metric: str, encoder: EncoderRows, planned: Planned) -> dict[str, Rows]:
    """An encoder's rows by subset, without subsets that lack the metric (BUCC's test scores, if test has no gold)."""
    rows = {
        s.subset: encoder.rows[task.name, s.subset] for s in planned.sources if (task.name, s.subset) in encoder.rows
    }
    return {subset: of_subset for subset, of_subset in rows.items() if metric in task.aggregate(of_subset)}


def _compare(
    task: Task,
    metric: str,
    subset: str,
    parts: Sequence[str],
    rows: Mapping[str, Mapping[str, Rows]],
    failures: Mapping[str, Mapping[str, str]],
    resampling: Resampling,
) -> Comparison:
    is_bias = metric_of(task.name, metric).kind == "difference"
    kind: ComparisonKind = "bias" if is_bias else "set" if tuple(parts) == (subset,) else "average"
    missing = {
        encoder: ("" if part == subset else f"{part}: ") + failures[encoder].get(part, f"no {metric} on this set")
        for encoder in rows
        for part in reversed(parts)  # of several, the first
        if part not in rows[encoder]
    }
    names = [encoder for encoder in rows if encoder not in missing]
    evidence = Evidence(task, {name: [rows[name][part] for part in parts] for name in names}, resampling)
    values: dict[str, Interval] = {}
    p_zero: dict[str, float] = {}
    ranks: dict[str, RankInterval] = {}
    for _, group, replicates in evidence.replicates({metric: names}):
        values |= dict(zip(group, bca_interval(replicates), strict=True))
        if is_bias:
            p_zero |= dict(zip(group, bootstrap_p(replicates).tolist(), strict=True))
        if kind == "average" and len(group) > 2:
            ranks |= dict(zip(group, rank_intervals(replicates), strict=True))
    tests = evidence.paired_tests(metric, list(combinations(names, 2)))
    p = {frozenset(pair): test.p for pair, test in tests.items()}
    is_ranked = metric_of(task.name, metric).is_ranked
    scores = {name: value.value for name, value in values.items()} if is_ranked else {}
    return Comparison(
        task=task.name,
        subset=subset,
        metric=metric,
        kind=kind,
        values=values,
        differences=tuple(Difference(*pair, test, test.p) for pair, test in tests.items()),
        standing=standing(scores, lambda *pair: p[frozenset(pair)], resampling.alpha),
        p_zero=p_zero,
        missing=missing,
        ranks=ranks,
    )


def _corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """With corrected p-values: of each pair of encoders over the sets, over the averages, over the biases."""
    families: dict[tuple[ComparisonKind, str, str], list[float]] = {}
    for c in comparisons:
        for d in c.differences:
            families.setdefault((c.kind, d.first, d.second), []).append(d.test.p)
    adjusted = {key: iter(holm(p)) for key, p in families.items()}
    n_tests = {key: sum(not isnan(value) for value in p) for key, p in families.items()}
    against_zero = iter(holm([p for c in comparisons for p in c.p_zero.values()]))
    return [
        replace(
            c,
            differences=tuple(
                replace(d, p_holm=next(adjusted[key]), n_tests=n_tests[key])
                for d in c.differences
                for key in [(c.kind, d.first, d.second)]
            ),
            p_zero={encoder: next(against_zero) for encoder in c.p_zero},
        )
        for c in comparisons
    ]

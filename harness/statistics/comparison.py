"""Values, differences and tests of several encoders on every set, average and language bias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

from harness.protocol.described import metric_of, subset_order
from harness.protocol.task import Planned, Rows, Task
from harness.resampling.bootstrap import Interval, bca_interval
from harness.resampling.holm import holm
from harness.resampling.ranks import RankInterval, rank_intervals
from harness.resampling.resamples import Resampling
from harness.resampling.tests import Comparison, bootstrap_p
from harness.statistics.board import Standing, standing
from harness.statistics.evidence import Evidence
from harness.statistics.rows import Measured

Kind = Literal["set", "average", "bias"]
Outcome = Literal["win", "tie", "loss"]


@dataclass(frozen=True)
class Difference:
    """One encoder against another on the same items.

    Attributes:
        first, second: the encoders; `comparison` has first minus second.
        p_holm: the p-value corrected by Holm over all sets (or averages, or biases) that these two are compared on.
    """

    first: str
    second: str
    comparison: Comparison
    p_holm: float

    def outcome(self, alpha: float) -> Outcome:
        """Of the first encoder at the corrected level; what cannot be tested is a tie."""
        if not self.p_holm < alpha:
            return "tie"
        return "win" if self.comparison.difference > 0 else "loss"

    def against(self, second: str) -> Difference:
        """The same difference with that encoder as the second."""
        if second == self.second:
            return self
        c = self.comparison
        # 0 - x and not -x, which makes -0.0 of 0.0.
        turned = replace(c, difference=0 - c.difference, low=0 - c.high, high=0 - c.low, effect_size=0 - c.effect_size)
        return Difference(self.second, self.first, turned, self.p_holm)


@dataclass(frozen=True)
class Compared:
    """One set, average or language bias.

    Attributes:
        kind: "set", "average" (`parts` are its sets), "bias" (actual - expected score, which is no better for being
            higher and counts in no win / tie / loss).
        values: by encoder, the metric and its BCa interval, x 100.
        differences: every pair of those encoders, in the order in which they were given.
        standing: which encoders are the best, as on a board; nobody is by a bias.
        p_zero: of a bias by encoder, the bootstrap test against 0, corrected by Holm over encoders and biases.
        missing: encoders that have no value, and why.
        ranks: of an average of three or more encoders, the rank of each with its interval.
    """

    task: str
    subset: str
    metric: str
    kind: Kind
    values: dict[str, Interval]
    differences: tuple[Difference, ...] = ()
    standing: Standing = field(default_factory=Standing)
    parts: tuple[str, ...] = ()
    p_zero: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, RankInterval] = field(default_factory=dict)

    def between(self, first: str, second: str) -> Difference | None:
        """First minus second; None where one of them has no value."""
        pairs = (d for d in self.differences if {d.first, d.second} == {first, second})
        return next((d.against(second) for d in pairs), None)


def compare_rows(
    plan: Sequence[Planned], measured: Sequence[Measured], resampling: Resampling, metric: str | None = None
) -> list[Compared]:
    """Every set of the plan and the averages that are complete, in the order of the tables.

    What an encoder lacks is in `missing`; the others are compared all the same. `metric`: instead of each task's main
    one, which must be among the tasks' metrics.

    Raises:
        InputError: rows that are not of the same items, or hold no numbers.
    """
    found: list[Compared] = []
    for planned in plan:
        task, name = planned.task, metric or planned.task.main_metric
        rows = {one.encoder: _rows_with(task, name, one, planned) for one in measured}
        missing = {one.encoder: {s: why for (t, s), why in one.failures.items() if t == task.name} for one in measured}
        averages = task.averages([source.subset for source in planned.sources])
        parts = {source.subset: (source.subset,) for source in planned.sources} | averages
        for subset in subset_order(task.name, parts):
            one = _compared(task, name, subset, parts[subset], rows, missing, resampling)
            found.append(replace(one, parts=averages.get(subset, ())))
    return _corrected(found)


def win_tie_loss(compared: Iterable[Compared], first: str, second: str, alpha: float) -> dict[Outcome, int]:
    """How often the first encoder is significantly better, neither, or worse, over the sets that both have."""
    counts: dict[Outcome, int] = {"win": 0, "tie": 0, "loss": 0}
    for one in compared:
        difference = one.between(first, second) if one.kind == "set" else None
        if difference:
            counts[difference.outcome(alpha)] += 1
    return counts


def _rows_with(task: Task, metric: str, measured: Measured, planned: Planned) -> dict[str, Rows]:
    """An encoder's rows by subset, those without the metric left out (BUCC's test scores, where test has no gold)."""
    own = {
        s.subset: measured.rows[task.name, s.subset] for s in planned.sources if (task.name, s.subset) in measured.rows
    }
    return {subset: rows for subset, rows in own.items() if metric in task.aggregate(rows)}


def _compared(
    task: Task,
    metric: str,
    subset: str,
    parts: Sequence[str],
    rows: Mapping[str, Mapping[str, Rows]],
    failures: Mapping[str, Mapping[str, str]],
    resampling: Resampling,
) -> Compared:
    is_bias = metric_of(task.name, metric).kind == "difference"
    kind: Kind = "bias" if is_bias else "set" if tuple(parts) == (subset,) else "average"
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
    comparisons = evidence.comparisons(metric, list(combinations(names, 2)))
    p = {frozenset(pair): comparison.p for pair, comparison in comparisons.items()}
    scores = {} if is_bias else {name: value.value for name, value in values.items()}
    return Compared(
        task=task.name,
        subset=subset,
        metric=metric,
        kind=kind,
        values=values,
        differences=tuple(Difference(*pair, comparison, comparison.p) for pair, comparison in comparisons.items()),
        standing=standing(scores, lambda *pair: p[frozenset(pair)], resampling.alpha),
        p_zero=p_zero,
        missing=missing,
        ranks=ranks,
    )


def _corrected(found: Sequence[Compared]) -> list[Compared]:
    """With the p-values corrected: of each pair of encoders over the sets, over the averages, over the biases."""
    families: dict[tuple[Kind, str, str], list[float]] = {}
    for one in found:
        for d in one.differences:
            families.setdefault((one.kind, d.first, d.second), []).append(d.comparison.p)
    adjusted = {key: iter(holm(p)) for key, p in families.items()}
    against_zero = iter(holm([p for one in found for p in one.p_zero.values()]))
    return [
        replace(
            one,
            differences=tuple(replace(d, p_holm=next(adjusted[one.kind, d.first, d.second])) for d in one.differences),
            p_zero={encoder: next(against_zero) for encoder in one.p_zero},
        )
        for one in found
    ]

"""Values, differences and tests of several encoders on every set, average and language bias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

from harness.rows import Measured
from harness.runner import Planned
from harness.stats import (
    Comparison,
    Interval,
    RankInterval,
    Resampling,
    average,
    bca_interval,
    best_group,
    bootstrap,
    bootstrap_p,
    compare,
    holm,
    rank_intervals,
    sample_of,
)
from harness.tasks import Rows, Task
from harness.tasks.described import metric_of, subset_order

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
        best: the best encoder and all that are not significantly worse, corrected over the encoders of this one set
            (`harness.stats.best_group`); empty for a bias.
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
    best: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    p_zero: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, RankInterval] = field(default_factory=dict)

    def between(self, first: str, second: str) -> Difference | None:
        """First minus second; None where one of them has no value."""
        pairs = (d for d in self.differences if {d.first, d.second} == {first, second})
        return next((d.against(second) for d in pairs), None)


def significance(resampling: Resampling) -> float:
    """The level of the tests: 0.05 beside intervals of 0.95 (and not 0.05000000000000004)."""
    return round(1 - resampling.level, 12)


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
    empty = Compared(task.name, subset, metric, kind, {}, missing=missing)
    if not names:
        return empty
    samples = [sample_of(task, metric, [rows[encoder][part] for encoder in names]) for part in parts]
    sample = samples[0] if kind != "average" else average(samples)
    replicates = bootstrap(sample, resampling)
    pairs = list(combinations(range(len(names)), 2))
    comparisons = compare(sample, pairs, replicates=replicates)
    best = best_group(sample, resampling, significance(resampling)) if kind != "bias" else [False] * len(names)
    return replace(
        empty,
        values=dict(zip(names, bca_interval(replicates), strict=True)),
        differences=tuple(
            Difference(names[i], names[j], comparison, comparison.p)
            for (i, j), comparison in zip(pairs, comparisons, strict=True)
        ),
        best=frozenset(name for name, is_best in zip(names, best, strict=True) if is_best),
        p_zero=dict(zip(names, bootstrap_p(replicates).tolist(), strict=True)) if kind == "bias" else {},
        ranks=dict(zip(names, rank_intervals(replicates), strict=True)) if kind == "average" and len(names) > 2 else {},
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

"""Paired tests of two encoders on the same items, effect sizes, and intervals of ranks.

Every p-value is two-sided and (c + 1) / (n + 1), where c of n resamples are at least as extreme as the observation.
It is never 0, and where the outputs of two encoders are exchangeable a randomisation test at 5 % rejects no more
than 5 % of true nulls (Davison and Hinkley 1997, section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.resampling.bootstrap import Replicates, bca_interval, bootstrap
from harness.resampling.metrics import Sample
from harness.resampling.power import Spread
from harness.resampling.resamples import Floats, Resampling, swaps

# Exchanges that give the observed difference again must count in spite of rounding (scores are x 100).
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PairedTest:
    """One encoder against another on the same items.

    Attributes:
        difference, low, high: first minus second in the metric's units, and its BCa interval.
        p: the p-value by approximate randomisation.
        effect_size: the difference in standard deviations of its per-item influence. For a mean it is Cohen's d_z
            (mean of the paired differences over their standard deviation); 0 where nothing differs.
        units: number of units that were drawn. With fewer than three in a stratum, interval, p-value, effect size
            and standard error are NaN.
        standard_error: of the difference, the standard deviation of its bootstrap draws.
        per_point: see `harness.resampling.power.Spread`.
    """

    difference: float
    low: float
    high: float
    p: float
    effect_size: float
    units: int
    standard_error: float
    per_point: float | None = None

    @property
    def spread(self) -> Spread:
        """What tells how large a difference is found."""
        return Spread(self.standard_error, self.difference, self.per_point)


def paired_tests(
    sample: Sample,
    pairs: Sequence[tuple[int, int]],
    plan: Resampling | None = None,
    replicates: Replicates | None = None,
) -> list[PairedTest]:
    """Tests the encoders of each pair, which are given by their places in the sample.

    replicates: those of the same sample, if they are there already; then their plan counts.
    """
    replicates = replicates or bootstrap(sample, plan)
    comparisons = []
    for (i, j), p in zip(pairs, randomisation_p(sample, pairs, replicates.plan), strict=True):
        difference = replicates.difference(i, j)
        (interval,) = bca_interval(difference)
        size = float(effect_size(difference)[0])
        error = float(difference.draws.std()) if sample.units.can_be_resampled else np.nan
        ends = (interval.value, interval.low, interval.high)
        comparisons.append(PairedTest(*ends, p, size, sample.units.total, error, sample.per_point))
    return comparisons


def randomisation_p(sample: Sample, pairs: Sequence[tuple[int, int]], plan: Resampling | None = None) -> list[float]:
    """The p-values of pairs of encoders by approximate randomisation: a unit's outputs are exchanged with p = 1/2.

    Noreen (1989), chapter 2; Riezler and Maxwell (2005), figure 1. `harness.resampling.metrics.Spearman` says what is
    exchanged if two encoders' scores are on different scales. NaN with fewer than three units in a stratum.
    """
    plan = plan or Resampling()
    if not pairs or not sample.units.can_be_resampled:
        return [np.nan] * len(pairs)
    exchange = sample.statistic.exchange(pairs)

    def differences(swapped: Floats) -> Floats:
        first, second = exchange(swapped)
        size: Floats = np.abs(first - second)
        return size

    observed = differences(np.zeros((len(sample.units.of_row), 1))) - _ROUNDING
    extreme = sum((differences(swapped) >= observed).sum(axis=1) for swapped in swaps(sample.units, plan))
    p: list[float] = ((extreme + 1) / (plan.resamples + 1)).tolist()
    return p


def bootstrap_p(replicates: Replicates) -> Floats:
    """The p-value of each value against 0, (m,): of differences of encoders, or of a language bias.

    The bootstrap distribution is shifted so that its mean is 0 (Noreen 1989; Riezler and Maxwell 2005, figure 2); c
    counts the draws that are then at least as far from 0 as the observed value. NaN with fewer than three units in
    a stratum.
    """
    if not replicates.units.can_be_resampled:
        return np.full(len(replicates.values), np.nan)
    shifted = np.abs(replicates.draws - replicates.draws.mean(axis=1, keepdims=True))
    extreme = (shifted >= np.abs(replicates.values)[:, None] - _ROUNDING).sum(axis=1)
    p: Floats = (extreme + 1) / (replicates.draws.shape[1] + 1)
    return p


def effect_size(replicates: Replicates) -> Floats:
    """Each value over its jackknife standard error times the root of the number of units, (m,); see `PairedTest`."""
    if not replicates.units.can_be_resampled:
        return np.full(len(replicates.values), np.nan)
    variance = sum((part**2).sum(axis=1) / (part.shape[1] * (part.shape[1] - 1)) for part in replicates.influence)
    scale = np.sqrt(np.asarray(variance) * replicates.units.total)
    size: Floats = np.divide(replicates.values, scale, out=np.zeros(len(scale)), where=scale > 1e-12)
    return size


@dataclass(frozen=True)
class RankInterval:
    """An encoder's rank (1 is best; equal values share the better rank) and the interval of it."""

    rank: int
    low: int
    high: int


def rank_intervals(replicates: Replicates) -> list[RankInterval]:
    """Rank intervals of all m encoders; they hold simultaneously at the plan's level.

    Mogstad, Romano, Shaikh and Wilhelm (2024), section 3: a rank is at least 1 + the number of encoders that are
    significantly ahead, and at most m - the number of those that are significantly behind, where all differences are
    judged at once by the bootstrap distribution of the largest |t|. Percentiles of the ranks in resamples,
    which are simpler, cover too rarely where encoders are close (Xie, Singh and Zhang 2009).
    With fewer than three units in a stratum every interval is 1 to m.
    """
    values, draws = replicates.values, replicates.draws
    m = len(values)
    first, second = np.triu_indices(m, 1)
    ahead = np.zeros((m, m), dtype=bool)
    if replicates.units.can_be_resampled and m > 1:
        largest = np.zeros(draws.shape[1])
        errors = np.zeros(len(first))
        for k, (i, j) in enumerate(zip(first, second, strict=True)):
            difference = draws[i] - draws[j]
            errors[k] = difference.std()
            if errors[k] > 1e-12:
                np.maximum(largest, np.abs(difference - difference.mean()) / errors[k], out=largest)
        limit = np.quantile(largest, replicates.plan.level) * errors
        ahead[first, second] = values[first] - values[second] > np.maximum(limit, 1e-12)
        ahead[second, first] = values[second] - values[first] > np.maximum(limit, 1e-12)
    return [
        RankInterval(1 + int((values > value).sum()), 1 + int(ahead[:, k].sum()), m - int(ahead[k].sum()))
        for k, value in enumerate(values)
    ]

"""The bootstrap and the jackknife of a sample, and intervals from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness.resampling.metrics import Combination, Sample, Statistic
from harness.resampling.resamples import Floats, Resampling, Units, bootstrap_counts, leave_one_out

StatisticKind = Literal["metric", "proportion", "difference"]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Interval:
    """A value and its interval, in the metric's units.

    Both ends are NaN with fewer than three units in a stratum, and where all items are alike (see `bca_interval`).
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Replicates:
    """A metric of m encoders on resamples that they share: column k of `draws` is the same resample for all.

    Attributes:
        values: (m,), on the rows as they are.
        draws: (m, B), on B bootstrap resamples.
        jackknife: (m, u), without the rows of each of u units.
        units, plan: what was drawn, and how.
        kind: of what, which decides on the interval where all items are alike (see `bca_interval`).
    """

    values: Floats
    draws: Floats
    jackknife: Floats
    units: Units
    plan: Resampling
    kind: StatisticKind = "metric"

    def difference(self, i: int, j: int) -> Replicates:
        """Encoder i minus encoder j, as replicates of one row."""
        return replace(self._row(i).minus(self._row(j)), kind="difference")

    def minus(self, other: Replicates) -> Replicates:
        """Row by row, another metric of the same encoders on the same resamples taken off."""
        return Replicates(
            self.values - other.values,
            self.draws - other.draws,
            self.jackknife - other.jackknife,
            self.units,
            self.plan,
        )

    def _row(self, i: int) -> Replicates:
        values, draws, jackknife = (a[i : i + 1] for a in (self.values, self.draws, self.jackknife))
        return Replicates(values, draws, jackknife, self.units, self.plan)

    @cached_property
    def influence(self) -> list[Floats]:
        """Jackknife influence values (n_h - 1)(mean - value without unit), (m, n_h) for each stratum h.

        Centred at the stratum's mean, as SciPy does (Efron and Tibshirani 1993, equation 14.15).
        """
        parts = (self.jackknife[:, units] for units in self.units.strata)
        return [(part.shape[1] - 1) * (part.mean(axis=1, keepdims=True) - part) for part in parts]


def bootstrap(sample: Sample, plan: Resampling | None = None) -> Replicates:
    """All encoders of a sample on the same resamples, and the exact jackknife.

    O(n) per resample; memory is that of the results, m x (B + units) doubles, and of a few blocks.
    """
    return bootstrap_each([sample], plan)[0]


def bootstrap_each(samples: Sequence[Sample], plan: Resampling | None = None) -> list[Replicates]:
    """`bootstrap` of every sample; those that are drawn alike (equal units) are drawn once for all."""
    plan = plan or Resampling()
    alike: dict[tuple[tuple[int, ...], bytes], list[int]] = {}
    for place, sample in enumerate(samples):
        alike.setdefault(sample.units.identity, []).append(place)
    draws: list[list[Floats]] = [[] for _ in samples]
    for places in alike.values():
        for counts in bootstrap_counts(samples[places[0]].units, plan):
            for place in places:
                draws[place].append(samples[place].statistic(counts))
    return [
        Replicates(
            s.values,
            np.concatenate(own, axis=1),
            jackknife(s.statistic, s.units),
            s.units,
            plan,
            "proportion" if s.is_proportion else "metric",
        )
        for s, own in zip(samples, draws, strict=True)
    ]


def jackknife(statistic: Statistic, units: Units) -> Floats:
    """(m, u), the values without the rows of each of u units.

    A term of a combination changes only with the units that have rows in it: n languages of k sentences take n k^2
    steps and not (n k)^2.
    """
    if not isinstance(statistic, Combination):
        return np.concatenate([statistic(counts) for counts in leave_one_out(units)], axis=1)
    ones = np.ones((len(units.of_row), 1))
    values = np.repeat(statistic(ones), units.total, axis=1)
    for weight, rows, part in statistic.terms:
        present, of_row = np.unique(units.of_row[rows], return_inverse=True)
        own = Units(of_row, (len(present),), (None,))
        values[:, present] += weight * (jackknife(part, own) - part(ones[rows]))
    return values


def percentile_interval(replicates: Replicates) -> list[Interval]:
    """The percentile interval (Efron and Tibshirani 1993, section 13.3), one an encoder."""
    tail = (1 - replicates.plan.level) / 2
    return _intervals(replicates, np.full(len(replicates.values), tail), np.full(len(replicates.values), 1 - tail))


def bca_interval(replicates: Replicates) -> list[Interval]:
    """The bias-corrected and accelerated interval, one an encoder.

    Efron and Tibshirani (1993), section 14.3; with several strata, the acceleration of Davison and Hinkley (1997),
    section 5.3. Where the observed value lies outside all draws, it is taken as halfway beyond the outermost.

    Where all items are alike, every resample has the same value, which says nothing of other items. A proportion
    (an accuracy of 0 or 100) then has the exact interval of Clopper and Pearson (1934), a difference of encoders that
    are equal on every item is 0 with both ends 0, and anything else has no interval (NaN).
    """
    from scipy.special import ndtr, ndtri

    values, draws = replicates.values[:, None], replicates.draws
    below = ((draws < values).mean(axis=1) + (draws <= values).mean(axis=1)) / 2
    half = 0.5 / draws.shape[1]
    bias = ndtri(np.clip(below, half, 1 - half))
    cubes = sum((part**3).sum(axis=1) / part.shape[1] ** 3 for part in replicates.influence)
    squares = np.asarray(sum((part**2).sum(axis=1) / part.shape[1] ** 2 for part in replicates.influence))
    acceleration = np.divide(cubes, 6 * squares**1.5, out=np.zeros(len(squares)), where=squares > 0)
    tail = (1 - replicates.plan.level) / 2
    ends = []
    for z in (ndtri(tail), ndtri(1 - tail)):
        shifted = bias + z
        ends.append(ndtr(bias + shifted / (1 - acceleration * shifted)))
    return _intervals(replicates, *ends)


def _intervals(replicates: Replicates, lower: ArrayLike, upper: ArrayLike) -> list[Interval]:
    if not replicates.units.can_be_resampled:
        return [Interval(float(value), np.nan, np.nan) for value in replicates.values]
    everything = np.concatenate([replicates.values[:, None], replicates.draws, replicates.jackknife], axis=1)
    are_alike = np.ptp(everything, axis=1) < _ROUNDING
    return [
        _of_equal_items(float(value), replicates)
        if is_alike
        else Interval(float(value), *np.quantile(draws, [low, high]).tolist())
        for value, is_alike, draws, low, high in zip(
            replicates.values, are_alike, replicates.draws, np.asarray(lower), np.asarray(upper), strict=True
        )
    ]


def _of_equal_items(value: float, replicates: Replicates) -> Interval:
    """See `bca_interval`. Of n items that are all right, the lower end p solves p^n = (1 - level) / 2."""
    if replicates.kind == "proportion":
        reach = 100 * (1 - ((1 - replicates.plan.level) / 2) ** (1 / replicates.units.total))
        return Interval(value, 0.0, reach) if value < 50 else Interval(value, 100 - reach, 100.0)
    end = 0.0 if replicates.kind == "difference" and abs(value) < _ROUNDING else np.nan
    return Interval(value, end, end)

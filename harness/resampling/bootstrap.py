"""The bootstrap and the jackknife of a sample, and the intervals that follow from them."""

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
    """A metric of m encoders on shared resamples: column k of `draws` is the same resample for all encoders.

    Attributes:
        values: (m,), on the rows as they are.
        draws: (m, B), on B bootstrap resamples.
        jackknife: (m, u), without the rows of each of u units.
        units, plan: what was drawn, and how.
        kind: of the value; it decides on the interval if all items are alike (see `bca_interval`).
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
        """Subtracts, row by row, another metric of the same encoders on the same resamples."""
        values, draws = self.values - other.values, self.draws - other.draws
        return Replicates(values, draws, self.jackknife - other.jackknife, self.units, self.plan)

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
    """Draws the same resamples for all encoders of a sample, and computes the exact jackknife.

    Takes O(n) per resample; memory holds the results, m x (B + units) doubles, and a few blocks.
    """
    return bootstrap_each([sample], plan)[0]


def bootstrap_each(samples: Sequence[Sample], plan: Resampling | None = None) -> list[Replicates]:
    """`bootstrap` of every sample; samples with equal units share one drawing."""
    plan = plan or Resampling()
    places_of: dict[tuple[tuple[int, ...], bytes], list[int]] = {}
    for place, sample in enumerate(samples):
        places_of.setdefault(sample.units.identity, []).append(place)
    draws: list[list[Floats]] = [[] for _ in samples]
    for places in places_of.values():
        for counts in bootstrap_counts(samples[places[0]].units, plan):
            for place in places:
                draws[place].append(samples[place].statistic(counts))
    return [
        Replicates(
            s.values,
            np.concatenate(blocks, axis=1),
            jackknife(s.statistic, s.units),
            s.units,
            plan,
            "proportion" if s.is_proportion else "metric",
        )
        for s, blocks in zip(samples, draws, strict=True)
    ]


def jackknife(statistic: Statistic, units: Units) -> Floats:
    """The values without the rows of each of u units, (m, u).

    A term of a combination changes only with the units that have rows in it, so n languages of k sentences take
    n k^2 steps and not (n k)^2.
    """
    if not isinstance(statistic, Combination):
        return np.concatenate([statistic(counts) for counts in leave_one_out(units)], axis=1)
    ones = np.ones((len(units.of_row), 1))
    values = np.repeat(statistic(ones), units.total, axis=1)
    for weight, rows, part in statistic.terms:
        present, of_row = np.unique(units.of_row[rows], return_inverse=True)
        part_units = Units(of_row, (len(present),), (None,))
        values[:, present] += weight * (jackknife(part, part_units) - part(ones[rows]))
    return values


def percentile_interval(replicates: Replicates) -> list[Interval]:
    """The percentile interval of each encoder (Efron and Tibshirani 1993, section 13.3)."""
    tail = (1 - replicates.plan.level) / 2
    return _intervals(replicates, np.full(len(replicates.values), tail), np.full(len(replicates.values), 1 - tail))


def bca_interval(replicates: Replicates) -> list[Interval]:
    """The bias-corrected and accelerated interval of each encoder.

    Efron and Tibshirani (1993), section 14.3; with several strata, the acceleration of Davison and Hinkley (1997),
    section 5.3. An observed value outside all draws counts as halfway beyond the outermost one.

    If all items are alike, every resample has the same value, which says nothing about other items. Then a proportion
    (an accuracy of 0 or 100) has the exact interval of Clopper and Pearson (1934), a difference of encoders that
    are equal on every item is 0 with both ends 0, and any other value has no interval (NaN).
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
    is_constant = np.ptp(everything, axis=1) < _ROUNDING
    return [
        _constant_interval(float(value), replicates)
        if constant
        else Interval(float(value), *np.quantile(draws, [low, high]).tolist())
        for value, constant, draws, low, high in zip(
            replicates.values, is_constant, replicates.draws, np.asarray(lower), np.asarray(upper), strict=True
        )
    ]


def _constant_interval(value: float, replicates: Replicates) -> Interval:
    """See `bca_interval`. If all of n items are right, the lower end p solves p^n = (1 - level) / 2."""
    if replicates.kind == "proportion":
        reach = 100 * (1 - ((1 - replicates.plan.level) / 2) ** (1 / replicates.units.total))
        return Interval(value, 0.0, reach) if value < 50 else Interval(value, 100 - reach, 100.0)
    end = 0.0 if replicates.kind == "difference" and abs(value) < _ROUNDING else np.nan
    return Interval(value, end, end)

"""Metrics as functions of multiplicities, for several encoders on the same rows at once.

Resampling uses only the two methods of `Statistic`: the metric's values on resamples of the rows, and its values when
some outputs of two encoders are exchanged. A `Sample` joins a statistic with the units that are drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.core.errors import InputError
from harness.resampling.resamples import Floats, Units, independent, join

Pairs = Sequence[tuple[int, int]]
Exchange = Callable[[Floats], Floats]
"""swaps (n, b), 1 or 0 -> (2, p, b): the values of both encoders of p pairs with outputs exchanged where swaps is 1."""


class Statistic(Protocol):
    """A metric of m encoders on n rows."""

    def __call__(self, counts: Floats) -> Floats:
        """Multiplicities (n, b), as floats -> values (m, b), in the metric's own units."""

    def exchange(self, pairs: Pairs) -> Exchange:
        """Returns the function that exchanges outputs of p pairs of encoders (given by their rows, 0 to m - 1)."""


class Spearman:
    """Spearman's rho x 100 of gold scores (n,) and similarities (m, n), average ranks on ties; 0 where one is constant.

    No sorting per resample: in the fixed order of the values, a group of equal values that occurs t times after c
    smaller ones has average rank c + (t + 1) / 2. All sums are of whole numbers and therefore exact.

    Two encoders' similarities are on different scales, so paired tests exchange *ranks*: rho is Pearson's r of ranks,
    and each item's rank by one encoder (standardised: ties make ranks spread less) is exchanged with its rank by the
    other. The literature standardises the scores (Deutsch, Dror and Roth 2021, section 4.2; so do the tools of the WMT
    metrics task); ranks do the same for a statistic that sees nothing but ranks, and no increasing transformation of
    an encoder's scores changes the p-value. The mixture is not ranked anew: that would change the spread of the
    exchanged differences by 1 or 2 %, at many times the cost.
    """

    def __init__(self, gold: Floats, similarities: Floats):
        self._gold, self._similarities = gold, similarities
        self._gold_order = _Order(gold)
        self._orders = [_Order(row) for row in similarities]

    def __call__(self, counts: Floats) -> Floats:
        """Values (m, b) on multiplicities (n, b)."""
        total = counts.sum(axis=0)
        # Reused for every encoder: fresh memory costs more than the arithmetic.
        times_space, upto_space, weighted_space = (np.empty_like(counts) for _ in range(3))
        times, upto = self._gold_order.counted(counts, times_space, upto_space)
        # Twice the distance of the average rank from the mean rank.
        ranks = self._gold_order.to_rows(2 * upto - times - total)
        weighted = np.multiply(counts, ranks, out=ranks)
        spread = _spread(times, total)
        values = np.empty((len(self._orders), counts.shape[1]))
        for row, order in enumerate(self._orders):
            times, upto = order.counted(counts, times_space, upto_space)
            gold_sums = order.sums(weighted, weighted_space)
            # The gold ranks are centred, so that the weighted ones sum to 0 and the mean rank drops out.
            covariance = 2 * np.einsum("gb,gb->b", gold_sums, upto) - np.einsum("gb,gb->b", gold_sums, times)
            values[row] = 100 * _quotient(covariance, np.sqrt(spread) * np.sqrt(_spread(times, total)))
        return values

    def exchange(self, pairs: Pairs) -> Exchange:
        """Exchanges standardised ranks."""
        return Pearson(midranks(self._gold[None])[0], midranks(self._similarities)).exchange(pairs)


class _Order:
    """Groups of equal values in ascending order, determined once for all resamples."""

    def __init__(self, values: Floats):
        self._order = np.argsort(values, kind="stable")
        ordered = values[self._order]
        is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self._starts = np.flatnonzero(is_first)
        self._tied = len(self._starts) < len(values)
        self._group = np.empty(len(values), np.int64)
        self._group[self._order] = np.cumsum(is_first) - 1

    def sums(self, rows: Floats, out: Floats) -> Floats:
        """Sums within groups, (rows, b) -> (groups, b), written to the first rows of `out`."""
        if self._tied:
            return np.add.reduceat(rows[self._order], self._starts, axis=0, out=out[: len(self._starts)])
        return np.take(rows, self._order, axis=0, out=out, mode="clip")  # this mode needs no copy

    def counted(self, counts: Floats, times: Floats, upto: Floats) -> tuple[Floats, Floats]:
        """How often each group occurs, and how often it and all smaller ones occur; written to the given arrays."""
        times = self.sums(counts, times)
        upto = upto[: len(times)]
        upto[0] = times[0]
        # numpy.cumsum runs down each column by itself, which takes five times as long.
        for here, (below, upto_here) in zip(times[1:], pairwise(upto), strict=True):
            np.add(below, here, out=upto_here)
        return times, upto

    def to_rows(self, groups: Floats) -> Floats:
        """(groups, b) -> (rows, b)."""
        return groups[self._group]


def _spread(times: Floats, total: Floats) -> Floats:
    """Sum of the squares of twice the centred average ranks: (N^3 - sum t^3) / 3."""
    spread: Floats = (total**3 - np.einsum("gb,gb,gb->b", times, times, times)) / 3
    return spread


class Pearson:
    """Pearson's r x 100 of gold scores (n,) and similarities (m, n); 0 where one is constant.

    Paired tests exchange standardised similarities (Deutsch, Dror and Roth 2021, section 4.2).
    """

    def __init__(self, gold: Floats, similarities: Floats):
        self._gold = _standardised(gold[None])[0]
        self._similarities = _standardised(similarities)

    def __call__(self, counts: Floats) -> Floats:
        """Values (m, b) on multiplicities (n, b)."""
        g, s = self._gold, self._similarities
        sums = (_sums(rows, counts) for rows in (g[None], g[None] ** 2, s, s**2, s * g))
        return _pearson(counts.sum(axis=0), *sums)

    def exchange(self, pairs: Pairs) -> Exchange:
        """Exchanges standardised similarities."""
        g, s = self._gold, self._similarities
        n = np.array([float(len(g))])
        exchanges = [_exchanged_sums(rows, pairs) for rows in (s, np.square(s), s * g)]

        def exchanged(swaps: Floats) -> Floats:
            return _pearson(n, g.sum(), (g**2).sum(), *(sums(swaps) for sums in exchanges))

        return exchanged


def _pearson(total: Floats, g: Floats, g2: Floats, s: Floats, s2: Floats, sg: Floats) -> Floats:
    variance1, variance2 = g2 - g**2 / total, s2 - s**2 / total
    # Removes what rounding leaves of the variance of a constant.
    variance1, variance2 = (np.where(v > 1e-9 * total, v, 0.0) for v in (variance1, variance2))
    return 100 * _quotient(sg - g * s / total, np.sqrt(variance1 * variance2))


def _standardised(rows: Floats) -> Floats:
    centred = rows - rows.mean(axis=1, keepdims=True)
    constant = np.ptp(rows, axis=1, keepdims=True) == 0
    standardised: Floats = np.where(
        constant, 0.0, centred / np.where(constant, 1.0, centred.std(axis=1, keepdims=True))
    )
    return standardised


class Ratio:
    """100 x a sum over a sum, both (m, n): a mean, an accuracy, precision, recall, F1; 0 where the second is 0."""

    def __init__(self, numerators: Floats, denominators: Floats):
        self._parts = numerators, np.ascontiguousarray(np.broadcast_to(denominators, numerators.shape))

    def __call__(self, counts: Floats) -> Floats:
        """Values (m, b) on multiplicities (n, b)."""
        numerators, denominators = self._parts
        return 100 * _quotient(_sums(numerators, counts), _sums(denominators, counts))

    def exchange(self, pairs: Pairs) -> Exchange:
        """Exchanges both terms."""
        above, below = (_exchanged_sums(part, pairs) for part in self._parts)
        return lambda swaps: 100 * _quotient(above(swaps), below(swaps))


def _sums(rows: Floats, weights: Floats) -> Floats:
    """(m, n), (n, b) -> (m, b). Without BLAS: the result does not depend on threads, and nothing waits for them."""
    sums: Floats = np.einsum("mn,nb->mb", rows, weights)
    return sums


def _exchanged_sums(rows: Floats, pairs: Pairs) -> Exchange:
    """Sums over the rows (m, n) of both encoders of p pairs, some of them exchanged, as (2, p, b).

    The exchanged rows of an encoder are summed once for all of its pairs.
    """
    encoders, places = np.unique(np.asarray(pairs), return_inverse=True)
    first, second = places.reshape(-1, 2).T
    chosen = np.ascontiguousarray(rows[encoders])
    total = chosen.sum(axis=1)
    sums = np.stack([total[first], total[second]])[:, :, None]

    def exchanged(swaps: Floats) -> Floats:
        moved = _sums(chosen, swaps)
        gained = moved[second] - moved[first]
        return np.asarray(sums + np.stack([gained, -gained]))

    return exchanged


def _quotient(above: Floats, below: Floats) -> Floats:
    above, below = np.broadcast_arrays(above, below)
    quotient: Floats = np.divide(above, below, out=np.zeros(above.shape), where=below > 0)
    return quotient


@dataclass(frozen=True, eq=False)
class Combination:
    """A weighted sum of other statistics, each on a part of the rows: an average over sets, a difference of two."""

    terms: Sequence[tuple[float, slice, Statistic]]

    def __call__(self, counts: Floats) -> Floats:
        """Values (m, b) on multiplicities (n, b)."""
        return np.asarray(sum(weight * statistic(counts[rows]) for weight, rows, statistic in self.terms))

    def exchange(self, pairs: Pairs) -> Exchange:
        """Lets every term exchange its outputs."""
        parts = [(weight, rows, statistic.exchange(pairs)) for weight, rows, statistic in self.terms]
        return lambda swaps: np.asarray(sum(weight * part(swaps[rows]) for weight, rows, part in parts))


Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Aggregated:
    """Any metric: rows are repeated and aggregated, resample by resample. Slow: each resample calls `aggregate`.

    aggregate: columns -> value. columns: for each encoder, arrays of n rows by name. Paired tests exchange whole rows
    as they are, which is fair only if the encoders' rows are on one scale.
    """

    aggregate: Callable[[Columns], float]
    columns: Sequence[Columns]

    def __call__(self, counts: Floats) -> Floats:
        """Values (m, b) on multiplicities (n, b)."""
        drawn = [np.repeat(np.arange(len(counts)), times.astype(np.int64)) for times in counts.T]
        return np.array(
            [[self.aggregate({k: v[rows] for k, v in columns.items()}) for rows in drawn] for columns in self.columns]
        )

    def exchange(self, pairs: Pairs) -> Exchange:
        """Exchanges whole rows."""

        def value(i: int, j: int, swapped: NDArray[np.bool_]) -> float:
            first, second = self.columns[i], self.columns[j]
            return self.aggregate({key: np.where(swapped, second[key], first[key]) for key in first})

        def exchanged(swaps: Floats) -> Floats:
            sides = pairs, [(j, i) for i, j in pairs]
            return np.array([[[value(*pair, swapped) for swapped in swaps.T > 0] for pair in side] for side in sides])

        return exchanged


def spearman(gold: ArrayLike, similarities: ArrayLike) -> Spearman:
    """Spearman's rho x 100 of gold scores (n,) and similarities (m, n).

    Raises:
        InputError: NaN or infinity, or shapes that do not match.
    """
    return Spearman(*_checked(gold, similarities))


def pearson(gold: ArrayLike, similarities: ArrayLike) -> Pearson:
    """Pearson's r x 100 of gold scores (n,) and similarities (m, n). Raises InputError as `spearman` does."""
    return Pearson(*_checked(gold, similarities))


def mean(values: ArrayLike) -> Ratio:
    """100 x the mean of values (m, n), such as accuracy from rows that are 0 or 1. Raises InputError on NaN."""
    checked = finite(np.atleast_2d(np.asarray(values, dtype=np.float64)), "values")
    return Ratio(checked, np.ones((1, checked.shape[1])))


def f1(correct: ArrayLike, extracted: ArrayLike, gold: ArrayLike) -> Ratio:
    """F1 x 100 from counts per unit: correct pairs, extracted pairs (m, n) and gold pairs (n,) or (m, n).

    Every resample keeps the threshold that made the counts. Where it was tuned for the highest F1, moving it
    changes F1 only in the second order, so keeping it gives the same spread as tuning anew, without the
    optimism of a maximum taken over resampled noise. Raises InputError on NaN.
    """
    tp, positive, relevant = (finite(np.atleast_2d(np.asarray(a, float)), "counts") for a in (correct, extracted, gold))
    return Ratio(2 * tp, positive + relevant)


def midranks(scores: Floats) -> Floats:
    """Average ranks, from 1, within each row of (m, n)."""
    ranks = np.empty(scores.shape)
    for row, values in enumerate(scores):
        _, group, times = np.unique(values, return_inverse=True, return_counts=True)
        ranks[row] = (np.cumsum(times) - (times - 1) / 2)[group]
    return ranks


def _checked(gold: ArrayLike, scores: ArrayLike) -> tuple[Floats, Floats]:
    g, s = np.asarray(gold, dtype=np.float64), np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if g.ndim != 1 or s.ndim != 2 or s.shape[1] != len(g):
        raise InputError(f"gold scores of shape {g.shape} do not go with similarities of shape {s.shape}")
    return finite(g, "gold scores"), finite(s, "similarities")


def finite(values: Floats, what: str) -> Floats:
    """`values`, unless one is NaN or infinite: then InputError."""
    if not np.isfinite(values).all():
        raise InputError(f"NaN or infinity among the {what}: the rows cannot be resampled; measure them again")
    return values


@dataclass(frozen=True, eq=False)
class Sample:
    """A metric of m encoders on the same items, and the units that are drawn to resample them.

    Attributes:
        is_proportion: whether each unit is a row that is right or wrong, and the metric 100 x the share of right rows.
        parts: the sets of an unweighted mean.
    """

    statistic: Statistic
    units: Units
    is_proportion: bool = False
    parts: Sequence[Sample] = ()

    @property
    def per_point(self) -> float | None:
        """What each point of a drop adds to its squared error, see `Spread`: 100 / n of a share, else None."""
        if self.parts:
            of_parts = [part.per_point for part in self.parts]
            known = [each for each in of_parts if each is not None]
            return sum(known) / len(known) ** 2 if len(known) == len(of_parts) else None
        return 100 / self.units.total if self.is_proportion and self.units.total else None

    @property
    def values(self) -> Floats:
        """The metric on the rows as they are, (m,)."""
        values: Floats = self.statistic(np.ones((len(self.units.of_row), 1)))[:, 0]
        return values


def average(samples: Sequence[Sample]) -> Sample:
    """The unweighted mean over sets; sets that share their source pairs are drawn together, in clusters."""
    stops = np.cumsum([len(sample.units.of_row) for sample in samples]).tolist()
    slices = [slice(stop - len(s.units.of_row), stop) for s, stop in zip(samples, stops, strict=True)]
    terms = [(1 / len(samples), rows, sample.statistic) for rows, sample in zip(slices, samples, strict=True)]
    return Sample(Combination(terms), join([sample.units for sample in samples]), parts=tuple(samples))


def gold_and_cosine(rows: Sequence[Mapping[str, NDArray[Any]]]) -> tuple[Floats, Floats]:
    """The gold scores (n,) and each encoder's cosines (m, n) of STS rows. Raises InputError if their pairs differ."""
    gold: Floats = rows[0]["gold"]
    if not all(np.array_equal(of_encoder["gold"], gold, equal_nan=True) for of_encoder in rows):
        raise InputError("the encoders' rows are not of the same pairs (other gold scores); measure them again")
    return gold, np.stack([of_encoder["cosine"] for of_encoder in rows])


def source_pairs(gold: Floats) -> Units:
    """The units of one set. Sets with the same gold scores, line by line, are translations of the same source pairs."""
    return independent(len(gold), hashlib.sha256(np.ascontiguousarray(gold, dtype="<f8").tobytes()).hexdigest())

"""How small a true difference a paired test can find. Imports no NumPy.

The estimate of a difference d is about normal with its standard error s. A two-sided test at level a finds it (p < a,
with the right sign) with probability `power` if d is (z(1 - a/2) + z(power)) s: Cohen, "Statistical Power Analysis for
the Behavioral Sciences" (1988), section 2.4; for benchmarks Card et al., "With Little Power Comes Great
Responsibility" (2020).

The s of a drop that is asked about is not always that of the change that was seen. A share of right items cannot fall
by 1 point unless one item in a hundred is lost, so its error grows with the drop: see `Spread`.
"""

from __future__ import annotations

from math import isfinite, sqrt
from statistics import NormalDist
from typing import NamedTuple

HALF, FOUR_OF_FIVE = 0.5, 0.8
"""Powers: what is found in half of the cases or less will usually go unseen; 0.8 is what studies are planned for."""

_LARGEST_P = 0.9  # above this p, the error of p makes more than a tenth of what it says of a standard error


class Spread(NamedTuple):
    """How far the estimate of a difference of two encoders may be from the true one, in the metric's units (points).

    Attributes:
        standard_error: of the difference that was seen.
        difference: that was seen.
        per_point: of a share of right items, and of averages of such, what each point of a drop adds to the squared
            error: 100 / n for n items. None of other metrics: nothing tells it, so the error that was seen stands for
            that of every difference. It is too small for a larger one; what follows from it holds at best.

    Of n items, let a drop of d points be extra losses among items that are otherwise lost and won alike. Two encoders
    then differ on as many items as those that were seen, without the difference that was seen, and with d (Connor,
    "Sample Size for Testing Differences in Proportions for the Paired-Sample Design", 1987). The test counts whole
    items: its threshold lies higher by one of them (Edwards, "Note on the correction for continuity", 1948).
    """

    standard_error: float
    difference: float = 0.0
    per_point: float | None = None

    @property
    def is_known(self) -> bool:
        """False with too few items, and for two encoders that are equal on all of them."""
        return isfinite(self.standard_error) and self.standard_error > 1e-9

    @property
    def is_at_best(self) -> bool:
        """Whether a true difference may be found less often than is said."""
        return self.per_point is None

    def z(self, drop: float, limit: float) -> float:
        """By how many standard errors a true drop lies above the threshold of a test whose normal deviate is `limit`.

        `drop` must be above 0.
        """
        if self.per_point is None:
            return drop / self.standard_error - limit
        seen = abs(self.difference)
        # Squared errors without the square of the mean, as the randomisation draws them, and with it.
        null = self.standard_error**2 + self.per_point * (drop - seen + seen**2 / 100)
        null = max(null, self.per_point * drop)
        error = sqrt(max(null - self.per_point * drop**2 / 100, 1e-18))
        return (drop - limit * sqrt(null) - self.per_point) / error


def minimum_detectable(spread: Spread, level: float, power: float) -> float | None:
    """The true difference, in the units of the error, that a test at this level finds with this probability.

    None where there is no error: too few items, or two encoders that are equal on all of them; and where not even a
    drop by 100 points would be found.
    """
    if not spread.is_known:
        return None
    normal = NormalDist()
    limit, wanted = normal.inv_cdf(1 - level / 2), normal.inv_cdf(power)
    if spread.is_at_best:
        return (limit + wanted) * spread.standard_error
    low, high = 0.0, 100.0
    if spread.z(high, limit) < wanted:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if spread.z(middle, limit) >= wanted else (middle, high)
    return high


def power_of(difference: float, spread: Spread, level: float) -> float | None:
    """The probability with which a test at this level finds a true difference of this size, with the right sign.

    None where there is no error, as for `minimum_detectable`.
    """
    if not spread.is_known:
        return None
    normal = NormalDist()
    return normal.cdf(spread.z(max(abs(difference), 1e-9), normal.inv_cdf(1 - level / 2)))


def standard_error_of(difference: float, p: float, resamples: int, items: int) -> float | None:
    """The standard error of a difference from its p-value, where nothing else is kept of the test.

    None where the p-value does not tell it: it is near 1, or near the lowest that so many resamples can give, or the
    difference is so large for so few items that it widens what the randomisation draws (by more than a twentieth: of a
    mean, the spread of these is the root of s^2 + d^2 / n).
    """
    if not 20 / (resamples + 1) <= p <= _LARGEST_P:
        return None
    z = NormalDist().inv_cdf(1 - p / 2)
    return abs(difference) / z if z**2 < 0.1 * items else None

"""How small a true difference a paired test can find. Imports no NumPy.

The estimate of a difference d is about normal with its standard error s. A two-sided test at level a finds it (p < a,
with the right sign) with probability `power` if d is (z(1 - a/2) + z(power)) s: Cohen, "Statistical Power Analysis for
the Behavioral Sciences" (1988), section 2.4; for benchmarks Card et al., "With Little Power Comes Great
Responsibility" (2020).
"""

from __future__ import annotations

from math import isfinite
from statistics import NormalDist

HALF, FOUR_OF_FIVE = 0.5, 0.8
"""Powers: what is found in half of the cases or less will usually go unseen; 0.8 is what studies are planned for."""

_LARGEST_P = 0.9  # above this p, the error of p makes more than a tenth of what it says of a standard error


def minimum_detectable(standard_error: float, level: float, power: float) -> float | None:
    """The true difference, in the units of the error, that a test at this level finds with this probability.

    None where there is no error: too few items, or two encoders that are equal on all of them.
    """
    if not (isfinite(standard_error) and standard_error > 1e-9):
        return None
    normal = NormalDist()
    return (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) * standard_error


def power_of(difference: float, standard_error: float, level: float) -> float | None:
    """The probability with which a test at this level finds a true difference of this size, with the right sign.

    None as for `minimum_detectable`.
    """
    if not (isfinite(standard_error) and standard_error > 1e-9):
        return None
    normal = NormalDist()
    return normal.cdf(abs(difference) / standard_error - normal.inv_cdf(1 - level / 2))


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

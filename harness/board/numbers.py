"""Numbers on their way to the browser: as short as they may be, and printed there as Python prints them."""

from __future__ import annotations

from math import isnan


def number(value: float, digits: int, printed: int) -> float | None:
    """A number rounded to so many decimals, or to more; None for NaN, which JSON does not have.

    A number that was rounded twice may end in another digit: 61.84996 is 61.85 with two decimals, and 61.9 with one
    after that, where it is 61.8. So it keeps as many decimals as it takes to be printed alike.

    printed: the decimals that the browser prints.
    """
    if isnan(value):
        return None
    rounded = (round(value, n) for n in range(digits, 18))
    return next((short for short in rounded if f"{short:.{printed}f}" == f"{value:.{printed}f}"), value)

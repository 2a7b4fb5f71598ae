"""The correction for many tests, in plain Python: tables are printed without NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from harness.core.errors import InputError


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979), in the order given; NaN (not tested) stays and is not counted.

    Raises:
        InputError: a p-value below 0 or above 1.
    """
    if any(p < 0 or p > 1 for p in p_values):
        raise InputError(f"p-values lie between 0 and 1, not {list(p_values)}")
    tested = sorted((place for place, p in enumerate(p_values) if not isnan(p)), key=lambda place: p_values[place])
    adjusted = [float(p) for p in p_values]
    highest = 0.0
    for rank, place in enumerate(tested):
        highest = max(highest, (len(tested) - rank) * float(p_values[place]))
        adjusted[place] = min(highest, 1.0)
    return adjusted

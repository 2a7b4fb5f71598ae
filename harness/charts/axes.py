"""Axes whose ends and ticks are ours, so that it is known where everything stands, and nothing stands on the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, expm1, floor, log1p, log10
from typing import Any

_FINE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


@dataclass(frozen=True)
class Axis:
    """How values of an axis become pixels, and back.

    Attributes:
        kind: linear, log, or symlog: linear near 0 (below `constant`), logarithmic beyond.
        low, high: the values at its ends.
        pixels: from one end to the other.
        options: where it has ticks, and how they are printed.
    """

    kind: str
    low: float
    high: float
    constant: float
    pixels: int
    options: dict[str, Any]

    def _bend(self, value: float) -> float:
        if self.kind == "linear":
            return value
        return log10(value) if self.kind == "log" else log1p(value / self.constant)

    def _unbend(self, value: float) -> float:
        if self.kind == "linear":
            return value
        return float(10**value) if self.kind == "log" else self.constant * expm1(value)

    def pixel(self, value: float) -> float:
        """How far from the lower end a value stands."""
        start, end = self._bend(self.low), self._bend(self.high)
        return self.pixels * (self._bend(value) - start) / (end - start)

    def value(self, pixel: float) -> float:
        """What stands so far from the lower end."""
        start, end = self._bend(self.low), self._bend(self.high)
        return rounded(self._unbend(start + (end - start) * pixel / self.pixels), 7)

    def scale(self, alt: Any) -> Any:
        """The scale of `alt`, the package altair."""
        # Vega-Lite warns in the console of a page where a logarithmic scale says anything of zero.
        more = {"constant": self.constant, "zero": False} if self.kind == "symlog" else {}
        more |= {"zero": False} if self.kind == "linear" else {}
        return alt.Scale(type=self.kind, domain=[self.low, self.high], nice=False, **more)


def cost_axis(costs: Sequence[float], pixels: int) -> Axis:
    """Logarithmic, with room on both sides; where something costs nothing, linear near 0."""
    known = sorted(cost for cost in costs if cost > 0) or [1.0]
    if any(cost == 0 for cost in costs):
        constant = known[0] / 4
        high = constant * ((known[-1] / constant + 1) ** 1.08 - 1)
        low = -constant * 0.25
        return Axis(
            "symlog", rounded(low), rounded(high), rounded(constant), pixels, _options([0, *ticks(known[0], high)])
        )
    room = max(0.1 * log10(known[-1] / known[0]), 0.1)
    low, high = 10 ** (log10(known[0]) - room), 10 ** (log10(known[-1]) + room)
    return Axis("log", rounded(low), rounded(high), 1.0, pixels, _options(ticks(low, high)))


def ticks(low: float, high: float) -> list[float]:
    """1, 3, 10, 30, ... between two values; of fewer than two decades also 2, 5; of many only powers of ten.

    Where none of these lies between them, finer ones, of which there is one wherever `high` is 1.5 times `low`.
    """
    decades = log10(high / low)
    steps = (1.0,) if decades > 5 else (1.0, 3.0) if decades > 1.5 else (1.0, 2.0, 3.0, 5.0, 7.0)
    return _multiples(steps, low, high) or _multiples(_FINE, low, high)


def _multiples(steps: Sequence[float], low: float, high: float) -> list[float]:
    """The steps times powers of ten that lie between two values."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [value for power in powers for step in steps if low <= (value := rounded(step * 10.0**power)) <= high]


def _options(values: Sequence[float]) -> dict[str, Any]:
    return {"values": list(values), "format": ",~r", "labelOverlap": "greedy"}


def linear_axis(values: Sequence[float], pixels: int) -> Axis:
    """Linear, from the lowest to the highest value and a little further."""
    ends = list(values) or [0.0, 100.0]
    spread = max(ends) - min(ends)
    room = 0.06 * spread or 0.05 * abs(ends[0]) or 1.0
    return Axis("linear", rounded(min(ends) - room), rounded(max(ends) + room), 1.0, pixels, {})


def rounded(value: float, digits: int = 5) -> float:
    """To so many figures, not decimals."""
    return float(f"{value:.{digits}g}")

"""Quality against what an encoder costs, and the front: the encoders that no other one beats in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.charts.axes import Axis, cost_axis, linear_axis, rounded
from harness.charts.labels import Box, place
from harness.charts.theme import LIGHT, Theme, finished, heading, said
from harness.core.escaping import visible

WIDTH, HEIGHT = 640, 340


@dataclass(frozen=True)
class Cost:
    """One kind of cost.

    Attributes:
        name: in specifications.
        unit: what is on the axis.
        is_gain: whether more of it is better (speed).
    """

    name: str
    unit: str
    is_gain: bool = False

    @property
    def title(self) -> str:
        """Of the axis."""
        return f"{self.unit} (further {'right' if self.is_gain else 'left'} is better)"


COSTS = {
    "speed": Cost("speed", "sentences per second", is_gain=True),
    "bytes": Cost("bytes", "bytes of a vector"),
    "disk": Cost("disk", "MB on disk"),
}


def front(points: Sequence[tuple[float, float]], *, is_gain: bool) -> list[bool]:
    """Of (quality, cost), which ones no other point beats: better in one, and no worse in the other.

    is_gain: whether more cost is better. Equal points stand or fall together.
    """
    signed = [(quality, cost if is_gain else -cost) for quality, cost in points]
    order = sorted(range(len(signed)), key=lambda i: (-signed[i][1], -signed[i][0]))
    chosen = [False] * len(signed)
    best = float("-inf")
    equal: tuple[float, float] | None = None
    for i in order:
        if signed[i][0] > best or signed[i] == equal:
            chosen[i], best, equal = True, signed[i][0], signed[i]
    return chosen


def quality_and_cost(
    rows: Sequence[Mapping[str, Any]],
    cost: Cost,
    *,
    quality: str,
    title: str = "",
    subtitle: str = "",
    theme: Theme = LIGHT,
    width: int = WIDTH,
    height: int = HEIGHT,
    most_names: int = 40,
) -> dict[str, Any]:
    """A point an encoder with its interval; the front as a line; names where there is room, the front's first.

    Args:
        rows: `encoder`, `value`, `low` and `high` (or None), `cost` (0 or more), and `is_small` (may be left out) for
            what is made from another row's vectors. Speeds must be of machines alike. There may be none.
        cost: on the x axis, which is logarithmic.
        quality: title of the y axis.
        title, subtitle: above the chart.
        theme: of the colours.
        width, height: pixels of the frame, axes come on top.
        most_names: beside those of the front, which are always tried; then the highest ones have names.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    from harness.charts.drawing import require

    require()
    import altair as alt

    x_axis, y_axis = cost_axis([row["cost"] for row in rows], width), linear_axis(_ends(rows), height)
    on_front = front([(row["value"], row["cost"]) for row in rows], is_gain=cost.is_gain)
    points = [
        {
            "encoder": visible(row["encoder"]),
            "value": round(row["value"], 3),
            "low": None if row["low"] is None else round(row["low"], 3),
            "high": None if row["high"] is None else round(row["high"], 3),
            "cost": rounded(row["cost"]),
            "says": said(
                row["encoder"], row["value"], row["low"], row["high"], f"{cost.unit}: {rounded(row['cost'], 3):,g}"
            ),
            "is_front": is_front,
            "is_small": bool(row.get("is_small")),
        }
        for row, is_front in zip(rows, on_front, strict=True)
    ]
    points.sort(key=lambda p: (not p["is_front"], p["is_small"], -p["value"], p["encoder"]))
    steps = sorted((p for p in points if p["is_front"]), key=lambda p: (p["cost"], p["value"]))
    named = [p for p in points if p["is_front"]]
    # Of what is made from others' vectors there may be dozens of each encoder.
    named += [p for p in points if not p["is_front"] and not p["is_small"]][:most_names]
    labels = _labels(points, named, steps, x_axis, y_axis, is_gain=cost.is_gain)

    x = alt.X("cost:Q", scale=x_axis.scale(alt), title=cost.title, axis=alt.Axis(**x_axis.options))
    y = alt.Y("value:Q", scale=y_axis.scale(alt), title=visible(quality), axis=alt.Axis(tickCount=6))
    base = alt.Chart(alt.Data(values=points))
    colour = alt.condition("datum.is_front", alt.value(theme.accent), alt.value(theme.muted))
    size = alt.condition("datum.is_small", alt.value(35), alt.value(85))
    line = alt.Chart(alt.Data(values=steps)).mark_line(
        interpolate="step-before" if cost.is_gain else "step-after",
        color=theme.accent,
        strokeDash=[4, 3],
        strokeWidth=1.5,
        aria=False,
    )
    layers = [
        line.encode(x=x, y=y, order="cost:Q"),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5, aria=False)
        .encode(x=x, y=alt.Y("low:Q", title=visible(quality)), y2="high:Q", color=colour),
        base.mark_point(filled=True, opacity=1, stroke=theme.background, strokeWidth=1).encode(
            x=x, y=y, color=colour, size=size, tooltip="says:N", description="says:N"
        ),
        alt.Chart(alt.Data(values=[one for one in labels if one["is_away"]]))
        .mark_rule(color=theme.muted, strokeWidth=0.75, aria=False)
        .encode(x=alt.X("cost:Q"), y=alt.Y("value:Q"), x2="end_x:Q", y2="end_y:Q"),
    ]
    for align in ("left", "center", "right"):
        aligned = alt.Chart(alt.Data(values=[one for one in labels if one["align"] == align]))
        layers.append(
            aligned.mark_text(align=align, baseline="middle", color=theme.ink, aria=False).encode(
                x=alt.X("label_x:Q"), y=alt.Y("label_y:Q"), text="encoder:N"
            )
        )
    described = f"{visible(quality)} against {cost.unit}; the line joins what no other encoder beats in both"
    chart = alt.layer(*layers).properties(
        name=f"cost_{cost.name}", width=width, height=height, description=described, **heading(title, subtitle)
    )
    return finished(chart, theme)


def _ends(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    return [end for row in rows for end in (row["low"], row["high"], row["value"]) if end is not None]


def _labels(
    points: Sequence[Mapping[str, Any]],
    named: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    x_axis: Axis,
    y_axis: Axis,
    *,
    is_gain: bool,
) -> list[dict[str, Any]]:
    """Those names of `named` that have room, the first first, with their places as values of the axes."""
    height = y_axis.pixels

    def pixels(p: Mapping[str, Any]) -> tuple[float, float]:
        return x_axis.pixel(p["cost"]), height - y_axis.pixel(p["value"])

    covered = [
        Box(x - 2, height - y_axis.pixel(p["high"]), x + 2, height - y_axis.pixel(p["low"]))
        for p in points
        if p["low"] is not None and p["high"] is not None
        for x in [x_axis.pixel(p["cost"])]
    ]
    covered += [Box(x - 6, y - 6, x + 6, y + 6) for x, y in map(pixels, points)]
    for (left, y1), (right, y2) in pairwise(map(pixels, steps)):
        level, turn = (y2, left) if is_gain else (y1, right)
        covered.append(Box(left, level - 2, right, level + 2))
        covered.append(Box(turn - 2, min(y1, y2), turn + 2, max(y1, y2)))
    placed = place([(p["encoder"], *pixels(p)) for p in named], covered, x_axis.pixels, height)
    return [
        {
            "encoder": label.text,
            "align": label.align,
            "is_away": label.is_away,
            "cost": p["cost"],
            "value": p["value"],
            "label_x": x_axis.value(label.x),
            "label_y": y_axis.value(height - label.y),
            "end_x": x_axis.value(label.x),
            "end_y": y_axis.value(height - label.y),
        }
        for p, label in zip(named, placed, strict=True)
        if label is not None
    ]

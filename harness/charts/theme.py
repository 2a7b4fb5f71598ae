"""Colours and letters of all charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.core.escaping import visible

# The converter brings the first one along, so it measures and places texts alike on every machine; a reader without
# it sees the second or third, whose letters are as wide.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
VEGA_LITE = "6.4"
TEXT = 11
"""Pixels of a letter's height."""
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")


@dataclass(frozen=True)
class Theme:
    """Colours, as `#rrggbb`.

    Attributes:
        background, ink: behind everything, and of texts.
        muted: of what is there, but not what the chart is about.
        grid: of lines behind the points.
        accent: of what the chart is about.
        series: of encoders, in their order; each also has a shape, for print and any kind of colour vision.
    """

    background: str
    ink: str
    muted: str
    grid: str
    accent: str
    series: tuple[str, ...]


LIGHT = Theme(
    background="#ffffff",
    ink="#1a1a1a",
    muted="#5c6670",
    grid="#e3e6e9",
    accent="#b35806",
    series=("#0072b2", "#c94f00", "#00805f", "#a03c78", "#7d6300", "#4d4d4d", "#6a51a3", "#b2182b"),
)
DARK = Theme(
    background="#14181d",
    ink="#e8eaed",
    muted="#9aa5b1",
    grid="#333b44",
    accent="#ffa657",
    series=("#58b4f5", "#ff9e4a", "#3fd0a6", "#f08cc8", "#e0c34c", "#c4c9ce", "#b5a4f0", "#ff8a90"),
)


def config(theme: Theme) -> dict[str, Any]:
    """The part of a specification that says how everything looks."""
    text = {"labelFont": FONT, "titleFont": FONT, "labelColor": theme.ink, "titleColor": theme.ink}
    sizes = {"labelFontSize": TEXT, "titleFontSize": TEXT, "titleFontWeight": "normal"}
    lines = {"domainColor": theme.muted, "tickColor": theme.muted, "gridColor": theme.grid}
    return {
        "font": FONT,
        "background": theme.background,
        "padding": 12,
        "view": {"stroke": None},
        "axis": {**text, **sizes, **lines, "titlePadding": 8, "labelLimit": 240},
        "header": {**text, **sizes, "labelFontWeight": "bold"},
        "legend": {**text, **sizes, "titleFontWeight": "bold", "labelLimit": 240, "symbolStrokeWidth": 2},
        "title": {
            "font": FONT,
            "subtitleFont": FONT,
            "color": theme.ink,
            "subtitleColor": theme.muted,
            "fontSize": 14,
            "subtitleFontSize": TEXT,
            "anchor": "start",
            "frame": "group",
            "offset": 14,
        },
        "text": {"font": FONT, "fontSize": TEXT, "color": theme.ink},
    }


def finished(chart: Any, theme: Theme) -> dict[str, Any]:
    """The specification of one of altair's charts, checked against the schema of Vega-Lite."""
    spec: dict[str, Any] = chart.to_dict()
    # Which release of altair wrote it changes nothing.
    spec["$schema"] = f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE}.0.json"
    spec["config"] = config(theme)
    return spec


def heading(title: str, subtitle: str = "") -> dict[str, Any]:
    """The property of a chart that is its title; none if that is empty."""
    import altair as alt

    if not title:
        return {}
    return {"title": alt.TitleParams(visible(title), subtitle=visible(subtitle) if subtitle else alt.Undefined)}


def said(name: str, value: float, low: float | None, high: float | None, *more: str) -> str:
    """What a point says, to a pointer over it and to a screen reader.

    Whole sentences stand in the rows, since Vega-Lite makes expressions of the titles of fields, and does not escape
    these: somebody's text in a title would be a program.
    """
    interval = "" if low is None or high is None else f" [{low:.1f}, {high:.1f}]"
    return visible("; ".join([f"{name}: {value:.1f}{interval}", *more]))


def series_scales(names: list[str], theme: Theme) -> tuple[Any, Any]:
    """Colour and shape by the name of a series: altair's scales. Of more series than colours these repeat."""
    import altair as alt

    colours = [theme.series[place % len(theme.series)] for place in range(len(names))]
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(names))]
    return alt.Scale(domain=names, range=colours), alt.Scale(domain=names, range=shapes)

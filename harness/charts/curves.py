"""Curves of a training, and means with their deviations over settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.charts.axes import cost_axis, linear_axis, rounded
from harness.charts.theme import LIGHT, Theme, finished, heading, said, series_scales
from harness.core.escaping import visible

_WIDTH, _NARROW, _HEIGHT, _LINE = 300, 200, 210, 20
_MANY = 40
"""Points of a line that are not drawn one by one."""


def curves(
    panels: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    x: str,
    is_log: bool = False,
    mark: float | None = None,
    mark_name: str = "",
    title: str = "",
    theme: Theme = LIGHT,
) -> dict[str, Any]:
    """Lines with points, in panels beside each other.

    Args:
        panels: by the title of the y axis, rows: `series`, `x`, `value`, `low` and `high` (or None).
        x: title of the x axis.
        is_log: whether that is logarithmic.
        mark, mark_name: an x at which a line stands, and what it is.
        title: above the chart.
        theme: of the colours.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    from harness.charts.drawing import require

    require()
    import altair as alt

    drawn = []
    width = _WIDTH if len(panels) < 3 else _NARROW
    for number, (y, rows) in enumerate(panels.items()):
        points = [
            {
                "series": visible(row["series"]),
                "says": said(row["series"], row["value"], row["low"], row["high"], f"{x} {row['x']:,g}"),
                "x": row["x"],
                "value": rounded(row["value"]),
                "low": None if row["low"] is None else rounded(row["low"]),
                "high": None if row["high"] is None else rounded(row["high"]),
            }
            for row in rows
        ]
        names = list(dict.fromkeys(point["series"] for point in points))
        colour, shape = series_scales(names, theme)
        places = [point["x"] for point in points]
        along = cost_axis(places, width) if is_log else linear_axis(places, width)
        options = along.options or {"tickCount": width // 50, "format": ",~r"}
        x_axis = alt.X("x:Q", scale=along.scale(alt), title=visible(x), axis=alt.Axis(**options, grid=False))
        ends = [end for p in points for end in (p["value"], p["low"], p["high"]) if end is not None]
        y_axis = alt.Y(
            "value:Q", scale=linear_axis(ends, _HEIGHT).scale(alt), title=visible(y), axis=alt.Axis(tickCount=6)
        )
        legend = alt.Legend(title=None, orient="top", direction="horizontal", columns=2) if len(names) > 1 else None
        base = alt.Chart(alt.Data(values=points))
        colours = alt.Color("series:N", scale=colour, legend=legend)
        layers = [
            base.mark_line(strokeWidth=1.5, aria=False).encode(x=x_axis, y=y_axis, color=colours, order="x:Q"),
            base.transform_filter("isValid(datum.low)")
            .mark_rule(aria=False)
            .encode(x=x_axis, y=alt.Y("low:Q", title=visible(y)), y2="high:Q", color=colours),
            base.mark_point(filled=True, opacity=1, size=40 if len(points) < _MANY * len(names) else 0).encode(
                x=x_axis,
                y=y_axis,
                color=colours,
                shape=alt.Shape("series:N", scale=shape, legend=legend),
                tooltip="says:N",
                description="says:N",
            ),
        ]
        if mark is not None:
            lines = alt.Chart(alt.Data(values=[{"x": mark, "text": visible(mark_name)}]))
            layers.append(lines.mark_rule(color=theme.muted, strokeDash=[3, 3], aria=False).encode(x="x:Q"))
            layers.append(
                lines.mark_text(align="center", baseline="bottom", dy=-3, color=theme.muted, aria=False).encode(
                    x="x:Q", y=alt.value(0), text="text:N"
                )
            )
        drawn.append(alt.layer(*layers).properties(name=f"curves_{number}", width=width, height=_HEIGHT))
    described = f"{', '.join(map(visible, panels))} against {visible(x)}"
    chart = alt.hconcat(*drawn, spacing=24).resolve_scale(color="independent", shape="independent")
    chart = chart.properties(name="curves", description=described, **heading(title))
    return finished(chart, theme)


def dots(
    rows: Sequence[Mapping[str, Any]],
    *,
    settings: Sequence[str],
    score: str,
    title: str = "",
    theme: Theme = LIGHT,
) -> dict[str, Any]:
    """A line a setting and a panel a column; means as points, deviations as lines.

    Args:
        rows: `setting`, `column`, `value`, `low` and `high` (or None).
        settings: in their order.
        score: title of the x axes.
        title: above the chart.
        theme: of the colours.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    from harness.charts.drawing import require

    require()
    import altair as alt

    settings = list(dict.fromkeys(map(visible, settings)))
    columns = list(dict.fromkeys(row["column"] for row in rows))
    height = _LINE * max(len(settings), 1) + 8
    panels = []
    for number, column in enumerate(columns):
        points = [
            {
                "setting": visible(row["setting"]),
                "says": said(row["setting"], row["value"], row["low"], row["high"]),
                "value": round(row["value"], 3),
                "low": None if row["low"] is None else round(row["low"], 3),
                "high": None if row["high"] is None else round(row["high"], 3),
            }
            for row in rows
            if row["column"] == column
        ]
        ends = [end for p in points for end in (p["value"], p["low"], p["high"]) if end is not None]
        scale = linear_axis(ends, 140).scale(alt)
        y = alt.Y(
            "setting:N",
            title=None,
            scale=alt.Scale(domain=settings, type="point", padding=0.7),
            axis=alt.Axis(grid=True, labels=number == 0, ticks=False, domain=False),
        )
        base = alt.Chart(alt.Data(values=points))
        layers = [
            base.transform_filter("isValid(datum.low)")
            .mark_rule(color=theme.series[0], strokeWidth=1.5, aria=False)
            .encode(x=alt.X("low:Q", scale=scale, title=visible(score)), x2="high:Q", y=y),
            base.mark_point(filled=True, opacity=1, size=45, color=theme.series[0]).encode(
                x=alt.X("value:Q", scale=scale, title=visible(score), axis=alt.Axis(tickCount=4)),
                y=y,
                tooltip="says:N",
                description="says:N",
            ),
        ]
        name = alt.TitleParams(visible(column), fontSize=11, offset=6)
        panels.append(alt.layer(*layers).properties(name=f"dots_{number}", width=140, height=height, title=name))
    described = f"{visible(score)} of {', '.join(settings)}"
    chart = alt.hconcat(*panels, spacing=14).properties(name="dots", description=described, **heading(title))
    return finished(chart, theme)

"""Precision and recall of mined pairs against the threshold, and the threshold that was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.charts.theme import LIGHT, Theme, finished, heading, series_scales
from harness.core.escaping import visible

_WIDTH, _HEIGHT = 150, 96


def by_threshold(
    rows: Sequence[Mapping[str, Any]],
    chosen: Sequence[Mapping[str, Any]],
    *,
    title: str = "",
    subtitle: str = "",
    theme: Theme = LIGHT,
) -> dict[str, Any]:
    """A panel for each encoder (below each other) and set (beside each other).

    Args:
        rows: `encoder`, `subset`, `threshold`, `precision` and `recall` (x 100); at least one.
        chosen: `encoder`, `subset`, `threshold`: drawn as a line, if it lies within the curves of that encoder.
        title, subtitle: above the chart.
        theme: of the colours.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    from harness.charts.drawing import require

    require()
    import altair as alt

    measures = ["precision", "recall", "F1"]
    colour, _ = series_scales(measures, theme)
    dashes = alt.Scale(domain=measures, range=[[1, 0], [5, 2], [1, 2]])
    panels = []
    encoders = list(dict.fromkeys(row["encoder"] for row in rows))
    subsets = list(dict.fromkeys(row["subset"] for row in rows))
    for line, encoder in enumerate(encoders):
        of_encoder = [row for row in rows if row["encoder"] == encoder]
        # The thresholds of an encoder's sets are alike, those of two encoders are not.
        low, high = _ends([row["threshold"] for row in of_encoder])
        scale = alt.Scale(domain=[low, high], nice=False, zero=False)
        for number, subset in enumerate(subsets):
            points = [point for row in of_encoder if row["subset"] == subset for point in _points(row)]
            cuts = [
                {"threshold": round(cut["threshold"], 4)}
                for cut in chosen
                if (cut["encoder"], cut["subset"]) == (encoder, subset) and low <= round(cut["threshold"], 4) <= high
            ]
            x = alt.X(
                "threshold:Q",
                scale=scale,
                title="threshold" if line == len(encoders) - 1 else None,
                axis=alt.Axis(tickCount=4),
            )
            y = alt.Y(
                "value:Q",
                scale=alt.Scale(domain=[0, 102], nice=False),
                title="x 100" if number == 0 else None,
                axis=alt.Axis(values=[0, 50, 100], labels=number == 0, ticks=number == 0),
            )
            legend = alt.Legend(title=None, orient="top") if (line, number) == (0, 0) else None
            curves = (
                alt.Chart(alt.Data(values=points))
                .mark_line(strokeWidth=1.75, aria=False, point=len(points) == len(measures))
                .encode(
                    x=x,
                    y=y,
                    color=alt.Color("measure:N", scale=colour, legend=legend),
                    strokeDash=alt.StrokeDash("measure:N", scale=dashes, legend=legend),
                )
            )
            cut = (
                alt.Chart(alt.Data(values=cuts))
                .mark_rule(color=theme.accent, strokeWidth=1.25, strokeDash=[3, 3], aria=False)
                .encode(x=x)
            )
            name = alt.TitleParams(f"{visible(encoder)}, {visible(subset)}", fontSize=11, offset=6, anchor="start")
            panels.append(
                alt.layer(cut, curves).properties(
                    name=f"threshold_{line}_{number}", width=_WIDTH, height=_HEIGHT, title=name
                )
            )
    described = "precision, recall and F1 of the extracted pairs against the threshold of their margin score"
    chart = alt.concat(*panels, columns=max(len(subsets), 1), spacing=14)
    chart = chart.properties(name="thresholds", description=described, **heading(title, subtitle))
    return finished(chart, theme)


def _ends(thresholds: Sequence[float]) -> tuple[float, float]:
    """Of an axis; one threshold stands in its middle."""
    low, high = min(thresholds), max(thresholds)
    room = 0.0 if high > low else max(0.05 * abs(low), 0.01)
    return round(low - room, 4), round(high + room, 4)


def _points(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    precision, recall = row["precision"], row["recall"]
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    values = {"precision": precision, "recall": recall, "F1": f1}
    return [
        {"measure": name, "threshold": round(row["threshold"], 4), "value": round(value, 2)}
        for name, value in values.items()
    ]

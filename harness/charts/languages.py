"""Scores by language with their intervals: languages below each other by family, in columns if they are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.charts.theme import LIGHT, SHAPES, TEXT, Theme, finished, heading, said, series_scales
from harness.core.escaping import visible

_LINE, _HEAD, _GAP = 15, 18, 6  # pixels: a language, a family's name, before a family
_ONE_COLUMN = 40
_WIDE, _NARROW = 520, 290
OTHER = "others"
"""The family of languages whose family is not known; it stands last."""


def by_language(
    rows: Sequence[Mapping[str, Any]],
    *,
    score: str,
    title: str = "",
    subtitle: str = "",
    theme: Theme = LIGHT,
    domain: tuple[float, float] = (-2, 102),
    name: str = "by_language",
) -> dict[str, Any]:
    """A line a language, with a point and an interval for each encoder; families by size, languages by best score.

    Args:
        rows: `encoder`, `language` and its `family` (names to print; empty or `OTHER`: not known), `value`, `low` and
            `high` (or None). Encoders have colours and shapes in the order in which they first occur, of which there
            are eight. There may be no rows.
        score: title of the axis.
        title, subtitle: above the chart.
        theme: of the colours.
        domain: of the axis.
        name: of the specification.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    from harness.charts.drawing import require

    require()
    import altair as alt

    encoders = list(dict.fromkeys(visible(row["encoder"]) for row in rows))
    families = _families(rows)
    n_languages = sum(map(len, families.values()))
    columns = _columns(families, 2 if n_languages > _ONE_COLUMN else 1)
    placed = [_placed(column) for column in columns]
    height = max((bottom for *_, bottom in placed), default=_LINE)
    width = _NARROW if len(columns) > 1 else _WIDE
    colour, shape = series_scales(encoders, theme)
    x_scale = alt.Scale(domain=list(domain), nice=False, zero=False)
    y_scale = alt.Scale(domain=[height, 0], nice=False, zero=False)
    offsets = {encoder: _offset(place, len(encoders)) for place, encoder in enumerate(encoders)}
    panels = []
    for number, (lines, heads, _) in enumerate(placed):
        points = [
            {
                "encoder": visible(row["encoder"]),
                "says": said(f"{row['language']}, {row['encoder']}", row["value"], row["low"], row["high"]),
                "value": round(row["value"], 2),
                "low": None if row["low"] is None else round(row["low"], 2),
                "high": None if row["high"] is None else round(row["high"], 2),
                "y": round(lines[key] + offsets[visible(row["encoder"])], 2),
            }
            for row in rows
            if (key := row["language"]) in lines
        ]
        names = [{"y": y, "text": visible(language)} for language, y in lines.items()]
        y = alt.Y("y:Q", scale=y_scale, axis=None)
        x = alt.X("value:Q", scale=x_scale, title=visible(score), axis=alt.Axis(orient="top", tickCount=6, offset=4))
        base = alt.Chart(alt.Data(values=points))
        legend = alt.Legend(title=None, orient="top", direction="horizontal", columns=4, symbolSize=60)
        layers = [
            alt.Chart(alt.Data(values=names))
            .mark_text(align="right", baseline="middle", dx=-6, color=theme.ink, aria=False)
            .encode(x=alt.value(0), y=y, text="text:N"),
            alt.Chart(alt.Data(values=names))
            .mark_rule(color=theme.grid, strokeWidth=0.75, aria=False)
            .encode(x=alt.value(0), x2=alt.value(width), y=y),
            alt.Chart(alt.Data(values=heads))
            .mark_text(
                align="left", baseline="middle", fontWeight="bold", fontSize=TEXT, dx=2, color=theme.muted, aria=False
            )
            .encode(x=alt.value(0), y=y, text="text:N"),
            base.transform_filter("isValid(datum.low)")
            .mark_rule(strokeWidth=1.25, opacity=0.75, aria=False)
            .encode(
                x=alt.X("low:Q", scale=x_scale, title=visible(score)),
                x2="high:Q",
                y=y,
                color=alt.Color("encoder:N", scale=colour, legend=legend),
            ),
            base.mark_point(filled=True, opacity=1, size=26).encode(
                x=x,
                y=y,
                color=alt.Color("encoder:N", scale=colour, legend=legend),
                shape=alt.Shape("encoder:N", scale=shape, legend=legend),
                tooltip="says:N",
                description="says:N",
            ),
        ]
        panels.append(alt.layer(*layers).properties(name=f"{name}_{number}", width=width, height=height))
    described = f"{visible(score)} by language, with intervals, of {', '.join(encoders) or 'no encoder'}"
    chart = alt.hconcat(*panels, spacing=24)
    chart = chart.properties(name=name, description=described, **heading(title, subtitle))
    return finished(chart, theme)


MOST_ENCODERS = len(SHAPES)
"""Of more than these, colours and shapes would repeat."""


def _families(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """By family the languages, the best score first; the largest family first. Several of one language are pooled."""
    best: dict[str, dict[str, float]] = {}
    for row in rows:
        of_family = best.setdefault(row["family"] or OTHER, {})
        of_family[row["language"]] = max(row["value"], of_family.get(row["language"], float("-inf")))
    single = [family for family, scores in best.items() if len(scores) == 1 and family != OTHER]
    if len(single) > 1:
        for family in single:
            best.setdefault(OTHER, {}).update(best.pop(family))
    if list(best) == [OTHER]:
        best = {"": best[OTHER]}  # the only family needs no name
    ordered = sorted(best.items(), key=lambda item: (item[0] == OTHER, -len(item[1]), item[0]))
    return {family: sorted(scores, key=lambda name: (-scores[name], name)) for family, scores in ordered}


def _columns(families: Mapping[str, list[str]], n: int) -> list[dict[str, list[str]]]:
    """The families in columns of about equal height; each goes whole where there is most room."""
    columns: list[dict[str, list[str]]] = [{} for _ in range(n)]
    heights = [0] * n
    for family, languages in families.items():
        place = heights.index(min(heights))
        columns[place][family] = languages
        heights[place] += _GAP + _HEAD + _LINE * len(languages)
    return columns


def _placed(
    column: Mapping[str, Sequence[str]],
) -> tuple[dict[str, float], list[dict[str, Any]], int]:
    """The middle of each language's line, the names of families with theirs, and where the last line ends."""
    lines: dict[str, float] = {}
    heads: list[dict[str, Any]] = []
    y = 0
    for family, languages in column.items():
        y += _GAP
        if family:
            heads.append({"y": y + _HEAD / 2, "text": visible(family)})
            y += _HEAD
        for language in languages:
            lines[language] = y + _LINE / 2
            y += _LINE
    return lines, heads, y + _GAP


def _offset(place: int, n: int) -> float:
    """How far above or below the middle of the line an encoder's point stands, so that intervals do not cover."""
    step = min(3.0, (_LINE - 5) / max(n - 1, 1))
    return (place - (n - 1) / 2) * step

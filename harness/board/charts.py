"""The charts of the page: specifications for Vega, which draws them in the browser.

They are drawn in light colours; the browser puts those of the dark theme in their places. What a chart shows of is
chosen there too, among those that are here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from harness import charts
from harness.report.charted import CostChart, LanguageChart, cost_charts, language_charts
from harness.report.content import Content
from harness.report.tables import split_sample
from harness.statistics.board import Board

_WIDTH, _HEIGHT = 350, 280  # three beside each other


def page_charts(content: Content, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The specifications, of the columns of `board_data`.

    Keys: `cost`: by column's place and kind of cost; `setup`: by column's place, the machine of its speeds;
    `languages`: by the place of the first of its columns, a chart with its encoders, title, note on who is left out,
    and `n`, how many sets it shows; `config`: of all; `dark`: by colour of the light theme, that of the dark one.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    places = {(column["task"], column["subset"], column["metric"]): place for place, column in enumerate(columns)}
    cost: dict[int, Any] = {}
    setup: dict[int, str] = {}
    languages: dict[int, Any] = {}
    for part in split_sample(content.results):
        board = Board(part, content.statistics)
        for chart in cost_charts(part, board, content.facts):
            place = places[chart.key]
            cost[place], setup[place] = _of_costs(chart, columns[place]["label"]), chart.setup
        languages |= {places[chart.keys[0]]: _of_languages(chart) for chart in language_charts(part, board)}
    found = {"cost": cost, "languages": languages}
    config = _shared_config(found)
    dark = dict(zip(_colours(charts.LIGHT), _colours(charts.DARK), strict=True))
    return {**found, "setup": setup, "config": config, "dark": dark}


def _of_costs(chart: CostChart, label: str) -> dict[str, Any]:
    """By kind of cost, the specification."""
    return {
        kind: charts.quality_and_cost(rows, charts.COSTS[kind], quality=label, width=_WIDTH, height=_HEIGHT)
        for kind, rows in chart.rows.items()
    }


def _of_languages(chart: LanguageChart) -> dict[str, Any]:
    drawn = charts.by_language(chart.rows, score=f"{chart.heading} x 100", domain=chart.domain)
    return {
        "spec": drawn,
        "encoders": list(chart.encoders),
        "title": f"{chart.title}, {chart.heading}",
        "note": chart.left_out,
        "n": len(chart.keys),
    }


def _shared_config(found: Any) -> dict[str, Any]:
    """Takes the part that all specifications share out of them, and returns it; their data then stand once in each."""
    shared: dict[str, Any] = {}
    if isinstance(found, dict):
        if "$schema" in found:
            shared = found.pop("config", {})
            datasets: dict[str, str] = {}
            _name_data(found, datasets)
            found["datasets"] = {name: json.loads(text) for text, name in datasets.items()}
        else:
            for part in found.values():
                shared = _shared_config(part) or shared
    return shared


def _name_data(part: Any, names: dict[str, str]) -> None:
    """Puts a name in the place of each list of rows, the same for equal ones. `names`: by the rows as JSON."""
    if isinstance(part, list):
        for one in part:
            _name_data(one, names)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key == "data" and isinstance(value, dict) and "values" in value:
                text = json.dumps(value["values"])
                part[key] = {"name": names.setdefault(text, f"rows{len(names)}")}
            else:
                _name_data(value, names)


def _colours(theme: charts.Theme) -> list[str]:
    return [colour for value in astuple(theme) for colour in ([value] if isinstance(value, str) else value)]

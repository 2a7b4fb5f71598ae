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
from harness.data.families import family
from harness.protocol.languages import PIVOT

_MOST_LINES, _FEWEST, _IN_FAMILIES = 130, 3, 25
_WIDTH, _HEIGHT = 350, 280  # three beside each other
_NAMED = 60
"""Points that have names, at most, beside those of the front."""
_KINDS = {"speed": "speed", "size": "disk", "bytes": "bytes"}
"""How the page calls a kind of cost, and how `harness.charts` does."""


def drawings(data: Mapping[str, Any]) -> dict[str, Any]:
    """The specifications for the structure of `board_data`.

    Keys: `cost`: by column's place and kind of cost; `languages`: by column's place, the chart and its encoders;
    `config`: of all; `dark`: by colour of the light theme, that of the dark one.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    columns = data["columns"]
    cost = {place: _costs(data, place) for place, column in enumerate(columns) if _is_charted(column)}
    drawn = {place: _languages(data, place) for place in _of_languages(columns)}
    languages = {place: one for place, one in drawn.items() if one}
    found = {"cost": {place: drawn for place, drawn in cost.items() if drawn}, "languages": languages}
    dark = dict(zip(_colours(charts.LIGHT), _colours(charts.DARK), strict=True))
    return {**found, "config": _shared_config(found), "dark": dark}


def _is_charted(column: Mapping[str, Any]) -> bool:
    """Averages, and what stands for all of a task."""
    return bool(column.get("ranked") and (column.get("headline") or (column.get("average") and column.get("main"))))


def _has_languages(column: Mapping[str, Any]) -> bool:
    return bool(column.get("ranked") and column.get("main") and not column.get("average"))


def _of_languages(columns: Sequence[Mapping[str, Any]]) -> list[int]:
    """For each task the place of its first set, by the metric that stands for all of the task, if one does."""
    chosen: dict[tuple[str, bool], tuple[bool, int]] = {}
    for place, column in enumerate(columns):
        if _has_languages(column):
            of_all = any(_alike(column, other) and other.get("headline") for other in columns)
            key = column["task"], bool(column.get("sample"))
            if key not in chosen or (of_all and not chosen[key][0]):
                chosen[key] = of_all, place
    return [place for _, place in chosen.values()]


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("task", "metric", "sample"))


def _costs(data: Mapping[str, Any], place: int) -> dict[str, Any]:
    """By kind of cost, the chart; those that have two encoders or more."""
    drawn = {}
    label = data["columns"][place]["label"]
    for kind, name in _KINDS.items():
        rows = [row for cell in data["cells"][place] if (row := _row(data, cell, kind)) is not None]
        if sum(not row["is_small"] for row in rows) < 2:
            continue
        if len(rows) > _NAMED:
            rows = [{**row, "is_small": True} for row in rows]
        drawn[kind] = charts.quality_and_cost(rows, charts.COSTS[name], quality=label, width=_WIDTH, height=_HEIGHT)
    return drawn


def _row(data: Mapping[str, Any], cell: Sequence[Any], kind: str) -> dict[str, Any] | None:
    """An encoder's point; None where the cost is not known, of other weights, or of another machine."""
    place, value, low, high, *_ = cell
    encoder, of = data["encoders"][place], data["costs"]["of"].get(place)
    is_small = encoder["base"] is not None
    known = None
    if kind == "bytes" and encoder["reduced"]:
        known = encoder["reduced"][2]
    elif of and of["scores"] and not is_small:
        known = of["bytes"] if kind == "bytes" else of["size"] if kind == "size" else of["speed"] and of["speed"][0]
        if kind == "speed" and not of["alike"]:
            known = None
        elif kind == "size" and known is not None:
            known /= 1e6
    if known is None:
        return None
    return {"encoder": encoder["name"], "value": value, "low": low, "high": high, "cost": known, "is_small": is_small}


def _languages(data: Mapping[str, Any], place: int) -> dict[str, Any] | None:
    """Scores of a task's sets by one metric, of the encoders that are the best on average; None of few sets."""
    column, columns = data["columns"][place], data["columns"]
    sets = [p for p, other in enumerate(columns) if _alike(other, column) and _has_languages(other)][:_MOST_LINES]
    if len(sets) < _FEWEST:
        return None
    values: dict[int, list[float]] = {}
    for p in sets:
        for encoder, value, *_ in data["cells"][p]:
            if data["encoders"][encoder]["base"] is None:
                values.setdefault(encoder, []).append(value)
    # Those on most sets first, then the highest mean.
    order = sorted(values, key=lambda e: (-len(values[e]), -sum(values[e]) / len(values[e]), e))[: charts.MOST_ENCODERS]
    rows = [
        {
            "encoder": data["encoders"][encoder]["name"],
            "language": columns[p].get("name") or columns[p]["subset"],
            "family": _family(columns[p]) if len(sets) > _IN_FAMILIES else "",
            "value": value,
            "low": low,
            "high": high,
        }
        for encoder in order
        for p in sets
        for other, value, low, high, *_ in data["cells"][p]
        if other == encoder
    ]
    lowest = min(min(row["value"], row["low"] or 0.0) for row in rows)
    heading = column["heading"]
    drawn = charts.by_language(rows, score=f"{heading} x 100", domain=(min(-2.0, lowest - 2), 102.0))
    title = next(task["title"] for task in data["tasks"] if task["name"] == column["task"])
    return {"spec": drawn, "encoders": order, "title": f"{title}, {heading}"}


def _family(column: Mapping[str, Any]) -> str:
    """That of the language beside English."""
    others = [code for code in column.get("languages", ()) if code != PIVOT]
    return (family(others[0]) if len(others) == 1 else "") or charts.OTHER


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

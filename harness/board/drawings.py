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
from harness.board.data import Shown
from harness.core.names import Subset
from harness.protocol.described import title_of
from harness.report.pictures import cost_rows, language_rows
from harness.report.speed import setup_text
from harness.report.tables import split_sample
from harness.speed.store import choose
from harness.statistics.board import Board, Key
from harness.statistics.candidates import Facts, facts_of

_MOST_LINES, _FEWEST, _IN_FAMILIES = 130, 3, 25
_WIDTH, _HEIGHT = 350, 280  # three beside each other
_NAMED = 60
"""Points that have names, at most, beside those of the front."""


def drawings(shown: Shown, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The specifications, of the columns of `board_data`.

    Keys: `cost`: by column's place and kind of cost; `setup`: by column's place, the machine of its speeds;
    `languages`: by column's place, the chart with its encoders, title, note and `n`, how many sets it shows; `config`:
    of all; `dark`: by colour of the light theme, that of the dark one.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    boards = {
        Subset.parse(part[0].subset).is_sample: Board(part, shown.statistics) for part in split_sample(shown.results)
    }
    facts = facts_of(shown.results, shown.measured)
    of = [(place, column, boards[bool(column.get("sample"))]) for place, column in enumerate(columns)]
    cost = {place: _costs(board, column, facts) for place, column, board in of if _is_charted(column)}
    by_language = _of_languages(columns)
    drawn = {place: _languages(board, column, columns) for place, column, board in of if place in by_language}
    languages = {place: one for place, one in drawn.items() if one}
    found = {"cost": {place: drawn for place, drawn in cost.items() if drawn}, "languages": languages}
    dark = dict(zip(_colours(charts.LIGHT), _colours(charts.DARK), strict=True))
    _, usual = choose(shown.measured, {(result.encoder, result.fingerprint) for result in shown.results})
    setup = dict.fromkeys(found["cost"], setup_text(usual) if usual else "")
    return {**found, "setup": setup, "config": _shared_config(found), "dark": dark}


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


def _costs(board: Board, column: Mapping[str, Any], facts: Mapping[str, Facts]) -> dict[str, Any]:
    """By kind of cost, the chart; those that have two encoders or more."""
    drawn = {}
    for kind, rows in cost_rows(board, _key(column), facts).items():
        if sum(not row["is_small"] for row in rows) < 2:
            continue
        if len(rows) > _NAMED:
            rows = [{**row, "is_small": True} for row in rows]
        label = column["label"]
        drawn[kind] = charts.quality_and_cost(rows, charts.COSTS[kind], quality=label, width=_WIDTH, height=_HEIGHT)
    return drawn


def _languages(board: Board, column: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Scores of a task's sets by one metric, of those encoders that have the most, then the best; None of few sets."""
    keys = [_key(other) for other in columns if _alike(other, column) and _has_languages(other)][:_MOST_LINES]
    if len(keys) < _FEWEST:
        return None
    values: dict[str, list[float]] = {}
    for task, subset, metric in keys:
        for encoder, result in board.results(task, subset).items():
            if result.base is None and metric in result.metrics:
                values.setdefault(encoder, []).append(result.metrics[metric])
    order = sorted(values, key=lambda e: (-len(values[e]), -sum(values[e]) / len(values[e]), e))[: charts.MOST_ENCODERS]
    rows = language_rows(board, keys, order)
    if len(keys) <= _IN_FAMILIES:
        rows = [{**row, "family": ""} for row in rows]
    lowest = min(min(row["value"], row["low"] or 0.0) for row in rows)
    drawn = charts.by_language(rows, score=f"{column['heading']} x 100", domain=(min(-2.0, lowest - 2), 102.0))
    title = f"{title_of(column['task'])}, {column['heading']}"
    return {"spec": drawn, "encoders": order, "title": title, "note": "", "n": len(keys)}


def _key(column: Mapping[str, Any]) -> Key:
    return column["task"], column["subset"], column["metric"]


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

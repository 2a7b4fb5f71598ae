"""All numbers that the page shows, as one plain structure: it becomes the page's JSON.

What is a statistic is computed here, or was stored; the browser only chooses, sorts, subtracts and prints. Columns
are short lists in place of objects with keys, since a page of many encoders has tens of thousands of numbers:

- `encoders`: an object each; an encoder is its place in this list.
- `columns`: an object each: task, subset and metric, with all that is said of it.
- `cells`: by column, `[encoder, value, low, high, flags, p, record]`; flags: `BEST`, `OTHER_LANGUAGE`, `UNTESTED`;
  p: against the highest, corrected by Holm over the encoders (of a difference: against zero).
- `pairs`: by column, Holm's corrected p of all pairs of the encoders `of`, upper triangle, row by row; null: none.
- `records`: `[origin, created, n, data, command, line]`: places of an origin, a data set and a command in their lists,
  and the line of the record in its file (0: not known).

Scores have four decimals, as many as the stored intervals; `leaderboard show --format csv` has all digits.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import isnan, nan
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from harness.board.costs import costs
from harness.board.verdicts import verdict
from harness.core.names import Subset
from harness.protocol.described import (
    TAGS,
    described,
    is_average,
    metric_of,
    metric_order,
    subset_order,
    task_order,
    title_of,
)
from harness.protocol.languages import is_made_for, languages_of
from harness.protocol.task import Task
from harness.report.headlines import one_each
from harness.report.provenance import commit_text, hardware_text, versions_text
from harness.report.record import command
from harness.report.tables import footnotes, is_floor, split_sample
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.speed.store import Measurement
from harness.statistics.board import Board, Key, holm
from harness.statistics.candidates import Facts, facts_of
from harness.statistics.ranks import overall_ranks

BEST, OTHER_LANGUAGE, UNTESTED = 1, 2, 4
_DIGITS, _P_DIGITS = 4, 6
_PAIRS = 200_000
"""Tests of pairs that a page has at most; with more, only those of the columns over all tasks."""
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Shown:
    """What a page is made from.

    Attributes:
        results: all that are shown, of cut and quantised vectors too.
        statistics: by task, those of these results.
        measured: what encoders cost.
        folder: the name of the results folder, for commands.
        lines: by encoder, task and subset, the line of the record in its file.
    """

    results: Sequence[Result]
    statistics: Mapping[str, Statistics]
    measured: Sequence[Measurement] = ()
    folder: str = "results"
    lines: Mapping[tuple[str, str, str], int] = field(default_factory=dict)


class _Places(dict[T, int]):
    """Distinct values with their places in the order of their coming."""

    def of(self, value: T) -> int:
        return self.setdefault(value, len(self))


def board_data(shown: Shown) -> dict[str, Any]:
    """The structure; see the module. Real data come before the bundled sample, which has columns of its own."""
    facts = facts_of(shown.results, shown.measured)
    parts = [(part, Board(part, shown.statistics)) for part in split_sample(shown.results)]
    encoders = sorted({result.encoder for result in shown.results})
    places = {name: place for place, name in enumerate(encoders)}
    records, signatures = _Records(shown), _Places[str]()
    columns: list[dict[str, Any]] = []
    cells: list[list[list[Any]]] = []
    keys: list[tuple[Board, Key]] = []
    for part, board in parts:
        headings = {key: column.label for column, key in one_each([r for r in part if r.base is None])}
        for key in _keys(part):
            columns.append(_column(board, key, headings.get(key, ""), facts, signatures))
            cells.append([_cell(board, key, result, places, records) for result in _results(board, key)])
            keys.append((board, key))
    of = {name: [result for result in shown.results if result.encoder == name] for name in encoders}
    base_of = {result.encoder: result.base for result in shown.results}
    notes = footnotes(shown.results)
    known = [statistics for statistics in shown.statistics.values() if statistics.entries]
    first, board = parts[0]
    ranks = overall_ranks(board, [key for _, key in one_each([r for r in first if r.base is None])])
    return {
        "level": known[0].level if known else 0.95,
        "alpha": known[0].alpha if known else 0.05,
        "tasks": [_task(name, shown.results) for name in task_order(result.task for result in shown.results)],
        "encoders": [_encoder(name, of[name], facts[name], places, notes.get(name, ())) for name in encoders],
        "ranks": {places[name]: [round(number, 2) for number in rank] for name, rank in ranks.ranks.items()},
        "rank_columns": [columns[place]["label"] for place, (_, key) in enumerate(keys) if key in ranks.keys],
        "costs": costs(shown.results, shown.measured, places),
        "columns": columns,
        "cells": cells,
        "pairs": _all_pairs(keys, columns, places, sum(base is None for base in base_of.values())),
        "signatures": list(signatures),
        **records.lists(),
        "tags": {tag: TAGS.get(tag, "a stand-in for the published set") for tag in _tags(shown.results)},
    }


def _keys(results: Sequence[Result]) -> list[Key]:
    """Every number that was measured, in the order of the tables."""
    found = []
    for task in task_order(result.task for result in results):
        of_task = [result for result in results if result.task == task]
        metrics = metric_order(task, (metric for result in of_task for metric in result.metrics))
        present = {(result.subset, metric) for result in of_task for metric in result.metrics}
        subsets = subset_order(task, (result.subset for result in of_task))
        found += [(task, s, metric) for s in subsets for metric in metrics if (s, metric) in present]
    return found


def _results(board: Board, key: Key) -> list[Result]:
    task, subset, metric = key
    return sorted((r for r in board.results(task, subset).values() if metric in r.metrics), key=lambda r: r.encoder)


def _column(
    board: Board, key: Key, headline: str, facts: Mapping[str, Facts], signatures: _Places[str]
) -> dict[str, Any]:
    """What is said of a column; what is empty or false is left out."""
    task, subset, metric = key
    known, results = metric_of(task, metric), _results(board, key)
    base, tag = Subset.parse(subset)
    by_language = sorted(frozenset().union(*map(languages_of, results)))
    signature = "|".join(filter(None, (results[0].signature, board.resampling(results[0]))))
    column = {
        "task": task,
        "subset": subset,
        "metric": metric,
        "heading": known.heading,
        "label": headline or f"{title_of(task)} {subset} {known.heading}",
        "name": described(task).display.names.get(base, ""),
        "kind": known.kind,
        "ranked": known.is_ranked,
        "main": known.is_main,
        "headline": bool(headline),
        "average": is_average(subset),
        "parts": len(max((result.parts for result in results), key=len)) or "",
        "sample": Subset.parse(subset).is_sample,
        "tag": tag,
        "languages": by_language,
        "n": max(result.n for result in results),
        "signature": signatures.of(signature),
        "verdict": verdict(board, key, facts) if known.is_main or headline else "",
        "choose": quote(subset),
    }
    return {name: value for name, value in column.items() if value is not False and value not in ("", [])}


def _cell(board: Board, key: Key, result: Result, places: Mapping[str, int], records: _Records) -> list[Any]:
    metric = key[2]
    known, standing = metric_of(key[0], metric), board.standing(key)
    low, high = board.interval(result, metric) or (nan, nan)
    is_other = known.has_interval and is_made_for(result) is False
    p = standing.p.get(result.encoder, nan) if known.kind != "difference" else board.p_zero(result, metric)
    flags = (
        BEST * (result.encoder in standing.best)
        + OTHER_LANGUAGE * is_other
        + UNTESTED * (result.encoder in standing.untested)
    )
    return [
        places[result.encoder],
        round(result.metrics[metric], _DIGITS),
        number(low, _DIGITS),
        number(high, _DIGITS),
        flags,
        number(nan if p is None else p, _P_DIGITS),
        records.place(result),
    ]


def number(value: float, digits: int) -> float | None:
    """A rounded number; None for NaN, which JSON does not have."""
    return None if isnan(value) else round(value, digits)


class _Records:
    """What numbers come from: lists in which each thing stands once."""

    def __init__(self, shown: Shown):
        self._folder, self._lines = Path(shown.folder), shown.lines
        self._of: dict[tuple[str, str, str], int] = {}
        self._records: list[list[Any]] = []
        self._origins: _Places[tuple[str, ...]] = _Places()
        self._data: _Places[tuple[str, str]] = _Places()
        self._commands: _Places[tuple[str, ...]] = _Places()

    def place(self, result: Result) -> int:
        """The place of a record in the list of them."""
        if result.key not in self._of:
            self._of[result.key] = len(self._records)
            machine = hardware_text({**result.hardware, **({"threads": result.threads} if result.threads else {})})
            origin = (
                result.fingerprint,
                result.spec,
                commit_text(result.git),
                machine,
                versions_text(result.versions),
            )
            # The subset is left open, so that the sets of a task share a command.
            chosen = f" --subset {quote(result.subset)}"
            line = tuple((command(result, self._folder) or "").rsplit(chosen, 1))
            data = self._data.of((result.dataset.name, result.dataset.sha256))
            where = self._lines.get(result.key, 0)
            self._records.append(
                [self._origins.of(origin), result.created[:10], result.n, data, self._commands.of(line), where]
            )
        return self._of[result.key]

    def lists(self) -> dict[str, list[Any]]:
        """By name, what the places are of."""
        return {
            "records": self._records,
            "origins": [list(origin) for origin in self._origins],
            "data": [list(data) for data in self._data],
            "commands": [list(line) for line in self._commands],
        }


def _encoder(
    name: str, results: Sequence[Result], facts: Facts, places: Mapping[str, int], notes: Sequence[str]
) -> dict[str, Any]:
    reduced = next((result.reduced for result in results if result.reduced), None)
    base = next((result.base for result in results if result.base), None)
    return {
        "name": name,
        "base": places.get(base) if base else None,
        "reduced": [reduced.dim, reduced.quantize, reduced.vector_bytes] if reduced else None,
        "floor": is_floor(name, results),
        "licence": facts.licence,
        "languages": sorted(facts.languages) if facts.languages else None,
        "notes": [text.removeprefix(f"{name}: ") for text in notes],
    }


def _task(name: str, results: Sequence[Result]) -> dict[str, Any]:
    known = described(name)
    return {
        "name": name,
        "title": title_of(name),
        "description": known.description if isinstance(known, Task) else "",
        "protocol": known.display.protocol,
    }


def _tags(results: Sequence[Result]) -> list[str]:
    return sorted({Subset.parse(result.subset).tag for result in results} - {""})


def _all_pairs(
    keys: Sequence[tuple[Board, Key]], columns: Sequence[Mapping[str, Any]], places: Mapping[str, int], n: int
) -> list[dict[str, Any] | None]:
    """By column, the tests of all pairs; None where there is none, or where there would be too many.

    n: the encoders of full vectors.
    """
    is_much = n * (n - 1) // 2 * len(keys) > _PAIRS
    return [
        None if is_much and not column.get("headline") else _pairs(board, key, places)
        for (board, key), column in zip(keys, columns, strict=True)
    ]


def _pairs(board: Board, key: Key, places: Mapping[str, int]) -> dict[str, Any] | None:
    metric = key[2]
    full = [result for result in _results(board, key) if result.base is None]
    tests = [board.p(first, second, metric) for first, second in combinations(full, 2)]
    if all(p is None for p in tests):
        return None
    corrected = holm([nan if p is None else p for p in tests])
    return {
        "of": [places[result.encoder] for result in full],
        "p": [number(p, _P_DIGITS) for p in corrected],
        "n": sum(not isnan(p) for p in corrected),
    }

"""All numbers that the page shows, as one plain structure: it becomes the page's JSON.

What is a statistic is computed here, or was stored; so is what is chosen by one: who is the highest, the best,
untested. The browser only chooses what to show, sorts, subtracts and prints. Columns are short lists in place of
objects with keys, since a page of many encoders has tens of thousands of numbers:

- `encoders`: an object each; elsewhere an encoder is a number, its place in this list.
- `columns`: an object each: task, subset and metric, with all that is said of it; `leader`: the highest of full
  vectors; `best`: those that may be called the best; `verdict`: a sentence in three parts, the second one a name;
  `unmeasured`: encoders of full vectors that lack it. Of a difference `nearest`: encoders, the nearest to zero first;
  `zero`: those that cannot be told from zero.
- `cells`: by column, the highest first, `[encoder, value, low, high, flags, p, record]`; flags: `BEST` and so on; p:
  against the highest, corrected by Holm over the encoders (of a difference: against zero).
- `pairs`: by column, tests of all pairs of full vectors in the order of the cells (see `harness.board.pairs`).
- `records`: `[origin, created, n, data, command, line, protocol, made for the language, sets of the average]`: places
  of an origin, a time, a data set, a command and a protocol in their lists; the line of the record in its file (0: not
  known).
- `ranks`: of real data and of the bundled sample, the overall ranks by encoder, and the columns that they are of.

Scores have four decimals, as many as the stored intervals, or more (see `harness.board.numbers`); `leaderboard show
--format csv` has all digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from shlex import quote
from typing import Any

from harness.board.costs import costs
from harness.board.numbers import number
from harness.board.pairs import P_DIGITS, P_PRINTED, all_pairs
from harness.board.records import Records
from harness.board.verdicts import against_zero, best_of, order, verdict
from harness.core.names import Subset
from harness.protocol.described import (
    described,
    is_average,
    is_own,
    metric_of,
    metric_order,
    subset_order,
    tag_meaning,
    task_order,
    title_of,
)
from harness.protocol.languages import is_made_for, languages_of
from harness.protocol.task import Task
from harness.report.cells import digits_of
from harness.report.figures import shortened
from harness.report.headlines import one_each
from harness.report.tables import footnotes, is_floor, remarks, split_sample
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.speed.store import Measurement
from harness.statistics.board import Board, Key
from harness.statistics.candidates import Facts, allows_commercial_use, facts_of
from harness.statistics.ranks import OverallRanks, overall_ranks

BEST, OTHER_LANGUAGE, UNTESTED, TESTED, RESAMPLED = 1, 2, 4, 8, 16
"""Of a cell: best, or not significantly worse; on a language that the encoder was not made for; could not be held
against the highest; was held against it (with too few items without a p); the interval or the tests of the column are
by the resampling of its record."""
_DIGITS = 4
_LISTED = 6


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


def board_data(shown: Shown) -> dict[str, Any]:
    """The structure; see the module. Real data come before the bundled sample, which has columns of its own."""
    facts = facts_of(shown.results, shown.measured)
    parts = [(part, Board(part, shown.statistics)) for part in split_sample(shown.results)]
    encoders = sorted({result.encoder for result in shown.results})
    places = {name: place for place, name in enumerate(encoders)}
    records = Records(shown.folder, shown.lines)
    columns: list[dict[str, Any]] = []
    cells: list[list[list[Any]]] = []
    keys: list[tuple[Board, Key, bool]] = []
    ranks: dict[str, Any] = {}
    for part, board in parts:
        headings = {key: column.label for column, key in one_each([r for r in part if r.base is None])}
        everyone = sorted({result.encoder for result in part if result.base is None})
        for key in _keys(part):
            columns.append(_column(board, key, headings.get(key, ""), facts, places, everyone))
            cells.append([_cell(board, key, result, places, records) for result in order(board, key)])
            keys.append((board, key, key in headings))
        labels = {key: column["label"] for (_, key, _), column in zip(keys, columns, strict=True)}
        ranks["sample" if Subset.parse(part[0].subset).is_sample else "measured"] = _ranks(
            overall_ranks(board, list(headings)), places, labels
        )
    of = {name: [result for result in shown.results if result.encoder == name] for name in encoders}
    notes = footnotes(shown.results)
    full = [[result for result in order(board, key) if result.base is None] for board, key, _ in keys]
    return {
        "tasks": [_task(name, shown) for name in task_order(result.task for result in shown.results)],
        "encoders": [_encoder(name, of[name], facts[name], notes.get(name, ())) for name in encoders],
        "ranks": ranks,
        "costs": costs(shown.results, shown.measured, places),
        "columns": columns,
        "cells": cells,
        "pairs": all_pairs(keys, full),
        **records.lists(),
        "tags": {tag: tag_meaning(tag) for tag in _tags(shown.results)},
    }


def protocols(results: Sequence[Result]) -> list[tuple[str, str]]:
    """By task its title, and how it measures."""
    found = []
    for name in task_order(result.task for result in results):
        known = described(name)
        found.append((title_of(name), known.display.protocol or (known.description if isinstance(known, Task) else "")))
    return found


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


def _column(
    board: Board,
    key: Key,
    headline: str,
    facts: Mapping[str, Facts],
    places: Mapping[str, int],
    everyone: Sequence[str],
) -> dict[str, Any]:
    """What is said of a column; what is empty or false is left out. `everyone`: all encoders of full vectors."""
    task, subset, metric = key
    known, results = metric_of(task, metric), order(board, key)
    base, tag = Subset.parse(subset)
    full = [result.encoder for result in results if result.base is None]
    said = list(verdict(board, key, facts) or ()) if known.is_main or headline else []
    unmeasured = [encoder for encoder in everyone if encoder not in full]
    if said and unmeasured:
        said[-1] += f"; not measured: {shortened(unmeasured, _LISTED)}"
    if said:
        sets = {name for result in results for name in (subset, *result.parts)}
        of_sets = [result for name in subset_order(task, sets) for result in board.results(task, name).values()]
        said[-1] += "".join(f"; {text}" for text in remarks(of_sets))
    zero = against_zero(board, key) if known.kind == "difference" else None
    column = {
        "task": task,
        "subset": subset,
        "metric": metric,
        "heading": known.heading,
        "label": headline or f"{title_of(task)} {known.heading} {subset}",
        "name": described(task).display.names.get(base, ""),
        "direction": _direction(key, results),
        "kind": known.kind,
        "ranked": known.is_ranked,
        "main": known.is_main,
        "headline": bool(headline),
        "average": is_average(subset),
        "sample": Subset.parse(subset).is_sample,
        "tag": tag,
        "languages": sorted(frozenset().union(*map(languages_of, results))),
        "leader": places[full[0]] if known.is_ranked and full else None,
        "best": [places[encoder] for encoder in best_of(board, key)],
        "nearest": [places[encoder] for encoder in zero.nearest] if zero else [],
        "zero": [places[encoder] for encoder in zero.same] if zero else [],
        "unmeasured": [places[encoder] for encoder in unmeasured],
        "verdict": said,
        "quoted": quote(subset) if quote(subset) != subset else "",
    }
    return {name: value for name, value in column.items() if value is not False and value not in (None, "", [])}


def _direction(key: Key, results: Sequence[Result]) -> list[str]:
    """From which language to which one a score of own pairs is; empty: of no direction, or not known."""
    task, subset, metric = key
    said = {tuple(result.languages or ()) for result in results}
    if not is_own(task) or is_average(subset) or len(said) != 1 or len(pair := [*said.pop()]) != 2:
        return []
    return pair if metric.endswith("_src_trg") else pair[::-1] if metric.endswith("_trg_src") else []


def _cell(board: Board, key: Key, result: Result, places: Mapping[str, int], records: Records) -> list[Any]:
    metric = key[2]
    known, standing = metric_of(key[0], metric), board.standing(key)
    interval = board.interval(result, metric)
    low, high = interval or (nan, nan)
    p = standing.p.get(result.encoder, nan) if known.kind != "difference" else board.p_zero(result, metric)
    flags = (
        BEST * (result.encoder in standing.best)
        + OTHER_LANGUAGE * (known.has_interval and is_made_for(result) is False)
        + UNTESTED * (result.encoder in standing.untested)
        + TESTED * (result.encoder in standing.p)
        + RESAMPLED * bool(interval or standing.p)
    )
    return [
        places[result.encoder],
        *(number(value, _DIGITS, digits_of(known.kind)) for value in (result.metrics[metric], low, high)),
        flags,
        number(nan if p is None else p, P_DIGITS, P_PRINTED),
        records.place(result, board),
    ]


def _encoder(name: str, results: Sequence[Result], facts: Facts, notes: Sequence[str]) -> dict[str, Any]:
    """`made_from`: of cut and quantised vectors, the encoder whose vectors they were; it may not be on the page."""
    reduced = next((result.reduced for result in results if result.reduced), None)
    return {
        "name": name,
        "made_from": next((result.base for result in results if result.base), None),
        "reduced": [reduced.dim, reduced.quantize, reduced.vector_bytes] if reduced else None,
        "floor": is_floor(name, results),
        "licence": facts.licence,
        "commercial": allows_commercial_use(facts.licence) if facts.licence else None,
        "languages": sorted(facts.languages) if facts.languages else None,
        "notes": [text.removeprefix(f"{name}: ") for text in notes],
    }


def _task(name: str, shown: Shown) -> dict[str, Any]:
    """`own`: whether its sets are the user's."""
    known = shown.statistics.get(name) or Statistics()
    return {"name": name, "title": title_of(name), "own": is_own(name), "level": known.level, "alpha": known.alpha}


def _ranks(found: OverallRanks, places: Mapping[str, int], labels: Mapping[Key, str]) -> dict[str, Any]:
    return {
        "by_encoder": {
            places[name]: [number(value, 2, digits_of("rank")) for value in rank] for name, rank in found.ranks.items()
        },
        "columns": [labels[key] for key in found.keys],
    }


def _tags(results: Sequence[Result]) -> list[str]:
    return sorted({Subset.parse(result.subset).tag for result in results} - {""})

"""From records to the long form: an entry per stored number, for CSV, JSON and data frames."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isnan, nan
from typing import Any

from harness.core.errors import unknown_name
from harness.protocol.described import metric_order, subset_order, task_order
from harness.protocol.languages import is_made_for
from harness.report.tables import split_sample
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.statistics.board import Board


def long_form(
    results: Iterable[Result],
    metrics: Collection[str] | None = None,
    statistics: Mapping[str, Statistics] | None = None,
) -> list[dict[str, Any]]:
    """An entry per stored number, in the order of the tables, then by encoder; values in full precision.

    Keys: encoder, task, subset, metric, value, low and high (its interval; None without one), interval (how it and the
    tests were made), is_best (bold in a table; None where that was not tested), p_best (against the best on the subset,
    corrected by Holm over the encoders given; None of the best itself), p_zero (of a language bias, against zero,
    corrected over the task), n, made_for_language (see `is_made_for`), signature, source ("measured": never a published
    figure), fingerprint, dataset, dataset_sha256, created. `metrics` limits the entries to these.
    """
    by_task: dict[str, list[Result]] = {}
    known = statistics or {}
    for result in results:
        by_task.setdefault(result.task, []).append(result)
    entries = []
    for task in task_order(by_task):
        place = {subset: i for i, subset in enumerate(subset_order(task, (r.subset for r in by_task[task])))}
        # P-values are corrected over the encoders of one table, as in the tables.
        boards: dict[str, Board] = {}
        for part in split_sample(by_task[task]):
            boards |= dict.fromkeys((result.subset for result in part), Board(part, known))
        for result in sorted(by_task[task], key=lambda r: (place[r.subset], r.encoder)):
            for metric in metric_order(task, result.metrics):
                if metrics is None or metric in metrics:
                    entries.append(_entry(result, metric, boards[result.subset]))
    return entries


def _entry(result: Result, metric: str, board: Board) -> dict[str, Any]:
    interval = board.interval(result, metric)
    low, high = interval or (None, None)
    standing = board.standing((result.task, result.subset, metric))
    p_best = standing.p.get(result.encoder, nan)
    is_best = result.encoder in standing.best
    p_zero = board.p_zero(result, metric)
    return {
        "encoder": result.encoder,
        "task": result.task,
        "subset": result.subset,
        "metric": metric,
        "value": result.metrics[metric],
        "low": low,
        "high": high,
        "interval": board.resampling(result) if interval or standing.p else None,
        "is_best": is_best if is_best or result.encoder in standing.p else None,
        "p_best": None if isnan(p_best) else round(p_best, 6),
        "p_zero": None if p_zero is None or isnan(p_zero) else round(p_zero, 6),
        "n": result.n,
        "made_for_language": is_made_for(result),
        "signature": result.signature,
        "source": "measured",
        "fingerprint": result.fingerprint,
        "dataset": result.dataset.name,
        "dataset_sha256": result.dataset.sha256,
        "created": result.created,
    }


def sort_entries(entries: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Sorts entries of `long_form` by one of their keys: numbers descending, texts ascending, missing values last.

    Raises:
        InputError: there is no such key (with the nearest matches).
    """
    if entries and key not in entries[0]:
        raise unknown_name("column", key, entries[0])

    def rank(entry: dict[str, Any]) -> tuple[bool, float | str]:
        value = entry[key]
        return (True, "") if value is None else (False, value if isinstance(value, str) else -value)

    return sorted(entries, key=rank)

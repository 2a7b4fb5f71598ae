"""Whether a changed score is a real difference: from per-item rows, where they were kept."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from pathlib import Path

from harness.core.errors import HarnessError
from harness.protocol import get_task
from harness.protocol.described import metric_of
from harness.protocol.task import Rows, Task
from harness.report.cells import Cell, p_text
from harness.resampling.bootstrap import bca_interval
from harness.results.records import RecordKey, Result
from harness.statistics.evidence import Evidence
from harness.statistics.rows import rows_of


def significance(
    metric: str,
    old: Result,
    stored: Mapping[RecordKey, Result],
    stored_in: Path,
    fresh: Mapping[RecordKey, Result],
    fresh_in: Path,
) -> str:
    """What there is to say of a metric that changed: one of three.

    `p 0.012`: the paired test (approximate randomisation) of the old rows against the new, where both are there and of
    the same items. `old value in [75.8, 81.7]` (or `not in`): the BCa interval of the new value from its rows. Empty:
    no rows, or the metric is a threshold. Resampled as for the tables of `leaderboard show`, whose intervals these are.

    Args:
        old: the stored record, of which there is a fresh one.
        stored, fresh: all records by encoder, task and subset.
        stored_in, fresh_in: the results folders, which hold the rows.
    """
    try:
        task = get_task(old.task)
        new_rows = _rows(old, fresh, fresh_in, task)
        if not new_rows:
            return ""
        [(_, _, replicates)] = Evidence(task, {"new": new_rows}).replicates({metric: ["new"]})
        [interval] = bca_interval(replicates)
    except HarnessError:  # rows that are damaged or lack what the metric needs; a threshold
        return ""
    try:
        if old_rows := _rows(old, stored, stored_in, task):
            [p] = Evidence(task, {"old": old_rows, "new": new_rows}).p_values(metric, [("old", "new")]).values()
            return "" if isnan(p) else f"p {p_text(p)}"
    except HarnessError:  # other items than before, or damaged
        pass
    if isnan(interval.low):
        return ""
    is_inside = interval.low <= old.metrics[metric] <= interval.high
    shown = Cell(None, metric_of(old.task, metric).kind, interval=(interval.low, interval.high)).interval_text
    return f"old value {'in' if is_inside else 'not in'} {shown}"


def _rows(old: Result, records: Mapping[RecordKey, Result], results: Path, task: Task) -> list[Rows]:
    """The rows of a record, or of each part of an average; empty unless all are there."""
    found = []
    for subset in old.parts or [old.subset]:
        record = records.get(RecordKey(old.encoder, old.task, subset))
        rows = rows_of(results, task, record) if record else None
        if rows is None:
            return []
        found.append(rows)
    return found

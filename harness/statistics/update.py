"""Brings the statistics of a results folder up to date with its records, from their per-item rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from harness.core.errors import HarnessError, InputError, one_line
from harness.protocol.task import Rows, Task
from harness.resampling.bootstrap import bca_interval
from harness.resampling.resamples import Resampling
from harness.resampling.tests import bootstrap_p
from harness.results.records import Result
from harness.results.statistics import Entry, Key, Statistics, StatisticsStore, digest
from harness.results.store import ResultStore
from harness.statistics.evidence import Evidence
from harness.statistics.rows import has_rows, rows_of

_SAVE_EVERY_S, _NOTE_EVERY_S = 5.0, 10.0
Note = Callable[[str], None]
"""Takes a message for the user."""


def update_statistics(
    store: ResultStore, tasks: Sequence[Task], plan: Resampling | None = None, note: Note = lambda message: None
) -> None:
    """Computes the intervals and tests that are missing or stale, as far as there are rows for them.

    Subsets without rows keep what they have. If the statistics of a subset cannot be computed, a note says so. A
    damaged file of statistics is made again, after a note.

    Raises:
        InputError: a file of records that holds something else, or a folder that cannot be written.
    """
    for task in tasks:
        _update(store, task, plan or Resampling(), note)


def _update(store: ResultStore, task: Task, plan: Resampling, note: Note) -> None:
    statistics_store = StatisticsStore(store.root)
    records = {(r.encoder, r.subset): r for r in store.load(task=task.name) if task.is_current(r.signature)}
    digests = {key: digest(record) for key, record in records.items()}
    try:
        known = statistics_store.load(task.name).current(records.values())
    except InputError as error:
        copy = statistics_store.set_aside(task.name)
        why = str(error).rpartition(";")[0]
        note(f"warning: {why}; made again from the rows that are kept, and kept itself as {copy.name}")
        known = Statistics()
        statistics_store.merge(task.name, Statistics(plan.signature, plan.level), digests)
    if known.signature != plan.signature:
        known = Statistics(plan.signature, plan.level)
    rows = _Rows(store.root, task, records, note)
    todo = list(_missing(task, records, known, rows))
    unsaved: dict[Key, Entry] = {}
    last_save = last_note = time.monotonic()
    for place, missing in enumerate(todo):
        if place == 0 or time.monotonic() - last_note > _NOTE_EVERY_S:
            subsets = f"{len(todo)} subset{'s' if len(todo) > 1 else ''}"
            done = f"{place} of {len(todo)} done" if place else f"{subsets}, {plan.resamples:,} resamples"
            note(f"{task.name}: intervals and tests ({done})")
            last_note = time.monotonic()
        try:
            unsaved |= _computed(task, missing, rows, digests, plan)
        except Exception as error:
            note(f"warning: no intervals of {task.name} {missing.subset}: {one_line(error)}")
        if unsaved and (time.monotonic() - last_save > _SAVE_EVERY_S or place == len(todo) - 1):
            statistics_store.merge(task.name, Statistics(plan.signature, plan.level, unsaved), digests)
            unsaved, last_save = {}, time.monotonic()


class _Rows:
    """The rows of one task's records; for an average, those of each of its parts."""

    def __init__(self, root: Path, task: Task, records: Mapping[Key, Result], note: Note):
        self._root, self._task, self._records, self._note = root, task, records, note
        self._read: dict[Key, Rows | None] = {}

    def are_there(self, record: Result) -> bool:
        """Whether all of its parts have a file of rows."""
        parts = record.parts or [record.subset]
        return all(has_rows(self._root, record.key._replace(subset=part)) for part in parts)

    def of(self, encoder: str, subset: str) -> list[Rows] | None:
        """The rows of each part, or of the set itself; None, and a note, if some are damaged or of another record."""
        parts = [self._of_set((encoder, part)) for part in self._records[encoder, subset].parts or [subset]]
        rows = [part for part in parts if part is not None]
        return rows if len(rows) == len(parts) else None

    def _of_set(self, key: Key) -> Rows | None:
        if key not in self._read:
            try:
                self._read[key] = rows_of(self._root, self._task, self._records[key]) if key in self._records else None
            except HarnessError as error:
                self._note(f"warning: {error}")
                self._read[key] = None
        return self._read[key]


@dataclass
class _Missing:
    """What has to be computed on one subset.

    Attributes:
        intervals: by metric, the encoders without an interval.
        pairs: by metric, the pairs of encoders that were not tested.
        to_full: by metric, the cut or quantised vectors that were not tested against the full ones, with these.
        details: the encoders without what the task keeps beside intervals and tests.
    """

    subset: str
    intervals: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    to_full: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)

    @property
    def encoders(self) -> list[str]:
        """All encoders that are named, sorted."""
        lists = (*self.pairs.values(), *self.to_full.values())
        tested = (name for pairs in lists for pair in pairs for name in pair)
        return sorted({*self.details, *tested, *(name for names in self.intervals.values() for name in names)})


def _missing(task: Task, records: Mapping[Key, Result], known: Statistics, rows: _Rows) -> Iterator[_Missing]:
    """What the statistics lack, as far as there are rows for it."""
    by_items: dict[tuple[str, str], list[Result]] = {}  # only encoders measured on the same items are compared
    for (_, subset), record in sorted(records.items()):
        by_items.setdefault((subset, record.dataset.sha256), []).append(record)
    for (subset, _), comparable in by_items.items():
        missing = _Missing(subset)
        for metric in (m for m in task.metrics if m.has_interval):
            having = [record for record in comparable if metric.name in record.metrics]
            without = [r for r in having if not ((entry := known.entry(r)) and metric.name in entry.interval)]
            ranked = [r for r in having if r.base is None] if metric.is_ranked else []
            untested = [(a, b) for a, b in combinations(ranked, 2) if known.p(a, b, metric.name) is None]
            to_full = [(a, b) for b in ranked for a in having if a.is_made_from(b)]
            to_full = [(a, b) for a, b in to_full if _lacks_difference(a, b, metric.name, known)]
            ready = {r.encoder for r in having if rows.are_there(r)} if without or untested or to_full else set()
            if names := [r.encoder for r in without if r.encoder in ready]:
                missing.intervals[metric.name] = names
            if pairs := [(a.encoder, b.encoder) for a, b in untested if {a.encoder, b.encoder} <= ready]:
                missing.pairs[metric.name] = pairs
            if pairs := [(a.encoder, b.encoder) for a, b in to_full if {a.encoder, b.encoder} <= ready]:
                missing.to_full[metric.name] = pairs
        if task.detail:
            # Of an average there are no rows of its own.
            without = [r for r in comparable if not r.parts and not ((entry := known.entry(r)) and entry.more)]
            missing.details = [r.encoder for r in without if rows.are_there(r)]
        if missing.encoders:
            yield missing


def _lacks_difference(reduced: Result, full: Result, metric: str, known: Statistics) -> bool:
    return known.p(reduced, full, metric) is None or known.difference(reduced, metric) is None


def _computed(
    task: Task, missing: _Missing, rows: _Rows, digests: Mapping[Key, str], plan: Resampling
) -> dict[Key, Entry]:
    parts = {name: parts for name in missing.encoders if (parts := rows.of(name, missing.subset)) is not None}
    entries = {name: Entry(digests[name, missing.subset]) for name in parts}
    for name in missing.details:
        if name in parts and task.detail:
            # What cannot be stored is met here, where it stops nothing else.
            entries[name].more.update(json.loads(json.dumps(task.detail(parts[name][0]), allow_nan=False)))
    evidence = Evidence(task, parts, plan)
    intervals = {metric: [name for name in names if name in parts] for metric, names in missing.intervals.items()}
    differences = {metric.name for metric in task.metrics if metric.kind == "difference"}
    for metric, names, replicates in evidence.replicates(intervals):
        for name, interval in zip(names, bca_interval(replicates), strict=True):
            entries[name].interval[metric] = interval.low, interval.high
        if metric in differences:
            for name, p in zip(names, bootstrap_p(replicates).tolist(), strict=True):
                entries[name].p_zero[metric] = p
    for metric, untested in missing.pairs.items():
        pairs = [pair for pair in untested if parts.keys() >= set(pair)]
        for (first, second), p in evidence.p_values(metric, pairs).items():
            entries[first].p.setdefault(metric, {})[second] = p
    for metric, untested in missing.to_full.items():
        pairs = [pair for pair in untested if parts.keys() >= set(pair)]
        for (reduced, full), test in evidence.paired_tests(metric, pairs).items():
            first, second = sorted((reduced, full))
            entries[first].p.setdefault(metric, {})[second] = test.p
            entries[reduced].difference.setdefault(metric, {})[full] = test.low, test.high
    return {(name, missing.subset): entry for name, entry in entries.items()}

"""`RESULTS/statistics/TASK.json`: by encoder and subset, the intervals and the tests against the other encoders.

Every entry holds a digest of the record that it was computed from. If the record has another fingerprint, protocol,
data set or score now, the entry is stale: it is neither used nor kept.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isfinite, nan
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from harness.core.errors import InputError
from harness.core.files import locked, refuse_way_out, write_atomically, writing
from harness.core.names import check_name
from harness.core.schema import Name, Number, Probability, read_json
from harness.results.records import Result
from harness.results.store import ResultStore

T = TypeVar("T")
Key = tuple[str, str]
"""Encoder and subset."""
More = dict[str, object]
"""What a task keeps beside intervals and tests (`Task.detail`), as JSON values; whoever reads one checks what it is."""

# Lists as JSON has them, not tuples: what is equal to what was read needs no look for unknown fields.
_Ends = Annotated[list[Number | None], msgspec.Meta(min_length=2, max_length=2)]


@dataclass(frozen=True)
class Entry:
    """The statistics of one record.

    Attributes:
        of: the record's `digest`.
        interval: by metric, both ends; NaN with too few items, or if all are alike.
        p: by metric and other encoder, the paired test, not corrected. A pair is kept once: the other encoder is the
            later one in the alphabet. Cut and quantised vectors are tested against the full ones alone.
        p_zero: by metric, the test against zero (of language bias).
        more: what the task keeps beside these.
        difference: of cut or quantised vectors, by metric and full encoder, both ends of the interval of the difference
            to that.
    """

    of: str
    interval: dict[str, tuple[float, float]] = field(default_factory=dict)
    p: dict[str, dict[str, float]] = field(default_factory=dict)
    p_zero: dict[str, float] = field(default_factory=dict)
    more: More = field(default_factory=dict)
    difference: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)

    def merged(self, new: Entry) -> Entry:
        """This entry with the numbers of another one of the same record."""
        return Entry(
            self.of,
            self.interval | new.interval,
            _united(self.p, new.p),
            self.p_zero | new.p_zero,
            self.more | new.more,
            _united(self.difference, new.difference),
        )


def _united(first: Mapping[str, dict[str, T]], second: Mapping[str, dict[str, T]]) -> dict[str, dict[str, T]]:
    """By metric, the numbers of both."""
    return {metric: first.get(metric, {}) | second.get(metric, {}) for metric in {**first, **second}}


@dataclass(frozen=True)
class Statistics:
    """What is known of one task's results.

    Attributes:
        signature: the resampling spelt out (`harness.resampling.resamples.Resampling.signature`).
        level: of the intervals.
    """

    signature: str = ""
    level: float = 0.95
    entries: dict[Key, Entry] = field(default_factory=dict)

    @property
    def alpha(self) -> float:
        """The level of the tests: 0.05 beside intervals of 0.95 (and not 0.05000000000000004)."""
        return round(1 - self.level, 12)

    def current(self, records: Iterable[Result]) -> Statistics:
        """Only what belongs to one of these records of the task."""
        digests = {(record.encoder, record.subset): digest(record) for record in records}
        entries = {key: entry for key, entry in self.entries.items() if entry.of == digests.get(key)}
        return replace(self, entries={key: _pruned(entry, key[1], entries) for key, entry in entries.items()})

    def entry(self, result: Result) -> Entry | None:
        """The entry of a record, if there is one."""
        return self.entries.get((result.encoder, result.subset))

    def p(self, first: Result, second: Result, metric: str) -> float | None:
        """The p-value of two encoders on the same subset; None if they were not tested."""
        if first.encoder > second.encoder:
            first, second = second, first
        entry = self.entry(first)
        return entry.p.get(metric, {}).get(second.encoder) if entry else None

    def difference(self, result: Result, metric: str) -> tuple[float, float] | None:
        """The interval of the difference of cut or quantised vectors to the full ones; None if there is none."""
        entry = self.entry(result)
        return entry.difference.get(metric, {}).get(result.base or "") if entry else None


def digest(result: Result) -> str:
    """A checksum, in 12 characters, of what a record's statistics depend on."""
    scores = sorted(result.metrics.items())
    text = json.dumps([result.fingerprint, result.signature, result.dataset.sha256, scores])
    return sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class _StoredEntry:
    """An entry as the file has it: null in place of NaN."""

    of: str
    interval: dict[str, _Ends]
    p: dict[str, dict[str, Probability | None]] = field(default_factory=dict)
    p_zero: dict[str, Probability | None] = field(default_factory=dict)
    more: More = field(default_factory=dict)
    difference: dict[str, dict[str, _Ends]] = field(default_factory=dict)


@dataclass(frozen=True)
class _StoredStatistics:
    """The content of a file; `statistics`: by encoder and subset."""

    level: Probability
    signature: str
    statistics: dict[Name, dict[Name, _StoredEntry]]


class StatisticsStore:
    """The statistics below one results folder."""

    def __init__(self, root: str | Path):
        self.root = Path(root)

    def file(self, task: str) -> Path:
        """Where a task's statistics are."""
        return refuse_way_out(self.root / "statistics" / f"{check_name(task, 'task')}.json", self.root)

    def of(self, records: Sequence[Result]) -> dict[str, Statistics]:
        """By task, the statistics of these records. Raises InputError as `load`."""
        by_task: dict[str, list[Result]] = {}
        for record in records:
            by_task.setdefault(record.task, []).append(record)
        return {task: self.load(task).current(of_task) for task, of_task in by_task.items()}

    def load(self, task: str) -> Statistics:
        """A task's statistics, including stale entries; empty if there is no file.

        Raises:
            InputError: the file holds something else.
        """
        file = self.file(task)
        try:
            return _parsed(read_json(file, _StoredStatistics, exact=True)) if file.exists() else Statistics()
        except (ValueError, InputError) as error:
            why = str(error).removeprefix(f"{file}: ")
            raise InputError(f"{file}: no statistics ({why}); `leaderboard run` makes it again") from None

    def merge(self, task: str, new: Statistics, records: Mapping[Key, str]) -> None:
        """Adds entries. The others stay, unless their record is gone or they were resampled in another way.

        records: the digests of all records that `new` was computed from. Entries of records that have changed in the
        meantime are left out. A damaged file is replaced. Safe against a kill and against other processes.

        Raises:
            InputError: the folder cannot be written.
        """
        file = self.file(task)
        store = ResultStore(self.root)
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            store.records.mkdir(parents=True, exist_ok=True)
            with locked(store.records / ".lock"):  # that of the records, which must not change meanwhile
                now = store.load(task=task)
                try:
                    old = self.load(task)
                except InputError:
                    old = Statistics()
                entries = old.current(now).entries if old.signature == new.signature else {}
                same = {key for r in now if records.get(key := (r.encoder, r.subset)) == digest(r)}
                for key in new.entries.keys() & same:
                    entry = _pruned(new.entries[key], key[1], same)
                    entries[key] = entries[key].merged(entry) if key in entries else entry
                write_atomically(file, _dump(Statistics(new.signature, new.level, entries)))

    def set_aside(self, task: str) -> Path:
        """Renames a task's damaged file, so that another can take its place; returns the new name.

        Raises:
            InputError: the folder cannot be written.
        """
        file = self.file(task)
        with writing(file):
            return file.replace(file.with_name(f"{file.name}.damaged"))

    def forget(self, encoder: str) -> None:
        """Removes all entries of an encoder and the tests against it. `merge` will replace a damaged file.

        Raises:
            InputError: the folder cannot be written.
        """
        for task in sorted(path.stem for path in (self.root / "statistics").glob("*.json")):
            file = self.file(task)
            with writing(file), locked(self.root / "records" / ".lock"):
                try:
                    known = self.load(task)
                except InputError:
                    continue
                kept = [key for key in known.entries if key[0] != encoder]
                entries = {key: _pruned(known.entries[key], key[1], kept) for key in kept}
                write_atomically(file, _dump(replace(known, entries=entries)))


def _pruned(entry: Entry, subset: str, known: Container[Key]) -> Entry:
    """The entry without tests against encoders that are not in `known` on this subset."""

    def pruned(tests: dict[str, dict[str, T]]) -> dict[str, dict[str, T]]:
        return {m: {name: v for name, v in of.items() if (name, subset) in known} for m, of in tests.items()}

    return replace(entry, p=pruned(entry.p), difference=pruned(entry.difference))


def _dump(statistics: Statistics) -> bytes:
    """JSON with sorted keys, a line per entry: the file is small, and a diff shows what has changed."""
    by_encoder: dict[str, list[str]] = {}
    for (encoder, subset), entry in sorted(statistics.entries.items()):
        by_encoder.setdefault(encoder, []).append(f"   {_text(subset)}: {_text(_plain(entry))}")
    encoders = [f"  {_text(name)}: {{\n" + ",\n".join(lines) + "\n  }" for name, lines in by_encoder.items()]
    head = f'{{\n "level": {_text(statistics.level)},\n "signature": {_text(statistics.signature)},\n'
    return (head + ' "statistics": {\n' + ",\n".join(encoders) + "\n }\n}\n").encode()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _plain(entry: Entry) -> dict[str, object]:
    parts = {
        "of": entry.of,
        "interval": _rounded(entry.interval, 4),
        "p": _rounded({metric: tests for metric, tests in entry.p.items() if tests}, 6),
        "difference": _rounded({metric: ends for metric, ends in entry.difference.items() if ends}, 4),
        "p_zero": _rounded(entry.p_zero, 6),
        "more": entry.more,
    }
    return {name: part for name, part in parts.items() if part}


def _rounded(value: object, digits: int) -> object:
    """Rounds the numbers in dictionaries and in both ends of an interval, with None in place of NaN."""
    if isinstance(value, dict):
        return {key: _rounded(part, digits) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_rounded(part, digits) for part in value]
    return round(value, digits) if isinstance(value, int | float) and isfinite(value) else None


def _with_nan(value: Any) -> Any:
    """Numbers, in dictionaries and in both ends of an interval, with NaN in place of None."""
    if isinstance(value, dict):
        return {key: _with_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return tuple(map(_with_nan, value))
    return nan if value is None else value


def _parsed(content: _StoredStatistics) -> Statistics:
    entries = {
        (encoder, subset): Entry(
            entry.of,
            _with_nan(entry.interval),
            _with_nan(entry.p),
            _with_nan(entry.p_zero),
            entry.more,
            _with_nan(entry.difference),
        )
        for encoder, by_subset in content.statistics.items()
        for subset, entry in by_subset.items()
    }
    return Statistics(content.signature, content.level, entries)

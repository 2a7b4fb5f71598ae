"""`RESULTS/statistics/TASK.json`: of each encoder and subset the intervals, and the tests against the other encoders.

Every entry names the record that it was computed from, by a digest of what makes its scores: with another fingerprint,
protocol, data set or score the entry is stale, and is neither read nor kept.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isfinite, nan
from pathlib import Path
from typing import Final, TypedDict

from harness.core.errors import InputError
from harness.core.files import locked, refuse_way_out, write_atomically, writing
from harness.core.names import check_name
from harness.core.schema import Name, Number, Probability, read_json
from harness.results.records import Result, ResultStore

Key = tuple[str, str]
"""Encoder and subset."""
JOINING: Final = "joining"
"""Under which name an entry of a language bias has `harness.statistics.Joining.as_dict`."""


class JoiningValues(TypedDict):
    """`harness.statistics.Joining.as_dict`, as far as types tell: `cost` has a row and a column a set."""

    sets: list[str]
    cost: list[list[Number]]
    shift: list[Number]


class More(TypedDict, total=False):
    """What else a task keeps (`JOINING`)."""

    joining: JoiningValues


@dataclass(frozen=True)
class Entry:
    """The statistics of one record.

    Attributes:
        of: the record's `digest`.
        interval: by metric, both ends; NaN where there are too few items, or all are alike.
        p: by metric and other encoder (those later in the alphabet: a pair is kept once), the paired test, not
            corrected.
        p_zero: by metric, the test against zero (of language bias).
        more: what else a task keeps.
    """

    of: str
    interval: dict[str, tuple[float, float]] = field(default_factory=dict)
    p: dict[str, dict[str, float]] = field(default_factory=dict)
    p_zero: dict[str, float] = field(default_factory=dict)
    more: More = field(default_factory=More)

    def merged(self, new: Entry) -> Entry:
        """With the numbers of another entry of the same record."""
        p = {metric: self.p.get(metric, {}) | new.p.get(metric, {}) for metric in {**self.p, **new.p}}
        return Entry(self.of, self.interval | new.interval, p, self.p_zero | new.p_zero, self.more | new.more)


@dataclass(frozen=True)
class Statistics:
    """What is known of one task's results.

    Attributes:
        signature: the resampling spelt out (`harness.statistics.Resampling.signature`).
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
        """Without what belongs to none of these records of the task."""
        digests = {(record.encoder, record.subset): digest(record) for record in records}
        entries = {key: entry for key, entry in self.entries.items() if entry.of == digests.get(key)}
        return Statistics(self.signature, self.level, {k: _current(e, k[1], entries) for k, e in entries.items()})

    def entry(self, result: Result) -> Entry | None:
        """The entry of a record, if there is one."""
        return self.entries.get((result.encoder, result.subset))

    def p(self, first: Result, second: Result, metric: str) -> float | None:
        """The paired test of two encoders on the same subset; None if they were not tested."""
        if first.encoder > second.encoder:
            first, second = second, first
        entry = self.entry(first)
        return entry.p.get(metric, {}).get(second.encoder) if entry else None


def digest(result: Result) -> str:
    """What a record's statistics depend on, in 12 characters."""
    scores = sorted(result.metrics.items())
    text = json.dumps([result.fingerprint, result.signature, result.dataset.sha256, scores])
    return sha256(text.encode()).hexdigest()[:12]


class _OfEntry(TypedDict):
    of: str
    interval: dict[str, tuple[Number | None, Number | None]]


class _EntryValues(_OfEntry, total=False):
    p: dict[str, dict[str, Probability | None]]
    p_zero: dict[str, Probability | None]
    more: More


class _File(TypedDict):
    """What a file of statistics holds: by encoder and subset the values of an entry, null for NaN."""

    level: Probability
    signature: str
    statistics: dict[Name, dict[Name, _EntryValues]]


class StatisticsStore:
    """The statistics below one results folder."""

    def __init__(self, root: str | Path):
        self.root = Path(root)

    def file(self, task: str) -> Path:
        """Where a task's statistics are."""
        return refuse_way_out(self.root / "statistics" / f"{check_name(task, 'task')}.json", self.root)

    def of(self, records: Sequence[Result]) -> dict[str, Statistics]:
        """By task, what is known of these records. Raises InputError as `load`."""
        by_task: dict[str, list[Result]] = {}
        for record in records:
            by_task.setdefault(record.task, []).append(record)
        return {task: self.load(task).current(own) for task, own in by_task.items()}

    def load(self, task: str) -> Statistics:
        """A task's statistics, stale ones among them; empty if there are none.

        Raises:
            InputError: the file holds something else.
        """
        file = self.file(task)
        try:
            return _parsed(read_json(file, _File, exact=True)) if file.exists() else Statistics()
        except (ValueError, InputError) as error:
            why = str(error).removeprefix(f"{file}: ")
            raise InputError(f"{file}: no statistics ({why}); `leaderboard run` makes it again") from None

    def merge(self, task: str, new: Statistics, records: Mapping[Key, str]) -> None:
        """Add entries; all others stay, unless their record is no longer there or their resampling is another.

        records: the digests of all records that `new` was computed from. What has been measured anew in the meantime
        is left out. A damaged file is replaced. Safe against a kill and against other processes.

        Raises:
            InputError: the folder cannot be written.
        """
        file = self.file(task)
        store = ResultStore(self.root)
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            store.records.mkdir(parents=True, exist_ok=True)
            with locked(store.records / ".lock"):  # the records': what they say must not change meanwhile
                now = store.load(task=task)
                try:
                    old = self.load(task)
                except InputError:
                    old = Statistics()
                entries = old.current(now).entries if old.signature == new.signature else {}
                same = {key for r in now if records.get(key := (r.encoder, r.subset)) == digest(r)}
                for key in new.entries.keys() & same:
                    entry = _current(new.entries[key], key[1], same)
                    entries[key] = entries[key].merged(entry) if key in entries else entry
                write_atomically(file, _dump(Statistics(new.signature, new.level, entries)))

    def set_aside(self, task: str) -> Path:
        """Rename a task's file, which is damaged, to make place for another; returns its new name.

        Raises:
            InputError: the folder cannot be written.
        """
        file = self.file(task)
        with writing(file):
            return file.replace(file.with_name(f"{file.name}.damaged"))

    def forget(self, encoder: str) -> None:
        """Remove all entries of an encoder and the tests against it. A damaged file stays for `merge` to replace.

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
                entries = {key: _current(known.entries[key], key[1], kept) for key in kept}
                write_atomically(file, _dump(replace(known, entries=entries)))


def _current(entry: Entry, subset: str, known: Container[Key]) -> Entry:
    """Without the tests against encoders that are not known on this subset."""
    p = {m: {name: p for name, p in tests.items() if (name, subset) in known} for m, tests in entry.p.items()}
    return replace(entry, p=p)


def _dump(statistics: Statistics) -> bytes:
    """JSON with sorted keys, a line an entry: small, and a change is seen where it is."""
    by_encoder: dict[str, dict[str, Entry]] = {}
    for (encoder, subset), entry in sorted(statistics.entries.items()):
        by_encoder.setdefault(encoder, {})[subset] = entry
    encoders = [
        f"  {_text(encoder)}: {{\n"
        + ",\n".join(f"   {_text(subset)}: {_text(_plain(entry))}" for subset, entry in own.items())
        + "\n  }"
        for encoder, own in by_encoder.items()
    ]
    head = f'{{\n "level": {_text(statistics.level)},\n "signature": {_text(statistics.signature)},\n'
    return (head + ' "statistics": {\n' + ",\n".join(encoders) + "\n }\n}\n").encode()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _plain(entry: Entry) -> dict[str, object]:
    parts = {
        "of": entry.of,
        "interval": {metric: [_rounded(end, 4) for end in ends] for metric, ends in entry.interval.items()},
        "p": {metric: {k: _rounded(p, 6) for k, p in tests.items()} for metric, tests in entry.p.items() if tests},
        "p_zero": {metric: _rounded(p, 6) for metric, p in entry.p_zero.items()},
        "more": entry.more,
    }
    return {name: part for name, part in parts.items() if part}


def _rounded(value: float, digits: int) -> float | None:
    return round(value, digits) if isfinite(value) else None


def _parsed(content: _File) -> Statistics:
    entries = {
        (encoder, subset): Entry(
            of=entry["of"],
            interval={metric: (_number(low), _number(high)) for metric, (low, high) in entry["interval"].items()},
            p={metric: {k: _number(p) for k, p in tests.items()} for metric, tests in entry.get("p", {}).items()},
            p_zero={metric: _number(p) for metric, p in entry.get("p_zero", {}).items()},
            more=entry.get("more", {}),
        )
        for encoder, own in content["statistics"].items()
        for subset, entry in own.items()
    }
    return Statistics(content["signature"], content["level"], entries)


def _number(value: float | None) -> float:
    return nan if value is None else value

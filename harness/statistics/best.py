"""Which encoder is best on a choice of sets: from stored statistics where they answer it, else from per-item rows.

Of each task the unweighted mean over the chosen sets counts; tasks are never averaged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, hypot, isnan, nan
from pathlib import Path
from statistics import NormalDist

from harness.core.errors import HarnessError, one_line
from harness.protocol import get_task
from harness.protocol.described import described, metric_of, metric_order, subset_order
from harness.protocol.task import Rows, Task
from harness.resampling.power import standard_error_of
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.results.store import is_stale
from harness.statistics.board import Standing, holm, standing

Note = Callable[[str], None]
"""Takes a message for the user."""

Origin = Callable[[Result], tuple[Path, Result]]
"""The results folder that a record is from, and the record as it is in there."""

_RESAMPLES = 10_000
_ENOUGH = 50


@dataclass(frozen=True)
class Contender:
    """An encoder that was measured on all sets of an answer.

    Attributes:
        value, low, high: the mean over the sets, x 100, and its interval; NaN where there is none.
        difference: to the encoder with the highest value; 0 or below.
        p: of the test against that one, corrected by Holm over the encoders; NaN if it was not tested.
        records: of the sets.
    """

    encoder: str
    value: float
    low: float
    high: float
    difference: float
    p: float
    records: tuple[Result, ...]


@dataclass(frozen=True)
class Against:
    """The encoder that was asked for, held against another one.

    Attributes:
        difference: the one that was asked for minus this one.
        p: of the test, corrected by Holm over all that it is held against; NaN if it was not tested.
    """

    encoder: str
    difference: float
    p: float

    def outcome(self, alpha: float) -> str:
        """Of the one that was asked for: better, worse, or neither, or that it was not tested."""
        if isnan(self.p):
            return "not tested"
        return "no difference found" if self.p >= alpha else "better" if self.difference > 0 else "worse"


@dataclass(frozen=True)
class Answer:
    """What is known of one task on the chosen sets.

    Attributes:
        metric: by which encoders are compared.
        subsets: the sets, in the order of the tables; those that the most measurements have in common.
        n: items in them.
        contenders: the highest value first.
        standing: which of them are the best, as on a board.
        alpha: level of the tests.
        errors: standard errors of the differences to the first contender, as far as they are known.
        is_bound: they are not known; the errors are about what they are at most, from the encoders' own intervals.
        some: by encoder that was measured on some of these sets, on which.
        none: encoders that were measured on none of them.
        left_out: chosen sets that too few encoders have.
        without_rows: encoders that could not be tested because their rows were not kept.
        elsewhere: by encoder, the sets that it was measured on with other data or by another protocol.
        against: all others, if one encoder was asked for; empty if that was not measured on these sets.
    """

    task: str
    metric: str
    subsets: tuple[str, ...]
    n: int
    contenders: tuple[Contender, ...]
    standing: Standing
    alpha: float
    errors: tuple[float, ...] = ()
    is_bound: bool = False
    some: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    none: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    without_rows: tuple[str, ...] = ()
    elsewhere: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    against: tuple[Against, ...] = ()

    @property
    def n_tests(self) -> int:
        """The tests that were corrected together."""
        return sum(not isnan(p) for p in self.standing.p.values())


def answer(
    task: str,
    chosen: Sequence[Result],
    averages: Sequence[Result],
    encoders: Sequence[str],
    statistics: Statistics,
    origin: Origin,
    note: Note,
    reference: str = "",
) -> Answer | None:
    """What is known of one task; None if its main metric ranks no encoders, or none of the records has it.

    Args:
        chosen: its records on the chosen sets, of full vectors.
        averages: its stored averages, of the same encoders.
        encoders: all that are asked for, measured on these sets or not.
        statistics: those of all these records.
        origin: where a record is from: that folder may have rows.
        note: is told of rows that are damaged.
        reference: an encoder that is held against each of the others, too.
    """
    metric = _metric(task, chosen)
    if not metric_of(task, metric).is_ranked:
        return None
    having = [record for record in chosen if metric in record.metrics]
    measured = _comparable(having)
    if not measured:
        return None
    subsets = tuple(subset_order(task, _shared(measured)))
    records = {name: [of[s] for s in subsets] for name, of in sorted(measured.items()) if of.keys() >= set(subsets)}
    tests = _Tests(task, metric, records, origin, note)
    stored = _as_stored(records, averages)
    if stored:
        tests.take_stored(stored, statistics)
    values = {name: fsum(r.metrics[metric] for r in of) / len(of) for name, of in records.items()}
    leader = standing(values, lambda first, second: None, statistics.alpha).leader
    if leader:
        tests.complete(leader)
    found = standing(values, lambda first, second: tests.p.get(frozenset((first, second))), statistics.alpha)
    against = _against(reference, values, tests) if reference in values else ()
    order = sorted(values, key=lambda name: (-round(values[name], 9), name))
    some = {name: tuple(subset_order(task, of)) for name, of in measured.items() if name not in records}
    everything = {subset for of in measured.values() for subset in of}
    tested = [name for name in order[1:] if not isnan(found.p.get(name, nan))]
    errors = [error for name in tested if (error := tests.error(order[0], name, values)) is not None]
    if tested and not errors:
        errors = tests.measured_error(order[0], tested[0])
    bounds = [bound for name in tested if (bound := tests.bound(order[0], name, statistics.level)) is not None]
    return Answer(
        task=task,
        metric=metric,
        subsets=subsets,
        n=sum(record.n for record in next(iter(records.values()))),
        contenders=tuple(
            Contender(
                name,
                values[name],
                *tests.intervals.get(name, (nan, nan)),
                values[name] - values[order[0]],
                found.p.get(name, nan),
                tuple(records[name]),
            )
            for name in order
        ),
        standing=found,
        alpha=statistics.alpha,
        errors=tuple(errors or bounds),
        is_bound=not errors,
        some=some,
        none=tuple(name for name in encoders if name not in measured),
        left_out=tuple(subset_order(task, everything - set(subsets))),
        without_rows=tuple(name for name in order if name in tests.without_rows) if found.untested or against else (),
        elsewhere=_elsewhere(task, having, measured),
        against=against,
    )


def _against(reference: str, values: Mapping[str, float], tests: _Tests) -> tuple[Against, ...]:
    """The reference against each of the others, the highest first."""
    tests.complete(reference)
    others = sorted(values.keys() - {reference}, key=lambda name: (-values[name], name))
    p = holm([tests.p.get(frozenset((reference, name)), nan) for name in others])
    return tuple(Against(n, values[reference] - values[n], q) for n, q in zip(others, p, strict=True))


def _elsewhere(
    task: str, records: Sequence[Result], measured: Mapping[str, Mapping[str, Result]]
) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for record in records:
        if measured.get(record.encoder, {}).get(record.subset) is not record:
            found.setdefault(record.encoder, set()).add(record.subset)
    return {encoder: tuple(subset_order(task, subsets)) for encoder, subsets in sorted(found.items())}


def _metric(task: str, records: Sequence[Result]) -> str:
    known = described(task)
    if isinstance(known, Task):
        return known.main_metric
    return metric_order(task, (name for record in records for name in record.metrics))[0]


def _comparable(records: Sequence[Result]) -> dict[str, dict[str, Result]]:
    """By encoder and subset, the records on the files and by the protocol that most encoders share on a subset.

    Of each encoder those of one fingerprint: of the weights and options that most of its records have.
    """
    weights: dict[str, Counter[str]] = {}
    for record in records:
        weights.setdefault(record.encoder, Counter())[record.fingerprint] += 1
    of_most = {encoder: min(count, key=lambda one: (-count[one], one)) for encoder, count in weights.items()}
    records = [record for record in records if record.fingerprint == of_most[record.encoder]]
    kinds: dict[str, Counter[tuple[str, str]]] = {}
    for record in records:
        kinds.setdefault(record.subset, Counter())[record.dataset.sha256, record.signature] += 1
    usual = {subset: min(count, key=lambda kind: (-count[kind], kind)) for subset, count in kinds.items()}
    measured: dict[str, dict[str, Result]] = {}
    for record in records:
        if usual[record.subset] == (record.dataset.sha256, record.signature):
            measured.setdefault(record.encoder, {})[record.subset] = record
    return measured


def _shared(measured: Mapping[str, Mapping[str, Result]]) -> frozenset[str]:
    """The sets of one encoder, or those of all: of these, those that the most measurements are on.

    Two encoders or more must have them, if that can be.
    """
    collections = {frozenset(of) for of in measured.values()}
    collections.add(frozenset.intersection(*collections))

    def worth(sets: frozenset[str]) -> tuple[bool, int, int, list[str]]:
        having = sum(of.keys() >= sets for of in measured.values())
        return having > 1, having * len(sets), len(sets), sorted(sets)

    return max(filter(None, collections), key=worth)


def _as_stored(records: Mapping[str, Sequence[Result]], averages: Sequence[Result]) -> dict[str, Result]:
    """By encoder, the record that has stored statistics of just these sets: the only one, or a stored average."""
    if all(len(of) == 1 for of in records.values()):
        return {name: of[0] for name, of in records.items()}
    by_name: dict[str, dict[str, Result]] = {}
    for average in averages:
        of = records.get(average.encoder, ())
        if not of or set(average.parts) != {record.subset for record in of}:
            continue
        # Intervals and tests of an average that is not that of these records (a file was edited) are of other scores.
        if not is_stale(average, {record.subset: record for record in of}):
            by_name.setdefault(average.subset, {})[average.encoder] = average
    complete = (by_encoder for _, by_encoder in sorted(by_name.items()) if by_encoder.keys() == records.keys())
    return next(complete, {})


class _Tests:
    """Intervals and tests of several encoders on some sets."""

    def __init__(
        self, task: str, metric: str, records: Mapping[str, Sequence[Result]], origin: Origin, note: Note
    ) -> None:
        self.p: dict[frozenset[str], float] = {}
        self.intervals: dict[str, tuple[float, float]] = {}
        self.without_rows: set[str] = set()
        self._errors: dict[frozenset[str], float] = {}
        self._resamples = _RESAMPLES
        self._task, self._metric, self._records = task, metric, records
        self._origin, self._note = origin, note

    def take_stored(self, stored: Mapping[str, Result], statistics: Statistics) -> None:
        """What is stored of these records, one an encoder."""
        resamples = re.search(r"\|resamples:(\d{1,9})\b", statistics.signature)
        self._resamples = int(resamples[1]) if resamples else _RESAMPLES
        for name, record in stored.items():
            if (entry := statistics.entry(record)) and self._metric in entry.interval:
                self.intervals[name] = entry.interval[self._metric]
            for other in stored:
                if name < other and (p := statistics.p(record, stored[other], self._metric)) is not None:
                    self.p[frozenset((name, other))] = p

    def complete(self, leader: str) -> None:
        """Tests against the leader those that were not, as far as there are rows, and gives them intervals."""
        untested = [name for name in self._records if name != leader and frozenset((leader, name)) not in self.p]
        if not untested:
            return
        from harness.resampling.bootstrap import bca_interval
        from harness.statistics.evidence import Evidence

        try:
            task = get_task(self._task)
        except HarnessError:  # of a package that is not here
            self.without_rows.update(self._records)
            return
        rows = {name: rows for name in [leader, *untested] if (rows := self._rows(task, name)) is not None}
        self.without_rows.update(name for name in [leader, *untested] if name not in rows)
        names = [name for name in [leader, *untested] if name in rows]
        pairs = [(leader, name) for name in untested if {leader, name} <= rows.keys()]
        evidence = Evidence(task, rows)
        try:
            for _, group, replicates in evidence.replicates({self._metric: names}):
                ends = [(interval.low, interval.high) for interval in bca_interval(replicates)]
                self.intervals.update(zip(group, ends, strict=True))
                place = {name: i for i, name in enumerate(group)}
                for pair in [pair for pair in pairs if place.keys() >= set(pair)]:  # drawn together
                    difference = replicates.difference(place[pair[0]], place[pair[1]])
                    self._errors[frozenset(pair)] = float(difference.draws.std())
            self.p.update((frozenset(pair), p) for pair, p in evidence.p_values(self._metric, pairs).items())
        except Exception as error:  # another package's task may fail in any way
            self._note(f"warning: {self._task}: not tested: {one_line(error)}")

    def error(self, leader: str, name: str, values: Mapping[str, float]) -> float | None:
        """The standard error of the difference of two encoders, as far as it is known."""
        pair = frozenset((leader, name))
        if pair in self._errors:
            return self._errors[pair]
        p = self.p.get(pair, nan)
        if isnan(p):
            return None
        items = sum(record.n for record in self._records[name])
        return standard_error_of(values[leader] - values[name], p, self._resamples, items)

    def measured_error(self, leader: str, name: str) -> list[float]:
        """The same from the rows of the two; empty where they are not there."""
        from harness.statistics.evidence import Evidence

        try:
            task = get_task(self._task)
            rows = {each: rows for each in (leader, name) if (rows := self._rows(task, each)) is not None}
            tests = Evidence(task, rows).paired_tests(self._metric, [(leader, name)]) if len(rows) == 2 else {}
        except Exception:  # as above; the tests themselves are stored
            return []
        return [test.standard_error for test in tests.values()]

    def bound(self, leader: str, name: str, level: float) -> float | None:
        """About what the standard error of the difference is at most, from both intervals; None where one lacks.

        It would be that of encoders that err independently; on the same items they rather err together. Intervals of
        few items are too uneven for it.
        """
        items = sum(record.n for record in self._records[name])
        if items < _ENOUGH or not {leader, name} <= self.intervals.keys():
            return None
        width = 2 * NormalDist().inv_cdf((1 + level) / 2)
        return hypot(*((high - low) / width for low, high in (self.intervals[leader], self.intervals[name])))

    def _rows(self, task: Task, name: str) -> list[Rows] | None:
        """The rows of each set; None, and a note if some are damaged, unless all are there."""
        from harness.statistics.rows import rows_of

        kept = []
        for record in self._records[name]:
            try:
                folder, stored = self._origin(record)
                rows = rows_of(folder, task, stored)
            except HarnessError as error:
                self._note(f"warning: {error}")
                return None
            if rows is None:
                return None
            kept.append(rows)
        return kept

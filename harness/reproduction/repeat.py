"""Measures records again, compares the fresh records with them, and tests what changed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, InputError, one_line
from harness.core.files import temporary_folder
from harness.core.names import Subset
from harness.core.threads import n_threads
from harness.data import DataDir, Source, bundled_sample
from harness.encoders.cache import VectorCache
from harness.encoders.encoder import Encoder
from harness.encoders.registry import encoder_info, load_sides, runs_code
from harness.encoders.sides import AnyEncoder, by_side, each_side
from harness.encoders.spec import parse_spec
from harness.encoders.variant import Variant, full_of
from harness.protocol import get_task, task_names
from harness.protocol.described import metric_of
from harness.protocol.task import Planned, Rows, Task
from harness.report.cells import Cell, p_text
from harness.reproduction.findings import CACHE, Check, Finding, check_records, with_significance
from harness.reproduction.vectors import AuditedEncoder
from harness.resampling.bootstrap import bca_interval
from harness.results.records import RecordKey, Result
from harness.results.store import ResultStore
from harness.running.measure import Run
from harness.running.plan import Items, Progress, Silent
from harness.running.suite import measure_and_store
from harness.statistics.evidence import Evidence
from harness.statistics.rows import rows_of


@dataclass
class FreshRun:
    """What measuring records again has given.

    Attributes:
        results: the fresh records, averages included.
        problems: by key, why there is no fresh record.
        skipped: by key, why a record could not be measured here and need not be.
        caches: the checks of cached vectors, one per encoder that had any.
    """

    results: list[Result] = field(default_factory=list)
    problems: dict[RecordKey, Finding] = field(default_factory=dict)
    skipped: dict[RecordKey, str] = field(default_factory=dict)
    caches: list[Check] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """How to measure again.

    Attributes:
        data: the data directory; None if there is none. The bundled sample serves its own records only.
        cache_dir: the cache whose vectors are compared, or used (`use_cached`); see `harness.reproduction.vectors`.
        specs: by encoder, the spec string to load instead of the one in the records.
        trusted: the spec strings that the user has written: only these may run code of their choosing.
        must_measure: whether a record without its data fails even if nothing of its data set is here.
        must_load: encoders that fail, and are not skipped, where they lack a package or a download.
        defaults: `device` and `batch_size`, for encoders that have such options.
    """

    data: DataDir | None = None
    cache_dir: Path | None = None
    use_cached: bool = False
    specs: Mapping[str, str] = field(default_factory=dict)
    trusted: frozenset[str] = frozenset()
    must_measure: bool = False
    must_load: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)


def check_again(
    stored: Sequence[Result], everything: Sequence[Result], stored_in: Path, options: Options, progress: Progress
) -> list[Check]:
    """Measures the records again in a temporary folder and compares.

    Args:
        stored: the records to check; the parts of averages must be among them.
        everything: all records of the results folder `stored_in`.
    """
    with temporary_folder() as folder:
        fresh = measure_again(stored, folder, options, progress)
        return compare_runs(stored, everything, stored_in, folder, fresh)


def compare_runs(
    stored: Sequence[Result], everything: Sequence[Result], stored_in: Path, fresh_in: Path, fresh: FreshRun
) -> list[Check]:
    """Compares records with those of a fresh run; adds the significance of what changed, and the checks of caches.

    fresh_in: the results folder with the fresh rows. See `check_again` for the other arguments.
    """
    old = {result.key: result for result in everything}
    new = {result.key: result for result in fresh.results}
    checks = []
    for check in check_records(stored, new.values(), fresh.problems, fresh.skipped, everything):
        changed = [finding.what for finding in check.findings if finding.kind == "score"]
        try:
            texts = {m: _significance(m, old[check.key], (old, stored_in), (new, fresh_in)) for m in changed}
            checks.append(with_significance(check, texts))
        except (Exception, SystemExit) as error:  # of another package's task, whose `aggregate` is resampled
            failed = _failed("task", f"failed: significance: {one_line(error)}")
            checks.append(replace(check, findings=(*check.findings, failed)))
    return checks + fresh.caches


def measure_again(
    stored: Iterable[Result], results: Path, options: Options, progress: Progress | None = None
) -> FreshRun:
    """Measures the records again, averages by their parts; writes the rows to the folder `results`.

    Vectors are computed afresh unless `options.use_cached`. A failure goes to `problems` and does not stop the others.

    Raises:
        InputError: before anything is loaded, a record whose spec string runs code of its choosing, or sends texts to
            a server of its choosing, unless the user has given that very string.
        HarnessError: a failure that has nothing to do with a record, such as a full disk.
    """
    run = Run(VectorCache(options.cache_dir), ResultStore(results), progress=progress or Silent())
    fresh = FreshRun()
    sets = _Sets(options.data, run.items)
    by_spec: dict[tuple[str, str], list[Result]] = {}
    for record in stored:
        if not record.parts:
            by_spec.setdefault((record.encoder, options.specs.get(record.encoder) or record.spec), []).append(record)
    plans = {key: _plan(records, sets, options, fresh) for key, records in by_spec.items()}
    plans = {key: plan for key, plan in plans.items() if plan}
    _refuse_code({spec: name for name, spec in plans if spec not in options.trusted})
    with ExitStack() as stack:
        vectors = _FreshVectors(stack)
        for (name, spec), plan in sorted(plans.items(), key=lambda item: _of_full(item[0][1])):
            keys = [RecordKey(name, planned.task.name, source.subset) for planned in plan for source in planned.sources]
            try:
                if not spec:
                    raise InputError("the record is of a Python object and names no spec string; give --encoder SPEC")
                head = parse_spec(spec).head
                needs = encoder_info(head).needs(head)
                if needs and name not in options.must_load:
                    fresh.skipped |= dict.fromkeys(keys, f"the encoder needs: {needs}")
                    continue
                known = partial(_fingerprints, run.cache, by_spec[name, spec])
                encoder = load_sides(spec, **options.defaults, known_fingerprints=known)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # an encoder may fail in any way: `sys.exit(0)` is no pass
                why = f"encoder cannot be loaded: {one_line(error)}"
                run.progress.note(f"{name}: {why}")
                fresh.problems |= dict.fromkeys(keys, _failed("encoder", why))
                continue
            _note_threads(by_spec[name, spec], run.progress)
            _measure(run, vectors.of(encoder), encoder, spec, plan, fresh, use_cached=options.use_cached)
    return fresh


def _fingerprints(cache: VectorCache, records: Sequence[Result]) -> list[str]:
    return [*cache.fingerprints(), *(text for record in records for text in record.fingerprints)]


def _note_threads(records: Sequence[Result], progress: Progress) -> None:
    """Says which numbers of threads the records of an encoder name, if one of them is another than here."""
    recorded = sorted({record.threads for record in records if record.threads} - {n_threads()})
    if recorded:
        listed = " and ".join(map(str, recorded))
        progress.note(
            f"{records[0].encoder}: recorded with {listed} threads, here {n_threads()}; the last bits of vectors may "
            f"differ (--threads {recorded[0]})"
        )


def _refuse_code(specs: Mapping[str, str]) -> None:
    """Raises InputError if spec strings of records (keys; the values are names) may run code or send texts.

    A record is data.
    """
    refused = {spec: name for spec, name in specs.items() if spec and _may_run_code(spec)}
    if refused:
        names = ", ".join(dict.fromkeys(refused.values()))
        given = " ".join(f"--encoder {shlex.quote(spec)}" for spec in refused)
        raise InputError(
            f"what the records of {names} name runs code, or sends texts to a server, or may; if you trust it, name it "
            f"yourself: {given}"
        )


def _may_run_code(spec: str) -> bool:
    try:
        return runs_code(parse_spec(spec))
    except HarnessError:  # an encoder that is not there: nothing of it is loaded
        return False


def _of_full(spec: str) -> list[str]:
    """What spec strings of cut or quantised vectors share with that of the full ones."""
    if not spec:
        return []
    parsed = parse_spec(spec)
    options = (f"{k}={v}" for k, v in parsed.options.items() if k not in ("name", "truncate_dim", "quantize"))
    return [parsed.head, parsed.location or "", *sorted(options)]


class _FreshVectors:
    """Caches for what is computed afresh: one for all encoders in a row whose vectors are made from the same ones."""

    def __init__(self, stack: ExitStack):
        """stack: closed when the last cache is not needed any more."""
        self._stack, self._fingerprints = stack, [""]
        self._cache: VectorCache | None = None

    def of(self, encoder: AnyEncoder) -> VectorCache:
        """The cache of an encoder. The one of others is deleted."""
        fingerprints = [full_of(each).fingerprint for each in by_side(encoder).values()]
        if self._cache is None or fingerprints != self._fingerprints:
            self._stack.close()
            self._cache = VectorCache(self._stack.enter_context(temporary_folder()), max_bytes=sys.maxsize)
            self._fingerprints = fingerprints
        return self._cache


def _measure(
    run: Run,
    vectors: VectorCache,
    encoder: AnyEncoder,
    spec: str,
    plan: Sequence[Planned],
    fresh: FreshRun,
    *,
    use_cached: bool,
) -> None:
    """Measures with the cache `vectors`, and compares those in `run.cache` with those that the encoder gives.

    Cut or quantised vectors are not compared, but the full ones: a bit may turn where a full vector hardly moves.
    """
    audited: list[AuditedEncoder] = []

    def watched(encoder: Encoder) -> Encoder:
        full = full_of(encoder)
        audited.append(AuditedEncoder(full, run.cache.of(full), use_cached=use_cached))
        return Variant(audited[-1], encoder.reduction, encoder.name) if isinstance(encoder, Variant) else audited[-1]

    measured = each_side(encoder, watched)
    run = replace(run, cache=vectors)
    outcome = measure_and_store(run, plan, measured, spec, encoder_info(parse_spec(spec).head).modules)
    fresh.results += outcome.results
    for failure in outcome.failures:
        fresh.problems[failure.key] = _failed("encoder", f"failed: {one_line(failure.error)}")
    if any(each.compared for each in audited):
        fresh.caches.append(_cache_check(audited))


def _cache_check(audited: Sequence[AuditedEncoder]) -> Check:
    """The check of an encoder's cached vectors, of both sides if it has two."""
    key = RecordKey(audited[0].name, *CACHE)
    compared, stale = sum(each.compared for each in audited), sum(each.stale for each in audited)
    if not stale:
        return Check(key)
    worst = max(audited, key=lambda each: each.worst)
    message = (
        f"cache: {stale:,} of {compared:,} cached vectors are not what the encoder gives, the worst "
        f"{100 * worst.worst:.0f} % of its length apart (as for {worst.example[:60]!r}): other weights under the "
        "same fingerprint; `leaderboard cache clear` removes them"
    )
    return Check(key, (Finding("cache", "vectors", message, f"{compared:,}", f"{stale:,} stale"),))


def _plan(records: Sequence[Result], sets: _Sets, options: Options, fresh: FreshRun) -> list[Planned]:
    """The records that can be measured here; the reasons why the others cannot go to `fresh`."""
    plan: dict[str, Planned] = {}
    for record in records:
        key = record.key
        try:
            task = get_task(record.task)
        except HarnessError as error:
            fresh.problems[key] = Finding("missing", "task", one_line(error), "stored", "–")
            continue
        try:
            source = sets.find(task, record)
            if source is not None:
                sets.items.of(task, source)  # before anything is encoded
        except HarnessError as error:
            fresh.problems[key] = Finding("data", "files", f"data: {one_line(error)}", "read", "not readable")
            continue
        except (Exception, SystemExit) as error:  # another package's task may fail in any way, and the others go on
            fresh.problems[key] = _failed("task", f"failed: {one_line(error)}")
            continue
        if source is not None:
            plan.setdefault(task.name, Planned(task, [])).sources.append(source)
        elif options.must_measure or sets.has(record):
            fresh.problems[key] = Finding("missing", "data", _absent(record), "stored", "no data")
        else:
            fresh.skipped[key] = f"no {record.dataset.name} data here"
    return list(plan.values())


def _failed(what: str, message: str) -> Finding:
    return Finding("failed", what, message, "stored", "failed")


def _absent(record: Result) -> str:
    names = list(record.dataset.files)
    listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    return f"missing: the data of {record.task} {record.subset} are not there ({listed})"


class _Sets:
    """The sets of the data directory and of the bundled sample, looked up once per task, and their items."""

    def __init__(self, data: DataDir | None, items: Items):
        self._data, self.items = data, items
        self._sources: dict[tuple[str, bool], dict[str, Source]] = {}

    def find(self, task: Task, record: Result) -> Source | None:
        """The set of a record. Raises InputError if a set of the task lacks a file."""
        return self._present(task, _is_sample(record)).get(record.subset)

    def has(self, record: Result) -> bool:
        """Whether some set of each data set of the record is here: then the data set is not just stored elsewhere."""
        if _is_sample(record):
            return True
        present: set[str] = set()
        for name in task_names():  # a joined set has its parts in another task
            with suppress(Exception, SystemExit):
                for source in self._present(get_task(name), False).values():
                    present.update(source.dataset.split("+"))
        return present.issuperset(record.dataset.name.split("+"))

    def _present(self, task: Task, is_sample: bool) -> dict[str, Source]:
        key = task.name, is_sample
        if key not in self._sources:
            data = bundled_sample() if is_sample else self._data
            self._sources[key] = task.sources(data) if data else {}
        return self._sources[key]


def _is_sample(record: Result) -> bool:
    return Subset.parse(record.subset).is_sample


_Records = tuple[Mapping[RecordKey, Result], Path]
"""All records of a results folder by key, and the folder, which holds their rows."""


def _significance(metric: str, old: Result, stored: _Records, fresh: _Records) -> str:
    """Whether a changed score is a real difference, from per-item rows; one of three texts.

    `p 0.012`: the paired test (approximate randomisation) of the old rows against the new ones, if both are kept and of
    the same items. `old value in [75.8, 81.7]` (or `not in`): the BCa interval of the new value from its rows. Empty:
    there are no rows, or the metric is a threshold. Resampled as for `leaderboard show`, which prints these intervals.

    old: the stored record, of which there is a fresh one.
    """
    try:
        task = get_task(old.task)
        new_rows = _rows(old, fresh, task)
        if not new_rows:
            return ""
        [(_, _, replicates)] = Evidence(task, {"new": new_rows}).replicates({metric: ["new"]})
        [interval] = bca_interval(replicates)
    except HarnessError:  # rows that are damaged or lack what the metric needs; a threshold
        return ""
    try:
        if old_rows := _rows(old, stored, task):
            [p] = Evidence(task, {"old": old_rows, "new": new_rows}).p_values(metric, [("old", "new")]).values()
            return "" if isnan(p) else f"p {p_text(p)}"
    except HarnessError:  # other items than before, or damaged
        pass
    if isnan(interval.low):
        return ""
    is_inside = interval.low <= old.metrics[metric] <= interval.high
    shown = Cell(None, metric_of(old.task, metric).kind, interval=(interval.low, interval.high)).interval_text
    return f"old value {'in' if is_inside else 'not in'} {shown}"


def _rows(old: Result, records: _Records, task: Task) -> list[Rows]:
    """The rows of a record, or of each part of an average; empty unless all are kept."""
    by_key, folder = records
    parts = [by_key.get(old.key._replace(subset=subset)) for subset in old.parts or [old.subset]]
    rows = [rows_of(folder, task, part) if part else None for part in parts]
    return [part for part in rows if part is not None] if None not in rows else []

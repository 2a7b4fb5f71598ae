"""Measures again what records say, and compares the fresh records with them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, InputError
from harness.core.files import temporary_folder
from harness.core.names import Subset
from harness.data import DataDir, Source, bundled_sample
from harness.encoders.cache import VectorCache
from harness.encoders.encoder import Encoder
from harness.encoders.registry import encoder_info, load_encoder, one_line, runs_code
from harness.encoders.spec import parse_spec
from harness.protocol import get_task, task_names
from harness.protocol.task import Planned, Task
from harness.reproduction.findings import CACHE, Checked, Finding, check_records, with_significance
from harness.reproduction.significance import significance
from harness.reproduction.vectors import Audited
from harness.results.records import RecordKey, Result, ResultStore
from harness.running.evaluate import measure_and_store
from harness.running.measure import Run
from harness.running.plan import Items, Progress, Silent


@dataclass
class Repeated:
    """What became of the records that were to be measured again.

    Attributes:
        results: the fresh records, averages included.
        problems: why there is no fresh record.
        skipped: which could not be measured here and need not be, and why.
        caches: of each encoder that had cached vectors, what the look at them gave.
    """

    results: list[Result] = field(default_factory=list)
    problems: dict[RecordKey, Finding] = field(default_factory=dict)
    skipped: dict[RecordKey, str] = field(default_factory=dict)
    caches: list[Checked] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """How to measure again.

    Attributes:
        data: the data directory; None if there is none. The bundled sample serves its own records only.
        cache_dir: the cache whose vectors are compared, or used (`use_cached`); see `harness.reproduction.vectors`.
        specs: by encoder, the spec string to load instead of the records'.
        trusted: the spec strings that the user has written: only these may run code of their choosing.
        must_measure: a record whose data are not here has failed, even if nothing of its data set is here.
        must_load: encoders of which that is true, too, where they lack a package or a download.
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
) -> list[Checked]:
    """Measure the records again in a temporary folder, and compare.

    Args:
        stored: the records to check; the parts of averages must be among them.
        everything: all records of their results folder, which is `stored_in`.
    """
    with temporary_folder() as folder:
        repeated = repeat(stored, folder, options, progress)
        return against(stored, everything, stored_in, folder, repeated)


def against(
    stored: Sequence[Result],
    everything: Sequence[Result],
    stored_in: Path,
    fresh_in: Path,
    repeated: Repeated,
) -> list[Checked]:
    """The records against those of a fresh run, with the significance of what changed, and the looks at caches.

    fresh_in: the results folder with the fresh rows; see `check_again` for the others.
    """
    old = {result.key: result for result in everything}
    new = {result.key: result for result in repeated.results}
    checked = []
    for record in check_records(stored, new.values(), repeated.problems, repeated.skipped, everything):
        changed = [finding.what for finding in record.findings if finding.kind == "score"]
        try:
            texts = {m: significance(m, old[record.key], old, stored_in, new, fresh_in) for m in changed}
            checked.append(with_significance(record, texts))
        except (Exception, SystemExit) as error:  # of another package's task, whose `aggregate` is resampled
            failed = _failed("task", f"failed: significance: {one_line(error)}")
            checked.append(replace(record, findings=(*record.findings, failed)))
    return checked + repeated.caches


def repeat(stored: Iterable[Result], results: Path, options: Options, progress: Progress | None = None) -> Repeated:
    """Measure the records again, averages by their parts; the rows go to the folder `results`.

    Vectors are computed afresh unless `options.use_cached`. What fails is told in `problems`; the others go on.

    Raises:
        InputError: before anything is loaded, a record whose spec string runs code of its choosing, unless the user
            has given that very string.
        HarnessError: what no record is to blame for: a full disk, say.
    """
    run = Run(VectorCache(options.cache_dir), ResultStore(results), progress=progress or Silent())
    repeated = Repeated()
    sets = _Sets(options.data, run.items)
    by_spec: dict[tuple[str, str], list[Result]] = {}
    for record in stored:
        if not record.parts:
            by_spec.setdefault((record.encoder, options.specs.get(record.encoder) or record.spec), []).append(record)
    planned_of = {key: _plan(records, sets, options, repeated) for key, records in by_spec.items()}
    planned_of = {key: plan for key, plan in planned_of.items() if plan}
    _refuse_code({spec: name for name, spec in planned_of if spec not in options.trusted})
    for (name, spec), plan in planned_of.items():
        keys = [RecordKey(name, planned.task.name, source.subset) for planned in plan for source in planned.sources]
        try:
            if not spec:
                raise InputError("the record is of an object from Python and names no spec string; give --encoder SPEC")
            head = parse_spec(spec).head
            needs = encoder_info(head).needs(head)
            if needs and name not in options.must_load:
                repeated.skipped |= dict.fromkeys(keys, f"the encoder needs: {needs}")
                continue
            encoder = load_encoder(spec, **options.defaults)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an encoder may fail in any way: `sys.exit(0)` is no pass
            why = f"encoder cannot be loaded: {one_line(error)}"
            run.progress.note(f"{name}: {why}")
            repeated.problems |= dict.fromkeys(keys, _failed("encoder", why))
            continue
        _measure(run, encoder, spec, plan, repeated, use_cached=options.use_cached)
    return repeated


def _refuse_code(specs: Mapping[str, str]) -> None:
    """Raise InputError for records' spec strings (to the encoders' names) that may run code: a record is data."""
    refused = {spec: name for spec, name in specs.items() if spec and _may_run_code(spec)}
    if refused:
        names = ", ".join(dict.fromkeys(refused.values()))
        given = " ".join(f"--encoder {shlex.quote(spec)}" for spec in refused)
        raise InputError(
            f"what the records of {names} name runs code, or may; if you trust it, name it yourself: {given}"
        )


def _may_run_code(spec: str) -> bool:
    try:
        return runs_code(parse_spec(spec))
    except HarnessError:  # an encoder that is not there: nothing of it is loaded
        return False


def _measure(
    run: Run, encoder: Encoder, spec: str, plan: Sequence[Planned], repeated: Repeated, *, use_cached: bool
) -> None:
    """Measure with a new cache, while the vectors in `run.cache` are compared with what the encoder gives."""
    audited = Audited(encoder, run.cache.of(encoder), use_cached=use_cached)
    with temporary_folder() as vectors:
        run = replace(run, cache=VectorCache(vectors, max_bytes=sys.maxsize))
        outcome = measure_and_store(run, plan, audited, spec, encoder_info(parse_spec(spec).head).modules)
    repeated.results += outcome.results
    for failure in outcome.failures:
        repeated.problems[failure.key] = _failed("encoder", f"failed: {one_line(failure.error)}")
    if audited.compared:
        repeated.caches.append(_cache_check(audited))


def _cache_check(audited: Audited) -> Checked:
    key = RecordKey(audited.name, *CACHE)
    if not audited.stale:
        return Checked(key)
    message = (
        f"cache: {audited.stale:,} of {audited.compared:,} cached vectors are not what the encoder gives, the worst "
        f"{100 * audited.worst:.0f} % of its length apart (as for {audited.example[:60]!r}): other weights under the "
        "same fingerprint; `leaderboard cache clear` removes them"
    )
    return Checked(key, (Finding("cache", "vectors", message, f"{audited.compared:,}", f"{audited.stale:,} stale"),))


def _plan(records: Sequence[Result], sets: _Sets, options: Options, repeated: Repeated) -> list[Planned]:
    """What of these can be measured here; why the others cannot goes to `repeated`."""
    plan: dict[str, Planned] = {}
    for record in records:
        key = record.key
        try:
            task = get_task(record.task)
        except HarnessError as error:
            repeated.problems[key] = Finding("missing", "task", one_line(error), "stored", "–")
            continue
        try:
            source = sets.find(task, record)
            if source is not None:
                sets.items.of(task, source)  # before anything is encoded
        except HarnessError as error:
            repeated.problems[key] = Finding("data", "files", f"data: {one_line(error)}", "read", "not readable")
            continue
        except (Exception, SystemExit) as error:  # another package's task may fail in any way, and the others go on
            repeated.problems[key] = _failed("task", f"failed: {one_line(error)}")
            continue
        if source is not None:
            plan.setdefault(task.name, Planned(task, [])).sources.append(source)
        elif options.must_measure or sets.has(record):
            repeated.problems[key] = Finding("missing", "data", _absent(record), "stored", "no data")
        else:
            repeated.skipped[key] = f"no {record.dataset.name} data here"
    return list(plan.values())


def _failed(what: str, message: str) -> Finding:
    return Finding("failed", what, message, "stored", "failed")


def _absent(record: Result) -> str:
    names = list(record.dataset.files)
    listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    return f"missing: the data of {record.task} {record.subset} are not there ({listed})"


class _Sets:
    """The sets of the data directory and of the bundled sample, looked up once a task; and their items."""

    def __init__(self, data: DataDir | None, items: Items):
        self._data, self.items = data, items
        self._sources: dict[tuple[str, bool], dict[str, Source]] = {}

    def find(self, task: Task, record: Result) -> Source | None:
        """The set of a record. Raises InputError if a set of the task lacks a file."""
        return self._present(task, _is_sample(record)).get(record.subset)

    def has(self, record: Result) -> bool:
        """Whether something of each data set that a record is of is here: then its set is not just elsewhere."""
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

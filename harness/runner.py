"""The runner: encoder x task x subset; each distinct sentence encoded once, each result stored once it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from hashlib import sha256
from math import isfinite
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from harness import provenance
from harness.cache import EncoderVectors, VectorCache
from harness.data import DataDir, Source
from harness.encoder import Encoder
from harness.errors import HarnessError, InputError, LanguageError, VectorError, unknown_name
from harness.names import Subset, check_name
from harness.results import Dataset, Failure, Hardware, Identity, Result, ResultStore, mean_metrics, name_taken
from harness.rows import drop_rows, has_rows, rows_folder, save_rows
from harness.significance.store import StatisticsStore
from harness.tasks import Rows, Task


class Progress(Protocol):
    """Who wants to know how far a run is."""

    def note(self, message: str) -> None:
        """Something worth saying that is neither a result nor a failure."""

    def start(self, encoder: str, n_subsets: int) -> None:
        """An encoder is loaded and has so many subsets to do."""

    def encoding(self, task: str, subset: str, done: int, total: int) -> None:
        """So many of a subset's new sentences are encoded."""

    def finish(self, result: Result, metric: str, was_stored: bool) -> None:
        """A subset is done, or was by an earlier run; `metric` names its main score."""

    def fail(self, encoder: str, task: str, subset: str, error: Exception) -> None:
        """A subset failed."""


class Silent:
    """Progress that nobody watches."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


@dataclass(frozen=True)
class Planned:
    """One task and the subsets of it that a run will do."""

    task: Task
    sources: list[Source]


def make_plan(tasks: Sequence[Task], data: DataDir, subsets: Sequence[str] = ()) -> list[Planned]:
    """What to run: every subset that is in `data`, or those that the names in `subsets` stand for.

    Raises:
        InputError: a name that stands for nothing in the data (with what is missing, or the nearest matches).
    """
    found = {task.name: task.sources(data) for task in tasks}
    if not subsets:
        return [Planned(task, list(found[task.name].values())) for task in tasks if found[task.name]]
    chosen: dict[str, dict[str, Source]] = {task.name: {} for task in tasks}
    for name in subsets:
        missing: list[str] | None = None
        is_there = False
        for task in tasks:
            names = (name,) if name in found[task.name] else _resolve(task, name)
            absent = [part for part in names if part not in found[task.name]]
            if names and not absent:
                is_there = True
                chosen[task.name] |= {part: found[task.name][part] for part in names}
            elif names and (names != (name,) or Subset.parse(name).base in task.published):
                missing = absent
        if not is_there:
            published = {name for task in tasks for name in task.published}
            raise _absent(name, missing, found, published)
    ordered = {task.name: [s for key, s in found[task.name].items() if key in chosen[task.name]] for task in tasks}
    return [Planned(task, ordered[task.name]) for task in tasks if ordered[task.name]]


def _resolve(task: Task, name: str) -> tuple[str, ...]:
    try:
        return task.resolve(name)
    except InputError:  # not a name that this task knows; another task may
        return ()


def _absent(
    name: str, missing: list[str] | None, found: dict[str, dict[str, Source]], published: set[str]
) -> InputError:
    present = {subset for sources in found.values() for subset in sources}
    if missing is None:
        return unknown_name("subset", name, present | published)
    bases = {Subset.parse(part).base for part in missing}
    stand_ins = sorted(subset for subset in present if Subset.parse(subset).base in bases)
    listed = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
    hint = f"; there is {', '.join(stand_ins[:8])}" if stand_ins else "; see `leaderboard data status`"
    return InputError(f"subset {name!r} is not in the data ({listed} missing){hint}")


def no_data(tasks: Sequence[Task], data: DataDir) -> InputError:
    """The error for a plan with nothing in it."""
    names = " or ".join(task.name for task in tasks)
    if data.stand_in:
        return InputError(f"the bundled sample has no data set of {names}; give --data-dir or set HARNESS_DATA")
    return InputError(f"no data set of {names} found in {data.root}; see `leaderboard data status`")


def check_data(plan: Sequence[Planned]) -> None:
    """Read all that is planned once, so that a bad line is met before hours of encoding. Raises InputError."""
    for planned in plan:
        for source in planned.sources:
            planned.task.load(source)


def absent_sets(tasks: Sequence[Task], data: DataDir) -> dict[str, list[str]]:
    """By task, the published subsets that are not in the data directory."""
    absent = {}
    for task in tasks:
        found = task.sources(data)
        if missing := [name for name in task.published if name not in found]:
            absent[task.name] = missing
    return absent


@dataclass
class Run:
    """Runs planned tasks for one encoder after another.

    Attributes:
        cache: where vectors are kept.
        store: where results are kept; None keeps them nowhere.
        fresh: measure again what is stored (vectors still come from the cache).
        save_rows: keep the per-item rows as "npz", "jsonl" or "parquet", and measure again a stored subset without
            them; by default they are kept as "npz" of what is measured anyway.
        progress: who wants to know.
        replace: remove what is stored under an encoder's name if it is of other weights or options (all of it, in one
            step, when the first new subset is there); without, such an encoder is refused.
        failures: what failed so far.
    """

    cache: VectorCache
    store: ResultStore | None = None
    fresh: bool = False
    save_rows: str | None = None
    progress: Progress = field(default_factory=Silent)
    replace: bool = False
    failures: list[Failure] = field(default_factory=list)
    _is_outdated: bool = field(default=False, init=False)

    def __call__(
        self, encoder: Encoder, plan: Sequence[Planned], *, spec: str = "", modules: Sequence[str] = ()
    ) -> list[Result]:
        """Measure one encoder; returns the results of the plan, those of earlier runs and averages included.

        An error of the encoder's own, a language that it cannot take among them, fails one subset and is kept in
        `failures`; vectors that are none fail what is left of the encoder. Any other HarnessError (bad data, a full
        disk) ends the run. What was measured before is stored in each case.

        spec, modules: for the records: what names the encoder, and the Python modules that it runs on.

        Raises:
            NameTakenError: results of other weights or options are stored under its name, and not `replace`.
        """
        check_name(encoder.name, "encoder")
        others = self.store.others(encoder.name, encoder.fingerprint) if self.store else []
        if others and not self.replace:  # said before anything is measured, and looked at again when it is stored
            raise name_taken(others[0], encoder.fingerprint)
        self._is_outdated = bool(others)
        with self.cache.of(encoder) as vectors:
            return self._all(encoder, vectors, plan, spec, modules)

    def _all(
        self, encoder: Encoder, vectors: EncoderVectors, plan: Sequence[Planned], spec: str, modules: Sequence[str]
    ) -> list[Result]:
        self.progress.start(encoder.name, sum(len(planned.sources) for planned in plan))
        results: list[Result] = []
        for task, source in [(planned.task, source) for planned in plan for source in planned.sources]:
            try:
                results.append(self._one(encoder, vectors, task, source, spec, modules))
            except Exception as error:
                if isinstance(error, HarnessError) and not isinstance(error, VectorError | LanguageError):
                    raise
                self.failures.append(Failure(encoder.name, task.name, source.subset, error))
                self.progress.fail(*self.failures[-1])
                if isinstance(error, VectorError):
                    break
        return results + [average for planned in plan for average in self._averages(planned.task, results)]

    def _one(
        self,
        encoder: Encoder,
        vectors: EncoderVectors,
        task: Task,
        source: Source,
        spec: str,
        modules: Sequence[str],
    ) -> Result:
        stored = self._stored(identity_of(encoder, task, source))
        if stored is not None:
            self.progress.finish(stored, task.main_metric, True)
            return stored
        result, rows = _measure(encoder, vectors, task, source, spec, modules, self.progress)
        if self.store:
            with self.store.storing(encoder.name, encoder.fingerprint, replace=self.replace) as n_removed:
                folder = rows_folder(self.store.root, result.key)
                drop_rows(folder, source.subset)  # of an earlier measurement
                save_rows(folder, source.subset, rows, self.save_rows or "npz")
                self.store.merge([result], partial(averages_of, task))
            self._is_outdated = False
            if n_removed:
                StatisticsStore(self.store.root).forget(encoder.name)
                self.progress.note(f"{encoder.name}: {n_removed} stored results of other weights or options replaced")
        self.progress.finish(result, task.main_metric, False)
        return result

    def _stored(self, wanted: Identity) -> Result | None:
        """The record of an earlier run, if it measures the same and, where rows are wanted, they are there too."""
        if self.store is None or self.fresh or self._is_outdated:
            return None
        if self.save_rows and not has_rows(rows_folder(self.store.root, wanted.key), wanted.subset, self.save_rows):
            return None
        stored = self.store.load(wanted.encoder, wanted.task)
        return next((result for result in stored if result.identity == wanted), None)

    def _averages(self, task: Task, results: Sequence[Result]) -> list[Result]:
        """The averages to which a run's results belong, completed by those of earlier runs."""
        own = [result for result in results if result.task == task.name]
        if not own:
            return []
        together = {r.subset: r for r in (self.store.load(own[0].encoder, task.name) if self.store else [])}
        together.update({result.subset: result for result in own})
        done = {result.subset for result in own}
        return [average for average in averages_of(task, list(together.values())) if done.intersection(average.parts)]


def identity_of(encoder: Encoder, task: Task, source: Source) -> Identity:
    """What a measurement of this encoder on this set would be of."""
    return Identity(
        encoder.name,
        encoder.fingerprint,
        task.name,
        task.version,
        source.subset,
        task.full_signature,
        source.sha256,
    )


def _measure(
    encoder: Encoder,
    vectors: EncoderVectors,
    task: Task,
    source: Source,
    spec: str,
    modules: Sequence[str],
    progress: Progress,
) -> tuple[Result, Rows]:
    start = time.perf_counter()
    items = task.load(source)
    n_distinct, seconds = 0, 0.0
    zero: set[str] = set()

    def encode(sentences: Sequence[str], lang: str | None) -> NDArray[np.float32]:
        nonlocal n_distinct, seconds
        encoded = vectors.encode(
            sentences, lang, lambda done, total: progress.encoding(task.name, source.subset, done, total)
        )
        n_distinct, seconds = n_distinct + encoded.n_distinct, seconds + encoded.seconds
        zero.update(sentences[i] for i in np.flatnonzero(~encoded.vectors.any(axis=1)).tolist())
        return encoded.vectors

    rows = task.rows(items, encode)
    metrics = task.aggregate(rows)
    for name, value in metrics.items():
        if not isfinite(value):
            raise ValueError(f"task {task.name!r} gives {name} = {value}")
    result = Result(
        task=task.name,
        task_version=task.version,
        subset=source.subset,
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        spec=spec,
        signature=task.full_signature,
        dataset=Dataset(source.dataset, source.sha256, source.checksums, source.is_published),
        metrics={name: round(metrics[name], 6) for name in task.metrics if name in metrics},
        n=task.count(items),
        zero_vectors=len(zero),
        versions=provenance.versions(modules),
        git=provenance.git_state(),
        hardware=_hardware(encoder),
        wall_time_s=round(time.perf_counter() - start, 3),
        sentences_per_s=round(n_distinct / seconds, 1) if seconds > 0 else None,
        created=_now(),
    )
    return result, rows


def _hardware(encoder: Encoder) -> Hardware:
    return {**provenance.hardware(), "device": str(getattr(encoder, "device", "cpu"))}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def averages_of(task: Task, results: Sequence[Result]) -> list[Result]:
    """The averages that the results of one encoder and task make complete, each over one fingerprint and protocol."""
    averages = []
    for fingerprint in dict.fromkeys(result.fingerprint for result in results):
        alike = [r for r in results if r.fingerprint == fingerprint and r.signature == task.full_signature]
        single = {result.subset: result for result in alike if not result.parts}
        averages += [_average(name, [single[part] for part in parts]) for name, parts in task.averages(single).items()]
    return averages


def _all_published(flags: Sequence[bool | None]) -> bool | None:
    return False if False in flags else None if None in flags else True


def _average(name: str, parts: Sequence[Result]) -> Result:
    listing = "".join(f"{part.dataset.sha256}  {part.subset}\n" for part in parts)
    return replace(
        parts[0],
        subset=name,
        metrics=mean_metrics(parts),
        n=sum(part.n for part in parts),
        dataset=Dataset(
            name="+".join(dict.fromkeys(part.dataset.name for part in parts)),
            sha256=sha256(listing.encode()).hexdigest(),
            files={key: value for part in parts for key, value in part.dataset.files.items()},
            published=_all_published([part.dataset.published for part in parts]),
        ),
        parts=[part.subset for part in parts],
        zero_vectors=sum(part.zero_vectors for part in parts),
        wall_time_s=round(sum(part.wall_time_s for part in parts), 3),
        sentences_per_s=None,
        created=max(part.created for part in parts),
        tolerance={},  # `leaderboard check` derives it from the parts
    )

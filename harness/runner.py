"""The runner: encoder x task x subset; each distinct sentence encoded once, each result stored once it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness import provenance
from harness.cache import EncoderVectors, VectorCache
from harness.data import DataDir, Source
from harness.encoder import Encoder
from harness.errors import HarnessError, InputError, unknown_name
from harness.results import Result, ResultStore
from harness.rows import save_rows
from harness.tasks import Rows, Task
from harness.tasks.task import mean_of, split_tag


class Progress(Protocol):
    """Who wants to know how far a run is."""

    def note(self, message: str) -> None:
        """Something worth saying that is neither a result nor a failure."""

    def start(self, encoder: str, n_subsets: int) -> None:
        """An encoder is loaded and has so many subsets to do."""

    def encoding(self, task: str, subset: str, done: int, total: int) -> None:
        """So many of a subset's new sentences are encoded."""

    def finish(self, result: Result, was_stored: bool) -> None:
        """A subset is done; or its result was stored by an earlier run."""

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
            names = _resolve(task, name)
            absent = [part for part in names if part not in found[task.name]]
            if names and not absent:
                is_there = True
                chosen[task.name] |= {part: found[task.name][part] for part in names}
            elif names and (names != (name,) or split_tag(name)[0] in task.published):
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
    bases = {split_tag(part)[0] for part in missing}
    stand_ins = sorted(subset for subset in present if split_tag(subset)[0] in bases)
    listed = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
    hint = f"; there is {', '.join(stand_ins[:8])}" if stand_ins else "; see `leaderboard data status`"
    return InputError(f"subset {name!r} is not in the data ({listed} missing){hint}")


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
        save_rows: write the per-item rows; "parquet", "jsonl" or None.
        progress: who wants to know.
        failures: (encoder, task, subset, error) of what failed so far.
    """

    cache: VectorCache
    store: ResultStore | None = None
    fresh: bool = False
    save_rows: str | None = None
    progress: Progress = field(default_factory=Silent)
    failures: list[tuple[str, str, str, Exception]] = field(default_factory=list)

    def __call__(self, encoder: Encoder, plan: Sequence[Planned], *, spec: str = "") -> list[Result]:
        """Measure one encoder; returns the results of the plan, those of earlier runs and averages included.

        An error of the encoder's own fails one subset and is kept in `failures`; a HarnessError (bad data, bad
        vectors) ends the run. What was measured before is stored in either case.
        """
        vectors = self.cache.of(encoder)
        self.progress.start(encoder.name, sum(len(planned.sources) for planned in plan))
        results = []
        for planned in plan:
            task = planned.task
            stored = {r.subset: r for r in self.store.load(encoder.name, task.name)} if self.store else {}
            for source in planned.sources:
                try:
                    result = self._one(encoder, vectors, task, source, stored.get(source.subset), spec)
                except HarnessError:
                    raise
                except Exception as error:
                    self.failures.append((encoder.name, task.name, source.subset, error))
                    self.progress.fail(encoder.name, task.name, source.subset, error)
                    continue
                stored[source.subset] = result
                results.append(result)
            averages = _averages(task, [r for r in stored.values() if r.fingerprint == encoder.fingerprint])
            new = [a for a in averages if not _same_average(a, stored.get(a.subset))]
            if self.store and new:
                self.store.merge(new)
            done = {result.subset for result in results if result.task == task.name}
            results += [average for average in averages if done.intersection(average.parts)]
        return results

    def _one(
        self, encoder: Encoder, vectors: EncoderVectors, task: Task, source: Source, stored: Result | None, spec: str
    ) -> Result:
        blank = _blank(encoder, task, source, spec)
        rows_there = self.save_rows is None
        if stored is not None and not self.fresh and rows_there and stored.measures_same_as(blank):
            self.progress.finish(stored, True)
            return stored
        result, rows = _measure(blank, encoder, vectors, task, source, self.progress)
        if self.store:
            if self.save_rows:
                save_rows(self.store.root / "rows" / encoder.name / task.name, source.subset, rows, self.save_rows)
            self.store.merge([result])
        self.progress.finish(result, False)
        return result


def _blank(encoder: Encoder, task: Task, source: Source, spec: str) -> Result:
    """The record of a measurement that is still to be made."""
    return Result(
        task=task.name,
        task_version=task.version,
        subset=source.subset,
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        spec=spec,
        metrics={},
        n=0,
        signature=task.full_signature,
        dataset={"name": source.dataset, "sha256": source.sha256, "files": source.checksums},
    )


def _measure(
    blank: Result, encoder: Encoder, vectors: EncoderVectors, task: Task, source: Source, progress: Progress
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
    result = replace(
        blank,
        metrics={name: round(metrics[name], 6) for name in task.metrics if name in metrics},
        n=task.count(items),
        zero_vectors=len(zero),
        versions=provenance.versions(),
        git=provenance.git_state(),
        hardware=_hardware(encoder),
        wall_time_s=round(time.perf_counter() - start, 3),
        sentences_per_s=round(n_distinct / seconds, 1) if seconds > 0 else None,
        peak_memory_mb=provenance.peak_memory_mb(),
        created=_now(),
    )
    return result, rows


def _hardware(encoder: Encoder) -> dict[str, Any]:
    return {**provenance.hardware(), "device": str(getattr(encoder, "device", "cpu"))}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _averages(task: Task, results: Sequence[Result]) -> list[Result]:
    """The averages that these results make complete, each over results of one protocol."""
    single = {r.subset: r for r in results if not r.parts and r.signature == task.full_signature}
    averages = []
    for name, parts in task.averages(single).items():
        of = [single[part] for part in parts]
        checksums = {part.subset: part.dataset["sha256"] for part in of}
        listing = "".join(f"{digest}  {subset}\n" for subset, digest in checksums.items())
        averages.append(
            replace(
                of[0],
                subset=name,
                metrics={key: round(value, 6) for key, value in mean_of([part.metrics for part in of]).items()},
                n=sum(part.n for part in of),
                dataset={
                    "name": "+".join(dict.fromkeys(part.dataset["name"] for part in of)),
                    "sha256": sha256(listing.encode()).hexdigest(),
                    "files": {key: value for part in of for key, value in part.dataset["files"].items()},
                },
                parts=list(parts),
                zero_vectors=sum(part.zero_vectors for part in of),
                wall_time_s=round(sum(part.wall_time_s for part in of), 3),
                sentences_per_s=None,
                peak_memory_mb=max(part.peak_memory_mb for part in of),
                created=max(part.created for part in of),
            )
        )
    return averages


def _same_average(new: Result, old: Result | None) -> bool:
    return old is not None and new.measures_same_as(old) and new.metrics == old.metrics and new.parts == old.parts

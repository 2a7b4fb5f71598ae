"""The Python API, which reads like the command line: `evaluate(encoder, tasks)`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cache import VectorCache
from harness.data import DataDir, bundled_sample, open_data_dir
from harness.encoder import Encoder
from harness.errors import HarnessError, InputError, NameTakenError
from harness.registry import check_spec, encoder_info, encoder_names, load_encoder, missing_attributes, one_line
from harness.results import Failure, RecordKey, Result, ResultStore
from harness.runner import Progress, Run, Silent, absent_sets, check_data, make_plan, no_data
from harness.significance.update import update_statistics
from harness.spec import Spec
from harness.tasks import Task, get_task, task_names


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

    @property
    def has_finished_one(self) -> bool:
        """Whether an encoder was measured without any failure."""
        failed = {failure.encoder for failure in self.failures}
        return any(result.encoder not in failed for result in self.results)


def evaluate(
    encoder: str | Encoder,
    tasks: str | Task | Sequence[str | Task] | None = None,
    *,
    subsets: str | Sequence[str] = (),
    data_dir: str | Path | None = None,
    results: str | Path | None = None,
    cache_dir: str | Path | None = None,
    fresh: bool = False,
    replace: bool = False,
    save_rows: str | None = None,
    device: str | None = None,
    batch_size: int | None = None,
) -> list[Result]:
    """Measure one encoder.

    Args:
        encoder: a spec string (`sentence-transformers:DIR-or-HUB-ID`, say), or anything that follows the `Encoder`
            protocol.
        tasks: a task, its name, or several; all by default.
        subsets: a subset, language or group, or several; all that are found by default.
        data_dir: folder with the data sets; `$HARNESS_DATA` by default, else the bundled sample.
        results: folder in which results are stored, and looked up; by default they are only returned.
        cache_dir: folder for vectors; `$HARNESS_CACHE` by default, else the user's cache folder.
        fresh: measure again what is stored.
        replace: remove all results of the encoder's name if they are of other weights or options (else: refused).
        save_rows: "npz", "jsonl" or "parquet": keep the per-item rows below `results` in this format, and measure again
            what is stored without them; by default they are kept as "npz" of what is measured anyway.
        device, batch_size: for encoders that are named and have such options.

    Returns:
        One result a subset, and the averages that they complete.

    Raises:
        HarnessError: bad data, an unknown name, a missing package, vectors that are no vectors.
        RuntimeError: the encoder failed on a subset (its own error is the cause).
    """
    if not isinstance(encoder, str):
        _check_encoder(encoder)
    if results:
        _check_folder(Path(results))
    names = [subsets] if isinstance(subsets, str) else subsets
    plan = make_plan(_tasks(tasks, Silent()), choose_data(data_dir), names)
    check_data(plan)
    store = ResultStore(results) if results else None
    run = Run(VectorCache(cache_dir), store, fresh, save_rows, replace=replace)
    if isinstance(encoder, str):
        spec = check_spec(encoder)
        modules = encoder_info(spec.head).modules
        loaded = load_encoder(spec, device=device, batch_size=batch_size)
        found = run(loaded, plan, spec=str(spec), modules=modules)
    else:
        found = run(encoder, plan)
    if store:
        update_statistics(store, [planned.task for planned in plan])
    for name, task, subset, error in run.failures:
        if isinstance(error, HarnessError):
            raise error
        raise RuntimeError(f"encoder {name!r} failed on {task} {subset}: {error}") from error
    return found


def run_suite(
    encoders: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    subsets: Sequence[str] = (),
    *,
    suite: str | None = None,
    data_dir: Path | None = None,
    results: Path,
    cache_dir: Path | None = None,
    fresh: bool = False,
    replace: bool = False,
    save_rows: str | None = None,
    progress: Progress | None = None,
    **defaults: Any,
) -> Outcome:
    """Measure several encoders, by default all that are ready here; see `evaluate` for the options.

    suite: "paper" wants a data directory, "sample" takes the bundled sample; by default the sample is taken only
    where no data directory is given.

    Raises:
        HarnessError: an encoder, task or subset that does not exist or bad data, before anything is measured; a disk
            that is full. An encoder that fails, in whatever way, is kept in the outcome's failures.
    """
    progress = progress or Silent()
    _check_folder(results)
    data = choose_data(data_dir, suite)
    chosen_tasks = _tasks(tasks, progress)
    plan = make_plan(chosen_tasks, data, subsets)
    specs = [check_spec(text) for text in encoders] if encoders else _ready(progress)
    _refuse_equal_names(specs)
    if data.stand_in:
        progress.note(f"measuring on the bundled sample (no data directory); its scores are tagged @{data.stand_in}")
    elif not subsets:
        for task, names in absent_sets(chosen_tasks, data).items():
            listed = " ".join(names[:12]) + (" ..." if len(names) > 12 else "")
            progress.note(f"not in the data directory: {task} {listed}")
    if not plan:
        raise no_data(chosen_tasks, data)
    check_data(plan)
    for source in [source for planned in plan for source in planned.sources if source.is_published is False]:
        progress.note(f"warning: {source.dataset} {source.subset}: not the published files; `leaderboard data verify`")
    store = ResultStore(results)
    run = Run(VectorCache(cache_dir), store, fresh, save_rows, progress, replace)
    outcome = Outcome()
    for spec in specs:
        try:
            encoder = load_encoder(spec, **defaults)
        except KeyboardInterrupt:
            raise
        except BaseException as caught:  # one encoder may fail in any way, by sys.exit too, and the others go on
            error = caught if isinstance(caught, Exception) else RuntimeError(one_line(caught))
            outcome.failures.append(Failure(spec.stored_name, "", "", error))
            progress.fail(spec.stored_name, "loading", "", error)
            continue
        try:
            outcome.results += run(encoder, plan, spec=str(spec), modules=encoder_info(spec.head).modules)
        except NameTakenError as error:
            outcome.failures.append(Failure(encoder.name, "", "", error))
            progress.fail(encoder.name, "storing", "", error)
    update_statistics(store, [planned.task for planned in plan], progress=progress)
    outcome.failures += run.failures
    return outcome


def choose_data(data_dir: str | Path | None = None, suite: str | None = None) -> DataDir:
    """The data directory that is given, by `$HARNESS_DATA` if need be; else the bundled sample."""
    if suite == "sample":
        return bundled_sample()
    path = data_dir or os.environ.get("HARNESS_DATA")
    if path:
        return open_data_dir(path)
    if suite == "paper":
        raise InputError("--suite paper needs the data: give --data-dir or set HARNESS_DATA")
    return bundled_sample()


def _check_encoder(encoder: object) -> None:
    """Refuse another library's model, before anything is measured in vain."""
    lacks = ([] if hasattr(encoder, "name") else ["name"]) + missing_attributes(encoder)
    if isinstance(encoder, type):
        what = f"{encoder.__name__} is a class, no encoder"
    elif lacks:
        what = f"{type(encoder).__name__} is no encoder, it lacks {', '.join(lacks)}"
    else:
        return
    raise InputError(
        f"{what}; give a spec string such as 'sentence-transformers:DIR-or-HUB-ID', or an object with name, "
        "fingerprint, dim, uses_lang and encode"
    )


def _check_folder(results: Path) -> None:
    """Refuse a file in the place of the results folder, before anything is measured in vain."""
    for path in (results, *results.parents):
        if path.is_file():
            raise InputError(f"{path}: cannot be written (a file, not a folder); name another folder for the results")


def _tasks(tasks: str | Task | Sequence[str | Task] | None, progress: Progress) -> list[Task]:
    """The tasks that are asked for; by default all that can be imported."""
    if isinstance(tasks, str | Task):
        tasks = [tasks]
    if tasks:
        return [task if isinstance(task, Task) else get_task(task) for task in tasks]
    found = []
    for name in task_names():
        try:
            found.append(get_task(name))
        except HarnessError as error:  # another's package, which must not stop ours
            progress.note(f"warning: {error}")
    return found


def _ready(progress: Progress) -> list[Spec]:
    """The aliases that run on this machine as it is."""
    ready = []
    for name in encoder_names():
        try:
            if encoder_info(name).is_ready:
                ready.append(Spec(name))
        except HarnessError as error:
            progress.note(f"warning: {error}")
    if not ready:
        raise InputError("no encoder is ready on this machine; see `leaderboard encoders`")
    return ready


def _refuse_equal_names(specs: Sequence[Spec]) -> None:
    by_name: dict[str, Spec] = {}
    for spec in specs:
        other = by_name.setdefault(spec.stored_name, spec)
        if other is not spec:
            raise InputError(f"{other} and {spec} would be stored under one name; add name=... to one of them")

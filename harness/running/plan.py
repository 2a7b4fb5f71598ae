"""What to run: tasks, the subsets that are in the data, and their items, each set read once; and progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.core.errors import HarnessError, InputError, unknown_name
from harness.core.names import Subset
from harness.data import DataDir, Source, bundled_sample, open_data_dir
from harness.data.languages import standard_language
from harness.data.own import own_layout
from harness.mining import Progress as Search
from harness.protocol import get_task, task_names
from harness.protocol.languages import chosen_languages, is_on, languages_of_source
from harness.protocol.task import Planned, Task
from harness.results.records import Identity, Result

_KEPT_BYTES = 64 << 20  # of files, whose sentences then take three times as much memory


@dataclass
class Queue:
    """How far pieces are that are encoded elsewhere, over all workers.

    Attributes:
        done, total: pieces.
        sentences, all_sentences: of these.
        redone: how often a piece had to be done once more.
        seconds: that this has taken.
        places: for pieces at a time.
    """

    done: int = 0
    total: int = 0
    sentences: int = 0
    all_sentences: int = 0
    redone: int = 0
    seconds: float = 0.0
    places: int = 1

    @property
    def sentences_per_s(self) -> float:
        """The speed so far."""
        return self.sentences / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float:
        """By the speed so far."""
        return (self.all_sentences - self.sentences) / self.sentences_per_s if self.sentences_per_s else float("inf")


class Progress(Protocol):
    """What is told how far a run is."""

    def note(self, message: str) -> None:
        """Something worth saying that is neither a result nor a failure."""

    def start(self, encoder: str, n_subsets: int) -> None:
        """An encoder is loaded and has so many subsets to do."""

    def encoding(self, task: str, subset: str, done: int, total: int) -> None:
        """So many of a subset's new sentences are encoded."""

    def queue(self, queue: Queue) -> None:
        """A piece was done by a worker."""

    def searching(self, search: Search) -> None:
        """How far workers are that search for neighbours."""

    def finish(self, result: Result, metric: str, was_stored: bool) -> None:
        """A subset is done, or was by an earlier run; `metric` names its main score."""

    def fail(self, encoder: str, task: str, subset: str, error: Exception) -> None:
        """A subset failed."""


class Silent:
    """Progress that nobody watches."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None


def make_plan(
    tasks: Sequence[Task], data: DataDir, subsets: Sequence[str] = (), languages: Sequence[str] = ()
) -> list[Planned]:
    """What to run: every subset that is in `data`, or those that the names in `subsets` stand for.

    languages: if given, only sets in these languages and English (see `harness.protocol.languages`).

    Raises:
        InputError: a name that stands for nothing in the data (with what is missing, or the nearest matches); a code
            that no language has.
    """
    present = {task.name: task.sources(data) for task in tasks}
    if (codes := chosen_languages(languages)) is not None:
        for task in tasks:
            sources = present[task.name].items()
            present[task.name] = {name: s for name, s in sources if is_on(languages_of_source(task, s), codes)}
    chosen: dict[str, set[str]] = {name: set() if subsets else set(sources) for name, sources in present.items()}
    for name in subsets:
        parts = {task.name: _resolve(task, name, present[task.name]) for task in tasks}
        complete = [key for key, names in parts.items() if names and present[key].keys() >= set(names)]
        if not complete:
            raise _not_there(name, tasks, parts, present)
        for task_name in complete:
            chosen[task_name].update(parts[task_name])
    plan = [Planned(t, [s for key, s in present[t.name].items() if key in chosen[t.name]]) for t in tasks]
    return [planned for planned in plan if planned.sources]


def _resolve(task: Task, name: str, present: Mapping[str, Source]) -> tuple[str, ...]:
    """The subsets that a name stands for, there or not; none if it is not a name that this task knows."""
    try:
        return (name,) if name in present else task.averages(present).get(name) or task.resolve(name)
    except InputError:
        return ()


def _not_there(
    name: str,
    tasks: Sequence[Task],
    parts: Mapping[str, Sequence[str]],
    present: Mapping[str, Mapping[str, Source]],
) -> InputError:
    missing: list[str] = []
    for task in tasks:
        names = parts[task.name]
        if names and (tuple(names) != (name,) or Subset.parse(name).base in task.published):
            missing = [part for part in names if part not in present[task.name]]
    subsets = {subset for sources in present.values() for subset in sources}
    if not missing:
        return unknown_name("subset", name, subsets.union(*(task.published for task in tasks)))
    bases = {Subset.parse(part).base for part in missing}
    stand_ins = sorted(subset for subset in subsets if Subset.parse(subset).base in bases)
    listed = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
    hint = f"; there is {', '.join(stand_ins[:8])}" if stand_ins else "; see `leaderboard data status`"
    return InputError(f"subset {name!r} is not in the data ({listed} missing){hint}")


def absent_sets(tasks: Sequence[Task], data: DataDir) -> dict[str, list[str]]:
    """By task, the published subsets that are not in the data directory."""
    present = {task.name: task.sources(data) for task in tasks}
    absent = {task.name: [name for name in task.published if name not in present[task.name]] for task in tasks}
    return {task: names for task, names in absent.items() if names}


class Items:
    """The items of the sets of a run, which are all read before anything is encoded: bad data costs no hours of work.

    Each set is parsed once; but large ones (of BUCC, say) are read again when they are measured, since they would take
    gigabytes of memory for as long as the run.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Source], Any] = {}
        self._left = _KEPT_BYTES

    def read(self, plan: Sequence[Planned], progress: Progress | None = None) -> None:
        """Read all that is planned, and say what of it will not be measured. Raises InputError at bad data."""
        for task, source in sets_of(plan):
            items = self.of(task, source)
            for what, n in task.left_out(items).items():
                (progress or Silent()).note(f"{task.name} {source.subset}: {n:,} {what} left out")
            for text in task.remarks(items):
                (progress or Silent()).note(f"{task.name} {source.subset}: {text}")

    def of(self, task: Task, source: Source) -> Any:
        """The items of one set. Raises InputError at bad data."""
        if (task.name, source) in self._kept:
            return self._kept[task.name, source]
        items = task.load(source)
        _ = source.sha256  # computed now: a record names the content that was read
        n_bytes = sum(path.stat().st_size for path in source.files)
        if n_bytes <= self._left:
            self._left -= n_bytes
            self._kept[task.name, source] = items
        return items


def sets_of(plan: Sequence[Planned]) -> list[tuple[Task, Source]]:
    """The planned sets, one after another."""
    return [(planned.task, source) for planned in plan for source in planned.sources]


def identity_of(encoder: str, fingerprint: str, task: Task, source: Source) -> Identity:
    """What a measurement of an encoder on this set is of."""
    return Identity(
        encoder, fingerprint, task.name, task.version, source.subset, task.signature_on(source), source.sha256
    )


def plan_sets(
    tasks: Sequence[Task],
    data: DataDir,
    subsets: Sequence[str] = (),
    progress: Progress | None = None,
    languages: Sequence[str] = (),
) -> list[Planned]:
    """What to measure (see `make_plan`); says what of the published data is not there.

    Raises:
        InputError: there is nothing, or a name stands for nothing.
    """
    progress = progress or Silent()
    plan = make_plan(tasks, data, subsets, languages)
    without = _without_sets(plan, languages)
    if languages and len(without) == len(languages) and (plan or make_plan(tasks, data, subsets)):
        names = " or ".join(task.name for task in tasks)
        raise InputError(f"there is no set of {names} on {' or '.join(languages)} alone (English may be with it)")
    if without:
        progress.note(f"no set on {' '.join(without)}")
    if not plan:
        names = " or ".join(task.name for task in tasks)
        if data.sets:
            raise InputError(f"none of the given sets is for {names}; leave --task out")
        if tasks and all(task.is_own for task in tasks):
            raise InputError(f"{names}: for data sets of your own; give --pairs, --scored, --beir or --sets")
        if data.stand_in:
            raise InputError(f"the bundled sample has no data set of {names}; give --data-dir or set HARNESS_DATA")
        own = f"{data.root} holds {found}" if (found := own_layout(data.root)) else ""
        known = any(task.published for task in tasks)
        remedy = "see `leaderboard data status`" if known else "give a --data-dir that has one"
        raise InputError(f"no data set of {names} found in {data.root}; {own or remedy}")
    if data.stand_in:
        progress.note(f"the bundled sample is used; its sets are tagged @{data.stand_in}")
    elif not (subsets or languages or data.sets):
        for task, absent in absent_sets(tasks, data).items():
            listed = " ".join(absent[:12]) + (" ..." if len(absent) > 12 else "")
            progress.note(f"not in the data directory: {task} {listed}")
    return plan


def _without_sets(plan: Sequence[Planned], languages: Sequence[str]) -> list[str]:
    """Those of the languages that no planned set is on."""
    present = {code for task, source in sets_of(plan) for code in languages_of_source(task, source)}
    return [code for code in languages if standard_language(code) not in present]


def choose_tasks(tasks: Sequence[str | Task] | None = None, progress: Progress | None = None) -> list[Task]:
    """The tasks that are asked for, each once; by default all that can be imported, with a warning of the others.

    Raises:
        InputError: there is no task of that name.
    """
    if tasks:
        chosen = [task if isinstance(task, Task) else get_task(task) for task in tasks]
        return list({task.name: task for task in chosen}.values())
    chosen = []
    for name in task_names():
        try:
            chosen.append(get_task(name))
        except HarnessError as error:  # another's package, which must not stop ours
            (progress or Silent()).note(f"warning: {error}")
    return chosen


def choose_data(data_dir: str | Path | DataDir | None = None, suite: str | None = None) -> DataDir:
    """The data directory that is given, by `$HARNESS_DATA` if need be; else the bundled sample."""
    if isinstance(data_dir, DataDir):
        return data_dir
    if suite == "sample":
        return bundled_sample()
    path = data_dir or os.environ.get("HARNESS_DATA")
    if path:
        return open_data_dir(path)
    if suite == "paper":
        raise InputError("--suite paper needs the data: give --data-dir or set HARNESS_DATA")
    return bundled_sample()

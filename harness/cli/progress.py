"""Progress of a run on stderr: lines for what is done, and in a terminal bars for what is being done."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from harness.cli import say
from harness.core.escaping import terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from harness.data.transfer import Progress as Download
    from harness.mining import Progress as Search
    from harness.results.records import Result
    from harness.running.plan import Queue

_SECONDS = 30.0  # between two lines on a search


@contextmanager
def watch() -> Iterator[Watcher]:
    """A watcher for the time of a `with` block."""
    if not sys.stderr.isatty():
        yield Watcher()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Watcher(bars)


@contextmanager
def download_bar(name: str) -> Iterator[Download | None]:
    """Shows in a terminal how far the downloads of a `with` block are; gives what `fetch_set` tells of it, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(name, total=None)
        yield lambda file, done, total: bars.update(bar, description=file, completed=done, total=total)


class Watcher:
    """A `harness.running.plan.Progress` that prints a line for each subset that is done."""

    def __init__(self, bars: Bars | None = None):
        self._bars = bars
        if bars:
            self._subsets = bars.add_task("subsets", total=None, visible=False)
            self._sentences = bars.add_task("sentences", total=None, visible=False)
        self._done = self._total = 0
        self.backend = ""
        self._last_said = time.monotonic()

    def note(self, message: str) -> None:
        """Prints a message that is neither a result nor a failure."""
        self._print(message)

    def start(self, encoder: str, n_subsets: int) -> None:
        """An encoder is loaded and has `n_subsets` to do."""
        self._done, self._total = 0, n_subsets
        self._print(f"{encoder}: {n_subsets} subset{'' if n_subsets == 1 else 's'}")
        if self._bars:
            self._bars.update(self._subsets, description=encoder, completed=0, total=n_subsets, visible=True)

    def encoding(self, task: str, subset: str, done: int, total: int) -> None:
        """`done` of `total` new sentences of a subset are encoded."""
        if self._bars:
            name = f"{task} {subset}"
            self._bars.update(self._sentences, description=name, completed=done, total=total, visible=done < total)
        elif total > 20_000:
            self._print(f"  {task} {subset}: {done:,} of {total:,} sentences encoded")

    def queue(self, queue: Queue) -> None:
        """A piece was done by a worker: prints now and then how far all of them are."""
        is_done = queue.done == queue.total
        redone = f", {queue.redone} pieces redone" if queue.redone else ""
        line = f"{queue.sentences:,} of {queue.all_sentences:,} sentences, {queue.sentences_per_s:,.0f}/s{redone}"
        if not is_done:
            line += f", {timedelta(seconds=round(queue.seconds_left))} left"
        if self._bars:
            done, total = queue.sentences, queue.all_sentences
            self._bars.update(self._sentences, description=line, completed=done, total=total, visible=not is_done)
        if is_done or (not self._bars and time.monotonic() - self._last_said >= _SECONDS):
            self._last_said = time.monotonic()
            self._print(f"workers: {line}")

    def searching(self, search: Search) -> None:
        """Prints now and then how far a search for nearest neighbours is, and remembers its backend."""
        self.backend = search.backend
        if search.recall:
            self.note(f"approximate: {search.recall}")
        if search.done < search.total and time.monotonic() - self._last_said >= _SECONDS:
            self._last_said = time.monotonic()
            self.note(f"{search.done / search.total:.1%} of the similarities searched")

    def finish(self, result: Result, metric: str, was_stored: bool) -> None:
        """A subset is done, or was by an earlier run; `metric` names its main score."""
        value = result.metrics.get(metric, float("nan"))
        how = "stored" if was_stored else f"{result.wall_time_s:.1f} s"
        self._next(f"{result.task} {result.subset}: {metric} {value:.2f} ({how})")

    def fail(self, encoder: str, task: str, subset: str, error: Exception) -> None:
        """A subset failed; or, without one, the encoder could not be loaded."""
        why = f"FAILED for {encoder}: {type(error).__name__}: {' '.join(str(error).split())}"
        if os.environ.get("HARNESS_DEBUG"):
            traceback.print_exception(error)
        if subset:
            self._next(f"{task} {subset}: {why}")
        else:
            self._print(f"{task}: {why}")

    def _next(self, line: str) -> None:
        self._done += 1
        self._print(f"  [{self._done}/{self._total}] {line}")
        if self._bars:
            self._bars.update(self._subsets, completed=self._done)

    def _print(self, line: str) -> None:
        line = terminal(line)  # an encoder's messages hold what they like
        if self._bars:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            say(line)

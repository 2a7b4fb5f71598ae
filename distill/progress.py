"""Progress of a distillation on stderr: lines, and in a terminal a bar with loss, sentences/s and share of the run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli import progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

_LINES = 20  # of a training or of a long count, where there is no terminal
_WORTH_A_LINE = 20_000


@contextmanager
def watch() -> Iterator[Watcher]:
    """A watcher for the time of a `with` block."""
    if not sys.stderr.isatty():
        yield Watcher()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Watcher(bars)


class Watcher(progress.Watcher):
    """Tells what a distillation is doing. `is_silent` is for processes beside the first, on other GPUs."""

    def __init__(self, bars: Bars | None = None, *, is_silent: bool = False):
        super().__init__(bars)
        self._is_silent = is_silent
        self._counts: dict[str, tuple[Callable[[str, int, int | None], None], int]] = {}

    def note(self, message: str) -> None:
        """Something that is done, or worth knowing."""
        if not self._is_silent:
            super().note(message)

    def count(self, what: str, done: int, total: int | None) -> None:
        """So many of something are done, of `total`, which may not be known."""
        if what not in self._counts:
            self._counts[what] = self._shower(), -1
        show, last = self._counts[what]
        if total is None:
            show(f"{what}: {done:,}", done, None)
            return
        line = _LINES * done // max(total, 1)
        if line > last and total > _WORTH_A_LINE and not self._bars:
            self.note(f"{what}: {done:,} of {total:,}")
        self._counts[what] = show, line
        show(what, done, total)

    def training(self, first: int, total: int, sentences: int) -> Callable[[int, float], None]:
        """What is to be called after every step with its number and the loss.

        Args:
            first: steps that were taken before.
            total: steps in all.
            sentences: of a step.
        """
        show = self._shower()
        start = time.perf_counter()
        every = -(-total // _LINES)  # rounded up

        def step(number: int, loss: float) -> None:
            speed = sentences * (number - first) / max(time.perf_counter() - start, 1e-9)
            line = f"loss {loss:.4f}, {speed:,.0f} sentences/s"
            if not self._bars and (number % every == 0 or number == total):
                self.note(f"step {number:,} of {total:,} ({100 * number / total:.0f} %): {line}")
            show(line, number, total)

        return step

    def _shower(self) -> Callable[[str, int, int | None], None]:
        """A new bar, which goes when it is full."""
        bars = None if self._is_silent else self._bars
        if bars is None:
            return lambda text, done, total: None
        task = bars.add_task("", total=None, visible=False)

        def show(text: str, done: int, total: int | None) -> None:
            bars.update(task, description=text, completed=done, total=total, visible=total is None or done < total)

        return show

"""Progress of a mining job on stderr: how far it is, how fast, and how long all of it will still take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli import say
from harness.core.escaping import terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from harness.mining import Progress as Search

_SECONDS = 30.0  # between two lines
_SETTLED = 3.0  # seconds after which a stage's own speed counts, and not the plan
_SEARCH = 2  # the number of its stage, after those of the two sides


@contextmanager
def watch_mining() -> Iterator[MiningWatcher]:
    """A watcher for the time of a `with` block; with a bar in a terminal, else with a line every half a minute."""
    if not sys.stderr.isatty():
        yield MiningWatcher()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield MiningWatcher(bars)


class MiningWatcher:
    """A `harness.mining.job.Watcher`.

    Attributes:
        backend: that searches.
    """

    def __init__(self, bars: Bars | None = None, clock: Callable[[], float] = time.monotonic):
        self._bars, self._clock = bars, clock
        self._bar = bars.add_task("mining", total=1.0, visible=False) if bars else None
        self._planned = [0.0, 0.0, 0.0]  # seconds of the stages
        self._stage, self._began, self._begun_with = -1, clock(), 0.0
        self._first = self._last_said = clock()
        self.backend = ""

    @property
    def results_of(self) -> str:
        """By what the pairs are found: all exact backends, and neighbours that a job kept, give the same ones."""
        return self.backend if self.backend == "faiss" else "exact"

    def note(self, message: str) -> None:
        """Prints a line."""
        line = terminal(message)  # an encoder's messages hold what they like
        if self._bars:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            say(line)

    def plan(self, encoding: Sequence[float], search: float) -> None:
        """How many seconds the stages will take."""
        self._planned = [0.0 if seconds != seconds else seconds for seconds in (*encoding, search)]

    def encoding(self, side: int, name: str, done: int, total: int) -> None:
        """`done` of `total` sentences of a side are encoded."""
        self._show(side, f"encoding {name}", f"{done:,} of {total:,} sentences", done, total, "sentences")

    def searching(self, search: Search) -> None:
        """How far the search is."""
        self.backend = search.backend
        if search.recall:
            self.note(f"approximate: {search.recall}")
        if search.total:
            share = search.done / search.total
            rows = round(share * search.rows)
            self._show(_SEARCH, "searching", f"{share:.1%}", rows, search.rows, "sentences")

    def _show(self, stage: int, what: str, state: str, done: int, total: int, unit: str) -> None:
        now = self._clock()
        share = done / total if total else 1.0
        if stage != self._stage:
            # Told of first after some work: what was done before that is not known, and left out of the speed.
            self._stage, self._began, self._begun_with = stage, now, share
        left = self._left(now, share)
        rate = (share - self._begun_with) * total / (now - self._began) if now > self._began else 0.0
        speed = f" ({rate:,.{0 if rate >= 10 else 1}f} {unit} a second)" if rate else ""
        if self._bars and self._bar is not None:
            spent = now - self._first
            description = f"{what}: {state}{speed}, {duration_left(left)}"
            completed = spent / (spent + left) if spent + left > 0 else 1.0
            self._bars.update(self._bar, description=terminal(description), completed=completed, visible=share < 1)
        elif share < 1 and now - self._last_said >= _SECONDS:
            self._last_said = now
            self.note(f"{what}: {state}{speed}; {duration_left(left)}")

    def _left(self, now: float, share: float) -> float:
        """Seconds of this stage, by its own speed where that is known, and of those after it, as planned."""
        elapsed, gained = now - self._began, share - self._begun_with
        if elapsed >= _SETTLED and gained > 0:
            of_stage = elapsed * (1 - share) / gained
        else:
            of_stage = self._planned[self._stage] * (1 - share)
        return of_stage + sum(self._planned[self._stage + 1 :])


def duration_left(seconds: float) -> str:
    """How long all of it will still take, in words."""
    from harness.mining.estimate import duration

    return f"about {duration(seconds)} left in all"

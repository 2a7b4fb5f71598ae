"""Measuring several encoders: each in processes of its own, all of them in turn, round by round.

First each is loaded in fresh processes, one at a time, for the time to load and the memory. Then each has one process
for the speeds, idle while another encodes: what disturbs the machine disturbs neighbours in a round alike, so that
ratios hold where the figures themselves vary. A round has three passes over the encoders. Fast ones take part in all,
so that their times are of the whole round as those of the slow ones are, which take part in one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from harness.core import provenance
from harness.core.schema import Amount, Count
from harness.core.threads import MAX_WORKERS
from harness.encoders.registry import check_spec
from harness.encoders.spec import CheckedSpec, refuse_equal_names, signature_of
from harness.speed.process import Child, ChildError
from harness.speed.store import Cell, Length, Measurement, Way
from harness.speed.texts import SENTENCES, digest

BATCHES = (32, 256)
"""Batch sizes that are measured beside the encoder's own, where it has an option for them."""

_AT_LEAST = 10  # texts a repeat: one of each language
# Texts a call, at least: adapters sort by length, and of a few texts in ten languages half a batch would be padding.
_MANY: dict[Length, int] = {"short": 128, "medium": 128, "long": 64}
_MAX_LOADS = 3
_PASSES = 3


@dataclass(frozen=True)
class Plan:
    """How to measure.

    Attributes:
        repeats: rounds.
        threads: of encoders; None: all cores.
        defaults: options for encoders that have them (`device`).
        seconds: that a pass takes, about; a call is never cut short.
        longest: seconds of a call above which a batch size of `BATCHES` is not measured.
        patience: seconds in which an encoder must do what it is told.
    """

    repeats: int = 5
    threads: int | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.4
    longest: float = 5.0
    patience: float = 1800.0


@dataclass(frozen=True)
class _Opened:
    """What an encoder says of itself."""

    fingerprint: str
    dim: Count
    vector_bytes: Count
    size_bytes: Count | None
    n_parameters: Count | None
    max_length: Count | None
    device: str
    gpu: str | None
    threads: Count
    versions: dict[str, str]
    seconds: Amount


@dataclass(frozen=True)
class _Memory:
    now: Amount | None
    peak: Amount | None
    device_peak: Amount | None


@dataclass(frozen=True)
class _Calibrated:
    n: Count
    seconds: Amount  # about, for so many


@dataclass(frozen=True)
class _Measured:
    n: Count
    characters: Count
    seconds: Amount


@dataclass(frozen=True)
class _Done:
    pass


@dataclass
class Outcome:
    """What was measured, in the order of the encoders, and by name why others failed."""

    measured: list[Measurement] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def measure(specs: Sequence[str], plan: Plan, note: Callable[[str], None] = lambda line: None) -> Outcome:
    """Measure encoders in turn; one that fails, in whatever way, fails alone.

    Args:
        specs: spec strings.
        note: is told what is being done, and what failed.

    Raises:
        HarnessError: a spec string that names no encoder, or one that lacks a package, or two with one name; before
            anything is measured.
    """
    subjects = [_Subject(spec, plan, note) for spec in specs]
    refuse_equal_names(subject.spec for subject in subjects)
    for subject in subjects:
        if subject.spec.has_prompts:
            note(f"{subject.name}: measured with the prompt of documents, of which there are most")
    n_loads = min(plan.repeats, _MAX_LOADS)
    for number in range(n_loads):
        for subject in _alive(subjects):
            note(f"{subject.name}: time to load and memory ({number + 1} of {n_loads})")
            with subject.failing_alone():
                subject.load()
    _warn_of_memory(_alive(subjects), note)
    with ExitStack() as stack:
        for subject in _alive(subjects):
            subject.child = stack.enter_context(Child(plan.threads, plan.patience))
        _measure_speeds(subjects, plan, note)
    session = uuid.uuid4().hex[:12]
    return Outcome(
        [subject.measurement(session) for subject in _alive(subjects)],
        {subject.name: subject.failure for subject in subjects if subject.failure},
    )


def _measure_speeds(subjects: Sequence[_Subject], plan: Plan, note: Callable[[str], None]) -> None:
    """All cells: way by way, and in each of them round by round, length by length, one encoder after another."""
    ways: list[tuple[Way, int | None]] = [("alone", 1), ("own", None), *(("batch", size) for size in BATCHES)]
    for way, size in ways:
        taking = [subject for subject in _alive(subjects) if way != "batch" or subject.takes_batch(size)]
        for subject in taking:
            with subject.failing_alone():
                subject.prepare(way, size)
        for number in range(plan.repeats):
            if taking:
                what = {"alone": "one text a call", "own": "many texts a call"}.get(way, f"batches of {size}")
                note(f"{what}: round {number + 1} of {plan.repeats}")
            for length in SENTENCES:
                _measure_round(_alive(taking), length)
        for subject in _alive(taking):
            subject.finish()


def _measure_round(subjects: Sequence[_Subject], length: Length) -> None:
    """One round of one cell."""
    slow = [subject.name for subject in subjects if not subject.is_fast(length)]
    for number in range(_PASSES):
        for subject in _alive(subjects):
            if subject.name not in slow or slow.index(subject.name) % _PASSES == number:
                with subject.failing_alone():
                    subject.measure(length)
    for subject in _alive(subjects):
        subject.end_round(length)


class _Subject:
    """An encoder that is measured.

    Attributes:
        spec: checked.
        name: under which it is stored.
        failure: why it is measured no more; empty as long as it is.
        child: its process for the speeds.
    """

    def __init__(self, spec: str, plan: Plan, note: Callable[[str], None]):
        self.spec = check_spec(spec, **plan.defaults)
        self.name, self.failure, self.child = self.spec.stored_name, "", cast(Child, None)
        self._given, self._plan, self._note = spec, plan, note
        self._own_batch = _own_batch(self.spec)
        self._opened = cast(_Opened, None)
        self._loads: list[float] = []
        self._memory: list[float] = []
        self._device_memory: list[float] = []
        self._batch: int | None = None
        self._way: Way = "own"
        self._planned: dict[Length, _Calibrated] = {}
        self._passes: list[_Measured] = []
        self._rounds: dict[Length, list[_Measured]] = {}
        self._cells: list[Cell] = []

    @contextmanager
    def failing_alone(self) -> Iterator[None]:
        """What fails in the `with` block ends the measurement of this encoder, and of no other.

        Its process is ended at once: it may be computing still, which would disturb the others.
        """
        try:
            yield
        except ChildError as error:
            self.failure = str(error)
            self._note(f"{self.name} failed: {error}")
            if self.child is not None:
                self.child.end()

    def load(self) -> None:
        """Time to load and memory, in a process that does nothing else."""
        with Child(self._plan.threads, self._plan.patience) as child:
            before = child.ask(_Memory, "memory")
            opened = self._open(child)
            child.ask(_Done, "exercise")
            after = child.ask(_Memory, "memory")
        if self._loads and opened.fingerprint != self._opened.fingerprint:
            raise ChildError(f"its fingerprint has changed: {self._opened.fingerprint}, now {opened.fingerprint}")
        self._opened = opened
        self._loads.append(round(opened.seconds, 3))
        if before.now is not None and after.peak is not None:
            self._memory.append(round(max(0.0, after.peak - before.now), 1))
        if after.device_peak is not None:
            self._device_memory.append(round(after.device_peak, 1))

    @property
    def memory_mb(self) -> float:
        """The memory that it takes, as far as is known."""
        return max(self._memory, default=0.0)

    def takes_batch(self, size: int | None) -> bool:
        """Whether it is to be measured with this batch size, which is not its own."""
        return "batch_size" in self.spec.types.keys() - self.spec.values.keys() and size != self._own_batch

    def prepare(self, way: Way, size: int | None) -> None:
        """Open it for this way of encoding, and find how many texts to take."""
        self._planned, self._rounds, self._way = {}, {}, way
        self._batch = self._own_batch if way == "own" else size
        if way != "own":  # which is that of the encoder that is open
            self._open(self.child, size if way == "batch" else None)
        workers = min(self._opened.threads, MAX_WORKERS)  # batches a call, so that each thread has one
        for length in SENTENCES:
            self._planned[length] = self.child.ask(
                _Calibrated,
                "calibrate",
                length=length,
                alone=way == "alone",
                unit=_AT_LEAST if way == "alone" else (self._batch or _AT_LEAST) * workers,
                at_least=1 if way == "alone" else _MANY[length],
                seconds=self._plan.seconds,
                at_most_s=self._plan.longest if way == "batch" else None,
            )

    def is_fast(self, length: Length) -> bool:
        """Whether it takes part in every pass of a round."""
        return self._planned[length].seconds <= 2 * self._plan.seconds

    def measure(self, length: Length) -> None:
        """Measure one cell in a pass of the round that was begun, unless it would take too long."""
        if n := self._planned[length].n:
            measured = self.child.ask(_Measured, "measure", length=length, n=n, alone=self._way == "alone")
            self._passes.append(measured)

    def end_round(self, length: Length) -> None:
        """Take all passes of the round together."""
        passes, self._passes = self._passes, []
        if passes:
            together = _Measured(*(sum(values) for values in zip(*map(astuple, passes), strict=True)))
            self._rounds.setdefault(length, []).append(together)

    def finish(self) -> None:
        """Keep what was measured in the way for which it was prepared."""
        for length, rounds in self._rounds.items():
            seconds = [max(1e-6, round(one.seconds, 6)) for one in rounds]
            self._cells.append(Cell(length, self._way, self._batch, rounds[0].n, rounds[0].characters, seconds))

    def measurement(self, session: str) -> Measurement:
        """All that was measured."""
        gpu: provenance.Hardware = {"gpu": self._opened.gpu} if self._opened.gpu else {}
        return Measurement(
            encoder=self.name,
            fingerprint=self._opened.fingerprint,
            spec=str(self.spec),
            dim=self._opened.dim,
            vector_bytes=self._opened.vector_bytes,
            size_bytes=self._opened.size_bytes,
            n_parameters=self._opened.n_parameters,
            max_length=self._opened.max_length,
            load_s=self._loads,
            memory_mb=self._memory,
            device_memory_mb=self._device_memory,
            cells=self._cells,
            threads=self._opened.threads,
            hardware=provenance.hardware() | {"device": self._opened.device} | gpu,
            versions=self._opened.versions,
            git=provenance.git_state(),
            texts=digest(),
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            session=session,
        )

    def _open(self, child: Child, batch_size: int | None = None) -> _Opened:
        defaults = {**self._plan.defaults, **({"batch_size": batch_size} if batch_size else {})}
        return child.ask(_Opened, "open", spec=self._given, defaults=defaults)


def _own_batch(spec: CheckedSpec) -> int | None:
    """The texts in a batch of an encoder as its spec string opens it; None if that is not known."""
    size = spec.values.get("batch_size")
    if size is None and "batch_size" in spec.types:
        size = signature_of(spec.factory).parameters["batch_size"].default
    return size if isinstance(size, int) and size > 0 else None


def _alive(subjects: Sequence[_Subject]) -> list[_Subject]:
    return [subject for subject in subjects if not subject.failure]


def _warn_of_memory(subjects: Sequence[_Subject], note: Callable[[str], None]) -> None:
    """For the speeds all encoders are in memory at once."""
    together, free = sum(subject.memory_mb for subject in subjects), _free_mb()
    if free is not None and together > free:
        note(
            f"warning: together the encoders take {together:,.0f} MB, and {free:,.0f} MB are free; "
            "measure fewer of them in one command"
        )


def _free_mb() -> float | None:
    """Memory that processes can have, where the system tells (Linux)."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None

"""`RESULTS/speed/ENCODER.json`: what an encoder costs, a measurement for each machine, threads and weights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from statistics import geometric_mean, median
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec

from harness.core.errors import InputError
from harness.core.files import listed, locked, refuse_way_out, write_atomically, writing
from harness.core.names import check_name
from harness.core.provenance import GitState, Hardware
from harness.core.schema import Amount, Count, Name, read_json

Way = Literal["alone", "own", "batch"]
"""One text a call; many texts a call, as the encoder is by default; the same with a batch size that was set."""

Length = Literal["short", "medium", "long"]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
_Seconds = Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]


class Figure(NamedTuple):
    """What several repeats gave."""

    median: float
    low: float
    high: float


def figure(values: Iterable[float]) -> Figure | None:
    """The median of some values, and the lowest and the highest; None if there are none."""
    known = sorted(values)
    return Figure(median(known), known[0], known[-1]) if known else None


@dataclass(frozen=True)
class Cell:
    """The speed on texts of one length, in one way.

    Attributes:
        length: class of the texts (see `harness.speed.texts`).
        way: see `Way`.
        batch: texts a batch; None if that is not known.
        n, characters: the texts that were encoded in a round, and the characters in them.
        seconds: that each round took, in the order of the rounds, which all encoders of a command share.
    """

    length: Length
    way: Way
    batch: _Positive | None
    n: _Positive
    characters: _Positive
    seconds: Annotated[list[_Seconds], msgspec.Meta(min_length=1, max_length=1000)]

    @property
    def sentences_per_s(self) -> Figure:
        """Texts a second."""
        speeds = figure(self.n / taken for taken in self.seconds)
        assert speeds  # of one round at least
        return speeds

    @property
    def characters_per_s(self) -> float:
        """Characters a second, the median."""
        return self.sentences_per_s.median * self.characters / self.n

    @property
    def ms(self) -> float:
        """Milliseconds a text, the median."""
        return 1000 / self.sentences_per_s.median

    def ratios(self, other: Cell) -> list[float]:
        """How many times as long a text takes as in a cell of the same command, round by round."""
        pairs = zip(self.seconds, other.seconds, strict=False)
        return [(mine / self.n) / (theirs / other.n) for mine, theirs in pairs]


@dataclass(frozen=True)
class Measurement:
    """What one encoder costs on one machine.

    Attributes:
        encoder, fingerprint, spec: what was measured; `spec` is its spec string without machine paths.
        dim: length of a vector.
        vector_bytes: that a vector takes where it is stored.
        load_s: seconds from the start of loading, imports included, to the vector of the first sentence; of an encoder
            that is cut or quantised, to its full vector: int8 is calibrated later.
        memory_mb: MB (10^6 bytes) that loading, and encoding 64 texts of each length, add to the process: the peak of
            its resident memory, less what it had before. Files that are mapped into memory count as far as they are
            read. Of an encoder that is cut or quantised, that of the full vectors.
        device_memory_mb: likewise the peak of what PyTorch takes of a GPU's memory.
        size_bytes, n_parameters, max_length: what the encoder says of itself (see `harness.encoders.encoder`).
        cells: speeds.
        threads: that encoding might use.
        hardware, versions, git: as in records.
        texts: digest of the texts.
        created: UTC, ISO 8601.
        session: of the command; the rounds of encoders with the same session were measured in turn.
    """

    encoder: Name
    fingerprint: str
    dim: Count
    vector_bytes: Count
    threads: Count
    texts: str
    cells: list[Cell]
    spec: str = ""
    load_s: list[Amount] = field(default_factory=list)
    memory_mb: list[Amount] = field(default_factory=list)
    device_memory_mb: list[Amount] = field(default_factory=list)
    size_bytes: Count | None = None
    n_parameters: Count | None = None
    max_length: Count | None = None
    hardware: Hardware = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    git: GitState | None = None
    created: str = ""
    session: str = ""

    @property
    def setup(self) -> tuple[tuple[str, object], ...]:
        """The machine, its device and the threads: figures of the same setup are comparable."""
        return (*sorted(self.hardware.items(), key=lambda item: item[0]), ("threads", self.threads))

    @property
    def conditions(self) -> tuple[object, ...]:
        """The setup and the texts: what speeds depend on beside the encoder."""
        return self.setup, self.texts

    def cell(self, way: Way, length: str = "medium", batch: int | None = None) -> Cell | None:
        """The cell of one way and length (and, for the way `batch`, of one batch size), if it was measured."""
        fitting = (c for c in self.cells if (c.way, c.length) == (way, length) and batch in (None, c.batch))
        return next(fitting, None)

    def times(self, other: Measurement, way: Way, batch: int | None = None) -> Figure | None:
        """How many times as long texts take as with another encoder of the same command, encoded in the same way.

        Of each round the geometric mean over the lengths that both have, then the median of the rounds, the lowest and
        the highest; None if they have none.
        """
        cells = [(self.cell(way, length, batch), other.cell(way, length, batch)) for length in get_args(Length)]
        by_length = [mine.ratios(theirs) for mine, theirs in cells if mine and theirs]
        return figure(map(geometric_mean, zip(*by_length, strict=False)))


def choose(
    measured: Iterable[Measurement], fingerprints: Collection[tuple[str, str]]
) -> tuple[dict[str, Measurement], Measurement | None]:
    """By encoder, one of its measurements; and one of the setup and texts that most have (None of no measurements).

    Of several measurements of an encoder the one counts that is of the weights of the scores, and then of the usual
    setup and texts.

    fingerprints: of the scores, with the encoder's name before each.
    """
    by_encoder: dict[str, list[Measurement]] = {}
    for one in measured:
        by_encoder.setdefault(one.encoder, []).append(one)

    def is_of_scores(one: Measurement) -> bool:
        return (one.encoder, one.fingerprint) in fingerprints

    everything = [one for of_one in by_encoder.values() for one in of_one]
    counted = [*filter(is_of_scores, everything)] or everything
    frequent = Counter(one.conditions for one in counted)
    usual = min(counted, key=lambda one: (-frequent[one.conditions], str(one.conditions)), default=None)
    chosen = {
        encoder: max(
            of_one, key=lambda one: (is_of_scores(one), bool(usual and one.conditions == usual.conditions), one.created)
        )
        for encoder, of_one in by_encoder.items()
    }
    return chosen, usual


class SpeedStore:
    """The measurements below one results folder."""

    def __init__(self, root: str | Path):
        self.root = Path(root)
        self.folder = self.root / "speed"

    def load(self) -> list[Measurement]:
        """All measurements, by encoder. Raises InputError, which names it, for a file that holds something else."""
        return [one for file in listed(self.folder, ".json") for one in _parse(file)]

    def merge(self, new: Measurement) -> None:
        """Add a measurement. It replaces the one of the same encoder, weights, machine, device and threads.

        Raises:
            InputError: the folder cannot be written, the file holds something else, a name that cannot name a file.
        """
        file = refuse_way_out(self.folder / f"{check_name(new.encoder, 'encoder')}.json", self.root)
        with ExitStack() as stack:
            with writing(file):
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.folder / ".lock"))
            old = _parse(file) if file.exists() else []
            kept = [one for one in old if (one.fingerprint, one.setup) != (new.fingerprint, new.setup)]
            everything = sorted([*kept, new], key=attrgetter("created"))
            content = json.dumps([asdict(one) for one in everything], indent=1, sort_keys=True, ensure_ascii=False)
            write_atomically(file, f"{content}\n".encode())


def _parse(file: Path) -> list[Measurement]:
    try:
        measurements = read_json(file, list[Measurement], exact=True)
        if any(one.encoder != file.stem for one in measurements):
            raise ValueError("a measurement of another encoder than the file is named after")
        return measurements
    except ValueError as error:
        raise InputError(
            f"{file}: no measurements of speed ({error}); restore the file or delete it, unless a newer version made it"
        ) from None

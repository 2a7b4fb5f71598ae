"""Drawing: which rows are drawn together, and the blocks of multiplicities that statistics are computed on.

A bootstrap resample is a vector of multiplicities (how often each row occurs). So is a jackknife sample (0 for rows
that are left out, 1 for the others). A randomisation is a vector of swaps. All come in blocks of shape (rows,
resamples) and of bounded size. They do not depend on the block size, the machine or the version of NumPy: NEP 19
guarantees the stream of a bit generator, but not that of `Generator.integers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError

Floats = NDArray[np.float64]

# Elements of a block: a few arrays of this size stay in the processor's cache. Blocks of many rows are as wide as
# memory allows (16 MiB an array), since a narrow one spends its time on calls.
_BLOCK, _LARGEST, _WIDTH = 1 << 18, 1 << 21, 512
_BOOTSTRAP, _SWAPS = 0, 1


@dataclass(frozen=True)
class Resampling:
    """How often and how rows are resampled, and the seed.

    Attributes:
        resamples: the number of bootstrap resamples, and of randomisations of a paired test.
        seed: of both; all encoders on the same rows have the same resamples.
        level: nominal coverage of intervals.
    """

    resamples: int = 10_000
    seed: int = 12345
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.resamples < 1 or self.seed < 0 or not 0 < self.level < 1:
            raise InputError(
                f"resampling wants at least 1 resample, a seed from 0 and a level between 0 and 1, not "
                f"{self.resamples}, {self.seed} and {self.level}"
            )

    @property
    def alpha(self) -> float:
        """The level of the tests: 0.05 beside intervals of 0.95 (and not 0.05000000000000004)."""
        return round(1 - self.level, 12)

    @property
    def signature(self) -> str:
        """The resampling spelt out, as it is printed with intervals and p-values.

        exact-if-alike: accuracies of 0 and 100 have the interval of Clopper and Pearson (see `bca_interval`).
        """
        return (
            f"interval:bca,exact-if-alike|level:{self.level:g}|test:approximate-randomisation|"
            f"resamples:{self.resamples}|seed:{self.seed}"
        )


@dataclass(frozen=True, eq=False)
class Units:
    """The units that are drawn. Rows of a unit are drawn together, and every stratum keeps its number of units.

    Attributes:
        of_row: int64 of shape (n,): the unit of each row; units are numbered stratum by stratum.
        sizes: units of each stratum.
        keys: one per stratum; strata of the same key become one when samples are joined (see `join`).
    """

    of_row: NDArray[np.int64]
    sizes: tuple[int, ...]
    keys: tuple[str | None, ...]

    @property
    def total(self) -> int:
        """Units in all strata."""
        return sum(self.sizes)

    @property
    def identity(self) -> tuple[tuple[int, ...], bytes]:
        """A value that is equal for units with the same draws."""
        return self.sizes, self.of_row.tobytes()

    @property
    def strata(self) -> list[slice]:
        """The units of each stratum."""
        stops = np.cumsum(self.sizes).tolist()
        return [slice(stop - size, stop) for stop, size in zip(stops, self.sizes, strict=True)]

    @property
    def can_be_resampled(self) -> bool:
        """Whether every stratum has at least three units; with fewer, resampling says nothing."""
        return min(self.sizes, default=0) >= 3

    def rows_of(self, drawn: Floats) -> Floats:
        """(units, b) -> (rows, b)."""
        one_each = len(self.of_row) == len(drawn) and bool((self.of_row == np.arange(len(drawn))).all())
        return drawn if one_each else drawn[self.of_row]


def independent(n: int, key: str | None = None) -> Units:
    """Units of n rows that are drawn independently."""
    return Units(np.arange(n), (n,), (key,))


def join(parts: Sequence[Units]) -> Units:
    """The units of several samples whose rows are concatenated.

    Strata with the same key have the same units in other forms (the 250 English source pairs of STS 2017 in five
    sets): they become one stratum, whose units are clusters of rows.

    Raises:
        InputError: strata with the same key differ in size.
    """
    known: dict[str, tuple[int, int]] = {}
    keys: list[str | None] = []
    sizes: list[int] = []
    rows: list[NDArray[np.int64]] = []
    for part in parts:
        new_unit = np.empty(part.total, np.int64)
        for units, size, key in zip(part.strata, part.sizes, part.keys, strict=True):
            start, known_size = known.get(key or "", (sum(sizes), size))
            if known_size != size:
                raise InputError(
                    f"sets that share their items have {known_size} and {size} of them; measure both again"
                )
            if start == sum(sizes):
                keys.append(key)
                sizes.append(size)
            if key:
                known[key] = start, size
            new_unit[units] = np.arange(start, start + size)
        rows.append(new_unit[part.of_row])
    return Units(np.concatenate(rows), tuple(sizes), tuple(keys))


def bootstrap_counts(units: Units, plan: Resampling) -> Iterator[Floats]:
    """Yields blocks (rows, b) of multiplicities, `plan.resamples` columns in all; draws strata with replacement."""
    streams = _streams(units, plan.seed, _BOOTSTRAP)
    for width in _widths(plan.resamples, units):
        drawn = [_multiplicities(stream, size, width) for stream, size in zip(streams, units.sizes, strict=True)]
        yield units.rows_of(np.concatenate(drawn))


def leave_one_out(units: Units) -> Iterator[Floats]:
    """Yields blocks (rows, b) of the jackknife, `units.total` columns in all; column j lacks the rows of unit j."""
    start = 0
    for width in _widths(units.total, units):
        left = np.ones((units.total, width))
        left[np.arange(start, start + width), np.arange(width)] = 0
        start += width
        yield units.rows_of(left)


def swaps(units: Units, plan: Resampling) -> Iterator[Floats]:
    """Yields blocks (rows, b): 1 where two encoders' outputs are exchanged (each unit with probability 1/2), else 0."""
    streams = _streams(units, plan.seed, _SWAPS)
    for width in _widths(plan.resamples, units):
        yield units.rows_of(np.concatenate([_bits(s, n, width) for s, n in zip(streams, units.sizes, strict=True)]))


def _streams(units: Units, seed: int, purpose: int) -> list[np.random.PCG64]:
    return [np.random.PCG64(np.random.SeedSequence([seed, purpose, number])) for number in range(len(units.sizes))]


def _widths(total: int, units: Units) -> Iterator[int]:
    n = max(len(units.of_row), 1)
    width = max(_BLOCK // n, min(_WIDTH, _LARGEST // n), 1)
    for start in range(0, total, width):
        yield min(width, total - start)


def _multiplicities(stream: np.random.PCG64, n: int, width: int) -> Floats:
    """Columns of n draws with replacement from n, (n, width). A draw takes 32 bits: it is uniform within n / 2^32."""
    words = stream.random_raw((width, (n + 1) // 2)).view(np.uint32)[:, :n]
    drawn = ((words.astype(np.uint64) * np.uint64(n)) >> np.uint64(32)).view(np.int64)
    drawn += n * np.arange(width)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n * width).reshape(width, n)
    return np.ascontiguousarray(counts.T, dtype=np.float64)


def _bits(stream: np.random.PCG64, n: int, width: int) -> Floats:
    words = stream.random_raw((width, (n + 63) // 64))
    bits = np.unpackbits(words.view(np.uint8), axis=1, count=n, bitorder="little")
    return np.ascontiguousarray(bits.T, dtype=np.float64)

"""What the backends share: the vectors of a side, the reference similarity, what a search returns, its checkpoint."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.core.files import refuse_special, replacing, writing
from harness.encoders.encoder import row_norms, scaled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AT_ONCE = 1 << 21  # components (of pairs that are scored) or candidates at once: some tens of MB of temporaries
_FILE = "search.npz"
_FORMAT = 2  # of the states; another bound or other lists make another one
_SHARE = 0.02  # of the time, at most, for writing


class Neighbours(NamedTuple):
    """The k' nearest vectors of the other side: `rows` (n, k') int64 and `similarity` (n, k') float64, best first."""

    rows: Ints
    similarity: Floats


class Report(Protocol):
    """Told by a backend how far its search is; see `harness.mining.neighbours.Progress`."""

    def __call__(self, rows_done: int, recomputed: int = 0, candidates: int = 0) -> None:
        """So many rows of x are done."""


class Side:
    """The vectors of one side, given out in float32 as they are or scaled to unit norm, never all at once.

    Attributes:
        vectors: (n, dim), float32 or float16 as they were given, or a float32 copy of other numbers.
        divisors: (n,), what their rows are divided by: their norms (1 for a zero row), or 1.
        largest_norm: of the rows that are given out.
    """

    def __init__(self, vectors: NDArray[np.floating[Any]], label: str, *, cosine: bool):
        if vectors.dtype not in (np.float32, np.float16):
            if vectors.dtype.kind not in "fiu":
                raise InputError(f"{label} holds {vectors.dtype}, no real numbers")
            with np.errstate(over="ignore"):  # an infinity is refused below
                vectors = vectors.astype(np.float32)
        norms = row_norms(vectors)
        if not np.isfinite(norms).all():
            bad = int(np.flatnonzero(~np.isfinite(norms))[0])
            raise InputError(f"row {bad} of {label} holds NaN or infinity (as float32)")
        self.vectors = vectors
        self.divisors = np.where(norms > 0, norms, 1) if cosine else np.ones(len(vectors))
        self.largest_norm = 1.0 + 1e-6 if cosine else float(norms.max(initial=0.0))

    @property
    def dim(self) -> int:
        """The length of a row."""
        return int(self.vectors.shape[1])

    def take(self, rows: Ints) -> Side:
        """These rows, as a side of their own."""
        taken = copy(self)
        taken.vectors, taken.divisors = self.vectors[rows], self.divisors[rows]
        return taken

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: slice | Ints) -> NDArray[np.float32]:
        return scaled(self.vectors[rows], self.divisors[rows])


def both_sides(
    x: NDArray[np.floating[Any]], y: NDArray[np.floating[Any]], k: int, *, cosine: bool
) -> tuple[Side, Side]:
    """The sides of a search for k neighbours; x is (n, dim) and y is (m, dim).

    Raises:
        InputError: other shapes, numbers that are not real, NaN or infinity (the row is named), k < 1.
    """
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise InputError(f"cannot compare vectors of shapes {x.shape} and {y.shape}: (n, dim) and (m, dim) expected")
    if k < 1:
        raise InputError(f"k is at least 1, not {k}")
    return Side(x, "x", cosine=cosine), Side(y, "y", cosine=cosine)


def similarity(x: Side, y: Side, rows: Ints, columns: Ints) -> Floats:
    """The reference similarity of the pairs (x[rows[i]], y[columns[i]]), shape (len(rows),).

    Equal vectors give equal values wherever they stand, which a matrix product does not promise.
    """
    out = np.empty(len(rows))
    pairs = max(1, AT_ONCE // max(1, x.dim))
    for start in range(0, len(rows), pairs):
        part = slice(start, start + pairs)
        products = x[rows[part]].astype(np.float64)
        products *= y[columns[part]]
        out[part] = products.sum(axis=1)
    return out


class Checkpoint:
    """A search's arrays under their names; without a file nothing is kept."""

    def __init__(self, file: Path | None, digest: str):
        self._file, self._digest = file, digest
        self._not_before = 0.0

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_rows: int) -> int:
        """Fill the arrays with what was saved last; returns how many of `n_rows` are done, 0 where nothing was saved.

        Raises:
            InputError: it is of another search, or damaged.
        """
        if self._file is None or not self._file.exists():
            return 0
        refuse_special(self._file)
        try:
            with self._file.open("rb") as stream:
                stored = dict(np.lib.npyio.NpzFile(stream, allow_pickle=False))
            digest, done = str(stored.pop("digest")), stored.pop("done")
            if digest == self._digest:
                return _fill(arrays, stored, done, n_rows)
        except Exception as error:  # whatever NumPy and zipfile raise, which is much: the file may hold anything
            raise InputError(f"{self._file} cannot be read ({error}); remove it to begin anew") from error
        raise InputError(
            f"{self._file} is of a search in other vectors or with other options; remove it, or take another folder"
        )

    def save(self, arrays: Mapping[str, NDArray[Any]], done: int) -> None:
        """Keep the arrays in place of those before, unless writing would take too much of the time."""
        start = time.monotonic()
        if self._file is None or start < self._not_before:
            return
        with writing(self._file), replacing(self._file) as out:
            np.savez(out, allow_pickle=False, digest=np.array(self._digest), done=done, **arrays)
        end = time.monotonic()
        self._not_before = end + (end - start) / _SHARE

    def remove(self) -> None:
        """The search is done."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _fill(
    arrays: Mapping[str, NDArray[Any]], stored: Mapping[str, NDArray[Any]], done: NDArray[Any], n_rows: int
) -> int:
    """What was stored takes the place of what is in the arrays. Raises ValueError if it is of another shape or type."""
    for name, array in arrays.items():
        kept = stored[name]
        if (kept.shape, kept.dtype) != (array.shape, array.dtype):
            raise ValueError(f"{name} is {kept.dtype} {kept.shape} where {array.dtype} {array.shape} is expected")
    if done.shape or done.dtype.kind != "i" or not 0 <= done <= n_rows:
        raise ValueError(f"done is {done.dtype} {done.shape} where a number up to {n_rows} is expected")
    for name, array in arrays.items():
        array[...] = stored[name]
    return int(done)


@contextmanager
def open_checkpoint(
    folder: Path | str | None, sides: tuple[Side, Side], options: str, *, is_kept: bool = False
) -> Iterator[Checkpoint]:
    """The checkpoint of the search in these vectors with these options.

    It is removed if the block ends without an error, unless it `is_kept`.
    """
    if folder is None:
        yield Checkpoint(None, "")
        return
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.blake2b(f"format={_FORMAT} {options}".encode())
    for side in sides:
        digest.update(f"{side.vectors.dtype.str}{side.vectors.shape}".encode())
        rows = max(1, AT_ONCE // max(1, side.dim))
        for start in range(0, len(side), rows):
            digest.update(side.vectors[start : start + rows].tobytes())
    checkpoint = Checkpoint(folder / _FILE, digest.hexdigest())
    yield checkpoint
    if not is_kept:
        checkpoint.remove()

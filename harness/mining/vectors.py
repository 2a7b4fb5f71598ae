"""Vectors as mining takes them, their lengths, and the reference similarity."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AT_ONCE = 1 << 21  # components (of pairs that are scored) or candidates at once: some tens of MB of temporaries


def normalise(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """The rows of `vectors` (n, dim) scaled to unit L2 norm, in float32; zero rows stay zero."""
    norms = row_norms(vectors)
    return _scaled(vectors, np.where(norms > 0, norms, 1))


def row_norms(vectors: NDArray[np.floating[Any]]) -> Floats:
    """The L2 norm of every row of `vectors` (n, dim), accumulated in float64, block by block; shape (n,)."""
    norms = np.empty(len(vectors))
    rows = max(1, AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        part = vectors[start : start + rows].astype(np.float64, order="C")  # equal rows have equal sums in one order
        norms[start : start + rows] = np.sqrt(np.multiply(part, part, out=part).sum(axis=1))
    return norms


def _scaled(vectors: NDArray[np.floating[Any]], divisors: Floats) -> NDArray[np.float32]:
    """The rows of `vectors` (n, dim) divided by `divisors` (n,), rounded to float32 once."""
    unit = np.empty(vectors.shape, dtype=np.float32)
    rows = max(1, AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        part = slice(start, start + rows)
        # Divided in float64: the norm of a row of denormals, or of the largest numbers, has no float32.
        np.divide(vectors[part], divisors[part, None], out=unit[part], dtype=np.float64, casting="same_kind")
    return unit


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
        return _scaled(self.vectors[rows], self.divisors[rows])


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

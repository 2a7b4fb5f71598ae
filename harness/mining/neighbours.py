"""Nearest neighbours in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError
from harness.mining.vectors import AT_ONCE, Floats, Ints, Side, similarity


class Neighbours(NamedTuple):
    """The k' nearest vectors of the other side: `rows` (n, k') int64 and `similarity` (n, k') float64, best first."""

    rows: Ints
    similarity: Floats


def nearest(
    x: NDArray[np.float32], y: NDArray[np.float32], k: int = 4, *, cosine: bool = True, block: int = 2048
) -> tuple[Neighbours, Neighbours]:
    """The k' = min(k, size of the other side) nearest neighbours of every row of x in y, and of y in x.

    One pass over tiles of block x 2 block similarities feeds both directions; ties go to the lowest row.

    A float32 product of two vectors of length d errs by at most d u |x| |y| (u = 2^-24, any order of summation, to
    first order in u; Higham, Accuracy and Stability of Numerical Algorithms, eq. 3.5). So whatever lies more than
    twice that below the k-th best candidate cannot be among the k best, and only the rest is scored in float64.

    Args:
        x, y: float32 (n, dim) and (m, dim), finite; arrays or memory maps.
        k: neighbours kept, at least 1.
        cosine: scale the rows to unit norm first; else they are taken as they are.
        block: rows of a tile; beyond the inputs, some 30 block^2 bytes plus O((n + m) k) are needed.

    Raises:
        InputError: different dimensions, k < 1, or NaN or infinity (the row is named).
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise InputError(f"cannot compare vectors of shapes {x.shape} and {y.shape}: (n, dim) and (m, dim) expected")
    if k < 1:
        raise InputError(f"k is at least 1, not {k}")
    sides = Side(x, "x", cosine=cosine), Side(y, "y", cosine=cosine)
    # 1.01 covers the terms of higher order in u for every dim < 160,000, and the rounding of the float64 reference.
    slack = 2 * 1.01 * x.shape[1] * 2.0**-24 * sides[0].largest_norm * sides[1].largest_norm
    of_x, of_y = _Best(len(x), min(k, len(y))), _Best(len(y), min(k, len(x)))
    for top in range(0, len(x), block):
        x_tile = sides[0][top : top + block]
        for left in range(0, len(y), 2 * block):
            tile = x_tile @ sides[1][left : left + 2 * block].T
            for rows, columns in of_x.candidates(tile, top, slack):
                of_x.update(rows + top, columns + left, similarity(*sides, rows + top, columns + left))
            for rows, columns in of_y.candidates(tile.T, left, slack):
                of_y.update(rows + left, columns + top, similarity(*sides, columns + top, rows + left))
    return Neighbours(of_x.rows, of_x.similarity), Neighbours(of_y.rows, of_y.similarity)


class _Best:
    """The running k best of every row."""

    def __init__(self, n: int, k: int):
        self.k = k
        self.rows = np.full((n, k), -1, dtype=np.int64)
        self.similarity = np.full((n, k), -np.inf)

    def candidates(self, tile: NDArray[np.float32], start: int, slack: float) -> Iterator[tuple[Ints, Ints]]:
        """Positions in a tile (its rows are rows `start`, ... of this side) that may be among the k best.

        In several parts where ties make them many.
        """
        if self.k == 0:
            return
        floor = self.similarity[start : start + len(tile), -1]
        if np.isneginf(floor).any() and tile.shape[1] > self.k:
            # Nothing to beat yet: the k-th best of this tile is a floor just as good.
            within = np.partition(tile, tile.shape[1] - self.k, axis=1)[:, -self.k]
            floor = np.maximum(floor, within)
        # Rounded down to float32, so that no candidate is lost in the conversion.
        floor = np.nextafter((floor - slack).astype(np.float32), np.float32(-np.inf))
        chosen = tile >= floor[:, None]
        so_far = np.cumsum(np.count_nonzero(chosen, axis=1))
        first = 0
        while first < len(tile):
            before = so_far[first - 1] if first else 0
            end = max(first + 1, int(np.searchsorted(so_far, before + AT_ONCE // 8, side="right")))
            rows, columns = np.nonzero(chosen[first:end])
            if len(rows):
                yield rows.astype(np.int64, copy=False) + first, columns.astype(np.int64, copy=False)
            first = end

    def update(self, rows: Ints, columns: Ints, similarity: Floats) -> None:
        """Take in candidates: `columns[i]` of the other side for `rows[i]` of this one."""
        beats = similarity >= self.similarity[rows, -1]  # equality: a tie may go to a lower row
        rows, columns, similarity = rows[beats], columns[beats], similarity[beats]
        touched = np.unique(rows)
        # The rows' present best compete with the candidates.
        all_rows = np.concatenate([np.repeat(touched, self.k), rows])
        all_columns = np.concatenate([self.rows[touched].ravel(), columns])
        all_similarity = np.concatenate([self.similarity[touched].ravel(), similarity])
        order = np.lexsort((all_columns, -all_similarity, all_rows))
        first = np.searchsorted(all_rows[order], touched)
        kept = order[first[:, None] + np.arange(self.k)]
        self.rows[touched] = all_columns[kept]
        self.similarity[touched] = all_similarity[kept]

"""Exact nearest neighbours with NumPy alone, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from harness.mining.search import AT_ONCE, Checkpoint, Floats, Ints, Neighbours, Report, Side, similarity

_BLOCK = 2048


def nearest_plain(
    x: Side, y: Side, k_x: int, k_y: int, block: int | None, checkpoint: Checkpoint, report: Report
) -> tuple[Neighbours, Neighbours]:
    """The `k_x` nearest rows of y of every row of x, and the `k_y` nearest rows of x of every row of y.

    For `block`, `checkpoint` and `report` see `harness.mining.neighbours.nearest`; the latter takes the rows of x that
    are done.
    """
    of_x, of_y = Best(len(x), k_x), Best(len(y), k_y)
    names = ("x_rows", "x_similarity", "y_rows", "y_similarity")
    arrays = dict(zip(names, (of_x.rows, of_x.similarity, of_y.rows, of_y.similarity), strict=True))
    start = checkpoint.restore(arrays, len(x))

    def after_block(done: int) -> None:
        if done < len(x):
            checkpoint.save(arrays, done)
        report(done)

    search(x, y, of_x, of_y, block, start, after_block)
    return Neighbours(of_x.rows, of_x.similarity), Neighbours(of_y.rows, of_y.similarity)


def search(
    x: Side,
    y: Side,
    of_x: Best,
    of_y: Best | None = None,
    block: int | None = None,
    start: int = 0,
    after_block: Callable[[int], None] = lambda done: None,
) -> None:
    """Take the neighbours of x's rows from `start` on into `of_x`, and those of y's rows among them into `of_y`.

    One pass over tiles of block x 2 block similarities feeds both directions; ties go to the lowest row.

    A float32 product of two vectors of length d errs by at most d u |x| |y| (u = 2^-24, any order of summation, to
    first order in u; Higham, Accuracy and Stability of Numerical Algorithms, eq. 3.5), and by d 2^-149 where products
    are no normal numbers. So whatever lies more than twice that below the k-th best candidate cannot be among the k
    best, and only the rest is scored in float64.
    """
    # 1.01 covers the terms of higher order in u for every dim < 160,000, and the rounding of the float64 reference.
    slack = 2 * x.dim * (1.01 * 2.0**-24 * x.largest_norm * y.largest_norm + 2.0**-149)
    block = block or _BLOCK
    for top in range(start, len(x), block):
        rows_of_x = x[top : top + block]
        for left in range(0, len(y), 2 * block):
            tile = rows_of_x @ y[left : left + 2 * block].T
            for rows, columns in of_x.candidates(tile, top, slack):
                of_x.update(rows + top, columns + left, similarity(x, y, rows + top, columns + left))
            if of_y is None:
                continue
            for rows, columns in of_y.candidates(tile.T, left, slack):
                of_y.update(rows + left, columns + top, similarity(x, y, columns + top, rows + left))
        after_block(min(top + block, len(x)))


class Best:
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

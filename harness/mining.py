"""Margin-based bitext mining: exact nearest neighbours in both directions, margin scores, retrieval, threshold.

Follows Artetxe and Schwenk, "Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings"
(ACL 2019), and LASER's `mine_bitexts.py` and `bucc.py`. All functions work on arrays and return arrays.

The reference similarity of two vectors is the dot product of their float32 components accumulated in float64.
Matrix products in float32 only find candidates; selection, means and scores follow the reference, so the result
depends neither on the block size nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError, unknown_name

Margin = Literal["ratio", "distance", "absolute"]
Retrieval = Literal["max", "intersect", "forward", "backward"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_AT_ONCE = 1 << 21  # components (of pairs that are scored) or candidates at once: some tens of MB of temporaries


class Neighbours(NamedTuple):
    """The k' nearest vectors of the other side: `rows` (n, k') int64 and `similarity` (n, k') float64, best first."""

    rows: Ints
    similarity: Floats


def normalise(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows of `vectors` (n, dim) scaled to unit L2 norm, in float32; zero rows stay zero."""
    return _scaled(vectors, row_norms(vectors))


def row_norms(vectors: NDArray[np.float32]) -> Floats:
    """The L2 norm of every row of `vectors` (n, dim), accumulated in float64, block by block; shape (n,)."""
    norms = np.empty(len(vectors))
    rows = max(1, _AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        part = vectors[start : start + rows].astype(np.float64)
        norms[start : start + rows] = np.sqrt(np.einsum("ij,ij->i", part, part))
    return norms


def _scaled(vectors: NDArray[np.float32], norms: Floats) -> NDArray[np.float32]:
    """The rows of `vectors` (n, dim) divided by `norms` (n,), zero where the norm is, rounded to float32 once."""
    divisors = np.where(norms > 0, norms, 1)[:, None]
    unit = np.empty(vectors.shape, dtype=np.float32)
    rows = max(1, _AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        part = slice(start, start + rows)
        # Divided in float64: the norm of a row of denormals, or of the largest numbers, has no float32.
        np.divide(vectors[part], divisors[part], out=unit[part], dtype=np.float64, casting="same_kind")
    return unit


class _Side:
    """The vectors of one side, given out in float32 as they are or scaled to unit norm, never all at once."""

    def __init__(self, vectors: NDArray[np.float32], label: str, *, cosine: bool):
        norms = row_norms(vectors)
        if not np.isfinite(norms).all():
            bad = int(np.flatnonzero(~np.isfinite(norms))[0])
            raise InputError(f"row {bad} of {label} holds NaN or infinity")
        self._vectors, self._norms = vectors, norms if cosine else None
        self.largest_norm = 1.0 + 1e-6 if cosine else float(norms.max(initial=0.0))

    def __len__(self) -> int:
        return len(self._vectors)

    def __getitem__(self, rows: slice | Ints) -> NDArray[np.float32]:
        part = self._vectors[rows]
        return part if self._norms is None else _scaled(part, self._norms[rows])


def similarity(x: _Side | NDArray[np.float32], y: _Side | NDArray[np.float32], rows: Ints, columns: Ints) -> Floats:
    """The reference similarity of the pairs (x[rows[i]], y[columns[i]]), shape (len(rows),).

    Equal vectors give equal values wherever they stand, which a matrix product does not promise.
    """
    out = np.empty(len(rows))
    pairs = max(1, _AT_ONCE // max(1, x[:1].shape[1]))
    for start in range(0, len(rows), pairs):
        part = slice(start, start + pairs)
        products = x[rows[part]].astype(np.float64)
        products *= y[columns[part]]
        out[part] = products.sum(axis=1)
    return out


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
    sides = _Side(x, "x", cosine=cosine), _Side(y, "y", cosine=cosine)
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
            end = max(first + 1, int(np.searchsorted(so_far, before + _AT_ONCE // 8, side="right")))
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


def margin_scores(similarity: Floats, mean_x: Floats, mean_y: Floats, margin: Margin = "ratio") -> Floats:
    """score(x, y) = margin(a, b) with a = cos(x, y), b = (mean_x + mean_y) / 2 (Artetxe and Schwenk, section 3.1).

    "ratio" is a / b (0 where b is 0), "distance" a - b, "absolute" a. Shapes broadcast.
    """
    if margin == "absolute":
        return similarity + 0 * mean_x
    b = (mean_x + mean_y) / 2
    if margin == "distance":
        return similarity - b
    return np.divide(similarity, b, out=np.zeros(np.broadcast_shapes(similarity.shape, b.shape)), where=b != 0)


def mine(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    *,
    k: int = 4,
    margin: Margin = "ratio",
    retrieval: Retrieval = "max",
    block: int = 2048,
) -> tuple[Ints, Floats]:
    """Mine pairs of rows of x and y that translate each other.

    Args:
        x, y: float32 (n, dim) and (m, dim), arrays or memory maps; their cosine similarity counts.
        k: neighbours a side for candidates and margin.
        margin: how a pair's similarity is compared with its neighbourhood, see `margin_scores`.
        retrieval: "max": the best candidates of both sides in descending score (ties by row of x, then of y), each
            row used once, scores <= 0 dropped; "intersect": pairs that are each other's best; "forward",
            "backward": each x's best, each y's best.
        block: see `nearest`.

    Returns:
        pairs (p, 2) int64, rows of x and y, and scores (p,) float64, both in descending score.

    Raises:
        InputError: see `nearest`; or an unknown margin or retrieval.
    """
    if margin not in get_args(Margin):
        raise unknown_name("margin", margin, get_args(Margin))
    if retrieval not in get_args(Retrieval):
        raise unknown_name("retrieval", retrieval, get_args(Retrieval))
    of_x, of_y = nearest(x, y, k, block=block)
    if of_x.rows.size == 0 or of_y.rows.size == 0:
        return np.empty((0, 2), np.int64), np.empty(0)
    mean_x, mean_y = of_x.similarity.mean(axis=1), of_y.similarity.mean(axis=1)
    best_y, forward = _best_candidate(of_x, margin_scores(of_x.similarity, mean_x[:, None], mean_y[of_x.rows], margin))
    best_x, backward = _best_candidate(of_y, margin_scores(of_y.similarity, mean_y[:, None], mean_x[of_y.rows], margin))
    rows_x, rows_y = np.arange(len(x)), np.arange(len(y))
    if retrieval == "forward":
        pairs, scores = np.column_stack([rows_x, best_y]), forward
    elif retrieval == "backward":
        pairs, scores = np.column_stack([best_x, rows_y]), backward
    elif retrieval == "intersect":
        mutual = best_x[best_y] == rows_x
        pairs, scores = np.column_stack([rows_x, best_y])[mutual], forward[mutual]
    else:
        pairs = np.concatenate([np.column_stack([rows_x, best_y]), np.column_stack([best_x, rows_y])])
        scores = np.concatenate([forward, backward])
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))
    pairs, scores = pairs[order], scores[order]
    if retrieval == "max":
        taken = _one_to_one(pairs, len(x), len(y)) & (scores > 0)
        pairs, scores = pairs[taken], scores[taken]
    return pairs, scores


def _best_candidate(neighbours: Neighbours, scores: Floats) -> tuple[Ints, Floats]:
    """Each row's best neighbour by score (ties: higher similarity, then lowest row) and that score."""
    # Neighbours are sorted by descending similarity, then row: argmax takes the first of equal scores.
    first = scores.argmax(axis=1)[:, None]
    return np.take_along_axis(neighbours.rows, first, 1)[:, 0], np.take_along_axis(scores, first, 1)[:, 0]


def _one_to_one(pairs: Ints, n: int, m: int) -> NDArray[np.bool_]:
    """Which pairs are taken if, from the first to the last, a pair is taken when neither side is taken yet."""
    free_x, free_y = bytearray(b"\1" * n), bytearray(b"\1" * m)
    taken = np.zeros(len(pairs), dtype=bool)
    for i, (row, column) in enumerate(pairs.tolist()):
        if free_x[row] and free_y[column]:
            free_x[row] = free_y[column] = 0
            taken[i] = True
    return taken


def best_threshold(scores: Floats, correct: NDArray[np.bool_], n_gold: int) -> float:
    """The score threshold with the best F1 (LASER's `bucc_optimize`).

    Walks the pairs in descending score; at the first position where F1 against the gold pairs reaches its maximum,
    the threshold is the midpoint to the next score, or the score itself if it is the last; 0 if no pair is correct.

    Args:
        scores: (p,), descending.
        correct: (p,), whether the pair is in the gold.
        n_gold: number of gold pairs.
    """
    hits = np.cumsum(correct)
    if len(hits) == 0 or hits[-1] == 0:
        return 0.0
    # F1 = 2 tp / (extracted + gold), rather than through P and R: equal values then compare equal.
    position = int(np.argmax(2 * hits / (np.arange(1, len(hits) + 1) + n_gold)))
    if position + 1 == len(scores):
        return float(scores[position])
    return float((scores[position] + scores[position + 1]) / 2)


def precision_recall_f1(n_correct: int, n_extracted: int, n_gold: int) -> tuple[float, float, float]:
    """Precision, recall and F1 x 100; 0 where a denominator is 0."""
    precision = n_correct / n_extracted if n_extracted else 0.0
    recall = n_correct / n_gold if n_gold else 0.0
    total = n_extracted + n_gold
    return 100 * precision, 100 * recall, 200 * n_correct / total if total else 0.0

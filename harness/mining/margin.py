"""Margin scores, the pairs that they lead to, and the score from which on these count as translations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import unknown_name
from harness.mining.neighbours import Backend, Progress, nearest
from harness.mining.search import Floats, Ints, Neighbours

_AT_ONCE = 1 << 16  # pairs

Margin = Literal["ratio", "distance", "absolute"]
Retrieval = Literal["max", "intersect", "forward", "backward"]


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
    x: NDArray[np.floating[Any]],
    y: NDArray[np.floating[Any]],
    *,
    k: int = 4,
    margin: Margin = "ratio",
    retrieval: Retrieval = "max",
    backend: Backend = "auto",
    block: int | None = None,
    checkpoint: Path | str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Ints, Floats]:
    """Mine pairs of rows of x and y that translate each other.

    Args:
        x, y: (n, dim) and (m, dim), float32 or float16, arrays or memory maps; their cosine similarity counts.
        k: neighbours a side for candidates and margin.
        margin: how a pair's similarity is compared with its neighbourhood, see `margin_scores`.
        retrieval: "max": the best candidates of both sides in descending score (ties by row of x, then of y), each
            row used once, scores <= 0 dropped; "intersect": pairs that are each other's best; "forward",
            "backward": each x's best, each y's best.
        backend, block, checkpoint, on_progress: see `nearest`.

    Returns:
        pairs (p, 2) int64, rows of x and y, and scores (p,) float64, both in descending score.

    Raises:
        InputError, MissingExtraError: see `nearest`; or an unknown margin or retrieval.
    """
    if margin not in get_args(Margin):
        raise unknown_name("margin", margin, get_args(Margin))
    if retrieval not in get_args(Retrieval):
        raise unknown_name("retrieval", retrieval, get_args(Retrieval))
    of_x, of_y = nearest(x, y, k, backend=backend, block=block, checkpoint=checkpoint, on_progress=on_progress)
    return matched(of_x, of_y, margin, retrieval)


def matched(
    of_x: Neighbours, of_y: Neighbours, margin: Margin = "ratio", retrieval: Retrieval = "max"
) -> tuple[Ints, Floats]:
    """The pairs, and their scores, that the neighbours of both sides, as `nearest` gives them, lead to; see `mine`."""
    if of_x.rows.size == 0 or of_y.rows.size == 0:
        return np.empty((0, 2), np.int64), np.empty(0)
    (best_y, forward), (best_x, backward) = best_candidates(of_x, of_y, margin)
    rows_x, rows_y = np.arange(len(of_x.rows)), np.arange(len(of_y.rows))
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
        taken = _one_to_one(pairs, len(of_x.rows), len(of_y.rows)) & (scores > 0)
        pairs, scores = pairs[taken], scores[taken]
    return pairs, scores


def best_candidates(
    of_x: Neighbours, of_y: Neighbours, margin: Margin = "ratio"
) -> tuple[tuple[Ints, Floats], tuple[Ints, Floats]]:
    """For each row of x its neighbour with the highest margin score, and that score, (n,) each; and for each row of y.

    of_x, of_y: what `nearest` gives; neither side is empty.
    """
    mean_x, mean_y = of_x.similarity.mean(axis=1), of_y.similarity.mean(axis=1)
    forward = margin_scores(of_x.similarity, mean_x[:, None], mean_y[of_x.rows], margin)
    backward = margin_scores(of_y.similarity, mean_y[:, None], mean_x[of_y.rows], margin)
    return _best_candidate(of_x, forward), _best_candidate(of_y, backward)


def _best_candidate(neighbours: Neighbours, scores: Floats) -> tuple[Ints, Floats]:
    """Each row's best neighbour by score (ties: higher similarity, then lowest row) and that score."""
    # Neighbours are sorted by descending similarity, then row: argmax takes the first of equal scores.
    first = scores.argmax(axis=1)[:, None]
    return np.take_along_axis(neighbours.rows, first, 1)[:, 0], np.take_along_axis(scores, first, 1)[:, 0]


def _one_to_one(pairs: Ints, n: int, m: int) -> NDArray[np.bool_]:
    """Which pairs are taken if, from the first to the last, a pair is taken when neither side is taken yet."""
    free_x, free_y = bytearray(b"\1" * n), bytearray(b"\1" * m)
    taken = np.zeros(len(pairs), dtype=bool)
    for start in range(0, len(pairs), _AT_ONCE):  # Python's numbers take ten times the memory
        for i, (row, column) in enumerate(pairs[start : start + _AT_ONCE].tolist(), start):
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

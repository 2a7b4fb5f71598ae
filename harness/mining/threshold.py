"""The score from which on mined pairs count as translations, and how good they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.mining.vectors import Floats


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

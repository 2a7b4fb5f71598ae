"""Bitext mining in plain Python loops, after DESIGN's steps: slow, and independent of `harness.mining`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Vector = list[float]


def unit_vectors(vectors: np.ndarray) -> list[Vector]:
    """Rows scaled to unit norm and rounded to float32, as lists of Python floats; zero rows stay zero."""
    rows = []
    for row in vectors.tolist():
        largest = max(map(abs, row), default=0.0)
        norm = largest * math.sqrt(math.fsum((v / largest) ** 2 for v in row)) if largest else 1.0
        rows.append([float(np.float32(v / norm)) for v in row])
    return rows


def dot(a: Vector, b: Vector) -> float:
    return sum(p * q for p, q in zip(a, b, strict=True))


def neighbours(similarity: list[list[float]], k: int) -> list[list[int]]:
    return [sorted(range(len(row)), key=lambda j, row=row: (-row[j], j))[:k] for row in similarity]


def score_of(a: float, b: float, margin: str) -> float:
    if margin == "absolute":
        return a
    if margin == "distance":
        return a - b
    return a / b if b != 0 else 0.0


def mine_oracle(
    x: list[Vector], y: list[Vector], k: int, margin: str, retrieval: str
) -> tuple[list[tuple[int, int]], list[float]]:
    """`x`, `y`: see `unit_vectors`."""
    if not x or not y:
        return [], []
    forward = [[dot(a, b) for b in y] for a in x]
    backward = [[forward[i][j] for i in range(len(x))] for j in range(len(y))]
    near_x, near_y = neighbours(forward, k), neighbours(backward, k)
    mean_x = [sum(forward[i][j] for j in near) / len(near) for i, near in enumerate(near_x)]
    mean_y = [sum(backward[j][i] for i in near) / len(near) for j, near in enumerate(near_y)]

    def score(i: int, j: int) -> float:
        return score_of(forward[i][j], (mean_x[i] + mean_y[j]) / 2, margin)

    best_of_x = [min(near, key=lambda j, i=i: (-score(i, j), -forward[i][j], j)) for i, near in enumerate(near_x)]
    best_of_y = [min(near, key=lambda i, j=j: (-score(i, j), -forward[i][j], i)) for j, near in enumerate(near_y)]
    from_x = [(i, j) for i, j in enumerate(best_of_x)]
    from_y = [(i, j) for j, i in enumerate(best_of_y)]
    pairs: Any = {
        "forward": from_x,
        "backward": from_y,
        "intersect": [pair for pair in from_x if pair in set(from_y)],
        "max": sorted(set(from_x) | set(from_y)),
    }[retrieval]
    pairs = sorted(pairs, key=lambda pair: (-score(*pair), *pair))
    if retrieval == "max":
        used_x: set[int] = set()
        used_y: set[int] = set()
        taken = []
        for i, j in pairs:
            if i not in used_x and j not in used_y:
                used_x.add(i)
                used_y.add(j)
                if score(i, j) > 0:
                    taken.append((i, j))
        pairs = taken
    return pairs, [score(i, j) for i, j in pairs]


def threshold_oracle(scores: list[float], correct: list[bool], n_gold: int) -> float:
    """LASER's `bucc_optimize`, with the last position's midpoint replaced by its score."""
    best, threshold, hits = 0.0, 0.0, 0
    for position, is_correct in enumerate(correct):
        hits += is_correct
        if hits:
            precision, recall = hits / (position + 1), hits / n_gold
            f1 = 2 * precision * recall / (precision + recall)
            if f1 > best + 1e-12:
                best = f1
                following = scores[position + 1] if position + 1 < len(scores) else scores[position]
                threshold = (scores[position] + following) / 2
    return threshold

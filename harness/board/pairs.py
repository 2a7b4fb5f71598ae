"""Tests of all pairs of encoders, for the page: as many as it has room for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import nan
from typing import Any

from harness.board.numbers import number
from harness.protocol.described import metric_of
from harness.results.records import Result
from harness.statistics.board import Board, Key, holm

MOST = 200_000
"""Tests that a page has at most: first those of the columns over all tasks, then those of the others."""
P_DIGITS, P_PRINTED = 6, 3


def all_pairs(columns: Sequence[tuple[Board, Key, bool]], results: Sequence[Sequence[Result]]) -> list[Any]:
    """By column its tests: `p`, Holm's corrected p of all pairs, the upper triangle row by row (None: not tested), and
    `n`, of how many tests. None where nothing was tested, or by which nobody is ranked; False where there is no room.

    Args:
        columns: each with whether it is one of the table over all tasks.
        results: by column, those of full vectors, in the order of rows and columns of its triangle.
    """
    ranked = [place for place, (_, (task, _, metric), _) in enumerate(columns) if metric_of(task, metric).is_ranked]
    left = MOST
    found: list[Any] = [None] * len(columns)
    for place in sorted(ranked, key=lambda place: not columns[place][2]):
        board, key, _ = columns[place]
        n = len(results[place]) * (len(results[place]) - 1) // 2
        found[place] = _pairs(board, key[2], results[place]) if n <= left else False
        left -= n if found[place] else 0
    return found


def _pairs(board: Board, metric: str, results: Sequence[Result]) -> dict[str, Any] | None:
    tests = [board.p(first, second, metric) for first, second in combinations(results, 2)]
    if all(p is None for p in tests):
        return None
    corrected = holm([nan if p is None else p for p in tests])
    texts = [number(p, P_DIGITS, P_PRINTED) for p in corrected]
    return {"p": texts, "n": sum(p is not None for p in texts)}

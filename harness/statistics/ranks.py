"""The overall rank: an encoder's mean rank over several columns of a table, and its interval. Imports no NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import isnan, nan
from typing import NamedTuple

from harness.protocol.described import metric_of
from harness.results.records import Result
from harness.statistics.board import Board, Key, holm

_ROUNDING = 1e-9


class OverallRank(NamedTuple):
    """The mean of an encoder's ranks (1 is the best), and both ends of its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class OverallRanks:
    """The overall ranks of a table.

    Attributes:
        ranks: by encoder, of those that have a score in every ranked column; empty if these are fewer than two.
        keys: the ranked columns.
        of_column: by column, the rank of each of these encoders in it.
        level: of the intervals.
        n_tests: of two encoders in a column; 0: nothing was tested.
        n_separated: of these tests, how many are significant after the correction.
        smallest_p: before the correction.
    """

    ranks: dict[str, OverallRank]
    keys: tuple[Key, ...]
    level: float
    n_tests: int
    n_separated: int
    smallest_p: float
    of_column: Mapping[Key, Mapping[str, float]] = field(default_factory=dict)


def overall_ranks(board: Board, keys: Sequence[Key]) -> OverallRanks:
    """Mean ranks over the columns `keys`, among the encoders that have all of them.

    A rank is that of the scores in a column; equal scores share the mean of theirs (Demsar 2006, "Statistical
    Comparisons of Classifiers over Multiple Data Sets", section 3.2.2). Each column counts once, so a task with two
    columns counts twice. Columns by which nobody is ranked (a difference, an error) are left out, as are cut and
    quantised vectors, and scores on other data (an average over other sets, say) or by another protocol than most have.

    The interval goes from the mean over the columns of 1 + the number of encoders that are significantly better, to
    the mean of m - the number of those that are significantly worse, of m encoders, by the stored paired tests,
    corrected by Holm over all pairs and columns. With a probability of `level` no pair is separated that should not
    be, and then the intervals of all encoders hold their true mean ranks at once (as in Mogstad, Romano, Shaikh and
    Wilhelm 2024, "Inference for Ranks", Review of Economic Studies 91). They are wider than need be. A pair that was
    not tested separates nothing. Many encoders need many resamples: of 10,000 the smallest p-value is 0.0001, which
    is significant among 499 tests, and not among 500.
    """
    ranked = tuple(key for key in keys if metric_of(key[0], key[2]).is_ranked)
    columns = [_results(board, key) for key in ranked]
    names = sorted(set.intersection(*map(set, columns))) if columns else []
    if len(names) < 2:
        return OverallRanks({}, ranked, 0.95, 0, 0, nan)
    alpha = min(board.statistics(task).alpha for task, _, _ in ranked)
    scores = [
        {name: column[name].metrics[key[2]] for name in names} for key, column in zip(ranked, columns, strict=True)
    ]
    p: dict[tuple[int, str, str], float] = {}
    for place, (column, (_, _, metric)) in enumerate(zip(columns, ranked, strict=True)):
        for first, second in combinations(names, 2):
            if (value := board.p(column[first], column[second], metric)) is not None and not isnan(value):
                p[place, first, second] = value
    separated = [test for test, value in zip(p, holm(list(p.values())), strict=True) if value < alpha]
    lows = [dict.fromkeys(names, 1) for _ in ranked]
    highs = [dict.fromkeys(names, len(names)) for _ in ranked]
    for place, first, second in separated:
        better, worse = sorted((first, second), key=lambda name: -scores[place][name])
        lows[place][worse] += 1
        highs[place][better] -= 1
    ranks = [_ranks(column) for column in scores]
    means = {name: OverallRank(*(_mean(parts, name) for parts in (ranks, lows, highs))) for name in names}
    return OverallRanks(
        means,
        ranked,
        round(1 - alpha, 12),
        len(p),
        len(separated),
        min(p.values(), default=nan),
        dict(zip(ranked, ranks, strict=True)),
    )


def _results(board: Board, key: Key) -> dict[str, Result]:
    """The results of the encoders that are ranked by a column: on the data and by the protocol that most share."""
    task, subset, metric = key
    found = {e: r for e, r in board.results(task, subset).items() if metric in r.metrics and r.base is None}
    kinds = Counter((r.dataset.sha256, r.signature) for r in found.values())
    usual = min(kinds, key=lambda kind: (-kinds[kind], kind), default=None)
    return {e: r for e, r in found.items() if (r.dataset.sha256, r.signature) == usual}


def _ranks(scores: Mapping[str, float]) -> dict[str, float]:
    """The ranks of scores, the highest first; equal ones share the mean of theirs."""
    ranks = {}
    for name, score in scores.items():
        above = sum(other > score + _ROUNDING for other in scores.values())
        equal = sum(abs(other - score) <= _ROUNDING for other in scores.values())
        ranks[name] = above + (equal + 1) / 2
    return ranks


def _mean(columns: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(column[name] for column in columns) / len(columns)

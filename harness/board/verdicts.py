"""What may be said of a column of the board in one sentence: never more than its tests say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan

from harness.protocol.described import metric_of
from harness.report.best import verdict as verdict_of
from harness.report.figures import shortened
from harness.results.records import Result
from harness.statistics.best import Answer, Contender
from harness.statistics.board import Board, Key
from harness.statistics.candidates import Facts

_LISTED = 6


def verdict(board: Board, key: Key, facts: Mapping[str, Facts]) -> str:
    """A sentence on one column: who is the best, who cannot be told from it, who was not tested.

    It is that of `leaderboard best`; of a difference it says whose is not zero. Empty for what ranks nobody, and where
    nothing was measured.

    Args:
        board: of all encoders that are shown.
        key: the column.
        facts: by encoder, what is known beside its scores.
    """
    task, subset, metric = key
    of_full = {e: r for e, r in board.results(task, subset).items() if metric in r.metrics and r.base is None}
    if not of_full:
        return ""
    known = metric_of(task, metric)
    if known.kind == "difference":
        return _against_zero(board, of_full, metric)
    return verdict_of(_answer(board, key, of_full), facts) if known.is_ranked else ""


def _answer(board: Board, key: Key, results: Mapping[str, Result]) -> Answer:
    task, subset, metric = key
    standing = board.standing(key)
    value = {encoder: result.metrics[metric] for encoder, result in results.items()}
    # The leader is the first by name of those with the same value.
    order = sorted(value, key=lambda encoder: (encoder != standing.leader, -round(value[encoder], 9), encoder))
    contenders = []
    for encoder in order:
        low, high = board.interval(results[encoder], metric) or (nan, nan)
        difference, p = value[encoder] - value[order[0]], standing.p.get(encoder, nan)
        contenders.append(Contender(encoder, value[encoder], low, high, difference, p, (results[encoder],)))
    n = max(result.n for result in results.values())
    return Answer(task, metric, (subset,), n, tuple(contenders), standing, board.statistics(task).alpha)


def _against_zero(board: Board, results: Mapping[str, Result], metric: str) -> str:
    """Of a difference: which encoders' is not zero by the tests, the nearest to zero first."""
    order = sorted(results, key=lambda encoder: (abs(results[encoder].metrics[metric]), encoder))
    p = {encoder: board.p_zero(results[encoder], metric) for encoder in order}
    alpha = board.statistics(results[order[0]].task).alpha
    other = [e for e in order if (value := p[e]) is not None and value < alpha]
    same = [e for e in order if (value := p[e]) is not None and value >= alpha]
    untested = [e for e in order if e not in other and e not in same]
    parts = [f"nearest to zero: {_named(order[:1], results, metric)}"]
    if same:
        parts.append(f"cannot be told from zero: {_named(same, results, metric)}")
    if other:
        parts.append(f"not zero: {_named(other, results, metric)} (p < {alpha:g})")
    if untested:
        parts.append(f"not tested: {_named(untested, results, metric)}")
    return "; ".join(parts)


def _named(encoders: Iterable[str], results: Mapping[str, Result], metric: str) -> str:
    return shortened((f"{e} ({round(results[e].metrics[metric], 2) + 0.0:+.2f})" for e in encoders), _LISTED)

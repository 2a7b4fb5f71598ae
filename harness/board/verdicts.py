"""What may be said of a column of the board in one sentence: never more than its tests say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan, nan
from typing import NamedTuple

from harness.protocol.described import metric_of
from harness.report.best import verdict as verdict_of
from harness.report.figures import shortened
from harness.results.records import Result
from harness.statistics.best import Answer, Contender
from harness.statistics.board import Board, Key
from harness.statistics.candidates import Facts

_LISTED = 6


class Verdict(NamedTuple):
    """A sentence in three parts, the second of which is the name of the encoder that it begins with."""

    before: str
    name: str
    after: str

    def __str__(self) -> str:
        return "".join(self)


def verdict(board: Board, key: Key, facts: Mapping[str, Facts]) -> Verdict | None:
    """A sentence on one column: who is the best, who cannot be told from it, who was not tested.

    It is that of `leaderboard best`; of a difference it says whose is not zero. None for what ranks nobody, and where
    nothing was measured.

    Args:
        board: of all encoders that are shown.
        key: the column.
        facts: by encoder, what is known beside its scores.
    """
    task, subset, metric = key
    of_full = {e: r for e, r in board.results(task, subset).items() if metric in r.metrics and r.base is None}
    if not of_full:
        return None
    known = metric_of(task, metric)
    if known.kind == "difference":
        return _of_difference(board, key, of_full)
    if not known.is_ranked:
        return None
    answer = _answer(board, key, of_full)
    first = answer.contenders[0].encoder
    # The name with its value: a name alone ("a", say) may stand in the words before it.
    before, _, after = verdict_of(answer, facts).partition(f"{first} (")
    return Verdict(before, first, f" ({after}")


def order(board: Board, key: Key) -> list[Result]:
    """The results of a column, the highest first and of equal ones the first by name, as on a board."""
    task, subset, metric = key
    found = [result for result in board.results(task, subset).values() if metric in result.metrics]
    return sorted(found, key=lambda result: (-round(result.metrics[metric], 9), result.encoder))


def best_of(board: Board, key: Key) -> list[str]:
    """Who may be called the best of a column: the highest and those that cannot be told from it, the highest first.

    Nobody, where some encoder could not be held against the highest.
    """
    found = board.standing(key)
    lower = (found.untested | found.p.keys()) - found.equals
    is_tested = any(not isnan(p) for p in found.p.values()) and not any(isnan(found.p.get(e, nan)) for e in lower)
    return [result.encoder for result in order(board, key) if result.encoder in found.best] if is_tested else []


def _answer(board: Board, key: Key, results: Mapping[str, Result]) -> Answer:
    task, subset, metric = key
    standing = board.standing(key)
    ordered = [result for result in order(board, key) if result.encoder in results]
    contenders = []
    for result in ordered:
        value = result.metrics[metric]
        low, high = board.interval(result, metric) or (nan, nan)
        difference, p = value - ordered[0].metrics[metric], standing.p.get(result.encoder, nan)
        contenders.append(Contender(result.encoder, value, low, high, difference, p, (result,)))
    n = max(result.n for result in results.values())
    return Answer(task, metric, (subset,), n, tuple(contenders), standing, board.statistics(task).alpha)


class AgainstZero(NamedTuple):
    """Encoders of full vectors by a difference, the nearest to zero first.

    Attributes:
        nearest: all.
        same, other, untested: of these those that cannot be told from zero, are not zero, or were not tested.
    """

    nearest: list[str]
    same: list[str]
    other: list[str]
    untested: list[str]


def against_zero(board: Board, key: Key) -> AgainstZero:
    """What the tests say of a difference."""
    task, _, metric = key
    results = {result.encoder: result for result in order(board, key) if result.base is None}
    nearest = sorted(results, key=lambda encoder: (abs(results[encoder].metrics[metric]), encoder))
    p = {encoder: board.p_zero(results[encoder], metric) for encoder in nearest}
    alpha = board.statistics(task).alpha
    other = [e for e in nearest if (value := p[e]) is not None and value < alpha]
    same = [e for e in nearest if (value := p[e]) is not None and value >= alpha]
    return AgainstZero(nearest, same, other, [e for e in nearest if e not in other and e not in same])


def _of_difference(board: Board, key: Key, results: Mapping[str, Result]) -> Verdict:
    """Which encoders' difference is not zero by the tests, the nearest to zero first."""
    task, _, metric = key
    nearest, same, other, untested = against_zero(board, key)
    parts = [""]
    if same:
        parts.append(f"cannot be told from zero: {_named(same, results, metric)}")
    if other:
        parts.append(f"not zero: {_named(other, results, metric)} (p < {board.statistics(task).alpha:g})")
    if untested:
        parts.append(f"not tested: {_named(untested, results, metric)}")
    first = _named(nearest[:1], results, metric).removeprefix(nearest[0])
    return Verdict("nearest to zero: ", nearest[0], first + "; ".join(parts))


def _named(encoders: Iterable[str], results: Mapping[str, Result], metric: str) -> str:
    return shortened((f"{e} ({round(results[e].metrics[metric], 2) + 0.0:+.2f})" for e in encoders), _LISTED)

"""The overall rank and its interval: against plain loops, and by simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.special
import scipy.stats
from result_records import record, sts

from harness.results.records import Dataset, Result
from harness.results.statistics import Entry, Statistics, digest
from harness.statistics.board import Board
from harness.statistics.ranks import OverallRanks, overall_ranks

SUBSETS = ("en-en", "es-es", "ar-ar")
Tests = dict[tuple[str, str, str], float]
"""By subset and two encoders in the order of the alphabet."""


def board(results: list[Result], p: Tests, level: float = 0.95) -> Board:
    entries = {(r.encoder, r.subset): Entry(digest(r)) for r in results}
    for (subset, first, second), value in p.items():
        entries[first, subset].p.setdefault("spearman", {})[second] = value
    return Board(results, {"sts17": Statistics("made-up", level, entries)})


def ranks(scores: dict[str, dict[str, float]], p: Tests, level: float = 0.95) -> OverallRanks:
    """scores: by subset and encoder."""
    results = [sts(name, subset, value) for subset, of in scores.items() for name, value in of.items()]
    return overall_ranks(board(results, p, level), [("sts17", subset, "spearman") for subset in scores])


def by_hand(scores: dict[str, dict[str, float]], p: Tests) -> dict[str, tuple[float, float, float]]:
    """Holm step by step; then every encoder, column and opponent in turn."""
    apart = set()
    for place, (value, test) in enumerate(sorted((value, test) for test, value in p.items())):
        if value * (len(p) - place) >= 0.05:
            break
        apart.add(test)
    found = {}
    for name in scores[SUBSETS[0]]:
        rank = low = high = 0.0
        for subset, column in scores.items():
            others = [other for other in column if other != name]
            rank += 1 + sum((column[o] > column[name]) + (column[o] == column[name]) / 2 for o in others)
            separated = [o for o in others if (subset, *sorted((name, o))) in apart]
            low += 1 + sum(column[o] > column[name] for o in separated)
            high += len(column) - sum(column[o] < column[name] for o in separated)
        found[name] = (rank / len(scores), low / len(scores), high / len(scores))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_mean_ranks_and_intervals_are_those_of_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = {subset: {name: float(rng.integers(60, 70)) for name in "abcde"} for subset in SUBSETS}
    p = {
        (subset, *pair): float(rng.choice([0.0001, 0.0011, 0.002, 0.003, 0.04, 0.6]))
        for subset in SUBSETS
        for pair in combinations("abcde", 2)
        if scores[subset][pair[0]] != scores[subset][pair[1]] and rng.random() < 0.9
    }
    found = ranks(scores, p)
    assert found.ranks == {name: pytest.approx(ends) for name, ends in by_hand(scores, p).items()}
    assert found.n_tests == len(p) and found.smallest_p == min(p.values())
    of_scipy = np.mean([scipy.stats.rankdata([-v for v in of.values()]) for of in scores.values()], axis=0)
    assert [rank.mean for rank in found.ranks.values()] == pytest.approx(of_scipy)


def test_an_encoder_without_a_column_has_no_rank_and_changes_none() -> None:
    scores = {"en-en": {"a": 3.0, "b": 2.0, "new": 9.0}, "es-es": {"a": 3.0, "b": 2.0}}
    found = ranks(scores, {("en-en", "a", "b"): 0.001, ("en-en", "a", "new"): 0.001})
    assert found.ranks == {"a": (1.0, 1.0, 1.5), "b": (2.0, 1.5, 2.0)} and found.n_tests == 1
    assert ranks({"en-en": {"a": 3.0}}, {}).ranks == {} and overall_ranks(Board([], {}), []).ranks == {}


def test_only_what_was_measured_on_the_same_data_is_ranked() -> None:
    key = ("sts17", "avg", "spearman")
    hard, easy = Dataset("a+b", "a" * 64, {}), Dataset("a", "b" * 64, {})
    results = [sts(name, "avg", value, dataset=hard, parts=["a", "b"]) for name, value in (("x", 3.0), ("y", 2.0))]
    others = [sts("z", "avg", 9.0, dataset=easy, parts=["a"]), sts("w", "avg", 8.0, dataset=hard, signature="other")]
    assert {n: r.mean for n, r in overall_ranks(Board([*results, *others], {}), [key]).ranks.items()} == {
        "x": 1.0,
        "y": 2.0,
    }
    assert overall_ranks(Board([results[0], others[0]], {}), [key]).ranks == {}


def test_what_was_not_tested_separates_nothing() -> None:
    scores = {"en-en": {"a": 3.0, "b": 2.0, "c": 1.0}}
    assert set(ranks(scores, {}).ranks.values()) == {(1.0, 1.0, 3.0), (2.0, 1.0, 3.0), (3.0, 1.0, 3.0)}
    few = ranks(scores, {("en-en", "a", "c"): 0.001, ("en-en", "a", "b"): float("nan")})
    assert few.ranks == {"a": (1.0, 1.0, 2.0), "b": (2.0, 1.0, 3.0), "c": (3.0, 2.0, 3.0)}
    assert (few.n_tests, few.n_separated) == (1, 1)


def test_differences_and_cut_vectors_are_not_ranked() -> None:
    bias = [record(e, "language-bias", "ten", {"difference": d}, "s") for e, d in (("a", -1.0), ("b", -2.0))]
    results = [sts("a", "en-en", 80.0), sts("b", "en-en", 81.0), sts("b@8", "en-en", 90.0, base="b"), *bias]
    keys = [("language-bias", "ten", "difference"), ("sts17", "en-en", "spearman")]
    found = overall_ranks(board(results, {}), keys)
    assert found.keys == (keys[1],) and {name: rank.mean for name, rank in found.ranks.items()} == {"a": 2.0, "b": 1.0}


def test_five_hundred_tests_are_too_many_for_ten_thousand_resamples() -> None:
    names = [f"e{place:02}" for place in range(32)]
    scores = {"en-en": {name: float(place) for place, name in enumerate(names)}}
    all_of_it = {("en-en", *pair): 0.0001 for pair in combinations(names, 2)}
    assert ranks(scores, all_of_it).n_separated == 496
    more = scores | {"es-es": scores["en-en"]}
    found = ranks(more, all_of_it | {("es-es", *pair): 0.0001 for pair in combinations(names, 2)})
    assert found.n_separated == 0 and set(found.ranks[names[0]]) == {32.0, 1.0}


@pytest.mark.slow
def test_intervals_hold_the_true_mean_ranks_of_all_encoders_at_once() -> None:
    """2,000 tables with known truth, some of it ties: at level 0.8 all intervals are right in 80 % of them or more."""
    rng = np.random.default_rng(7)
    names = "abcd"
    truth = {"en-en": [0.0, 0.0, 0.3, 2.0], "es-es": [0.0, 0.2, 0.2, 3.0], "ar-ar": [1.0, 0.0, 0.0, 0.0]}
    # A true rank lies between 1 + how many are truly better, and m - how many are truly worse.
    allowed = [
        [np.mean([1 + sum(o > t[i] for o in t) for t in truth.values()]) for i in range(4)],
        [np.mean([4 - sum(o < t[i] for o in t) for t in truth.values()]) for i in range(4)],
    ]
    n_tables, n_right, widths = 2000, 0, []
    for _ in range(n_tables):
        scores = {subset: dict(zip(names, rng.normal(of, 0.3), strict=True)) for subset, of in truth.items()}
        p = {
            (subset, first, second): float(2 * scipy.special.ndtr(-abs(of[first] - of[second]) / (0.3 * np.sqrt(2))))
            for subset, of in scores.items()
            for first, second in combinations(names, 2)
        }
        found = ranks(scores, p, level=0.8)
        low, high = (np.array([found.ranks[name][end] for name in names]) for end in (1, 2))
        n_right += bool((low <= allowed[0]).all() and (high >= allowed[1]).all())
        widths.append((high - low).mean())
    assert n_right >= 0.8 * n_tables
    assert np.mean(widths) < 2, "and they say something: without any test they would be 3 wide"
    assert n_right < n_tables, "errors do happen, so that the count can fail"

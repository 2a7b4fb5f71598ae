"""The best of a board, against plain loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from result_records import record, sts

from harness.core.errors import InputError
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, digest
from harness.statistics.board import Board, Standing, holm


def standing(results: list[Result], metric: str, statistics: Statistics) -> Standing:
    return Board(results, {results[0].task: statistics}).standing((results[0].task, results[0].subset, metric))


def known(results: list[Result], p: dict[tuple[str, str], float]) -> Statistics:
    entries = {(r.encoder, r.subset): Entry(digest(r), {"spearman": (0.0, 1.0)}) for r in results}
    for (first, second), value in p.items():
        first, second = sorted((first, second))
        entries[first, "en-en"].p.setdefault("spearman", {})[second] = value
    return Statistics("made-up", 0.95, entries)


def bold_by_hand(values: dict[str, float], p: dict[tuple[str, str], float]) -> set[str]:
    """The best; Holm's procedure step by step: reject the smallest p-values until one is too large."""
    best = sorted(values, key=lambda name: (-values[name], name))[0]
    tests = sorted((p[tuple(sorted((best, name)))], name) for name in values if name != best)
    bold = {name for name in values if values[name] == values[best]} | {name for _, name in tests}
    for place, (value, name) in enumerate(tests):
        if value * (len(tests) - place) >= 0.05:
            break
        bold.discard(name)
    return bold


@pytest.mark.parametrize("seed", range(40))
def test_bold_is_what_a_plain_loop_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {name: float(value) for name, value in zip("abcdef", rng.normal(70, 5, 6).round(3), strict=True)}
    p = {pair: float(rng.choice([0.0001, 0.009, 0.011, 0.02, 0.04, 0.3])) for pair in combinations("abcdef", 2)}
    results = [sts(name, "en-en", value) for name, value in values.items()]
    found = standing(results, "spearman", known(results, p))
    assert set(found.best) == bold_by_hand(values, p) and not found.untested
    assert all((p < 0.05) is (name not in found.best) for name, p in found.p.items()) and len(found.p) == 5
    assert standing(results[::-1], "spearman", known(results, p)) == found
    # Of a part of the board, the best of that part.
    part = {name: values[name] for name in "bdf"}
    own = [result for result in results if result.encoder in part]
    assert set(standing(own, "spearman", known(results, p)).best) == bold_by_hand(part, p)


def test_untested_is_not_bold_nor_what_nobody_was_held_against() -> None:
    results = [sts(name, "en-en", value) for name, value in (("a", 80.0), ("b", 79.0), ("c", 78.0))]
    found = standing(results, "spearman", known(results, {("a", "b"): 0.5}))
    assert (set(found.best), set(found.untested)) == ({"a", "b"}, {"c"})
    newcomer = [*results, sts("d", "en-en", 81.0)]
    found = standing(newcomer, "spearman", known(results, {("a", "b"): 0.5}))
    assert (set(found.best), set(found.untested)) == (set(), {"a", "b", "c"})
    assert not standing([*newcomer, sts("e", "en-en", 81.0)], "spearman", Statistics()).best


def test_nothing_is_the_best_alone_or_by_a_bias() -> None:
    assert standing([sts("a", "en-en", 80.0)], "spearman", Statistics()).best == frozenset()
    results = [record(name, "mine", "x", {"difference": -1.0, "threshold": 1.0}) for name in "ab"]
    for metric in ("difference", "threshold", "spearman"):
        assert standing(results, metric, Statistics()).best == frozenset()


def test_what_has_too_few_items_for_a_test_is_not_significantly_worse() -> None:
    results = [sts("a", "en-en", 80.0), sts("b", "en-en", 70.0)]
    assert set(standing(results, "spearman", known(results, {("a", "b"): float("nan")})).best) == {"a", "b"}


def test_holm_refuses_what_is_no_p_value() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        holm([0.5, 1.5])

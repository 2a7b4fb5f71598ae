"""Costs and rank shifts of joined sets against plain loops."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from harness.tasks.language_bias import Joining, aggregate, joining


@st.composite
def drawn_rows(draw):
    """Rows of two to four sets of unequal size, in any order; scores on a grid, with or without many ties."""
    sizes = draw(st.lists(st.integers(2, 12), min_size=2, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    steps = draw(st.sampled_from([2, 6, 4000]))
    n = sum(sizes)
    names = np.repeat([f"en-{letter}" for letter in "abcd"[: len(sizes)]], sizes)
    names = rng.permutation(names) if draw(st.booleans()) else names
    return {"set": names, "gold": rng.integers(0, 6, n) / 2, "cosine": rng.integers(-steps, steps, n) / 8}


def rho(gold, cosine):
    return 0 if len(set(gold)) == 1 or len(set(cosine)) == 1 else 100 * spearmanr(gold, cosine).statistic


def average_rank(values, value):
    return sum(other < value for other in values) + (1 + sum(other == value for other in values)) / 2


@pytest.mark.slow
@given(drawn_rows())
@settings(deadline=None, max_examples=60)
def test_as_plain_loops_have_it(rows):
    found = joining(rows)
    items = list(zip(rows["set"].tolist(), rows["gold"].tolist(), rows["cosine"].tolist(), strict=True))
    assert found.sets == tuple(dict.fromkeys(name for name, _, _ in items))

    def rho_of(*names):
        return rho(*zip(*[(gold, cosine) for name, gold, cosine in items if name in names], strict=True))

    golds, cosines = ([item[k] for item in items] for k in (1, 2))
    for i, first in enumerate(found.sets):
        for j, second in enumerate(found.sets):
            expected = 0 if i == j else rho_of(first, second) - (rho_of(first) + rho_of(second)) / 2
            assert found.cost[i, j] == pytest.approx(expected, abs=1e-9)
        moved = [average_rank(cosines, c) - average_rank(golds, g) for name, g, c in items if name == first]
        assert found.shift[i] == pytest.approx(100 * sum(moved) / len(moved) / len(items), abs=1e-9)


@pytest.mark.slow
@given(drawn_rows(), st.integers(1, 80))
@settings(deadline=None, max_examples=60)
def test_a_constant_on_one_set_moves_it_up_and_the_others_down(rows, eighths):
    before = joining(rows)
    chosen = before.sets[0]
    raised = np.where(rows["set"] == chosen, rows["cosine"] + eighths / 8, rows["cosine"])
    after = joining({**rows, "cosine": raised})
    moved = after.shift - before.shift
    assert moved[0] >= -1e-9
    assert (moved[1:] <= 1e-9).all()
    sizes = [np.count_nonzero(rows["set"] == name) for name in before.sets]
    assert np.dot(sizes, after.shift) == pytest.approx(0, abs=1e-7)
    assert after.cost[1:, 1:] == pytest.approx(before.cost[1:, 1:], abs=1e-9)  # pairs that the set is not in


@pytest.mark.slow
@given(drawn_rows())
@settings(deadline=None, max_examples=40)
def test_only_the_order_of_the_cosines_counts(rows):
    found, transformed = joining(rows), joining({**rows, "cosine": rows["cosine"] ** 3 + 7})
    assert transformed.cost == pytest.approx(found.cost, abs=1e-9)
    assert transformed.shift == pytest.approx(found.shift, abs=1e-9)


@pytest.fixture
def planted():
    """Four sets of one quality; the cosines of `en-ar` are lower than the others'."""
    rng = np.random.default_rng(5)
    names = np.repeat(["en-en", "es-es", "en-ar", "en-tr"], 250)
    gold = rng.integers(0, 26, len(names)) / 5
    cosine = gold / 5 + rng.normal(0, 0.2, len(names)) - 0.4 * (names == "en-ar")
    return {"set": names, "item": np.tile(np.arange(250), 4), "gold": gold, "cosine": cosine}


def test_a_planted_bias_is_found(planted):
    found = joining(planted)
    biased, others = found.sets.index("en-ar"), [0, 1, 3]
    assert found.shift[biased] < -15
    assert (found.shift[others] > 5).all()
    assert (found.cost[biased, others] < -8).all()
    assert np.abs(found.cost[np.ix_(others, others)]).max() < 2
    without = planted["set"] != "en-ar"
    assert np.abs(joining({key: column[without] for key, column in planted.items()}).shift).max() < 3


def test_the_cost_of_two_sets_is_the_tasks_difference(planted):
    two = np.isin(planted["set"], ["es-es", "en-ar"])
    rows = {key: column[two] for key, column in planted.items()}
    [[_, cost], _] = joining(rows).cost
    assert cost == aggregate(rows)["difference"] == joining(planted).cost[1, 2]


def test_json_and_back(planted):
    found = joining(planted)
    stored = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert stored["sets"] == list(found.sets)
    assert np.array(stored["cost"]) == pytest.approx(found.cost, abs=0.00501)
    assert stored["shift"] == pytest.approx(found.shift, abs=0.00501)


def test_what_is_rounded_to_zero_has_no_sign():
    tiny = Joining(("a", "b"), np.array([[0, -0.001], [-0.001, 0]]), np.array([-0.001, 0.001]))
    assert "-" not in json.dumps(tiny.as_dict())

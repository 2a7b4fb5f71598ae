"""Metrics as functions of multiplicities, against the metric of the repeated rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, rankdata, spearmanr
from sklearn.metrics import f1_score

from harness.core.errors import InputError
from harness.resampling.metrics import Aggregated, Combination, f1, mean, pearson, spearman

REFERENCES = {"spearman": (spearman, spearmanr), "pearson": (pearson, pearsonr)}


@st.composite
def resamples(draw):
    """Two columns, with or without ties, and multiplicities."""
    n = draw(st.integers(2, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    steps = draw(st.sampled_from([2, 5, 1000]))
    counts = rng.integers(0, draw(st.integers(2, 4)), size=(n, 5))
    counts[0] += 1
    return rng.integers(0, steps, n) / 4, rng.integers(0, steps, size=(3, n)) / 8, counts


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
@given(drawn=resamples())
@settings(deadline=None, max_examples=150)
def test_a_correlation_of_multiplicities_is_that_of_the_repeated_rows(name, drawn):
    ours, theirs = REFERENCES[name]
    gold, scores, counts = drawn
    values = ours(gold, scores)(counts.astype(float))
    for k, times in enumerate(counts.T):
        rows = np.repeat(np.arange(len(gold)), times)
        for row, value in zip(scores, values[:, k], strict=True):
            constant = len(set(gold[rows])) == 1 or len(set(row[rows])) == 1
            expected = 0 if constant else 100 * theirs(gold[rows], row[rows]).statistic
            assert value == pytest.approx(expected, abs=1e-9 if name == "spearman" else 1e-6)


@pytest.mark.parametrize("name", REFERENCES)
def test_exchanged_correlations_are_those_of_the_exchanged_standard_ranks_or_scores(name):
    rng = np.random.default_rng(1)
    gold, scores = np.round(rng.normal(size=40), 1), rng.normal(3, 9, size=(3, 40)).round(1)
    given_scores = [rankdata(row) if name == "spearman" else row for row in scores]
    given_scores = [(row - row.mean()) / row.std() for row in given_scores]  # ties make ranks spread less
    swaps = rng.integers(0, 2, (40, 6))
    pairs = [(0, 1), (2, 0)]
    values = REFERENCES[name][0](gold, scores).exchange(pairs)(swaps.astype(float))
    assert values.shape == (2, 2, 6)
    for p, (i, j) in enumerate(pairs):
        for k, swapped in enumerate(swaps.T == 1):
            for side, (own, other) in enumerate([(i, j), (j, i)]):
                mixed = np.where(swapped, given_scores[other], given_scores[own])
                expected = 100 * pearsonr(rankdata(gold) if name == "spearman" else gold, mixed).statistic
                assert values[side, p, k] == pytest.approx(expected, abs=1e-9)


def test_nothing_exchanged_is_the_metric_itself_and_all_exchanged_the_other_encoders():
    rng = np.random.default_rng(2)
    statistic = spearman(rng.normal(size=30), rng.normal(size=(2, 30)))
    first, second = statistic(np.ones((30, 1)))[:, 0]
    exchange = statistic.exchange([(0, 1)])
    assert exchange(np.zeros((30, 1)))[:, 0, 0] == pytest.approx([first, second])
    assert exchange(np.ones((30, 1)))[:, 0, 0] == pytest.approx([second, first])


def test_no_increasing_transformation_of_an_encoders_scores_changes_the_exchange_of_ranks():
    rng = np.random.default_rng(3)
    gold, a, b = rng.normal(size=(3, 50))
    swaps = rng.integers(0, 2, (50, 20)).astype(float)
    plain = spearman(gold, [a, b]).exchange([(0, 1)])(swaps)
    np.testing.assert_array_equal(spearman(gold, [a, np.exp(3 * b)]).exchange([(0, 1)])(swaps), plain)


def test_f1_of_multiplicities_is_that_of_the_repeated_items():
    rng = np.random.default_rng(4)
    gold, extracted = rng.integers(0, 2, 60), rng.integers(0, 2, (2, 60))
    counts = rng.integers(0, 3, (60, 4))
    values = f1(extracted & gold, extracted, gold)(counts.astype(float))
    for k, times in enumerate(counts.T):
        rows = np.repeat(np.arange(60), times)
        for row, found in enumerate(extracted):
            assert values[row, k] == pytest.approx(100 * f1_score(gold[rows], found[rows]))
    assert f1([[0, 0]], [[0, 0]], [0, 0])(np.ones((2, 1))) == 0


def test_a_combination_adds_its_terms_on_their_rows_and_any_aggregate_gives_the_same():
    rng = np.random.default_rng(5)
    values, counts, swaps = rng.random((2, 20)), rng.integers(0, 3, (20, 5)), rng.integers(0, 2, (20, 5))
    counts[[0, 8]] += 1
    parts = [slice(0, 8), slice(8, 20)]
    statistic = Combination([(2.0, parts[0], mean(values[:, :8])), (-0.5, parts[1], mean(values[:, 8:]))])

    def aggregate(rows):
        first = rows["place"] < 8
        return 200 * rows["value"][first].mean() - 50 * rows["value"][~first].mean()

    loop = Aggregated(aggregate, [{"place": np.arange(20), "value": row} for row in values])
    np.testing.assert_allclose(statistic(counts.astype(float)), loop(counts.astype(float)))
    exchanged = [s.exchange([(0, 1), (1, 0)])(swaps.astype(float)) for s in (statistic, loop)]
    np.testing.assert_allclose(*exchanged)


def test_correlations_do_not_depend_on_scale_or_shift():
    rng = np.random.default_rng(6)
    gold, score = rng.normal(size=(2, 100))
    counts = rng.integers(0, 3, (100, 10)).astype(float)
    values = [pearson(gold, row)(counts) for row in (score, score * 1e-8 + 1, score * 1e6)]
    for one, other in pairwise(values):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(
    ("gold", "scores", "message"),
    [
        ([1.0, 2, np.nan], [1.0, 2, 3], "NaN or infinity among the gold scores"),
        ([1.0, 2, 3], [1.0, np.inf, 3], "NaN or infinity among the similarities"),
        ([1.0, 2, 3], [1.0, 2], r"gold scores of shape \(3,\) do not go with similarities of shape \(1, 2\)"),
    ],
)
def test_what_cannot_be_resampled_is_one_line(gold, scores, message):
    for factory in (spearman, pearson):
        with pytest.raises(InputError, match=message):
            factory(gold, scores)
    with pytest.raises(InputError, match="NaN or infinity among the values"):
        mean([[1.0, np.nan]])

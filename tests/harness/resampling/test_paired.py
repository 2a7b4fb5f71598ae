"""Paired tests, Holm's correction and effect sizes, against SciPy, hand-worked numbers and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from samples import best_group, correlation
from scipy.stats import pearsonr, rankdata

from harness.core.errors import InputError
from harness.resampling.bootstrap import bootstrap
from harness.resampling.metrics import Sample, average, f1, mean, pearson, spearman
from harness.resampling.resamples import Resampling, independent, join
from harness.resampling.tests import bootstrap_p, paired_tests, randomisation_p
from harness.statistics.board import holm


def two_encoders(n=80, seed=0, errors=(0.5, 0.65)):
    rng = np.random.default_rng(seed)
    gold = rng.normal(size=n)
    return gold, [gold + error * rng.normal(size=n) for error in errors]


def williams(gold, a, b):
    """The test of two dependent correlations (Williams 1959), as Graham and Baldwin (2014) recommend for metrics."""
    r1, r2, r12 = pearsonr(gold, a)[0], pearsonr(gold, b)[0], pearsonr(a, b)[0]
    n = len(gold)
    k = 1 - r1**2 - r2**2 - r12**2 + 2 * r1 * r2 * r12
    below = np.sqrt(2 * k * (n - 1) / (n - 3) + (r1 + r2) ** 2 / 4 * (1 - r12) ** 3)
    return 2 * scipy.stats.t.sf(abs((r1 - r2) * np.sqrt((n - 1) * (1 + r12)) / below), n - 3)


def test_randomisation_agrees_with_scipys_permutation_test():
    gold, (a, b) = two_encoders()
    ranks = [rankdata(x) - 40.5 for x in (gold, a, b)]

    def rho(x, axis):
        x = x - x.mean(axis=axis, keepdims=True)
        return (x * ranks[0]).sum(axis=axis) / np.sqrt((x**2).sum(axis=axis) * (ranks[0] ** 2).sum())

    def difference(x, y, axis):
        return rho(x, axis) - rho(y, axis)

    theirs = scipy.stats.permutation_test(
        ranks[1:], difference, permutation_type="samples", vectorized=True, n_resamples=20_000, rng=1
    ).pvalue
    (ours,) = randomisation_p(Sample(spearman(gold, [a, b]), independent(80)), [(0, 1)], Resampling(20_000))
    error = np.sqrt(2 * ours * (1 - ours) / 20_000)
    assert 0.001 < ours < 0.5 and ours == pytest.approx(theirs, abs=4 * error)


def test_randomisation_of_few_items_is_the_enumeration_of_all_exchanges():
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 8))
    b += 0.3
    observed = abs((a - b).mean())
    signs = np.array(list(itertools.product([1, -1], repeat=8)))
    exact = np.mean(np.abs((signs * (a - b)).mean(axis=1)) >= observed - 1e-12)
    (ours,) = randomisation_p(Sample(mean([a, b]), independent(8)), [(0, 1)], Resampling(50_000))
    assert ours == pytest.approx(exact, abs=0.005)


@pytest.mark.slow
def test_both_tests_are_near_williams_test():
    """Of Pearson's r, which Williams' test is about: it takes rho for more certain than it is."""
    for seed in range(4):
        gold, (a, b) = two_encoders(250, seed)
        expected = williams(gold, a, b)
        sample = Sample(pearson(gold, [a, b]), independent(250))
        replicates = bootstrap(sample)
        (found,) = paired_tests(sample, [(0, 1)], replicates=replicates)
        assert found.p == pytest.approx(expected, abs=0.01 + 0.5 * expected)
        assert bootstrap_p(replicates.difference(0, 1))[0] == pytest.approx(expected, abs=0.01 + 0.5 * expected)


def test_a_p_value_counts_the_observed_exchange_too():
    gold, (a, _) = two_encoders()
    sample = Sample(spearman(gold, [gold, -a]), independent(80))
    plan = Resampling(resamples=99)
    assert randomisation_p(sample, [(0, 1)], plan) == [0.01]
    assert bootstrap_p(bootstrap(sample, plan).difference(0, 1)).tolist() == [0.01]


def test_an_encoder_does_not_differ_from_itself():
    gold, (a, _) = two_encoders()
    sample, plan = Sample(spearman(gold, [a, a]), independent(80)), Resampling(resamples=200)
    (found,) = paired_tests(sample, [(0, 1)], plan)
    assert (found.difference, found.low, found.high, found.effect_size) == (0, 0, 0, 0)
    assert (found.p, *bootstrap_p(bootstrap(sample, plan).difference(0, 1))) == (1, 1)


def test_a_comparison_turned_round_has_the_other_sign_and_the_same_p_value():
    gold, similarities = two_encoders()
    sample, plan = Sample(spearman(gold, similarities), independent(80)), Resampling(resamples=2000)
    replicates = bootstrap(sample, plan)
    one, other = paired_tests(sample, [(0, 1), (1, 0)], replicates=replicates)
    assert (one.difference, one.effect_size) == pytest.approx((-other.difference, -other.effect_size))
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert (one.p, one.units) == (other.p, 80)
    turned = [bootstrap_p(replicates.difference(*pair))[0] for pair in ((0, 1), (1, 0))]
    assert turned[0] == turned[1]


def test_clusters_are_exchanged_together():
    """Five copies of a set tell no more than one: the p-value stays."""
    gold, (a, b) = two_encoders()
    alone = correlation([{"gold": gold, "cosine": a}, {"gold": gold, "cosine": b}])
    (one,), (five,) = (randomisation_p(s, [(0, 1)]) for s in (alone, average([alone] * 5)))
    assert 0.001 < one < 0.5 and five == one
    (apart,) = randomisation_p(
        Sample(average([alone] * 5).statistic, join([independent(80) for _ in range(5)])), [(0, 1)]
    )
    assert apart < one / 2


def test_the_effect_size_of_a_mean_is_cohens_d_of_the_differences():
    a, b = np.random.default_rng(1).random((2, 60))
    (found,) = paired_tests(Sample(mean([a, b]), independent(60)), [(0, 1)], Resampling(resamples=100))
    assert found.effect_size == pytest.approx((a - b).mean() / (a - b).std(ddof=1))


def test_too_few_units_give_no_p_value():
    sample, plan = Sample(mean(np.eye(2)), independent(2)), Resampling(resamples=10)
    (found,) = paired_tests(sample, [(0, 1)], plan)
    assert found.difference == 0
    assert np.isnan(
        [found.low, found.high, found.p, found.effect_size, *bootstrap_p(bootstrap(sample, plan).difference(0, 1))]
    ).all()


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, np.nan, 0.9]) == pytest.approx([1, np.nan, 1], nan_ok=True)
    assert holm([]) == []
    with pytest.raises(InputError, match="between 0 and 1"):
        holm([0.1, 1.5])


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, alpha):
    rejected = set()
    for rank, k in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[k] * (len(p_values) - rank) > alpha:
            break
        rejected.add(k)
    assert {k for k, p in enumerate(holm(p_values)) if p <= alpha} == rejected


def test_the_best_group_holds_what_is_not_significantly_worse():
    rng = np.random.default_rng(2)
    right = rng.random(300) < np.array([0.5, 0.9, 0.9, 0.1])[:, None]
    right[2] = right[1]
    right[2, :3] ^= True
    sample = Sample(mean(right), independent(300))
    assert best_group(sample).tolist() == [False, True, True, False]
    assert best_group(Sample(mean(right[:1]), independent(300))).tolist() == [True]


def test_many_pairs_at_once_are_each_pair_by_itself():
    rng = np.random.default_rng(3)
    gold = rng.normal(size=60)
    scores = gold + rng.normal(size=(4, 60))
    plan = Resampling(400)
    pairs = [(0, 1), (2, 0), (1, 3), (3, 2)]
    for statistic in (
        spearman(gold, scores),
        pearson(gold, scores),
        mean(scores > 0),
        f1(scores > 0, scores > -1, gold > 0),
    ):
        sample = Sample(statistic, independent(60))
        assert randomisation_p(sample, pairs, plan) == [randomisation_p(sample, [pair], plan)[0] for pair in pairs]

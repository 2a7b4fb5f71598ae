"""Resamples, replicates, intervals and ranks, against SciPy and plain loops."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.stats
from samples import accuracy, correlation
from scipy.stats import binomtest, spearmanr

from harness.core.errors import InputError
from harness.resampling import resamples as module
from harness.resampling.bootstrap import Interval, bca_interval, bootstrap, bootstrap_each, percentile_interval
from harness.resampling.metrics import Sample, average, mean, spearman
from harness.resampling.resamples import Resampling, Units, bootstrap_counts, independent, join, leave_one_out, swaps
from harness.resampling.tests import rank_intervals


def rho(gold, score):
    return 100 * spearmanr(gold, score).statistic


def drawn(units, plan):
    return np.concatenate(list(bootstrap_counts(units, plan)), axis=1)


def correlated(n, seed=0, errors=(0.6,)):
    rng = np.random.default_rng(seed)
    gold = np.round(rng.normal(size=n), 1)
    return gold, np.array([gold + error * rng.normal(size=n) for error in errors])


def test_each_stratum_keeps_its_size_and_clusters_stay_together():
    units = join([independent(5, "shared"), independent(7), independent(5, "shared")])
    assert units.sizes == (5, 7) and units.of_row.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4]
    counts = drawn(units, Resampling(resamples=300))
    assert counts.shape == (17, 300)
    np.testing.assert_array_equal(counts[:5], counts[12:])
    assert set(counts[:5].sum(axis=0)) == {5} and set(counts[5:12].sum(axis=0)) == {7}
    assert np.abs(np.corrcoef(counts[:12])[:5, 5:]).max() < 0.3
    exchanged = np.concatenate(list(swaps(units, Resampling(resamples=300))), axis=1)
    np.testing.assert_array_equal(exchanged[:5], exchanged[12:])
    left = np.concatenate(list(leave_one_out(units)), axis=1)
    assert left.shape == (17, 12) and (left == 0).sum(axis=0).tolist() == [2] * 5 + [1] * 7


def test_draws_and_swaps_are_uniform():
    plan = Resampling(resamples=20_000)
    counts = drawn(independent(7), plan)
    assert counts.mean(axis=1) == pytest.approx(np.ones(7), abs=0.03)
    assert counts.var(axis=1) == pytest.approx(np.full(7, 6 / 7), abs=0.05)  # of a multinomial
    exchanged = np.concatenate(list(swaps(independent(7), plan)), axis=1)
    assert exchanged.mean(axis=1) == pytest.approx(np.full(7, 0.5), abs=0.015)
    assert len(np.unique(exchanged, axis=1).T) == 2**7


def test_resamples_depend_on_the_seed_alone(monkeypatch):
    """Written down: they must stay the same on every machine, Python and NumPy."""
    plan = Resampling(resamples=40, seed=3)
    before = drawn(independent(9), plan)
    assert before[:, 0].tolist() == [2, 2, 1, 0, 0, 1, 0, 3, 0]
    monkeypatch.setattr(module, "_BLOCK", 1)
    monkeypatch.setattr(module, "_WIDTH", 3)
    np.testing.assert_array_equal(drawn(independent(9), plan), before)
    assert (drawn(independent(9), Resampling(resamples=40, seed=4)) != before).any()


def test_the_jackknife_is_exact():
    gold, scores = correlated(30)
    replicates = bootstrap(Sample(spearman(gold, scores), independent(30)), Resampling(resamples=3))
    loop = [rho(np.delete(gold, k), np.delete(scores[0], k)) for k in range(30)]
    assert replicates.jackknife[0] == pytest.approx(loop)
    assert replicates.values == pytest.approx([rho(gold, scores[0])])


@pytest.mark.slow
@pytest.mark.parametrize(("method", "interval"), [("percentile", percentile_interval), ("BCa", bca_interval)])
def test_intervals_agree_with_scipy(method, interval):
    gold, scores = correlated(60, errors=(0.5,))
    ours = interval(bootstrap(Sample(spearman(gold, scores), independent(60)), Resampling(resamples=20_000)))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = scipy.stats.bootstrap(
            (gold, scores[0]), rho, paired=True, vectorized=False, method=method, n_resamples=4000, rng=1
        ).confidence_interval
    # The standard error of a 2.5 % quantile of 4,000 draws is about 0.045 of the interval's half width.
    tolerance = 4 * 0.045 * (ours.high - ours.low) / 2
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=tolerance)
    if method == "BCa":  # a test that cannot tell the methods apart would show nothing
        plain = percentile_interval(bootstrap(Sample(spearman(gold, scores), independent(60))))[0]
        assert abs(plain.low - ours.low) > tolerance / 4


def test_the_acceleration_of_several_strata_is_scipys():
    """Two samples without anything shared: SciPy's BCa of a two-sample statistic."""
    rng = np.random.default_rng(5)
    x, y = rng.exponential(size=25), rng.exponential(size=40)
    sample = average([Sample(mean(x[None]), independent(25)), Sample(mean(y[None]), independent(40))])
    ours = bca_interval(bootstrap(sample, Resampling(resamples=40_000)))[0]
    theirs = scipy.stats.bootstrap(
        (x, y), lambda a, b, axis: 50 * (a.mean(axis) + b.mean(axis)), method="BCa", n_resamples=40_000, rng=2
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.08 * (ours.high - ours.low) / 2)


def test_shared_source_pairs_widen_the_interval_of_an_average():
    gold, scores = correlated(80, errors=(0.8,))
    same = [{"gold": gold, "cosine": scores[0]}]
    alone = bca_interval(bootstrap(correlation(same)))[0]
    together = bca_interval(bootstrap(average([correlation(same)] * 5)))[0]
    assert (together.low, together.high) == pytest.approx((alone.low, alone.high))  # five copies tell no more than one
    other = [{"gold": gold[::-1].copy(), "cosine": scores[0][::-1].copy()}]
    apart = bca_interval(bootstrap(average([correlation(same), correlation(other)])))[0]
    assert apart.high - apart.low == pytest.approx((alone.high - alone.low) / np.sqrt(2), rel=0.1)


FEW = Resampling(resamples=100, level=0.9)


@pytest.mark.parametrize("n", [3, 20, 1000])
def test_an_accuracy_of_items_that_are_all_alike_has_the_exact_interval(n: int):
    half = np.arange(n) % 2 == 0
    sample = Sample(mean(np.stack([np.ones(n), np.zeros(n), half])), independent(n), is_proportion=True)
    replicates = bootstrap(sample, FEW)
    for method in (bca_interval, percentile_interval):
        right, wrong, mixed = method(replicates)
        for interval, k in ((right, n), (wrong, 0)):
            exact = binomtest(k, n).proportion_ci(0.9, method="exact")
            assert (interval.low, interval.high) == pytest.approx((100 * exact.low, 100 * exact.high))
            assert interval.value == 100 * k / n
        assert mixed == method(bootstrap(Sample(mean(half[None]), independent(n)), FEW))[0]


def test_no_other_metric_of_items_that_are_all_alike_has_an_interval():
    right = Sample(mean(np.ones((1, 20))), independent(20), is_proportion=True)
    for sample in (
        average([right, right]),
        Sample(mean(np.ones((1, 20))), independent(20)),
        Sample(spearman(np.arange(9), np.ones(9)), independent(9)),
        Sample(spearman(np.arange(99), np.arange(99)), independent(99)),
    ):
        for method in (bca_interval, percentile_interval):
            [interval] = method(bootstrap(sample, FEW))
            assert np.isnan([interval.low, interval.high]).all() and interval.value in (0, pytest.approx(100))


def test_the_difference_of_equal_rows_is_0_and_of_opposite_ones_has_no_interval():
    half = np.arange(20) % 2
    replicates = bootstrap(Sample(mean(np.stack([half, half, half * 0, half * 0 + 1])), independent(20)), FEW)
    assert bca_interval(replicates.difference(0, 1)) == [Interval(0.0, 0.0, 0.0)]
    [interval] = bca_interval(replicates.difference(3, 2))
    assert interval.value == 100 and np.isnan([interval.low, interval.high]).all()


def test_only_accuracies_are_proportions():
    found = np.arange(5)
    rows = [{"item": found, "found_en_xx": found, "found_xx_en": found}]
    for metric, is_known in (("accuracy_en_xx", True), ("accuracy_xx_en", True), ("f1_weighted_xx_en", False)):
        [interval] = bca_interval(bootstrap(accuracy(rows, metric), FEW))
        assert interval.value == 100 and np.isfinite(interval.low) == is_known


@pytest.mark.parametrize("units", [independent(2), join([independent(30), independent(2)])])
def test_with_fewer_than_three_units_in_a_stratum_there_is_a_value_and_no_interval(units: Units):
    n = len(units.of_row)
    replicates = bootstrap(Sample(mean([np.arange(n), np.ones(n)]), units), Resampling(resamples=50))
    for interval in (*bca_interval(replicates), *percentile_interval(replicates)):
        assert np.isfinite(interval.value) and np.isnan([interval.low, interval.high]).all()
    assert [(r.low, r.high) for r in rank_intervals(replicates)] == [(1, 2), (1, 2)]


def test_ranks_that_the_data_tell_apart_and_ranks_that_they_do_not():
    rng = np.random.default_rng(1)
    hard = rng.random(400)
    right = hard < np.array([0.9, 0.9, 0.5, 0.1])[:, None]
    right[1, rng.random(400) < 0.01] ^= True  # nearly the first one
    ranks = rank_intervals(bootstrap(Sample(mean(right), independent(400)), Resampling(resamples=2000)))
    assert [(r.low, r.high) for r in ranks] == [(1, 2), (1, 2), (3, 3), (4, 4)]
    assert [r.rank for r in ranks][2:] == [3, 4]
    identical = bootstrap(Sample(mean(np.stack([right[0]] * 3)), independent(400)), Resampling(resamples=200))
    assert [(r.rank, r.low, r.high) for r in rank_intervals(identical)] == [(1, 1, 3)] * 3


def test_rank_intervals_hold_together_where_encoders_are_equal():
    """Of five equal encoders each may have any rank: all five intervals must be 1 to 5 in 95 % of boards."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(200):
        sample = Sample(mean(rng.random((5, 150)) < 0.7), independent(150))
        ranks = rank_intervals(bootstrap(sample, Resampling(resamples=400)))
        held += all((r.low, r.high) == (1, 5) for r in ranks)
    assert held >= 200 * 0.90  # four standard errors below 95 % is 89 %


@pytest.mark.parametrize("options", [{"resamples": 0}, {"seed": -1}, {"level": 1.0}])
def test_a_resampling_that_is_none_is_one_line(options):
    with pytest.raises(InputError, match="resampling wants at least 1 resample"):
        Resampling(**options)


def test_the_signature_spells_the_resampling():
    assert Resampling(500, seed=9, level=0.9).signature == (
        "interval:bca,exact-if-alike|level:0.9|test:approximate-randomisation|resamples:500|seed:9"
    )


def test_sets_that_claim_the_same_items_must_have_as_many():
    with pytest.raises(InputError, match="have 3 and 4 of them"):
        join([independent(3, "a"), independent(4, "a")])


def test_the_jackknife_of_an_average_is_the_direct_one():
    """Term by term it takes n steps instead of n squared; shared source pairs are in several terms."""
    parts = []
    for seed, n in ((0, 12), (1, 9), (0, 12), (2, 7)):
        gold, scores = correlated(n, seed, errors=(0.6, 1.0))
        parts.append(correlation([{"gold": gold, "cosine": own + seed} for own in scores]))
    sample = average(parts)
    assert sample.units.total == 12 + 9 + 7
    direct = np.concatenate([sample.statistic(counts) for counts in leave_one_out(sample.units)], axis=1)
    np.testing.assert_allclose(bootstrap(sample, Resampling(10)).jackknife, direct, atol=1e-9)
    joined = Sample(average([sample, sample]).statistic, join([sample.units, sample.units]))  # a combination of such
    direct = np.concatenate([joined.statistic(counts) for counts in leave_one_out(joined.units)], axis=1)
    np.testing.assert_allclose(bootstrap(joined, Resampling(10)).jackknife, direct, atol=1e-9)


def test_samples_that_are_drawn_alike_see_the_same_resamples():
    gold, scores = correlated(30, errors=(0.6, 1.0))
    samples = [Sample(spearman(gold, scores), independent(30)), Sample(mean(scores > 0), independent(30))]
    samples.append(Sample(mean(scores[:, :20] > 0), independent(20)))
    plan = Resampling(200)
    for each, sample in zip(bootstrap_each(samples, plan), samples, strict=True):
        alone = bootstrap(sample, plan)
        np.testing.assert_array_equal(each.draws, alone.draws)
        np.testing.assert_array_equal(each.jackknife, alone.jackknife)
        assert bca_interval(each) == bca_interval(alone)

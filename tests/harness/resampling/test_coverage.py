"""Intervals and tests by simulation, where the truth is known; `benchmarks/intervals.py` is the long version."""

from __future__ import annotations

import math

import numpy as np
import pytest
from samples import correlation

from harness.resampling.bootstrap import bca_interval, bootstrap, percentile_interval
from harness.resampling.metrics import Sample, average, spearman
from harness.resampling.resamples import Resampling, independent
from harness.resampling.tests import bootstrap_p, randomisation_p

pytestmark = pytest.mark.slow

TIMES = 300
PLAN = Resampling(resamples=400)
# Four standard errors of a share of 300.
COVERAGE, REJECTED = (
    pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / TIMES)),
    0.05 + 4 * math.sqrt(0.05 * 0.95 / TIMES),
)


def test_intervals_of_a_correlation_cover_the_populations():
    rng = np.random.default_rng(1)
    truth = 600 / math.pi * math.asin(0.8 / 2)
    covered = np.zeros(2)
    for _ in range(TIMES):
        gold = rng.normal(size=100)
        sample = Sample(spearman(gold, 0.8 * gold + 0.6 * rng.normal(size=100)), independent(100))
        replicates = bootstrap(sample, PLAN)
        for k, interval in enumerate((bca_interval(replicates)[0], percentile_interval(replicates)[0])):
            covered[k] += interval.low <= truth <= interval.high
    assert covered[0] / TIMES == COVERAGE and covered[1] / TIMES == COVERAGE


@pytest.mark.nightly  # that clusters are drawn whole is tested with the resamples
def test_clusters_are_what_an_average_over_shared_pairs_needs():
    """Three sets from the same pairs, whose encoder errors correlate: independent draws would cover far too rarely."""
    rng = np.random.default_rng(2)
    truth = 600 / math.pi * math.asin(0.8 / 2)
    covered = np.zeros(2)
    for _ in range(TIMES):
        gold, common = rng.normal(size=(2, 60))
        errors = math.sqrt(0.8) * common + math.sqrt(0.2) * rng.normal(size=(3, 60))
        sample = average([correlation([{"gold": gold, "cosine": 0.8 * gold + 0.6 * error}]) for error in errors])
        apart = Sample(sample.statistic, independent(180))
        for k, drawn in enumerate((sample, apart)):
            interval = bca_interval(bootstrap(drawn, PLAN))[0]
            covered[k] += interval.low <= truth <= interval.high
    assert covered[0] / TIMES == COVERAGE
    assert covered[1] / TIMES < 0.85


def test_paired_tests_reject_a_true_null_about_once_in_twenty():
    rng = np.random.default_rng(3)
    root = np.linalg.cholesky([[1, 0.8, 0.8], [0.8, 1, 0.7], [0.8, 0.7, 1]])
    rejected = np.zeros(2)
    for _ in range(TIMES):
        gold, a, b = root @ rng.normal(size=(3, 120))
        sample = Sample(spearman(gold, [a, np.exp(2 * b)]), independent(120))
        p = randomisation_p(sample, [(0, 1)], PLAN)[0], bootstrap_p(bootstrap(sample, PLAN).difference(0, 1))[0]
        rejected += [value <= 0.05 for value in p]
    assert rejected.min() > 0 and rejected.max() / TIMES <= REJECTED

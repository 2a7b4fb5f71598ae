"""A judged sample of mined pairs: what is drawn, and whether the intervals hold what they should."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from harness.mining.texts import Sentences
from harness.review.sample import as_table, bands_of, described, drawn, estimates, stratified


def descending(values: list[float]) -> np.ndarray:
    return -np.sort(-np.array(values, float))


@given(st.lists(st.floats(0, 2), max_size=60), st.integers(1, 5))
def test_bands_part_the_scores(values: list[float], per_band: int) -> None:
    scores = descending(values)
    bands = bands_of(scores)
    assert [i for band in bands for i in range(band.start, band.stop)] == list(range(len(scores)))
    assert len(bands) <= 10 and all(band.stop > band.start for band in bands)
    for band, below in pairwise(bands):  # equal scores are not parted
        assert scores[band.stop - 1] > scores[below.start]
    positions = drawn(scores, per_band)
    assert len(set(positions.tolist())) == len(positions)
    counts = [np.count_nonzero((positions >= band.start) & (positions < band.stop)) for band in bands]
    assert counts == [min(per_band, band.stop - band.start) for band in bands]
    assert positions.tolist() == drawn(scores, per_band).tolist()  # so that verdicts find their pairs


def test_one_stratum_is_the_interval_of_clopper_and_pearson_or_wider() -> None:
    for good, n in ((0, 20), (20, 20), (7, 20), (39, 40)):
        share, low, high = stratified(np.array([10**9]), np.array([n]), np.array([good]))
        exact = binomtest(good, n).proportion_ci(0.95, method="exact")
        assert share == good / n
        if good in (0, n):
            assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-6)
        assert low <= exact.low + 1e-6 and high >= exact.high - 1e-6
    assert stratified(np.array([20, 1]), np.array([20, 1]), np.array([10, 0])) == (10 / 21,) * 3
    assert all(np.isnan(stratified(np.array([10, 10]), np.array([5, 0]), np.array([5, 0]))))


@given(st.lists(st.integers(3, 10**6), min_size=1, max_size=10), st.booleans())
def test_all_verdicts_alike_are_certain_of_one_end_alone(sizes: list[int], is_good: bool) -> None:
    """The weights of many sizes do not sum to exactly 1."""
    judged = np.full(len(sizes), 3)
    share, low, high = stratified(np.array(sizes), judged, judged * is_good)
    assert share == is_good
    if max(sizes) == 3:
        assert low == high == share
    else:
        assert (0.0 < low < high == 1.0) if is_good else (low == 0.0 < high < 1.0)


def test_the_interval_is_hardly_wider_than_it_must_be() -> None:
    """Ten even bands of ten, against 1.96 standard errors both ways: every point of width costs verdicts."""
    sizes, judged, good = np.full(10, 1000), np.full(10, 10), np.array([10, 10, 10, 10, 9, 7, 5, 2, 0, 0])
    _, low, high = stratified(sizes, judged, good)
    shares = good / judged
    normal = 2 * 1.96 * np.sqrt((shares * (1 - shares) / judged).sum()) / 10
    assert normal < high - low < 1.5 * normal


@pytest.mark.parametrize("shares", [(0.99, 0.9, 0.5, 0.1), (1.0, 1.0, 1.0, 1.0), (0.3, 0.3, 0.3, 0.3), (1, 1, 0.7, 0)])
def test_intervals_hold_the_truth(shares: tuple[float, ...]) -> None:
    sizes, judged = np.array([4000, 500, 500, 5000]), np.array([20, 20, 20, 20])
    rng = np.random.default_rng(1)
    true = float((sizes * np.array(shares)).sum() / sizes.sum())
    held = 0
    for _ in range(300):
        _, low, high = stratified(sizes, judged, rng.binomial(judged, shares))
        held += low <= true + 1e-12 and high >= true - 1e-12
    assert held >= 0.94 * 300


def test_estimates_by_hand() -> None:
    scores = descending([2.0, 1.9, 1.0, 0.9])  # two bands: the others are empty
    assert bands_of(scores) == [slice(0, 2), slice(2, 4)]
    found = estimates(scores, np.array([2, 0, 1]), ["no", "yes", "yes"])
    assert [(each.threshold, each.n_pairs, each.n_judged) for each in found] == [(1.9, 2, 2), (0.9, 4, 3)]
    assert [each.precision for each in found] == [100.0, 50.0]
    assert [each.n_translations for each in found] == [2.0, 2.0]
    unknown = estimates(scores, np.array([2, 0, 1]), ["", "unsure", "yes"])
    assert unknown[0].precision == 50.0 and np.isnan(unknown[1].precision)
    bold = [row.cells[0].is_best for row in as_table(found, ["no", "yes", "yes"]).rows]
    assert bold == [True, False]
    assert not any(row.cells[0].is_best for row in as_table(unknown, ["", "unsure", "yes"]).rows)


def test_a_complete_sample_tells_the_truth() -> None:
    rng = np.random.default_rng(3)
    scores = descending(rng.normal(1.1, 0.2, 400).tolist())
    good = rng.random(400) < (scores > 1.1)
    positions = drawn(scores, 400)
    found = estimates(scores, positions, ["yes" if good[i] else "no" for i in positions])
    assert [each.n_translations for each in found] == pytest.approx(
        [int(good[scores >= each.threshold].sum()) for each in found]
    )


def test_pairs_are_named_by_file_and_line() -> None:
    source = Sentences(["eins", "zwei"], np.array([1, 12]), (("a.de", 10), ("b.de", 5)))
    target = Sentences(["one", "two"], np.array([3, 4]), (("a.en", 10),))
    (only,) = described(np.array([1]), np.array([[0, 0], [1, 1]]), np.array([1.5, 1.25]), (source, target))
    assert (only.position, only.score, only.ids) == (1, 1.25, ("b.de:2", "a.en:4"))
    assert only.sentences == ("zwei", "two") and only.gold is None

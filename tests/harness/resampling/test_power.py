"""How small a difference data can show, against simulated encoders with planted differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from harness.resampling.metrics import Sample, average, mean
from harness.resampling.power import FOUR_OF_FIVE, HALF, Spread, minimum_detectable, power_of, standard_error_of
from harness.resampling.resamples import Resampling, independent
from harness.resampling.tests import paired_tests, randomisation_p

N, REPEATS = 120, 600
PLAN = Resampling(399)


def planted(difference: float, spread: float, rng: np.random.Generator) -> Sample:
    """Two encoders on the same items, of which the first is better by `difference` points."""
    common = rng.normal(size=N)
    noise = spread / math.sqrt(2) * rng.normal(size=(2, N))
    return Sample(mean(np.stack([common + difference / 100, common]) + noise), independent(N))


@pytest.mark.slow
@pytest.mark.parametrize(("level", "power"), [(0.05, HALF), (0.05, FOUR_OF_FIVE), (0.05 / 3, FOUR_OF_FIVE)])
def test_planted_differences_are_found_as_often_as_is_said(level: float, power: float) -> None:
    spread, rng = 0.3, np.random.default_rng([7, int(1000 * level), int(10 * power)])
    difference = minimum_detectable(Spread(100 * spread / math.sqrt(N)), level, power)
    assert difference
    p = [randomisation_p(planted(difference, spread, rng), [(0, 1)], PLAN)[0] for _ in range(REPEATS)]
    error = math.sqrt(power * (1 - power) / REPEATS)
    # The randomisation keeps the difference in its spread, which costs a little power.
    assert np.mean(np.array(p) < level) == pytest.approx(power - 0.01, abs=3 * error)


def test_the_standard_error_is_that_of_the_difference_over_many_samples() -> None:
    rng, spread = np.random.default_rng(3), 0.4
    tests = [paired_tests(planted(1.0, spread, rng), [(0, 1)], Resampling(500))[0] for _ in range(60)]
    assert np.mean([test.standard_error for test in tests]) == pytest.approx(100 * spread / math.sqrt(N), rel=0.05)
    three = average([planted(1.0, spread, rng) for _ in range(3)])
    (test,) = paired_tests(three, [(0, 1)], Resampling(4000))
    assert test.units == 3 * N
    assert test.standard_error == pytest.approx(100 * spread / math.sqrt(3 * N), rel=0.15)


def test_numbers_of_the_normal_distribution() -> None:
    assert minimum_detectable(Spread(1.0), 0.05, HALF) == pytest.approx(scipy.stats.norm.ppf(0.975))
    assert minimum_detectable(Spread(2.0), 0.05, FOUR_OF_FIVE) == pytest.approx(2 * (1.959964 + 0.841621), abs=1e-5)
    assert (
        minimum_detectable(Spread(0.0), 0.05, HALF) is None and minimum_detectable(Spread(math.nan), 0.05, HALF) is None
    )


@pytest.mark.slow
def test_a_p_value_tells_the_standard_error_where_it_can() -> None:
    rng, plan = np.random.default_rng(5), Resampling(10_000)
    told = 0
    for _ in range(40):
        (test,) = paired_tests(planted(4.0, 0.3, rng), [(0, 1)], plan)
        error = standard_error_of(test.difference, test.p, plan.resamples, N)
        if error is not None:
            told += 1
            # The randomisation's own spread has the squared difference in it.
            expected = math.sqrt(test.standard_error**2 + test.difference**2 / N)
            assert error == pytest.approx(expected, rel=0.12)
    assert told > 20
    for p, items in ((1 / 10_001, 1000), (0.95, 1000), (0.01, 12)):
        assert standard_error_of(3.0, p, 10_000, items) is None


def shares(lost: float, won: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Right or wrong of two encoders on n items: the second loses and wins so many (expected)."""
    drawn = rng.random(n)
    first, second = np.ones(n), np.ones(n)
    second[drawn < lost / n] = 0
    first[drawn > 1 - won / n] = 0
    return np.stack([first, second])


@pytest.mark.parametrize(("wins", "drop"), [(0.0, 1.0), (1.0, 1.0), (1.0, 2.0), (5.0, 2.0), (20.0, 3.0)])
def test_drops_of_a_share_are_found_as_often_as_is_said(wins: float, drop: float) -> None:
    """A near-identical model tells how alike both are, not how large a drop of one of them is seen."""
    n, level, repeats = 1000, 0.05 / 28, 4000
    rng = np.random.default_rng([3, int(wins), int(drop)])
    items = n * drop / 100
    seen = Spread(100 * math.sqrt(max(2 * wins, 0.02)) / n, 0.0, 100 / n)
    said = power_of(drop, seen, level)
    assert said is not None
    lost, won = rng.poisson(wins + items, repeats), rng.poisson(wins, repeats)
    p = 2 * scipy.stats.binom.cdf(np.minimum(lost, won), lost + won, 0.5)  # the sign test
    assert said == pytest.approx(np.mean((p < level) & (lost > won)), abs=0.13)
    least = minimum_detectable(seen, level, FOUR_OF_FIVE)
    assert least and power_of(least, seen, level) == pytest.approx(FOUR_OF_FIVE, abs=1e-6)


@pytest.mark.slow
def test_drops_of_a_share_are_found_by_the_randomisation_as_often_as_is_said() -> None:
    """The whole way: one pair of near-identical encoders says what is found, planted drops show it; also averages."""
    n, level, plan = 400, 0.01, Resampling(999)
    rng = np.random.default_rng(11)

    def drawn(drop: float) -> Sample:
        sets = [Sample(mean(shares(2 + n * drop / 100, 2, n, rng)), independent(n), is_proportion=True) for _ in "ab"]
        return average(sets)

    (seen,) = paired_tests(drawn(0.0), [(0, 1)], plan)
    assert seen.per_point == pytest.approx(100 / (2 * n))
    drop = 2.0
    said = power_of(drop, seen.spread, level)
    found = [randomisation_p(drawn(drop), [(0, 1)], plan)[0] < level for _ in range(250)]
    assert said == pytest.approx(np.mean(found), abs=0.13)
    as_before = power_of(drop, Spread(seen.standard_error), level)
    assert as_before and as_before > np.mean(found) + 0.2


def test_the_spread_of_what_was_seen_is_that_of_its_own_difference() -> None:
    rng = np.random.default_rng(5)
    n = 1000
    values = shares(60, 20, n, rng)
    (test,) = paired_tests(Sample(mean(values), independent(n), is_proportion=True), [(0, 1)], Resampling(2000))
    lost = 100 * float(np.mean(values[0] != values[1])) / n
    null = test.standard_error**2 + test.per_point * test.difference**2 / 100
    assert null == pytest.approx(100 * lost, rel=0.05)  # McNemar: as many as both differ on
    z = (abs(test.difference) - 1.96 * math.sqrt(null) - test.per_point) / test.standard_error
    assert test.spread.z(abs(test.difference), 1.96) == pytest.approx(z, rel=1e-6)

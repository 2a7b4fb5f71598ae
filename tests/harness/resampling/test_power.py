"""How small a difference data can show, against simulated encoders with planted differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from harness.resampling.metrics import Sample, average, mean
from harness.resampling.power import FOUR_OF_FIVE, HALF, minimum_detectable, standard_error_of
from harness.resampling.resamples import Resampling, independent
from harness.resampling.tests import paired_tests, randomisation_p

N, REPEATS = 120, 600
PLAN = Resampling(399)


def planted(difference: float, spread: float, rng: np.random.Generator) -> Sample:
    """Two encoders on the same items, of which the first is better by `difference` points."""
    common = rng.normal(size=N)
    noise = spread / math.sqrt(2) * rng.normal(size=(2, N))
    return Sample(mean(np.stack([common + difference / 100, common]) + noise), independent(N))


@pytest.mark.parametrize(("level", "power"), [(0.05, HALF), (0.05, FOUR_OF_FIVE), (0.05 / 3, FOUR_OF_FIVE)])
def test_planted_differences_are_found_as_often_as_is_said(level: float, power: float) -> None:
    spread, rng = 0.3, np.random.default_rng([7, int(1000 * level), int(10 * power)])
    difference = minimum_detectable(100 * spread / math.sqrt(N), level, power)
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
    assert minimum_detectable(1.0, 0.05, HALF) == pytest.approx(scipy.stats.norm.ppf(0.975))
    assert minimum_detectable(2.0, 0.05, FOUR_OF_FIVE) == pytest.approx(2 * (1.959964 + 0.841621), abs=1e-5)
    assert minimum_detectable(0.0, 0.05, HALF) is None and minimum_detectable(math.nan, 0.05, HALF) is None


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

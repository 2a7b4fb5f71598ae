"""Advice on a threshold: its evidence against plain loops, its expectations against gold that it does not see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.mining import nearest, normalise
from harness.mining.advice import DOUBTFUL, Evidence, Mixture, advise, check_margin, evidence, fitted
from harness.mining.margin import best_threshold, matched
from harness.report.mining import expectations


def planted(share: float, n: int, seed: int, noise: float = 0.7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of both sides, and for each row of x its translation's row of y, or -1."""
    rng = np.random.default_rng(seed)
    n_true = round(share * n)
    common = rng.normal(size=(n_true, 64))
    x = np.concatenate([common + noise * rng.normal(size=(n_true, 64)), 1.2 * rng.normal(size=(n - n_true, 64))])
    y = np.concatenate([common + noise * rng.normal(size=(n_true, 64)), 1.2 * rng.normal(size=(n - n_true, 64))])
    order = rng.permutation(n)
    gold = np.where(np.arange(n) < n_true, np.argsort(order), -1)
    return normalise(x.astype(np.float32)), normalise(y[order].astype(np.float32)), gold


def evidence_in_loops(x: np.ndarray, y: np.ndarray, k: int, margin: str) -> tuple[list[float], list[float]]:
    """Scores of mutual best pairs, then of those found with these pairs taken out of all lists."""
    similarity = x.astype(np.float64) @ y.astype(np.float64).T
    lists_x = [sorted(range(len(y)), key=lambda j, i=i: (-similarity[i, j], j))[:k] for i in range(len(x))]
    lists_y = [sorted(range(len(x)), key=lambda i, j=j: (-similarity[i, j], i))[:k] for j in range(len(y))]

    def mutual(lists_x: list[list[int]], lists_y: list[list[int]]) -> dict[tuple[int, int], float]:
        # A list that has lost one counts its last one twice.
        def mean(near: list[int], similarities: np.ndarray) -> float:
            return float(np.mean(similarities[near + near[-1:] * (k - len(near))]))

        mean_x = [mean(near, similarity[i]) for i, near in enumerate(lists_x)]
        mean_y = [mean(near, similarity[:, j]) for j, near in enumerate(lists_y)]

        def score(i: int, j: int) -> float:
            b = (mean_x[i] + mean_y[j]) / 2
            return similarity[i, j] - b if margin == "distance" else similarity[i, j] / b

        best_x = [max(near, key=lambda j, i=i: score(i, j)) for i, near in enumerate(lists_x)]
        best_y = [max(near, key=lambda i, j=j: score(i, j)) for j, near in enumerate(lists_y)]
        return {(i, j): score(i, j) for i, j in enumerate(best_x) if best_y[j] == i}

    first = mutual(lists_x, lists_y)
    without_x = [[j for j in near if (i, j) not in first] for i, near in enumerate(lists_x)]
    without_y = [[i for i in near if (i, j) not in first] for j, near in enumerate(lists_y)]
    second = mutual(without_x, without_y)
    return sorted(first.values(), reverse=True), sorted(second.values(), reverse=True)


@pytest.mark.parametrize("margin", ["ratio", "distance"])
@pytest.mark.parametrize("k", [3, 4])
def test_evidence_is_that_of_plain_loops(k: int, margin: str) -> None:
    x, y, _ = planted(0.5, 60, seed=k)
    found = evidence(*nearest(x, y, k), margin)  # type: ignore[arg-type]
    mutual, chance = evidence_in_loops(x, y, k, margin)
    assert found.mutual.tolist() == pytest.approx(mutual)
    assert found.chance.tolist() == pytest.approx(chance)
    assert len(found.chance) > 5


@pytest.mark.parametrize(("share", "most"), [(0.02, 20.0), (0.1, 5.0), (0.5, 3.0), (0.9, 2.0)])
@pytest.mark.parametrize("margin", ["ratio", "distance"])
def test_the_suggestion_is_near_the_best_threshold(share: float, most: float, margin: str) -> None:
    x, y, gold = planted(share, 1500, seed=7)
    of_x, of_y = nearest(x, y, 4)
    pairs, scores = matched(of_x, of_y, margin)  # type: ignore[arg-type]
    correct = gold[pairs[:, 0]] == pairs[:, 1]
    n_gold = int((gold >= 0).sum())

    def f1(threshold: float) -> float:
        above = scores >= threshold
        return 200 * (correct & above).sum() / (above.sum() + n_gold)

    advice = advise(evidence(of_x, of_y, margin))  # type: ignore[arg-type]
    assert advice.threshold is not None and advice.reason == ""
    assert advice.expected_f1 == pytest.approx(f1(advice.threshold), abs=30 if share < 0.1 else 10)
    assert f1(best_threshold(scores, correct, n_gold)) - f1(advice.threshold) <= most
    if share >= 0.1:
        assert advice.n_correct == pytest.approx(correct.sum(), rel=0.25)


@pytest.mark.parametrize("retrieval", ["max", "forward", "backward", "intersect"])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_no_threshold_of_the_report_is_better_than_the_suggested_one(retrieval: str, share: float) -> None:
    """The report counts all pairs that are mined, also those that are not each other's best."""
    x, y, _ = planted(share, 1200, seed=11, noise=1.0)
    of_x, of_y = nearest(x, y, 4)
    _, scores = matched(of_x, of_y, "ratio", retrieval)  # type: ignore[arg-type]
    advice = advise(evidence(of_x, of_y), scores)
    f1 = {entry["threshold"]: entry["f1"] for entry in expectations(advice) if not np.isnan(entry["f1"])}
    assert advice.threshold is not None and max(f1.values()) <= f1[advice.threshold] + 0.05
    assert advice.expected_f1 == pytest.approx(f1[advice.threshold])
    n = np.count_nonzero(scores >= advice.threshold)
    best = max(
        200 * advice.correct_above(score) / (np.count_nonzero(scores >= score) + advice.n_correct) for score in scores
    )
    assert n and advice.expected_f1 == pytest.approx(best, abs=0.05)


def test_no_translations_no_flood() -> None:
    """Where nothing is a translation, nearly nothing is expected."""
    x, y, _ = planted(0.0, 1500, seed=5)
    advice = advise(evidence(*nearest(x, y, 4)))
    assert advice.n_correct < 0.15 * len(advice.scores)
    assert advice.threshold is None or advice.expected_f1 < DOUBTFUL


def test_too_little_to_go_by() -> None:
    x, y, _ = planted(0.5, 50, seed=1)
    few = advise(evidence(*nearest(x, y, 4)))
    assert few.threshold is None and "100 or more of both are needed" in few.reason
    assert few.correct_above(0) == 0
    short = evidence(*nearest(x[:2], y[:2], 4))
    assert len(short.mutual) == 0 and advise(short).threshold is None
    same = advise(Evidence(np.ones(200), np.ones(200)))
    assert (same.threshold, same.reason) == (None, "all scores are equal")
    for margin, k in (("absolute", 4), ("ratio", 2)):
        with pytest.raises(InputError):
            check_margin(margin, k)


@given(
    st.floats(0.01, 0.99),
    st.floats(-1, 2),
    st.floats(0.01, 1),
    st.floats(-1, 1),
    st.floats(0.01, 1),
    st.lists(st.floats(-5, 5), max_size=30),
)
def test_probabilities_fall_with_the_score(
    share: float, mean: float, sd: float, location: float, scale: float, values: list[float]
) -> None:
    scores = -np.sort(-np.array(values, float))
    found = Mixture(share, mean, sd, location, scale).probabilities(scores)
    assert ((found >= 0) & (found <= 1)).all() and (np.diff(found) <= 0).all()


def test_the_mixture_finds_what_it_was_drawn_from() -> None:
    rng = np.random.default_rng(0)
    chance = rng.gumbel(0.05, 0.05, 3000)
    observed = np.concatenate([rng.gumbel(0.05, 0.05, 1500), rng.normal(0.35, 0.09, 1500)])
    found = fitted(-np.sort(-observed), chance / 1.175)  # taken from what is left, which scores less: 1 + 0.35 / 2
    assert found.share == pytest.approx(0.5, abs=0.04)
    assert (found.mean, found.sd) == pytest.approx((0.35, 0.09), abs=0.02)
    assert (found.location, found.scale) == pytest.approx((0.05, 0.05), abs=0.02)

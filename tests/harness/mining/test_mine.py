"""Mining against plain Python loops, on random and adversarial vectors, pair for pair."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mining_oracle import mine_oracle, threshold_oracle, unit_vectors

from harness.core.errors import InputError
from harness.mining import best_threshold, margin_scores, mine, nearest, normalise, precision_recall_f1

MARGINS = ("ratio", "distance", "absolute")
RETRIEVALS = ("max", "intersect", "forward", "backward")


def assert_like_oracle(
    x: np.ndarray, y: np.ndarray, k: int, margin: str, retrieval: str, block: int, backend: str
) -> None:
    pairs, scores = mine(x, y, k=k, margin=margin, retrieval=retrieval, block=block, backend=backend)
    expected_pairs, expected_scores = mine_oracle(unit_vectors(x), unit_vectors(y), k, margin, retrieval)
    assert [tuple(pair) for pair in pairs.tolist()] == expected_pairs
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-9, atol=1e-12)


def few_values(seed: int, n: int, dim: int) -> np.ndarray:
    """Vectors over {-1, 0, 1} with one or four entries: ties everywhere, and all sums exact in binary."""
    rng = np.random.default_rng(seed)
    vectors = np.zeros((n, dim), np.float32)
    for row in vectors:
        chosen = rng.choice(dim, size=rng.choice([0, 1, 4]), replace=False)
        row[chosen] = rng.choice([-1.0, 1.0], size=len(chosen))
    return vectors


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("retrieval", RETRIEVALS)
@pytest.mark.parametrize("block", [1, 3, 2048])
def test_random_vectors(margin: str, retrieval: str, block: int, backend: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((23, 8)).astype(np.float32)
    y = np.concatenate([x[::2] + 0.1 * rng.standard_normal((12, 8)), rng.standard_normal((7, 8))]).astype(np.float32)
    assert_like_oracle(x, y, 4, margin, retrieval, block, backend)


PER_BACKEND = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PER_BACKEND
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 14),
    m=st.integers(1, 14),
    k=st.integers(1, 6),
    margin=st.sampled_from(MARGINS),
    retrieval=st.sampled_from(RETRIEVALS),
    block=st.sampled_from([1, 2, 5, 64]),
)
@example(seed=0, n=1, m=1, k=4, margin="ratio", retrieval="max", block=2)
@example(seed=3, n=14, m=1, k=6, margin="ratio", retrieval="max", block=1)
def test_ties_duplicates_and_zero_vectors(
    backend: str, seed: int, n: int, m: int, k: int, margin: str, retrieval: str, block: int
) -> None:
    assert_like_oracle(few_values(seed, n, 4), few_values(seed + 1, m, 4), k, margin, retrieval, block, backend)


@pytest.mark.parametrize("value", [1.0, 0.0])
@pytest.mark.parametrize("retrieval", RETRIEVALS)
@pytest.mark.parametrize("n", [7, 90])  # with 90, more columns tie than a list of candidates holds
def test_all_vectors_equal(value: float, retrieval: str, n: int, backend: str) -> None:
    x, y = np.full((n, 4), value, np.float32), np.full((n - 2, 4), value, np.float32)
    assert_like_oracle(x, y, 4, "ratio", retrieval, n // 3, backend)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_a_side_without_sentences_gives_no_pairs(shape: tuple[int, int]) -> None:
    x, y = (np.ones((n, 4), np.float32) for n in shape)
    pairs, scores = mine(x, y)
    assert pairs.shape == (0, 2) and scores.shape == (0,)


def test_a_nearest_neighbour_that_float32_cannot_tell_apart(backend: str) -> None:
    # In float32 both products round to the same value; accumulated in float64, row 1 is nearer by 1e-8.
    x = np.array([[1, 1e-4, 0]], np.float32)
    y = np.array([[1, 0, 1], [1, 1e-4, 1]], np.float32)
    assert (x @ y.T)[0, 0] == (x @ y.T)[0, 1]
    of_x, _ = nearest(x, y, k=1, cosine=False, backend=backend)
    assert of_x.rows.tolist() == [[1]]


@pytest.mark.slow
@PER_BACKEND
@given(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 12), st.just(3)), elements=st.floats(-1, 1, width=16)),
    hnp.arrays(np.float32, st.tuples(st.integers(1, 12), st.just(3)), elements=st.floats(-1, 1, width=16)),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_nearest_matches_a_full_sort(backend: str, x: np.ndarray, y: np.ndarray, k: int, block: int) -> None:
    full = x.astype(np.float64) @ y.astype(np.float64).T  # exact: 3 products of 11-bit numbers
    both = nearest(x, y, k, cosine=False, block=block, backend=backend)
    for found, matrix in zip(both, (full, full.T), strict=True):
        order = np.argsort(-matrix, axis=1, kind="stable")[:, :k]
        assert found.rows.tolist() == order.tolist()
        np.testing.assert_array_equal(found.similarity, np.take_along_axis(matrix, order, 1))


def test_the_result_depends_neither_on_the_backend_nor_on_the_blocks(backend: str) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((700, 300)).astype(np.float32) for _ in range(2))
    runs = [mine(x, y, backend="numpy"), *(mine(x, y, block=block, backend=backend) for block in (37, 256, None))]
    for pairs, scores in runs[1:]:
        np.testing.assert_array_equal(pairs, runs[0][0])
        np.testing.assert_array_equal(scores, runs[0][1])


@pytest.mark.parametrize(
    ("bad", "k", "message"), [(np.nan, 4, "row 2 of y"), (np.inf, 4, "row 2 of y"), (1, 0, "k is")]
)
def test_bad_input_is_refused(bad: float, k: int, message: str) -> None:
    y = np.ones((4, 3), np.float32)
    y[2, 1] = bad
    with pytest.raises(InputError, match=message):
        nearest(np.ones((4, 3), np.float32), y, k)


def test_different_dimensions_are_refused() -> None:
    with pytest.raises(InputError, match=r"\(4, 3\) and \(4, 2\)"):
        mine(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32))


def test_normalise_gives_unit_rows_and_keeps_zero() -> None:
    # Norms that float32 cannot hold: denormals, and the largest numbers.
    vectors = np.array([[3, 4], [0, 0], [1e-30, 0], [3e-45, 0], [3e38, 3e38]], np.float32)
    unit = normalise(vectors)
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0], [1, 0], [1, 0], [0.5**0.5] * 2], rtol=1e-6)
    assert unit.dtype == np.float32


@pytest.mark.parametrize("scale", [1e-42, 1e-20, 1.0, 1e30])
def test_extreme_norms_are_mined_alike(scale: float, backend: str) -> None:
    rng = np.random.default_rng(2)
    x, y = (np.float32(scale) * rng.standard_normal((9, 3)).astype(np.float32) for _ in range(2))
    assert_like_oracle(x, y, 3, "ratio", "max", 4, backend)


@pytest.mark.parametrize("choice", [{"margin": "ratios"}, {"retrieval": "maxx"}])
def test_unknown_choices_are_refused(choice: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"did you mean '(ratio|max)'"):
        mine(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), **choice)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("random", marks=pytest.mark.nightly), "ties"])
def test_memory_is_bounded_by_the_blocks(kind: str, backend: str) -> None:
    n, dim = 6000, 64
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, dim)).astype(np.float32) for _ in range(2))
    if kind == "ties":
        x[:300], y[:300] = 0, 0  # a zero vector is as near to every vector
    mine(x[:20], y[:20], backend=backend)  # what compiling takes is not of the blocks
    tracemalloc.start()
    mine(x, y, block=512, backend=backend)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6  # the full matrix alone has 144 MB


def test_margins_by_hand() -> None:
    similarity, mean_x, mean_y = np.array([0.8]), np.array([0.5]), np.array([0.3])
    assert margin_scores(similarity, mean_x, mean_y, "ratio")[0] == pytest.approx(2.0)
    assert margin_scores(similarity, mean_x, mean_y, "distance")[0] == pytest.approx(0.4)
    assert margin_scores(similarity, mean_x, mean_y, "absolute")[0] == pytest.approx(0.8)
    assert margin_scores(similarity, mean_x, -mean_x, "ratio")[0] == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=30), st.integers(0, 5))
def test_threshold_is_lasers(pairs: list[tuple[int, bool]], n_missed: int) -> None:
    pairs = sorted(pairs, key=lambda pair: -pair[0])
    scores, correct = [score / 8 for score, _ in pairs], [is_correct for _, is_correct in pairs]
    n_gold = sum(correct) + n_missed
    assert best_threshold(np.array(scores), np.array(correct, dtype=bool), n_gold) == threshold_oracle(
        scores, correct, n_gold
    )


def test_precision_recall_f1() -> None:
    assert precision_recall_f1(3, 4, 6) == pytest.approx((75, 50, 60))
    assert precision_recall_f1(0, 0, 0) == (0, 0, 0)

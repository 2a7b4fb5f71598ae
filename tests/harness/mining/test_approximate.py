"""Approximate search against a full sort of all similarities."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InputError, MissingExtraError
from harness.mining import Neighbours, Progress, nearest
from harness.mining.approximate import choose_index, nearest_approximate

faiss = pytest.importorskip("faiss")


def clustered(n: int, m: int, dim: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two sides around 20 common centres."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((20, dim))
    return tuple(  # type: ignore[return-value]
        (centres[rng.integers(0, 20, size)] + 0.7 * rng.standard_normal((size, dim))).astype(np.float32)
        for size in (n, m)
    )


def all_similarities(x: np.ndarray, y: np.ndarray, cosine: bool = True) -> np.ndarray:
    """(n, m): the dot products of the rows, or of the rows scaled to unit norm in float32, 0 for a zero row."""
    sides = []
    for vectors in (x.astype(np.float64), y.astype(np.float64)):
        norms = np.sqrt((vectors**2).sum(axis=1, keepdims=True)) if cosine else np.ones((len(vectors), 1))
        sides.append((vectors / np.where(norms > 0, norms, 1)).astype(np.float32).astype(np.float64))
    return np.array([[(a * b).sum() for b in sides[1]] for a in sides[0]]).reshape(len(x), len(y))


def assert_exact(found: Neighbours, similarities: np.ndarray, k: int) -> None:
    order = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
    assert found.rows.tolist() == order.tolist()
    np.testing.assert_allclose(found.similarity, np.take_along_axis(similarities, order, 1), rtol=0, atol=1e-14)


def share_found(found: Neighbours, similarities: np.ndarray) -> float:
    """Recall by numbers of rows, which is the same where there are no ties."""
    k = found.rows.shape[1]
    best = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(found.rows.tolist(), best.tolist(), strict=True)]))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 8), m=st.integers(1, 8), k=st.integers(1, 10))
def test_few_vectors_are_searched_exactly_ties_to_the_lowest_row(seed: int, n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    # No or four components of +-1: zero vectors, duplicates, and similarities that are exact in binary.
    x, y = (rng.integers(0, 2, (size, 1)) * rng.choice([-1, 1], (size, 4)).astype(np.float32) for size in (n, m))
    of_x, of_y, recall = nearest_approximate(x, y, k)
    similarities = all_similarities(x, y)
    assert_exact(of_x, similarities, min(k, m))
    assert_exact(of_y, similarities.T, min(k, n))
    assert (recall.x, recall.y, recall.sampled, recall.index) == (1, 1, (n, m), ("Flat", "Flat"))


@pytest.mark.parametrize("index", ["IVF16,PQ4x4fs;nprobe=2", "IVF16,Flat;nprobe=2", "HNSW2;efSearch=1"])
def test_similarities_are_exact_and_recall_is_what_was_found(index: str) -> None:
    x, y = clustered(300, 400)
    similarities = all_similarities(x, y)
    of_x, of_y, recall = nearest_approximate(x, y, 4, index=index, sample=1000)
    for found, matrix, share in ((of_x, similarities, recall.x), (of_y, similarities.T, recall.y)):
        np.testing.assert_allclose(found.similarity, np.take_along_axis(matrix, found.rows, 1), rtol=0, atol=1e-14)
        assert (np.diff(found.similarity, axis=1) <= 0).all()
        assert all(len(set(row)) == 4 for row in found.rows.tolist())
        assert 0.2 < share < 1
        assert share == pytest.approx(share_found(found, matrix))
    assert recall.sampled == (300, 400)
    assert str(recall) == f"recall@4 {recall.x:.3f} and {recall.y:.3f}, of 300 and 400 rows, by {index}"


def test_recall_on_a_sample_is_near_that_on_all_rows() -> None:
    x, y = clustered(700, 900)
    _, _, of_all = nearest_approximate(x, y, index="IVF16,Flat;nprobe=1", sample=1000)
    _, _, of_some = nearest_approximate(x, y, index="IVF16,Flat;nprobe=1", sample=200)
    assert of_some.sampled == (200, 200)
    assert of_some.x == pytest.approx(of_all.x, abs=0.05) and of_some.y == pytest.approx(of_all.y, abs=0.05)


@pytest.mark.parametrize(
    ("index", "n"),
    [("IVF32,PQ4x4fs;nprobe=4", 2500), ("IVF16_HNSW4,Flat;nprobe=2", 2500), ("HNSW8", 2500), ("OPQ2_4,PQ2x4", 400)],
)
def test_the_number_of_threads_changes_nothing(index: str, n: int) -> None:
    x, y = clustered(n, n - 100)
    before = faiss.omp_get_max_threads()
    runs = []
    try:
        for threads in (2, 1, 3):
            faiss.omp_set_num_threads(threads)
            runs.append(nearest_approximate(x, y, index=index, sample=50, seed=7))
            assert faiss.omp_get_max_threads() == threads
    finally:
        faiss.omp_set_num_threads(before)
    for of_x, of_y, recall in runs[1:]:
        for found, first in ((of_x, runs[0][0]), (of_y, runs[0][1])):
            np.testing.assert_array_equal(found.rows, first.rows)
            np.testing.assert_array_equal(found.similarity, first.similarity)
        assert recall == runs[0][2]


def test_rows_for_which_too_few_are_found_are_searched_exactly() -> None:
    x, y = clustered(120, 120)
    of_x, of_y, recall = nearest_approximate(x, y, 4, index="IVF120,Flat;nprobe=2")  # every vector a list of its own
    similarities = all_similarities(x, y)
    assert_exact(of_x, similarities, 4)
    assert_exact(of_y, similarities.T, 4)
    assert recall.completed == 240


@pytest.mark.parametrize("index", ["auto", "IVF4,Flat;nprobe=4", "HNSW32;efSearch=500"])
def test_zero_vectors_crowd_nothing_out(index: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((size, 64)).astype(np.float32) for size in (60, 300))
    y[::3] = 0
    of_x, _, recall = nearest_approximate(x, y, 4, index=index)
    similarities = all_similarities(x, y)
    assert 0 < np.sort(similarities, axis=1)[:, -4].max() < 0.5  # where distance has zero vectors nearer
    assert_exact(of_x, similarities, 4)
    assert recall.x == 1


@pytest.mark.parametrize("index", ["auto", "IVF4,Flat;nprobe=4"])
def test_vectors_as_they_are(index: str) -> None:
    x, y = clustered(80, 90)
    y *= np.linspace(0.5, 5, 90, dtype=np.float32)[:, None]
    of_x, of_y, _ = nearest_approximate(x, y, 3, cosine=False, index=index)
    similarities = all_similarities(x, y, cosine=False)
    assert_exact(of_x, similarities, 3)
    assert_exact(of_y, similarities.T, 3)
    assert of_x.rows.tolist() != np.argsort(-all_similarities(x, y), axis=1, kind="stable")[:, :3].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_memory_maps_and_arrays_that_are_not_contiguous(dtype: type, tmp_path: Path) -> None:
    x, y = (vectors.astype(dtype) for vectors in clustered(500, 600))
    expected = nearest_approximate(x.astype(np.float32), y.astype(np.float32), index="IVF8,Flat;nprobe=2")
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    of_x, of_y, recall = nearest_approximate(mapped, np.asfortranarray(y), index="IVF8,Flat;nprobe=2")
    for found, same in ((of_x, expected[0]), (of_y, expected[1])):
        np.testing.assert_array_equal(found.rows, same.rows)
        np.testing.assert_array_equal(found.similarity, same.similarity)
    assert recall == expected[2]


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (0, 0)])
def test_a_side_without_rows(n: int, m: int) -> None:
    of_x, of_y, recall = nearest_approximate(np.ones((n, 4), np.float32), np.ones((m, 4), np.float32))
    assert of_x.rows.shape == (n, min(4, m)) and of_y.rows.shape == (m, min(4, n))
    assert recall.sampled == (n, m)


@pytest.mark.parametrize("dim", [384, 769, 7])
@pytest.mark.parametrize("n", [100, 60_000, 2_000_000, 50_000_000])
def test_the_index_that_is_chosen_can_be_made_and_is_small_where_there_are_many(n: int, dim: int) -> None:
    factory, _, parameters = choose_index(n, dim).partition(";")
    index = faiss.index_factory(dim, factory)
    if n == 100:
        assert factory == "Flat"
        return
    inverted_file = faiss.extract_index_ivf(index)
    faiss.ParameterSpace().set_index_parameters(index, parameters)
    assert 1 < inverted_file.nprobe <= inverted_file.nlist / 4
    assert inverted_file.nlist * 40 <= min(n, 655_360)
    assert inverted_file.code_size == -(-dim // 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": "Flatt"}, "faiss cannot make 'Flatt' of 9 vectors of 4: could not parse index string Flatt"),
        ({"index": "IVF20,Flat"}, r"of 9 vectors of 4: Number of training points \(9\)"),
        ({"index": "IVF2,PQ3x4fs"}, "of 9 vectors of 4: The dimension of the vector"),
        ({"index": "IVF2,Flat;probes=3"}, "could not set parameter probes"),
        ({"k": 0}, "k is at least 1, not 0"),
        ({"sample": 0}, "sample is at least 1, not 0"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, object], message: str) -> None:
    x = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    with pytest.raises(InputError, match=message) as raised:
        nearest_approximate(x, x, **options)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value) and ".cpp" not in str(raised.value)


def test_bad_vectors_are_refused() -> None:
    x = np.ones((3, 4), np.float32)
    with pytest.raises(InputError, match=r"\(3, 4\) and \(3, 3\)"):
        nearest_approximate(x, x[:, :3])
    bad = x.copy()
    bad[1, 2] = np.nan
    with pytest.raises(InputError, match="row 1 of y"):
        nearest_approximate(x, bad)


def test_without_faiss_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"multilingual-embedding-harness\[ann\]"):
        nearest_approximate(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))


def test_the_backend_reports_its_recall():
    x, y = (np.random.default_rng(seed).standard_normal((50, 8)).astype(np.float32) for seed in (0, 1))
    seen: list[Progress] = []
    found = nearest(x, y, backend="faiss", on_progress=seen.append)
    assert seen[-1].recall.startswith("recall@4 1.000 and 1.000, of 50 and 50 rows")
    for one, two in zip(found, nearest(x, y, backend="numpy"), strict=True):
        np.testing.assert_array_equal(one.rows, two.rows)
    with pytest.raises(InputError, match="no checkpoints"):
        nearest(x, y, backend="faiss", checkpoint="somewhere")

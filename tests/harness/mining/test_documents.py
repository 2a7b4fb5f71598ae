"""Mining within documents, against mining every pair of documents alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.mining import Progress, mine
from harness.mining.documents import mine_documents

SIZES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8)


def one_by_one(
    x: np.ndarray, y: np.ndarray, sizes: list[tuple[int, int]], k: int, margin: str, retrieval: str
) -> list[tuple[float, int, int]]:
    found, top, left = [], 0, 0
    for height, width in sizes:
        pairs, scores = mine(
            x[top : top + height], y[left : left + width], k=k, margin=margin, retrieval=retrieval, backend="numpy"
        )
        found += [(score, top + i, left + j) for score, (i, j) in zip(scores.tolist(), pairs.tolist(), strict=True)]
        top, left = top + height, left + width
    return sorted(found, key=lambda pair: (-pair[0], *pair[1:]))


def bounds_of(sizes: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.cumsum([0, *side]) for side in zip(*sizes, strict=True))
    return first, second


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    sizes=SIZES,
    k=st.integers(1, 10),
    margin=st.sampled_from(["ratio", "distance", "absolute"]),
    retrieval=st.sampled_from(["max", "intersect", "forward", "backward"]),
    seed=st.integers(0, 1000),
    at_once=st.sampled_from([1, 20, 1 << 20]),
    compiled=st.booleans(),
)
def test_every_pair_of_documents_is_mined_alone(
    sizes: list[tuple[int, int]], k: int, margin: str, retrieval: str, seed: int, at_once: int, compiled: bool
) -> None:
    rng = np.random.default_rng(seed)
    bounds = bounds_of(sizes)
    # Few different numbers: ties, equal and zero vectors come up.
    x, y = (rng.integers(-1, 2, (starts[-1], 3)).astype(np.float32) for starts in bounds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.mining.documents._AT_ONCE", at_once)
        patch.setattr("harness.mining.documents._WORTH_NUMBA", 0 if compiled else 10**9)
        told: list[Progress] = []
        pairs, scores = mine_documents(
            x,
            y,
            bounds,
            k=k,
            margin=margin,  # type: ignore[arg-type]
            retrieval=retrieval,  # type: ignore[arg-type]
            backend="auto" if compiled else "numpy",
            on_progress=told.append,
        )
    found = [(score, *pair) for score, pair in zip(scores.tolist(), pairs.tolist(), strict=True)]
    assert found == one_by_one(x, y, sizes, k, margin, retrieval)
    assert told[-1].done == told[-1].total == sum(height * width for height, width in sizes)


def test_the_approximate_backend_is_refused() -> None:
    with pytest.raises(InputError, match="leave out --backend faiss"):
        mine_documents(np.ones((1, 2)), np.ones((1, 2)), (np.array([0, 1]), np.array([0, 1])), backend="faiss")

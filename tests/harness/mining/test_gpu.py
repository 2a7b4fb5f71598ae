"""The search of the GPU backend: on the CPU always, on a GPU where there is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.mining import Neighbours, nearest
from harness.mining.search import Side, open_checkpoint

torch = pytest.importorskip("torch")
pytest.importorskip("numba")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def search(
    x: np.ndarray,
    y: np.ndarray,
    device: str,
    folder: Path | None = None,
    stop_after: int | None = None,
    cosine: bool = True,
) -> tuple[tuple[Neighbours, Neighbours], dict[str, int]]:
    from harness.mining.gpu import nearest_on_gpu

    sides = Side(x, "x", cosine=cosine), Side(y, "y", cosine=cosine)
    seen: dict[str, int] = {}

    def report(done: int, **work: int) -> None:
        seen.update(work, blocks=seen.get("blocks", 0) + 1)
        if done == stop_after:
            raise KeyboardInterrupt

    with open_checkpoint(folder, sides, "") as checkpoint:
        return nearest_on_gpu(*sides, min(4, len(y)), min(4, len(x)), 64, checkpoint, report, device), seen


def assert_exact(found: tuple[Neighbours, Neighbours], x: np.ndarray, y: np.ndarray, cosine: bool = True) -> None:
    for one, two in zip(found, nearest(x, y, cosine=cosine, backend="numpy"), strict=True):
        np.testing.assert_array_equal(one.rows, two.rows)
        np.testing.assert_array_equal(one.similarity, two.similarity)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 90), (200, 150)])
def test_it_finds_what_numpy_finds(n: int, m: int, device: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((size, 48)).astype(np.float32) + 2 for size in (n, m))
    found, seen = search(x, y, device)
    assert_exact(found, x, y)
    assert seen["recomputed"] == 0
    assert seen["candidates"] < 10 * (n + m)


@pytest.mark.parametrize("cosine", [True, False])
def test_ties_zeros_and_lengths(cosine: bool, device: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-1, 2, (130, 6)).astype(np.float32) * 300 for _ in range(2))
    x[5], y[20:60] = 0, y[20]
    found, seen = search(x, y, device, cosine=cosine)
    assert_exact(found, x, y, cosine)
    assert seen["recomputed"] > 0


def test_it_goes_on_after_an_interruption(tmp_path: Path, device: str) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal((200, 16)).astype(np.float32) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        search(x, y, device, tmp_path, stop_after=64)
    found, seen = search(x, y, device, tmp_path)
    assert_exact(found, x, y)
    assert seen["blocks"] == 3  # of four

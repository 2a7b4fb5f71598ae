"""Tiles, searched apart and merged, give what one search gives, bit by bit, for any cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.engine.engine import Lost, LostError
from harness.engine.local import LocalEngine
from harness.mining import mine, tiles
from harness.mining.neighbours import available_backends, nearest
from harness.mining.search import Neighbours
from harness.mining.tiles import cuts, merged, nearest_on, search_on, searching, tile_rows

pytestmark = pytest.mark.slow

EXACT = [name for name in available_backends() if name != "faiss"]


def sides(seed: int, n: int, m: int, dtype: type) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Vectors with ties (equal and nearly equal rows, in both sides), zero vectors and translations."""
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((rows, 8)).astype(np.float32) for rows in (n, m))
    shared = min(n, m) // 2
    y[:shared] = x[:shared] + np.float32(0.3) * y[:shared]
    for side in (x, y):
        copies = rng.integers(0, len(side), (len(side) // 3, 2))
        side[copies[:, 0]] = side[copies[:, 1]]
        side[rng.random(len(side)) < 0.1] = 0
    return x.astype(dtype), y.astype(dtype)


def cut_at(n: int, places: list[int]) -> list[slice]:
    stops = [*sorted({place % n for place in places} - {0}), n]
    return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]


def assert_same(found: tuple[Neighbours, Neighbours], expected: tuple[Neighbours, Neighbours]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.rows.dtype == other.rows.dtype and np.array_equal(one.rows, other.rows)
        assert one.similarity.tobytes() == other.similarity.tobytes()


@pytest.mark.parametrize("backend", EXACT)
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 99),
    sizes=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    at=st.tuples(st.lists(st.integers(0, 59), max_size=6), st.lists(st.integers(0, 59), max_size=6)),
    k=st.integers(1, 20),
    cosine=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float16]),
)
def test_any_cut_gives_what_one_search_gives(backend, seed, sizes, at, k, cosine, dtype) -> None:
    x, y = globals()["sides"](seed, *sizes, dtype)
    cut = cut_at(len(x), at[0]), cut_at(len(y), at[1])
    found = nearest_on(LocalEngine(), x, y, k, cosine=cosine, backend=backend, cut=cut)
    assert_same(found, nearest(x, y, k, cosine=cosine, backend=backend))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), min_size=3, max_size=3), min_size=1, max_size=5
    ),
    st.integers(1, 15),
)
def test_merging_is_sorting(lists: list[list[tuple[int, int]]], k: int) -> None:
    parts = [
        Neighbours(np.array([[row for _, row in part]]), np.array([[float(s) for s, _ in part]])) for part in lists
    ]
    expected = sorted(((-float(s), row) for part in lists for s, row in part))[:k]
    found = merged(parts, k)
    assert list(zip((-found.similarity[0]).tolist(), found.rows[0].tolist(), strict=True)) == expected


class Counting(LocalEngine):
    """Counts what it is given; gives the last outcome first; may stop after some tiles."""

    def __init__(self, stop: int | None = None, *, is_lost: bool = False):
        self.n, self._stop, self._is_lost = 0, stop, is_lost

    def map(self, function, pieces, on_redone=None):
        outcomes = []
        for piece in pieces:
            if self.n == self._stop:
                yield from [Lost(piece, LostError("given up"))] if self._is_lost else []
                raise KeyboardInterrupt
            self.n += 1
            outcomes += super().map(function, [piece])
        yield from reversed(outcomes)


@pytest.mark.parametrize("as_files", [True, False])
def test_what_is_there_is_not_searched_again(tmp_path: Path, as_files: bool) -> None:
    x, y = sides(1, 50, 40, np.float32)
    expected = nearest(x, y)
    if as_files:
        for name, side in (("x", x), ("y", y)):
            np.save(tmp_path / f"{name}.npy", side)
        x, y = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy")
    cut, folder = (cuts(50, 20), cuts(40, 11)), tmp_path / "work"
    with pytest.raises(KeyboardInterrupt):
        nearest_on(Counting(5), x, y, folder=folder, cut=cut)
    assert (folder / "x.npy").exists() == (not as_files)
    again = Counting()
    assert_same(nearest_on(again, x, y, folder=folder, cut=cut), expected)
    assert again.n == 12 - 5
    whole = Counting()
    assert_same(nearest_on(whole, x, y, folder=folder, cut=cut), expected)
    assert whole.n == 0
    damaged = (folder / "tile-1-2.npz", folder / "tile-0-0.npz", folder / "tile-2-1.npz")
    content = damaged[0].read_bytes()
    damaged[0].write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    damaged[1].write_bytes(b"PK")
    np.savez(damaged[2].open("wb"), x_rows=np.full((10, 4), 10**6), x_similarity=0, y_rows=0, y_similarity=0)
    mended = Counting()
    assert_same(nearest_on(mended, x, y, folder=folder, cut=cut), expected)
    assert mended.n >= 2
    with pytest.raises(InputError, match="is of another search"):
        nearest_on(LocalEngine(), x, y, 5, folder=folder, cut=cut)


def test_a_part_of_a_file_is_not_taken_for_the_file(tmp_path: Path) -> None:
    x, y = sides(2, 30, 30, np.float32)
    np.save(tmp_path / "x.npy", x)
    part = np.load(tmp_path / "x.npy", mmap_mode="r")[7:]
    assert_same(nearest_on(LocalEngine(), part, y, folder=tmp_path / "work"), nearest(x[7:], y))


def test_mining_is_searched_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = sides(3, 60, 50, np.float32)
    expected = mine(x, y)
    monkeypatch.setattr(tiles, "_LEAST", 16)
    engine = Counting()
    with searching(search_on(engine, tmp_path)):
        here = mine(x, y)
        assert engine.n == 0  # not worth it
        monkeypatch.setattr(tiles, "_WORTH", 1)
        there = mine(x, y)
        assert engine.n == 3 * 2
        lost = Counting(2, is_lost=True)
        with searching(search_on(lost, tmp_path)), pytest.raises(LostError):
            mine(y, x)
    for found in (here, there, mine(x, y)):
        assert all(one.tobytes() == other.tobytes() for one, other in zip(found, expected, strict=True))
    assert engine.n == 6 and len(list(tmp_path.iterdir())) == 1  # of the search that was not done


def test_a_search_goes_on_with_other_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = sides(5, 200, 200, np.float32)
    expected = mine(x, y)
    monkeypatch.setattr(tiles, "_WORTH", 1)
    monkeypatch.setattr(tiles, "_LEAST", 16)
    first, again = Counting(5), Counting()
    first.places, again.places = 2, 30
    with searching(search_on(first, tmp_path)), pytest.raises(KeyboardInterrupt):
        mine(x, y)
    n_tiles = len(cuts(200, tile_rows(200, 200, 2))) ** 2
    with searching(search_on(again, tmp_path)):
        found = mine(x, y)
    assert again.n == n_tiles - 5 > 0
    assert all(one.tobytes() == other.tobytes() for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("how", ["sign", "short", "empty"])
def test_a_damaged_side_is_written_again(tmp_path: Path, how: str) -> None:
    x, y = sides(1, 50, 40, np.float32)
    cut = cuts(50, 20), cuts(40, 11)
    with pytest.raises(KeyboardInterrupt):
        nearest_on(Counting(1), x, y, folder=tmp_path, cut=cut)
    content = bytearray((tmp_path / "x.npy").read_bytes())
    content[-1] ^= 0x80
    (tmp_path / "x.npy").write_bytes({"sign": content, "short": content[:-9], "empty": b""}[how])
    assert_same(nearest_on(LocalEngine(), x, y, folder=tmp_path, cut=cut), nearest(x, y))


@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_tile_with_any_flipped_byte_is_made_again(tmp_path: Path, every: int) -> None:
    x, y = sides(1, 4, 4, np.float32)
    expected = nearest(x, y, 1)
    assert_same(nearest_on(LocalEngine(), x, y, 1, folder=tmp_path), expected)
    [file] = tmp_path.glob("tile-*.npz")
    content = file.read_bytes()
    for place in range(0, len(content), every):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        assert_same(nearest_on(LocalEngine(), x, y, 1, folder=tmp_path), expected)


def test_what_is_wrong_is_said_as_ever() -> None:
    x, y = sides(4, 30, 30, np.float32)
    x[21, 3] = np.nan
    with pytest.raises(InputError, match="row 21 of x holds NaN"):
        nearest_on(LocalEngine(), x, y, cut=(cuts(30, 10), cuts(30, 10)))
    with pytest.raises(InputError, match="approximate"):
        nearest_on(LocalEngine(), y, y, backend="faiss")
    empty = nearest_on(LocalEngine(), y[:0], y)
    assert empty[0].rows.shape == (0, 4) and empty[1].rows.shape == (30, 0)


@given(st.integers(1, 10**8), st.integers(1, 10**8), st.integers(1, 10**3))
def test_tiles_are_of_a_size_that_fits(n: int, m: int, places: int) -> None:
    rows = tile_rows(n, m, places)
    n_tiles = len(range(0, n, rows)) * len(range(0, m, rows))
    assert 1 << 14 <= rows <= 10**6
    assert rows == 1 << 14 or n_tiles >= 4 * places

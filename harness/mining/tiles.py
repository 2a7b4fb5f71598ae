"""Exact neighbours cut into tiles that others search, and merged into what one search would give, bit by bit.

A *tile* is some rows of x and some of y: `nearest(x[I], y[J])` gives each of these rows its exact k best among those of
the other side. The k best of all are among the k best of the parts; the reference similarity of a pair is a function of
its two rows alone; and ties go to the lowest row here as there. So merging by similarity, then row, gives the same rows
and the same float64 numbers for any cut.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from math import isqrt
from mmap import mmap
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.core.files import Claim, refuse_special, remove_unclaimed, replacing, writing
from harness.engine.engine import Done, Engine
from harness.mining.neighbours import Backend, Progress, nearest
from harness.mining.search import AT_ONCE, Neighbours, both_sides

Vectors = NDArray[np.floating[Any]]

_LEAST, _MOST = 1 << 14, 1_000_000  # rows of a tile
_A_PLACE = 4  # tiles, at least: so that the last ones are not waited for long
_VISIBLE = 30.0  # seconds within which a network file system shows a file that another machine has written
_WORTH = 1 << 40  # products of components below which sending takes longer than searching


class Search(Protocol):
    """Finds neighbours as `nearest` does."""

    def __call__(
        self,
        x: Vectors,
        y: Vectors,
        k: int,
        *,
        backend: Backend,
        on_progress: Callable[[Progress], None] | None,
    ) -> tuple[Neighbours, Neighbours]:
        """The neighbours of every row of x in y, and of y in x."""
        ...


_searches: list[Search] = []  # of the `with` blocks that this process is in


@contextmanager
def searching(search: Search) -> Iterator[None]:
    """Lets `harness.mining.mine` find exact neighbours in this way in a `with` block."""
    _searches.append(search)
    try:
        yield
    finally:
        _searches.pop()


def chosen_search() -> Search | None:
    """That of the innermost `with` block."""
    return _searches[-1] if _searches else None


@dataclass(frozen=True)
class Part:
    """Rows of a side, as they are sent: the array, or where it lies in a file.

    Attributes:
        start: the number of the first row.
        rows: the array itself, (n, dim); None: it is in the file.
        file, dtype, shape, offset: the side in a file of NumPy's order of bytes, and where it begins there.
        stop: after the last row.
    """

    start: int
    stop: int
    rows: Vectors | None = None
    file: Path | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    offset: int = 0

    def read(self) -> Vectors:
        """The rows; of a file, memory-mapped."""
        if self.rows is not None:
            return self.rows
        assert self.file is not None
        side: Vectors = np.memmap(self.file, self.dtype, "r", self.offset, self.shape)
        return side[self.start : self.stop]


@dataclass(frozen=True)
class Tile:
    """What is searched at a time, and in which file the result is kept, if it is."""

    x: Part
    y: Part
    k: int
    cosine: bool
    backend: Backend
    out: Path | None = None


def search_tile(tile: Tile) -> tuple[Neighbours, Neighbours] | None:
    """Search a tile, rows numbered as in the whole sides; None if the result is in its file. Raises as `nearest`."""
    of_x, of_y = nearest(tile.x.read(), tile.y.read(), tile.k, cosine=tile.cosine, backend=tile.backend)
    of_x, of_y = (Neighbours(of_x.rows + tile.y.start, of_x.similarity), Neighbours(of_y.rows + tile.x.start, of_y[1]))
    if tile.out is None:
        return of_x, of_y
    with writing(tile.out), replacing(tile.out) as stream:
        np.savez(stream, allow_pickle=False, **dict(zip(_COLUMNS, (*of_x, *of_y), strict=True)))
    return None


_COLUMNS = ("x_rows", "x_similarity", "y_rows", "y_similarity")


def merged(parts: Sequence[Neighbours], k: int) -> Neighbours:
    """Each row's k best of its best in several parts of the other side: by similarity, ties to the lowest row.

    parts: (n, any number) each.
    """
    rows = np.concatenate([part.rows for part in parts], axis=1)
    similarity = np.concatenate([part.similarity for part in parts], axis=1)
    order = np.lexsort((rows, -similarity), axis=1)[:, :k]
    return Neighbours(np.take_along_axis(rows, order, 1), np.take_along_axis(similarity, order, 1))


def cuts(n: int, rows: int) -> list[slice]:
    """The numbers 0 to n - 1 in parts of so many, the last one with what is left."""
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def tile_rows(n: int, m: int, places: int) -> int:
    """Rows of a square tile: as many as there can be for every place to get some tiles."""
    return min(_MOST, max(_LEAST, isqrt(n * m // (_A_PLACE * places))))


def begun(root: Path, name: str, n: int, m: int, places: int) -> tuple[Path, tuple[list[slice], list[slice]]]:
    """The folder below `root` of a search that is begun, and its cut, which the folder's name tells; else of a new one.

    So a search goes on from what is there, however many places there are by now.
    """
    told = sorted(path.name.rpartition("-")[2] for path in root.glob(f"{name}-*"))
    rows = next((int(number) for number in told if number.isdecimal() and int(number)), 0)
    rows = rows or tile_rows(n, m, max(1, places))
    return root / f"{name}-{rows}", (cuts(n, rows), cuts(m, rows))


def nearest_on(
    engine: Engine,
    x: Vectors,
    y: Vectors,
    k: int = 4,
    *,
    cosine: bool = True,
    backend: Backend = "auto",
    folder: Path | None = None,
    cut: tuple[Sequence[slice], Sequence[slice]] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Neighbours, Neighbours]:
    """What `nearest` gives, searched in tiles by an engine.

    Args:
        engine: who searches.
        x, y, k, cosine, backend: as of `nearest`; an exact backend. "auto" is chosen where a tile is searched.
        folder: that all workers see. Vectors that are in no file are written there, and so is the result of each tile:
            the same search, started again, does not do again what is there. By default all is sent to and fro.
        cut: the rows of a tile of x, and of y; by default by the engine's places.
        on_progress: called after every tile.

    Raises:
        InputError: as `nearest`; the folder holds another search; or the backend is not exact.
        Exception: what a worker told; LostError: workers died of a tile.
    """
    if backend == "faiss":
        raise InputError("an approximate search is not cut into tiles; take another backend, or --engine local")
    both_sides(x, y, k, cosine=cosine)  # what is wrong with them is said as ever
    if not len(x) or not len(y):
        return nearest(x, y, k, cosine=cosine, backend=backend)
    size = tile_rows(len(x), len(y), engine.places)
    parts = [list(given) for given in cut] if cut else [cuts(len(x), size), cuts(len(y), size)]
    if folder is not None:
        _agree(folder, x, y, f"k={k} cosine={cosine} cut={parts}")
    sides = [_parts(side, folder, name, of_side) for side, name, of_side in zip((x, y), "xy", parts, strict=True)]
    tiles = {}
    for i, part in enumerate(sides[0]):
        # To and fro: the next tile has a part of y that was read last.
        for j in range(len(sides[1]))[:: -1 if i % 2 else 1]:
            out = None if folder is None else folder / f"tile-{i}-{j}.npz"
            tiles[i, j] = Tile(part, sides[1][j], k, cosine, backend, out)
    merging = _Merging(len(x), len(y), parts, k)
    total, done = len(x) * len(y), count(1)

    def take(where: tuple[int, int], result: tuple[Neighbours, Neighbours]) -> None:
        merging.take(where, result)
        if on_progress:
            similarities = next(done) * total // len(tiles)
            on_progress(Progress(backend, similarities, total, len(x) + len(y)))

    left = []
    for where, tile in tiles.items():
        if tile.out is not None and (result := _read(tile)) is not None:
            take(where, result)
        else:
            left.append(tile)
    places = {id(tile): where for where, tile in tiles.items()}
    outcomes = engine.map(search_tile, left)
    try:
        for outcome in outcomes:
            if not isinstance(outcome, Done):
                raise outcome.error
            found = outcome.value or _written(outcome.piece)
            take(places[id(outcome.piece)], found)
    finally:
        if isinstance(outcomes, Generator):
            outcomes.close()
    return merging.neighbours


class _Merging:
    """The best of both sides so far: merging is associative, so tiles may come in any order."""

    def __init__(self, n: int, m: int, parts: Sequence[Sequence[slice]], k: int):
        self._parts = parts
        self._k = min(k, m), min(k, n)
        self._best = [
            Neighbours(np.full((rows, k), np.iinfo(np.int64).max), np.full((rows, k), -np.inf))
            for rows, k in zip((n, m), self._k, strict=True)
        ]

    def take(self, where: tuple[int, int], result: tuple[Neighbours, Neighbours]) -> None:
        for best, k, part, place, found in zip(self._best, self._k, self._parts, where, result, strict=True):
            rows = part[place]
            both = merged([Neighbours(best.rows[rows], best.similarity[rows]), found], k)
            best.rows[rows], best.similarity[rows] = both

    @property
    def neighbours(self) -> tuple[Neighbours, Neighbours]:
        return self._best[0], self._best[1]


def search_on(engine: Engine, root: Path, watch: Callable[[Progress], None] | None = None) -> Search:
    """A search by an engine where it is worth it, its files in a folder of its own below `root` as long as it lasts.

    watch: told how far it is, where nobody else is.
    """

    def search(
        x: Vectors, y: Vectors, k: int, *, backend: Backend, on_progress: Callable[[Progress], None] | None
    ) -> tuple[Neighbours, Neighbours]:
        if backend == "faiss" or x.ndim != 2 or y.ndim != 2 or len(x) * len(y) * x.shape[1] < _WORTH:
            return nearest(x, y, k, backend=backend, on_progress=on_progress)
        folder, cut = begun(root, f"tiles-{_digest(x, y, str(k))[:32]}", len(x), len(y), engine.places)
        with writing(folder):
            claim = Claim(folder)
        try:
            watching = on_progress or watch
            found = nearest_on(engine, x, y, k, backend=backend, folder=folder, cut=cut, on_progress=watching)
        finally:
            claim.release()
        remove_unclaimed(folder)
        return found

    return search


def _parts(side: Vectors, folder: Path | None, name: str, cut: Sequence[slice]) -> list[Part]:
    if folder is None:
        return [Part(part.start, part.stop, side[part]) for part in cut]
    if not (isinstance(side, np.memmap) and side.filename and side.flags.c_contiguous and _is_whole(side)):
        file = folder / f"{name}.npy"
        refuse_special(file)
        if not _holds(file, side):
            with writing(file), replacing(file) as stream:
                np.save(stream, np.ascontiguousarray(side), allow_pickle=False)
        side = np.load(file, mmap_mode="r", allow_pickle=False)
    assert isinstance(side, np.memmap) and side.filename is not None
    where = (Path(side.filename).absolute(), side.dtype.str, side.shape, int(side.offset))
    return [Part(part.start, part.stop, None, *where) for part in cut]


def _holds(file: Path, side: Vectors) -> bool:
    """Whether a file has these rows, bit by bit; one that a killed search has left may be damaged."""
    try:
        stored = np.load(file, mmap_mode="r", allow_pickle=False)
    except Exception:  # whatever a damaged file makes of it: it is written again
        return False
    return stored.ndim == 2 and _digest(stored, side[:0], "") == _digest(side, side[:0], "")


def _is_whole(side: np.memmap[Any, Any]) -> bool:
    return isinstance(side.base, mmap)  # a part has the offset of the whole


def _agree(folder: Path, x: Vectors, y: Vectors, options: str) -> None:
    """Note which search the folder is of. Raises InputError: it is of another one, or cannot be written."""
    file, digest = folder / "search.txt", _digest(x, y, options)
    refuse_special(file)
    with writing(file):
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            with replacing(file) as stream:
                stream.write(digest.encode())
        elif file.read_text(encoding="ascii", errors="replace") != digest:
            raise InputError(f"{folder} is of another search, or one with other options or another cut; remove it")


def _digest(x: Vectors, y: Vectors, options: str) -> str:
    digest = hashlib.blake2b(options.encode(), digest_size=32)
    for side in (x, y):
        digest.update(f"{side.dtype.str}{side.shape}".encode())
        rows = max(1, AT_ONCE // max(1, side.shape[1]))
        for start in range(0, len(side), rows):
            digest.update(np.ascontiguousarray(side[start : start + rows]).tobytes())
    return digest.hexdigest()


def _written(tile: Tile) -> tuple[Neighbours, Neighbours]:
    """The result that a worker has written. Raises InputError: it is not there."""
    end = time.monotonic() + _VISIBLE
    while (found := _read(tile)) is None:
        if time.monotonic() > end:
            raise InputError(f"{tile.out}, which a worker wrote, is not there; name a folder that all nodes share")
        time.sleep(0.2)
    return found


def _read(tile: Tile) -> tuple[Neighbours, Neighbours] | None:
    """The result in a tile's file; None if there is none, or it is damaged: then it is to be made again."""
    assert tile.out is not None
    try:
        refuse_special(tile.out)
        with tile.out.open("rb") as stream, np.lib.npyio.NpzFile(stream, allow_pickle=False) as stored:
            columns = [stored[name] for name in _COLUMNS]
    except InputError:
        raise
    except Exception:  # of a damaged zip they are of many types: NotImplementedError, RuntimeError, zlib.error
        return None
    of_x, of_y = Neighbours(*columns[:2]), Neighbours(*columns[2:])
    for part, other, found in ((tile.x, tile.y, of_x), (tile.y, tile.x, of_y)):
        shape = part.stop - part.start, min(tile.k, other.stop - other.start)
        if found.rows.dtype != np.int64 or found.similarity.dtype != np.float64:
            return None
        if any(column.shape != shape for column in found) or np.isnan(found.similarity).any():
            return None
        if not ((found.rows >= other.start) & (found.rows < other.stop)).all():
            return None
    return of_x, of_y

"""Approximate nearest neighbours of both sides by faiss, for sizes at which an exact search takes too long.

One side at a time is put into an index, and every row of the other asks it for more than k candidates. These are scored
by the reference similarity: what an index gets wrong is which rows are found, never their scores. How much is missed
depends on the vectors; it is measured on a sample of each side's rows against an exact search.

The same vectors, index and seed give the same result with the same version of faiss, whatever the number of threads:
blocks of queries have a fixed size and a thread each, and an index whose construction depends on the number of threads
(an HNSW graph, an OPQ rotation) is made by one.

Memory beyond the inputs, where m rows of dimension d are in the index: m times 4 d bytes for "Flat", 4 d + 8 for
"IVF...,Flat", 4 d + 8 M for "HNSWM", M / 2 + 8 for "IVF...,PQMx4fs"; 4 d bytes, twice, for each of the at most 655,360
rows that "auto" trains on; some 100 MB a thread for blocks of queries; and O((n + m) k). Candidates are read from the
vectors at random places, so memory maps that are larger than the memory want a fast disk.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError, MissingExtraError
from harness.mining.plain import Best, search
from harness.mining.search import Ints, Neighbours, Side, both_sides, similarity

_BLOCK = 2048  # queries, or rows that are added, at once
_CANDIDATES = 8  # times k
_TRAINING = 40  # rows for each list of an inverted file: faiss warns below 39
_MOST_LISTS = 1 << 14
_NOT_WORTH_TRAINING = 50_000  # rows


@dataclass(frozen=True)
class Recall:
    """How much an approximate search found, measured on a sample of the rows of each side.

    Attributes:
        k: neighbours asked for.
        x, y: the share of what was found for sampled rows of that side that is as near as their k-th nearest vector.
        sampled: rows of x, rows of y.
        index: what the neighbours of x, and those of y, were searched in, as `nearest_approximate` takes it.
        completed: rows for which the index found fewer than k neighbours, and which were searched exactly.
    """

    k: int
    x: float
    y: float
    sampled: tuple[int, int]
    index: tuple[str, str]
    completed: int

    def __str__(self) -> str:
        indexes = " and ".join(dict.fromkeys(self.index))
        return (
            f"recall@{self.k} {self.x:.3f} and {self.y:.3f}, of {self.sampled[0]:,} and {self.sampled[1]:,} rows, by "
            f"{indexes}"
        )


def nearest_approximate(
    x: NDArray[np.floating[Any]],
    y: NDArray[np.floating[Any]],
    k: int = 4,
    *,
    cosine: bool = True,
    index: str = "auto",
    sample: int = 1000,
    seed: int = 0,
) -> tuple[Neighbours, Neighbours, Recall]:
    """About the k' = min(k, size of the other side) nearest neighbours of every row of x in y, and of y in x.

    Every row has k' neighbours, so that means over them compare: one for which the index finds fewer is searched
    exactly. Ties go to the lowest of the rows that are candidates.

    Args:
        x, y: (n, dim) and (m, dim), float32 or float16, finite; arrays or memory maps, read in blocks.
        k: neighbours kept, at least 1.
        cosine: scale the rows to unit norm first; else they are taken as they are.
        index: a string for faiss's index factory, with search parameters after a semicolon where its defaults are not
            wanted: "IVF4096,Flat;nprobe=64", "HNSW32;efSearch=128", "OPQ64,IVF16384,PQ64;nprobe=32". "auto" is
            what `choose_index` says, for each side by its size.
        sample: rows of each side on which recall is measured, at least 1.
        seed: of the rows that train the index, of its k-means, and of the sample.

    Returns:
        The neighbours of x and those of y, with exact similarities, and how many of them are right.

    Raises:
        InputError: different dimensions, k or sample < 1, NaN or infinity (the row is named), or an index that faiss
            cannot make of these rows.
        MissingExtraError: faiss is missing.
    """
    try:
        import faiss  # noqa: F401
    except ImportError:
        raise MissingExtraError("the backend faiss", "ann") from None
    if sample < 1:
        raise InputError(f"sample is at least 1, not {sample}")
    sides = both_sides(x, y, k, cosine=cosine)
    names = [choose_index(len(other), other.dim) if index == "auto" else index for other in sides[::-1]]
    of_x, short_x = _search(*sides, k, names[0], cosine, seed)
    of_y, short_y = _search(*sides[::-1], k, names[1], cosine, seed)
    rows_x, rows_y = (_sample(len(side), sample, seed) for side in sides)
    recall = Recall(
        k,
        _recall(*sides, of_x, rows_x),
        _recall(*sides[::-1], of_y, rows_y),
        (len(rows_x), len(rows_y)),
        (names[0], names[1]),
        short_x + short_y,
    )
    return of_x, of_y, recall


def choose_index(n: int, dim: int) -> str:
    """The index for a search among `n` vectors, as `nearest_approximate` takes it.

    Exact below 50,000 vectors. Above, an inverted file of vectors compressed by product quantisation to dim / 4 bytes
    each (Jegou, Douze and Schmid, PAMI 2011), in the layout that is scanned in registers (Andre, Kermarrec and Le
    Scouarnec, PAMI 2021). With its candidates scored exactly it found as much, among 40,000 to 200,000 vectors of
    multilingual-e5-small, as an inverted file of whole vectors ("IVF...,Flat") in a tenth of the time, and as a graph
    ("HNSW32") in a third, building included.
    """
    if n < _NOT_WORTH_TRAINING:
        return "Flat"
    lists = min(2 ** round(math.log2(4 * math.sqrt(n))), _MOST_LISTS)
    even = dim + dim % 2
    pad = f"Pad{even}," if even != dim else ""
    return f"{pad}IVF{lists},PQ{even // 2}x4fs;nprobe={round(4 * math.sqrt(lists))}"


def _search(side: Side, other: Side, k: int, name: str, cosine: bool, seed: int) -> tuple[Neighbours, int]:
    """Returns about the k nearest rows of `other` for every row of `side`, and how many rows were searched exactly."""
    n, k = len(side), min(k, len(other))
    rows, similarities = np.full((n, k), -1, np.int64), np.full((n, k), -np.inf)
    if n == 0 or k == 0:
        return Neighbours(rows, similarities), 0
    import faiss

    index = _build(other, name, cosine, seed)

    def search_block(start: int) -> None:
        block = slice(start, start + _BLOCK)
        _, candidates = index.search(side[block], min(_CANDIDATES * k, len(other)))
        rows[block], similarities[block] = _best(side, other, start, candidates, k)

    # Faiss would divide a block among its threads, and what it finds may depend on the division.
    pool = ThreadPoolExecutor(faiss.omp_get_max_threads(), initializer=faiss.omp_set_num_threads, initargs=(1,))
    try:
        for _ in pool.map(search_block, range(0, n, _BLOCK)):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
    short = np.flatnonzero(rows[:, -1] < 0)
    for start in range(0, len(short), _BLOCK):
        part = short[start : start + _BLOCK]
        rows[part], similarities[part] = _exact(side, other, part, k)
    return Neighbours(rows, similarities), len(short)


def _build(side: Side, name: str, cosine: bool, seed: int) -> Any:
    """The faiss index `name` of a side's rows."""
    import faiss

    factory, _, parameters = name.partition(";")
    # Distance puts unit vectors in the same order as the dot product, and product quantisation errs less in it.
    by_distance = cosine and factory != "Flat"
    try:
        index = faiss.index_factory(side.dim, factory, faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT)
        inverted_file = faiss.try_extract_index_ivf(index)
        n_centroids = 256  # of product quantisation
        if inverted_file is not None:
            n_centroids = max(n_centroids, inverted_file.nlist)
            inverted_file.cp.seed = seed
        with _threads(1 if "HNSW" in factory or "OPQ" in factory else faiss.omp_get_max_threads()):
            if not index.is_trained:
                index.train(side[_sample(len(side), _TRAINING * n_centroids, seed)])
            for start in range(0, len(side), _BLOCK):
                vectors = side[start : start + _BLOCK]
                if by_distance:
                    # By distance, a zero vector is nearer than all that have a cosine below 0.5: out of the way.
                    vectors[~vectors.any(axis=1)] = 2
                index.add(vectors)
        if parameters:
            space: Any = faiss.ParameterSpace()
            space.set_index_parameters(index, parameters)
    except RuntimeError as error:
        reason = re.sub(r"^Error in .*?:\d+: (Error: '.*?' failed: )?", "", str(error).splitlines()[0])
        raise InputError(f"faiss cannot make {name!r} of {len(side):,} vectors of {side.dim}: {reason}") from None
    return index


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Faiss uses `n` threads for what this thread asks of it in the `with` block."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _best(side: Side, other: Side, start: int, candidates: Ints, k: int) -> Neighbours:
    """Returns the k best candidates of the rows from `start` on, by the reference similarity.

    -1 stands for none, among the candidates and in the result.
    """
    scores = np.full(candidates.shape, -np.inf)
    queries, places = np.nonzero(candidates >= 0)
    scores[queries, places] = similarity(side, other, queries + start, candidates[queries, places])
    order = np.lexsort((candidates, -scores), axis=1)[:, :k]
    return Neighbours(np.take_along_axis(candidates, order, 1), np.take_along_axis(scores, order, 1))


def _exact(side: Side, other: Side, rows: Ints, k: int) -> Neighbours:
    """Returns the k nearest rows of `other` for some rows of `side`."""
    best = Best(len(rows), k)
    search(side.take(rows), other, best)
    return Neighbours(best.rows, best.similarity)


def _recall(side: Side, other: Side, approximate: Neighbours, rows: Ints) -> float:
    """Returns the share of the neighbours of some rows that are as near as their k-th nearest; 1 without rows."""
    k = approximate.rows.shape[1]
    if len(rows) == 0 or k == 0:
        return 1.0
    kth_best = _exact(side, other, rows, k).similarity[:, -1:]
    return float((approximate.similarity[rows] >= kth_best).mean())


def _sample(n: int, at_most: int, seed: int) -> Ints:
    """Returns up to `at_most` of n row numbers, drawn without replacement, in ascending order."""
    if n <= at_most:
        return np.arange(n)
    drawn: Ints = np.random.default_rng(seed).choice(n, at_most, replace=False, shuffle=False)
    return np.sort(drawn)

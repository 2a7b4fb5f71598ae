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
import time
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

BLOCK = 2048
"""Queries, or rows that are added, at once."""

_CANDIDATES = 8  # times k
_TRAINING = 40  # rows for each list of an inverted file: faiss warns below 39
_MOST_LISTS = 1 << 14
_NOT_WORTH_TRAINING = 50_000  # rows
_ITERATIONS = 10  # of k-means, in faiss, for an inverted file


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
    version()
    if sample < 1:
        raise InputError(f"sample is at least 1, not {sample}")
    sides = both_sides(x, y, k, cosine=cosine)
    names = [choose_index(len(other), other.dim) if index == "auto" else index for other in sides[::-1]]
    of_x, of_y = (
        _joined(search_blocks(side, other, k, name, cosine=cosine, seed=seed), len(side), min(k, len(other)))
        for side, other, name in ((*sides, names[0]), (*sides[::-1], names[1]))
    )
    return of_x, of_y, completed(sides, (of_x, of_y), k, (names[0], names[1]), sample, seed)


def version() -> str:
    """That of faiss. Raises MissingExtraError without it."""
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("the backend faiss", "ann") from None
    return str(faiss.__version__)


def completed(
    sides: tuple[Side, Side],
    found: tuple[Neighbours, Neighbours],
    k: int,
    index: tuple[str, str],
    sample: int = 1000,
    seed: int = 0,
) -> Recall:
    """Give every row of what `search_blocks` found for both sides its k' neighbours, and measure how many are right."""
    of_x, of_y = found
    short = _complete(*sides, of_x) + _complete(*sides[::-1], of_y)
    rows_x, rows_y = (_sample(len(side), sample, seed) for side in sides)
    return Recall(
        k,
        _recall(*sides, of_x, rows_x),
        _recall(*sides[::-1], of_y, rows_y),
        (len(rows_x), len(rows_y)),
        index,
        short,
    )


def choose_index(n: int, dim: int) -> str:
    """The index for a search among `n` vectors, as `nearest_approximate` takes it.

    Exact below 50,000 vectors. Above, an inverted file of vectors compressed by product quantisation to dim / 4 bytes
    each (Jegou, Douze and Schmid, PAMI 2011), in the layout that is scanned in registers (Andre, Kermarrec and Le
    Scouarnec, PAMI 2021). With its candidates scored exactly it found as much, among 40,000 to 200,000 vectors of
    multilingual-e5-small, as an inverted file of whole vectors ("IVF...,Flat") in a tenth of the time, and as a graph
    ("HNSW32") in a third, building included. In the student's 256 dimensions, it
    found 98.7 % of the 4 nearest of 1,324,115 sentences in 17 languages among 537,967 English ones, and 99.2 % of those
    of the English ones.
    """
    if n < _NOT_WORTH_TRAINING:
        return "Flat"
    lists = min(2 ** round(math.log2(4 * math.sqrt(n))), _MOST_LISTS)
    return _quantised(dim, lists, round(4 * math.sqrt(lists)))


def _quantised(dim: int, lists: int, probes: int) -> str:
    even = dim + dim % 2
    pad = f"Pad{even}," if even != dim else ""
    return f"{pad}IVF{lists},PQ{even // 2}x4fs;nprobe={probes}"


@dataclass(frozen=True)
class Speed:
    """Seconds that approximate search takes on this machine, measured on random vectors of one dimension.

    Attributes:
        product: of a product of components, in a product of matrices.
        code: a compressed vector that is scanned, by one thread.
        query: what else a query takes, by one thread: scoring its candidates, mostly.
        threads: that search.
    """

    product: float
    code: float
    query: float
    threads: int

    def seconds(self, n: int, m: int, dim: int) -> float:
        """What a search of n queries among m vectors takes, with making the index that `choose_index` says.

        Lists are taken to be of one length, and vectors of sentences are even enough for that; where vectors lie in
        dense clusters, several times as many codes are scanned.
        """
        if (name := choose_index(m, dim)) == "Flat":
            return n * m * dim * self.product + n * self.query / self.threads
        lists, probes = (int(number) for number in re.findall(r"(?:IVF|nprobe=)(\d+)", name))
        training = _ITERATIONS * _TRAINING * lists * lists * dim * self.product
        scanning = (m * probes / lists * self.code + self.query) / self.threads
        return training + (n + m) * lists * dim * self.product + n * scanning


def measured_speed(dim: int, k: int) -> Speed:
    """How fast approximate search is here, in a second or so. Raises MissingExtraError without faiss."""
    version()
    import faiss

    rng = np.random.default_rng(0)
    sides = [Side(rng.standard_normal((size, dim), np.float32), "a sample", cosine=True) for size in (BLOCK, 8 * BLOCK)]
    queries, rows = sides
    lists = 64
    times = []
    index = _build(rows, _quantised(dim, lists, lists), True, 0)
    with _threads(1):
        for probes in (lists, 1):
            space: Any = faiss.ParameterSpace()
            space.set_index_parameters(index, f"nprobe={probes}")
            start = time.perf_counter()
            _, candidates = index.search(queries[:], _CANDIDATES * k)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        _best(queries, rows, 0, candidates, k)
        scoring = time.perf_counter() - start
    one, other = queries[:], rows[:]
    start = time.perf_counter()
    one @ other.T
    product = (time.perf_counter() - start) / (len(one) * len(other) * dim)
    code = max(0.0, times[0] - times[1]) / (len(one) * len(other) * (1 - 1 / lists))
    return Speed(product, code, (times[1] + scoring) / len(one), faiss.omp_get_max_threads())


def index_bytes(n: int, dim: int) -> int:
    """Memory of the index that `choose_index` says, with the rows that train it."""
    name = choose_index(n, dim)
    if name == "Flat":
        return 4 * dim * n
    lists = int(re.findall(r"IVF(\d+)", name)[0])
    return (dim // 4 + 12) * n + 2 * 4 * dim * min(n, _TRAINING * lists)


def search_blocks(
    side: Side, other: Side, k: int, name: str, *, cosine: bool = True, seed: int = 0, start: int = 0
) -> Iterator[Neighbours]:
    """About the k' nearest rows of `other` for the rows of `side` from `start` on, block by block of `BLOCK` rows.

    -1 stands where the index `name` found fewer. What a block holds does not depend on where the search begins.
    """
    k = min(k, len(other))
    if start >= len(side) or k == 0:
        return
    import faiss

    index = _build(other, name, cosine, seed)

    def search_block(start: int) -> Neighbours:
        _, candidates = index.search(side[start : start + BLOCK], min(_CANDIDATES * k, len(other)))
        return _best(side, other, start, candidates, k)

    # Faiss would divide a block among its threads, and what it finds may depend on the division.
    pool = ThreadPoolExecutor(faiss.omp_get_max_threads(), initializer=faiss.omp_set_num_threads, initargs=(1,))
    try:
        yield from pool.map(search_block, range(start, len(side), BLOCK))
    finally:
        pool.shutdown(cancel_futures=True)


def _joined(blocks: Iterator[Neighbours], n: int, k: int) -> Neighbours:
    rows, similarities, start = np.full((n, k), -1, np.int64), np.full((n, k), -np.inf), 0
    for block in blocks:
        part = slice(start, start + len(block.rows))
        rows[part], similarities[part] = block
        start = part.stop
    return Neighbours(rows, similarities)


def _complete(side: Side, other: Side, found: Neighbours) -> int:
    """Search exactly for the rows that lack neighbours; returns how many there are."""
    k = found.rows.shape[1]
    short = np.flatnonzero(found.rows[:, -1] < 0) if k else np.empty(0, np.int64)
    for start in range(0, len(short), BLOCK):
        part = short[start : start + BLOCK]
        found.rows[part], found.similarity[part] = _exact(side, other, part, k)
    return len(short)


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
            for start in range(0, len(side), BLOCK):
                vectors = side[start : start + BLOCK]
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

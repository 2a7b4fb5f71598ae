"""Exact nearest neighbours of both sides in one pass over blocks of low-precision similarities.

A block's product, in float32 or bfloat16, feeds both directions. It only finds candidates; a certificate says for every
row that its k best are among them, and the candidates are scored by the reference similarity.

The bound. Let u be a row of one side and v of the other as the reference has them, a and b two fixed vectors (the
sides' centres), r = u - a, s = v - b, and q, p what r and s are rounded to. Then

    u.v = r.s + u.b + a.v - a.b        and        r.s - q.p = (r - q).s + q.(s - p),

so by Cauchy and Schwarz |r.s - q.p| <= |r - q| max|s| + |q| max|s - p|: every row's own rounding residual counts, not
the worst that rounding could do, which grows with the dimension. A product of length d accumulated in float32 in any
order adds d 2^-24 |q| |p| to first order (Higham, Accuracy and Stability of Numerical Algorithms, eq. 3.5); units that
cut where they should round add up to four times that. Numbers below the smallest normal one, 2^-126, may be taken for
0, which moves a row by d^1/2 2^-126 at most. The reference itself, the dot products with the centres and the lengths of
the residuals are sums in float64: they err by d 2^-53 times the largest |u| |v|, ten times in all at most, as |r| and
|s| are at most twice |u| and |v|. Let e be the sum of these terms. Where an entry t of the block is itself rounded to
bfloat16 it is off by at most |t| 2^-8. Hence

    t - |t| 2^-8 + a.v - e  <=  u.v - u.b + a.b  <=  t + |t| 2^-8 + a.v + e,

where all that is not known of a row is a constant. If l is the k-th largest lower bound (without e) of a row, each of
its k best has a similarity of at least l - e, so whatever has an upper bound (without e) below l - 2 e is not among
them. The same holds for a column, with a.v the constant and u.b in the bounds. A list is too short for a row if
something was left out of it whose upper bound reaches l - 2 e in the end; such a row is searched anew.

Centres change nothing in this but make it tight: the cosines of some encoders all lie between 0.7 and 0.9, and the
residuals of their vectors are several times those of the vectors less their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.mining.plain import Best, search
from harness.mining.search import Checkpoint, Floats, Ints, Neighbours, Report, Side

Precision = Literal["float32", "bfloat16"]

_SAMPLE = 4096  # rows from which a side's centre is taken
_SPARE = 24  # places on a list beyond 2 k
_BLOCK = 4096  # rows and columns: 64 MiB in float32


class Lists(NamedTuple):
    """The candidates of a side's n rows; see `harness.mining.compiled`."""

    columns: NDArray[np.int32]
    uppers: NDArray[np.float32]
    lowers: NDArray[np.float32]
    counts: NDArray[np.int32]
    floors: NDArray[np.float32]
    dropped: NDArray[np.float32]
    slacks: NDArray[np.float64]


def nearest_by_blocks(
    x: Side,
    y: Side,
    k_x: int,
    k_y: int,
    precision: Precision,
    block: int | None,
    checkpoint: Checkpoint,
    report: Report,
) -> tuple[Neighbours, Neighbours]:
    """The `k_x` nearest rows of y of every row of x, and the `k_y` nearest rows of x of every row of y.

    For `block`, `checkpoint` and `report` see `harness.mining.neighbours.nearest`; the latter takes the rows of x that
    are done.
    """
    from numba import get_num_threads

    from harness.mining.compiled import scan_columns, scan_rows

    n_threads = get_num_threads()
    block = block or _BLOCK
    kind = np.uint16 if precision == "bfloat16" else np.float32
    centres = centre(x), centre(y)
    measures = _measure(x, *centres, kind), _measure(y, *centres[::-1], kind)
    biases = [measure[:, 3].astype(np.float32) for measure in measures]
    error = np.float32(2**-8 if precision == "bfloat16" else 0)
    of_x, of_y = _lists(k_x, slacks(x, y, *measures)), _lists(k_y, slacks(y, x, *measures[::-1]))
    arrays = {**_named("x", of_x), **_named("y", of_y)}
    start = checkpoint.restore(arrays, len(x))
    memory = np.empty(min(block, len(x)) * min(block, len(y)), kind)

    with _product(precision, n_threads) as multiply:
        for top in range(start, len(x), block):
            rows = _rounded(x, slice(top, top + block), centres[0], kind)
            for left in range(0, len(y), block):
                columns = _rounded(y, slice(left, left + block), centres[1], kind)
                tile = memory[: len(rows) * len(columns)].reshape(len(rows), len(columns))
                multiply(rows, columns, tile)
                scan_rows(tile, top, left, biases[1], error, k_x, of_x)
                scan_columns(tile, top, left, biases[0], error, k_y, of_y, n_threads)
            done = min(top + block, len(x))
            checkpoint.save(arrays, done)
            if done < len(x):
                report(done)
    return best_of_lists(x, y, of_x, of_y, k_x, k_y, block, report)


@contextmanager
def _product(
    precision: Precision, n_threads: int
) -> Iterator[Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], None]]:
    """A function of rows, rows and `out`, the matrix of their dot products. bfloat16 stands as its bits in uint16."""
    if precision == "bfloat16":
        import torch

        def multiply_bfloat16(rows: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]) -> None:
            left, right, product = (
                torch.from_numpy(part.view(np.int16)).view(torch.bfloat16) for part in (rows, columns, out)
            )
            torch.mm(left, right.T, out=product)

        yield multiply_bfloat16
        return
    from threadpoolctl import threadpool_limits

    def multiply(rows: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]) -> None:
        size = -(-len(rows) // n_threads)
        parts = [slice(start, start + size) for start in range(0, len(rows), size)]
        for _ in pool.map(lambda part: np.matmul(rows[part], columns.T, out=out[part]), parts):
            pass  # raises what a thread raised

    # OpenBLAS's own threads wait actively for the next product, and take the cores from the scans in between.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        yield multiply


def centre(side: Side) -> NDArray[np.float32]:
    """About the mean of the rows, (dim,); any vector would do."""
    rows = np.linspace(0, len(side) - 1, min(len(side), _SAMPLE)).astype(np.int64)
    centre: NDArray[np.float64] = side[rows].mean(axis=0, dtype=np.float64)
    return centre.astype(np.float32)


def _contiguous(side: Side, rows: slice) -> NDArray[np.float32]:
    return np.ascontiguousarray(side.vectors[rows], dtype=np.float32)


def _rounded(side: Side, rows: slice, centre: NDArray[np.float32], kind: type) -> NDArray[Any]:
    """Rows less the centre, as float32 or the bits of bfloat16."""
    from harness.mining.compiled import round_rows

    vectors = _contiguous(side, rows)
    out: NDArray[Any] = np.empty(vectors.shape, kind)
    round_rows(vectors, side.divisors[rows], centre, out)
    return out


def _measure(side: Side, centre: NDArray[np.float32], other_centre: NDArray[np.float32], kind: type) -> Floats:
    """What `harness.mining.compiled.measure_rows` says of every row, (n, 4)."""
    from harness.mining.compiled import measure_rows

    measures = np.empty((len(side), 4))
    for start in range(0, len(side), _SAMPLE):
        rows = slice(start, start + _SAMPLE)
        rounded = _rounded(side, rows, centre, kind)
        measure_rows(_contiguous(side, rows), side.divisors[rows], centre, other_centre, rounded, measures[rows])
    return measures


def slacks(side: Side, other: Side, measures: Floats, other_measures: Floats, *, unit: float = 2.0**-24) -> Floats:
    """2 e for every row of a side, given what `_measure` says of both sides; (n,).

    `unit` is the error of an addition where the product accumulates.
    """
    dim, norms = side.dim, side.largest_norm * other.largest_norm
    missed, _, stored, _ = measures.T
    most_missed, longest, most_stored, _ = other_measures.max(axis=0)
    largest_bias = np.abs(other_measures[:, 3]).max()
    error = missed * longest + stored * most_missed + 1.01 * dim * unit * stored * most_stored
    error += 10 * dim * 2.0**-53 * norms
    error += dim**0.5 * 2.0**-126 * (stored + most_stored) + dim * 2.0**-120  # operands and products taken for 0
    error += 2.0**-20 * (stored * most_stored + largest_bias)  # biases and bounds in float32
    doubled: Floats = 2 * error
    return doubled


def _lists(k: int, slack: Floats) -> Lists:
    """Empty lists for a side."""
    n, size = len(slack), 2 * k + _SPARE
    return Lists(
        columns=np.zeros((n, size), np.int32),
        uppers=np.zeros((n, size), np.float32),
        lowers=np.zeros((n, size), np.float32),
        counts=np.zeros(n, np.int32),
        floors=np.full(n, -np.inf, np.float32),
        dropped=np.full(n, -np.inf, np.float32),
        slacks=slack,
    )


def _named(side: str, lists: Lists) -> dict[str, NDArray[Any]]:
    """The arrays of a checkpoint."""
    return {f"{side}_{name}": array for name, array in lists._asdict().items()}


def best_of_lists(
    x: Side, y: Side, of_x: Lists, of_y: Lists, k_x: int, k_y: int, block: int | None, report: Report
) -> tuple[Neighbours, Neighbours]:
    """The neighbours that the full lists of both sides lead to. Reports the end of the search."""
    neighbours_x, n_recomputed_x, n_candidates_x = _best_of_side(x, y, of_x, k_x, block)
    neighbours_y, n_recomputed_y, n_candidates_y = _best_of_side(y, x, of_y, k_y, block)
    report(len(x), recomputed=n_recomputed_x + n_recomputed_y, candidates=n_candidates_x + n_candidates_y)
    return neighbours_x, neighbours_y


def _best_of_side(side: Side, other: Side, lists: Lists, k: int, block: int | None) -> tuple[Neighbours, int, int]:
    """The k best of every row of a side: of its list, or searched anew where the list is too short.

    Also returns how many rows were searched anew, and how many candidates were scored.
    """
    rows, similarities, n_candidates = np.empty((len(side), k), np.int64), np.empty((len(side), k)), 0
    is_short = np.empty(len(side), bool)
    for start in range(0, len(side), _SAMPLE):
        part = slice(start, start + _SAMPLE)
        columns, counts, is_short[part] = _candidates(Lists._make(array[part] for array in lists), k)
        rows[part], similarities[part] = _best_of(side, other, part, columns, counts, k)
        n_candidates += int(counts.sum())
    short = np.flatnonzero(is_short)
    for start in range(0, len(short), _SAMPLE):
        anew = short[start : start + _SAMPLE]
        best = Best(len(anew), k)
        search(side.take(anew), other, best, block=block)
        rows[anew], similarities[anew] = best.rows, best.similarity
    return Neighbours(rows, similarities), len(short), n_candidates


def _candidates(lists: Lists, k: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """The columns of every list that may be among the k best, first on it; how many; and which lists are too short.

    Of these, no columns are given.
    """
    filled = np.arange(lists.columns.shape[1]) < lists.counts[:, None]
    lowers = np.where(filled, lists.lowers, -np.inf)
    floors = np.partition(lowers, -k, axis=1)[:, -k] - lists.slacks
    is_short = lists.dropped >= floors
    chosen = filled & (lists.uppers >= floors[:, None]) & ~is_short[:, None]
    order = np.argsort(~chosen, axis=1, kind="stable")
    return np.take_along_axis(lists.columns, order, 1).astype(np.int64), chosen.sum(axis=1), is_short


def _best_of(side: Side, other: Side, part: slice, columns: Ints, counts: Ints, k: int) -> tuple[Ints, Floats]:
    """The k best of the candidates of some rows by the reference similarity, ties to the lowest row."""
    from harness.mining.compiled import score_lists

    is_candidate = np.arange(columns.shape[1]) < counts[:, None]
    vectors, divisors, places = other.vectors, other.divisors, columns
    if vectors.dtype != np.float32 or not vectors.flags.c_contiguous:
        used, inverse = np.unique(columns[is_candidate], return_inverse=True)
        vectors, divisors, places = np.ascontiguousarray(vectors[used], np.float32), divisors[used], columns.copy()
        places[is_candidate] = inverse
    scores = np.full(columns.shape, -np.inf)
    score_lists(_contiguous(side, part), side.divisors[part], np.asarray(vectors), divisors, places, counts, scores)
    order = np.lexsort((np.where(is_candidate, columns, np.iinfo(np.int64).max), -scores), axis=1)[:, :k]
    return np.take_along_axis(columns, order, 1), np.take_along_axis(scores, order, 1)

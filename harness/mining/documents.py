"""Mining within pairs of documents: many searches that are small, each among the sentences of one pair alone.

The result for a pair of documents is what `harness.mining.margin.mine` gives for its vectors. All similarities of small
documents are computed at once, for many documents in one go, and none are left out; large documents are searched as
whole sides are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.mining.margin import Margin, Retrieval, matched
from harness.mining.neighbours import Backend, Progress, nearest
from harness.mining.search import Floats, Ints, Neighbours, Side, both_sides, similarity

_AT_ONCE = 1 << 20  # similarities: 8 MB, and as much for their columns
_WORTH_NUMBA = 10**9  # products of components


def mine_documents(
    x: NDArray[np.floating[Any]],
    y: NDArray[np.floating[Any]],
    bounds: tuple[Ints, Ints],
    *,
    k: int = 4,
    margin: Margin = "ratio",
    retrieval: Retrieval = "max",
    backend: Backend = "auto",
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Ints, Floats]:
    """Mine pairs of rows of x and y within documents.

    Args:
        x, y: (n, dim) and (m, dim), as of `harness.mining.margin.mine`.
        bounds: of both sides, (d + 1,): rows `bounds[i]` to `bounds[i + 1]` are document i.
        k, margin, retrieval, backend, on_progress: as of `mine`; only exact backends.

    Returns:
        As `mine`: pairs (p, 2) int64, rows of x and y, and scores (p,), of all documents in one descending order.

    Raises:
        InputError: as `mine`; or an approximate backend.
    """
    if backend == "faiss":
        raise InputError("documents are small enough for an exact search; leave out --backend faiss")
    sides = both_sides(x, y, k, cosine=True)
    starts_x, starts_y = bounds
    sizes = np.diff(starts_x) * np.diff(starts_y)
    total = int(sizes.sum())
    is_compiled = backend != "numpy" and total * sides[0].dim >= _WORTH_NUMBA and find_spec("numba") is not None
    pairs, scores, done = [np.empty((0, 2), np.int64)], [np.empty(0)], 0
    for documents in _batches(np.diff(starts_x), np.diff(starts_y)):
        if len(documents) == 1 and sizes[documents[0]] > _AT_ONCE:
            rows, columns = (slice(*starts[documents[0] : documents[0] + 2]) for starts in bounds)
            found = [nearest(x[rows], y[columns], k, backend=backend)]
        else:
            blocks = _similarities(*sides, bounds, documents, is_compiled)
            found = [(_nearest(block, k), _nearest(block.T, k)) for block in blocks]
        for document, neighbours in zip(documents, found, strict=True):
            of_document, scores_of_document = matched(*neighbours, margin, retrieval)
            pairs.append(of_document + np.array([starts_x[document], starts_y[document]]))
            scores.append(scores_of_document)
        done += int(sizes[documents[0] : documents[-1] + 1].sum())
        if on_progress:
            on_progress(Progress("compiled" if is_compiled else "numpy", done, total, len(x) + len(y)))
    joined, joined_scores = np.concatenate(pairs), np.concatenate(scores)
    order = np.lexsort((joined[:, 1], joined[:, 0], -joined_scores))
    return joined[order], joined_scores[order]


def _batches(n_x: Ints, n_y: Ints) -> Iterator[range]:
    """Documents, one after the other, whose similarities are computed in one go."""
    first, rows, widest = 0, 0, 0
    for document, (height, width) in enumerate(zip(n_x.tolist(), n_y.tolist(), strict=True)):
        if document > first and (rows + height) * max(widest, width) > _AT_ONCE:
            yield range(first, document)
            first, rows, widest = document, 0, 0
        rows, widest = rows + height, max(widest, width)
    if first < len(n_x):
        yield range(first, len(n_x))


def _similarities(x: Side, y: Side, bounds: Sequence[Ints], documents: range, is_compiled: bool) -> Iterator[Floats]:
    """The reference similarities within each of some documents, (its rows of x, its rows of y)."""
    first, last = documents[0], documents[-1] + 1
    starts_x, starts_y = (starts[first : last + 1] for starts in bounds)
    n_x, n_y = np.diff(starts_x), np.diff(starts_y)
    widths = np.repeat(n_y, n_x)  # of every row of x
    columns = np.repeat(starts_y[:-1], n_x)[:, None] + np.arange(widths.max(initial=0))
    values = np.zeros(columns.shape)
    is_there = np.arange(columns.shape[1]) < widths[:, None]
    if is_compiled:
        _score(x, y, slice(starts_x[0], starts_x[-1]), slice(starts_y[0], starts_y[-1]), columns, widths, values)
    else:
        rows, places = np.nonzero(is_there)
        values[rows, places] = similarity(x, y, rows + starts_x[0], columns[rows, places])
    for start, height, width in zip(starts_x - starts_x[0], n_x.tolist(), n_y.tolist(), strict=False):
        yield values[start : start + height, :width]


def _score(x: Side, y: Side, rows: slice, others: slice, columns: Ints, counts: Ints, out: Floats) -> None:
    from harness.mining.compiled import score_lists

    vectors = (np.ascontiguousarray(side.vectors[part], np.float32) for side, part in ((x, rows), (y, others)))
    first, second = vectors
    score_lists(first, x.divisors[rows], second, y.divisors[others], columns - others.start, counts, out)


def _nearest(similarities: Floats, k: int) -> Neighbours:
    """The k' highest of every row, ties to the lowest column."""
    order = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
    return Neighbours(order.astype(np.int64, copy=False), np.take_along_axis(similarities, order, 1))

"""A search whose neighbours are kept in a job's folder: while it lasts, to go on from there, and afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.mining.neighbours import Backend, Progress, nearest
from harness.mining.search import Neighbours, both_sides
from harness.mining.work import RowFile, WorkDir

Vectors = NDArray[np.floating[Any]]
OnProgress = Callable[[Progress], None]

_BLOCK = 2048  # rows of a chunk: `harness.mining.approximate.BLOCK`


def nearest_kept(
    vectors: Sequence[Vectors],
    k: int,
    backend: Backend,
    work: WorkDir,
    on_progress: OnProgress,
    search: Callable[[], tuple[Neighbours, Neighbours]] | None = None,
) -> tuple[Neighbours, Neighbours]:
    """What `harness.mining.neighbours.nearest` gives for both sides, (n, dim) and (m, dim), kept in `work`.

    Exact backends give the same neighbours, and go on from what another of them has finished.

    search: finds the exact ones in another way.
    """
    x, y = vectors
    if backend == "faiss":
        return _approximate(x, y, k, work, on_progress)
    kept = _files(work, len(x), len(y), x.shape[1], k, backend)
    state = work.folder / f"exact-k{k}.state"
    if any(file.done < file.n for file in kept):
        if search:
            found = search()
        else:
            found = nearest(x, y, k, backend=backend, checkpoint=state, keep_checkpoint=True, on_progress=on_progress)
        for file, neighbours in zip(kept, found, strict=True):
            for start in range(file.done, file.n, _BLOCK):
                part = slice(start, start + _BLOCK)
                file.append(_records(file.row, Neighbours(neighbours.rows[part], neighbours.similarity[part])))
        shutil.rmtree(state, ignore_errors=True)  # not before: a kill while they are written is to cost no search
        return found
    shutil.rmtree(state, ignore_errors=True)  # of a job that was killed just before that
    on_progress(Progress("exact", len(x) * len(y), len(x) * len(y), len(x) + len(y)))
    of_x, of_y = (_neighbours(file, len(other)) for file, other in zip(kept, (y, x), strict=True))
    return of_x, of_y


def _approximate(
    x: Vectors, y: Vectors, k: int, work: WorkDir, on_progress: OnProgress
) -> tuple[Neighbours, Neighbours]:
    from harness.mining.approximate import choose_index, completed, search_blocks

    sides = both_sides(x, y, k, cosine=True)
    names = (choose_index(len(y), sides[1].dim), choose_index(len(x), sides[0].dim))
    kept = _files(work, len(x), len(y), sides[0].dim, k, "faiss")
    total, n_rows = 2 * len(x) * len(y), len(x) + len(y)

    def report() -> None:
        on_progress(Progress("faiss", kept[0].done * len(y) + kept[1].done * len(x), total, n_rows))

    for file, side, other, name in zip(kept, sides, sides[::-1], names, strict=True):
        for block in search_blocks(side, other, k, name, start=file.done):
            file.append(_records(file.row, block))
            report()
    of_x, of_y = (_neighbours(file, len(other)) for file, other in zip(kept, (y, x), strict=True))
    recall = completed(sides, (of_x, of_y), k, names)
    on_progress(Progress("faiss", total, total, n_rows, recall=str(recall)))
    return of_x, of_y


def share_left(n: int, m: int, dim: int, k: int, backend: Backend, work: WorkDir) -> float:
    """How much of a search among `n` and `m` vectors is not in `work` yet, from 0 to 1; of an exact one, 0 or 1.

    Raises MissingExtraError for an approximate one without faiss.
    """
    kept = _files(work, n, m, dim, k, backend)
    if backend == "faiss":
        return sum(1 - file.done / file.n for file in kept) / 2
    return float(any(file.done < file.n for file in kept))


def _files(work: WorkDir, n: int, m: int, dim: int, k: int, backend: Backend) -> tuple[RowFile, RowFile]:
    stem = f"exact-k{k}"
    if backend == "faiss":
        # What it finds depends on the index, and on what makes that: others are searched for anew.
        from harness.mining.approximate import choose_index, version

        made = f"{choose_index(n, dim)} {choose_index(m, dim)} {version()}"
        stem = f"approximate-k{k}-{blake2b(made.encode(), digest_size=4).hexdigest()}"
    of_x, of_y = (
        RowFile(work.folder / f"{stem}.{name}", size, _row(min(k, others)), _BLOCK)
        for name, size, others in (("x", n, m), ("y", m, n))
    )
    return of_x, of_y


def _row(k: int) -> np.dtype[Any]:
    return np.dtype([("rows", np.int64, (k,)), ("similarity", np.float64, (k,))])


def _records(row: np.dtype[Any], neighbours: Neighbours) -> NDArray[Any]:
    records = np.empty(len(neighbours.rows), row)
    records["rows"], records["similarity"] = neighbours
    return records


def _neighbours(file: RowFile, n_others: int) -> Neighbours:
    records = file.array()
    found = Neighbours(np.ascontiguousarray(records["rows"]), np.ascontiguousarray(records["similarity"]))
    if found.rows.min(initial=0) < -1 or found.rows.max(initial=-1) >= n_others or np.isnan(found.similarity).any():
        raise InputError(f"{file.path} holds no neighbours of these sentences; remove it")
    return found

"""Nearest neighbours in both directions, by the backend that fits the machine and the size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import isqrt
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError, MissingExtraError, unknown_name
from harness.mining.search import AT_ONCE, Neighbours, Side, both_sides, open_checkpoint, similarity

Backend = Literal["auto", "numpy", "float32", "bfloat16", "cuda", "faiss"]

# Products of components below which imports and compilation would take longer than the search.
_WORTH_NUMBA = 10**9
_WORTH_TORCH = 10**11
_MANY = 128  # neighbours from which on the compiled scans, which keep no order in their lists, are slower than NumPy
_EQUAL = 1e-12  # of similarities: float64 sums of equal vectors differ by less, those of others hardly ever do
_LARGEST = 1e15  # norms whose products, in less than float32, are far from overflow


@dataclass(frozen=True)
class Progress:
    """How far a search is.

    Attributes:
        backend: that is at work.
        done, total: similarities.
        rows: of both sides.
        recomputed: rows whose candidates were not certain to hold their k best, and which were searched once more.
        candidates: that were scored by the reference similarity.
        recall: of an approximate search, at its end: what share of the neighbours it finds, measured on a sample.
    """

    backend: str
    done: int
    total: int
    rows: int
    recomputed: int = 0
    candidates: int = 0
    recall: str = ""


def nearest(
    x: NDArray[np.floating[Any]],
    y: NDArray[np.floating[Any]],
    k: int = 4,
    *,
    cosine: bool = True,
    backend: Backend = "auto",
    block: int | None = None,
    checkpoint: Path | str | None = None,
    keep_checkpoint: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Neighbours, Neighbours]:
    """The k' = min(k, size of the other side) nearest neighbours of every row of x in y, and of y in x.

    The result of all backends but "faiss" is the same: selection and scores follow the reference similarity, ties go
    to the lowest row. After a search by compiled code a process must not fork (start others with "spawn").

    Args:
        x, y: (n, dim) and (m, dim), float32 or float16, finite; arrays or memory maps. Other real numbers are copied
            to float32, all at once.
        k: neighbours kept, at least 1.
        cosine: scale the rows to unit norm first; else they are taken as they are.
        backend: "numpy"; "float32" (blocks of the similarity matrix scanned by compiled code; extra `mining`);
            "bfloat16" (the same with products in bfloat16; extras `mining` and `torch`); "cuda" (a GPU; both extras;
            experimental: its speed has not been measured); "faiss" (approximate; extra `ann`). "auto" takes the
            fastest exact one that is there and worth its start.
        block: rows of x at a time. The blocks take some 100 to 200 MB, or about 30 block^2 bytes, and there is
            O((n + m) k) beside them and the inputs.
        checkpoint: folder in which the state is kept between blocks of rows. The same search, interrupted and started
            again with it, goes on after the last block that is there; the state is removed when the search is done.
        keep_checkpoint: leave the state there then: the caller removes it when the result is safe.
        on_progress: called after every block of rows, and at the end.

    Raises:
        InputError: different dimensions, k < 1, NaN or infinity (the row is named), an unknown backend or one that
            this machine does not have, or a checkpoint of another search.
        MissingExtraError: the backend's packages are missing.
    """
    if block is not None and block < 1:
        raise InputError(f"a block has at least 1 row, not {block}")
    sides = both_sides(x, y, k, cosine=cosine)
    name = choose_backend(backend, *sides, k)
    if name == "faiss":
        if checkpoint is not None:
            raise InputError("an approximate search has no checkpoints; leave out the checkpoint, or the backend faiss")
        from harness.mining.approximate import nearest_approximate

        of_x, of_y, recall = nearest_approximate(sides[0].vectors, sides[1].vectors, k, cosine=cosine)
        if on_progress:
            total = len(x) * len(y)
            on_progress(Progress(name, total, total, len(x) + len(y), recall=str(recall)))
        return of_x, of_y
    k_x, k_y = min(k, len(y)), min(k, len(x))
    if k_x == 0 or k_y == 0:
        return _nothing(len(x), k_x), _nothing(len(y), k_y)

    def report(rows_done: int, recomputed: int = 0, candidates: int = 0) -> None:
        if on_progress:
            similarities = rows_done * len(y), len(x) * len(y)
            on_progress(Progress(name, *similarities, len(x) + len(y), recomputed, candidates))

    options = f"k={k} cosine={cosine} backend={name} block={block}"
    with open_checkpoint(checkpoint, sides, options, is_kept=keep_checkpoint) as state:
        if name == "numpy":
            from harness.mining.plain import nearest_plain

            return nearest_plain(*sides, k_x, k_y, block, state, report)
        _check_compiled()
        if name == "cuda":
            from harness.mining.gpu import nearest_on_gpu

            return nearest_on_gpu(*sides, k_x, k_y, block, state, report)
        from harness.mining.blocks import Precision, nearest_by_blocks

        return nearest_by_blocks(*sides, k_x, k_y, cast(Precision, name), block, state, report)


def nearest_forward(
    x: NDArray[np.floating[Any]], y: NDArray[np.floating[Any]], k: int, *, cosine: bool = True
) -> Neighbours:
    """The k' = min(k, m) nearest rows of y of every row of x, as `nearest` gives them, and not the other way round.

    For few queries and many documents. It takes some 100 MB, and O(n k).

    Args:
        x, y: (n, dim) and (m, dim), as of `nearest`.
        k, cosine: as of `nearest`.

    Raises:
        InputError: as `nearest`.
    """
    from harness.mining.plain import Best, search

    sides = both_sides(x, y, k, cosine=cosine)
    best = Best(len(x), min(k, len(y)))
    search(*sides, best)
    return Neighbours(best.rows, best.similarity)


def counterpart_ranks(
    x: NDArray[np.floating[Any]], y: NDArray[np.floating[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rank of row i of y among all rows of y by cosine with row i of x, from 1; and of x's rows for y's.

    Ties go to the lowest row. Similarities are computed in float64; those that differ by less than 1e-12 are equal, so
    that equal vectors are ties wherever they stand. A block of similarities is kept at a time.

    Args:
        x, y: (n, dim) each.

    Returns:
        (n,) for each row of x, and (n,) for each row of y.

    Raises:
        InputError: as `nearest`; or different numbers of rows.
    """
    if len(x) != len(y):
        raise InputError(f"{len(x)} rows have no counterparts in {len(y)}")
    first, second = both_sides(x, y, 1, cosine=True)
    everything = np.arange(len(x))
    right = similarity(first, second, everything, everything)
    of_x, of_y = np.ones(len(x), np.int64), np.ones(len(x), np.int64)
    block = isqrt(AT_ONCE)
    parts = [everything[start : start + block] for start in range(0, len(x), block)]
    for rows in parts:
        left = first[rows].astype(np.float64)
        for columns in parts:
            tile = left @ second[columns].astype(np.float64).T
            of_x[rows] += _beats(tile, right[rows, None], columns < rows[:, None]).sum(axis=1)
            of_y[columns] += _beats(tile, right[columns], rows[:, None] < columns).sum(axis=0)
    return of_x, of_y


def _beats(tile: NDArray[np.float64], right: NDArray[np.float64], is_before: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which similarities come before those of the right rows: higher ones, and equal ones of lower rows."""
    return (tile > right + _EQUAL) | ((tile >= right - _EQUAL) & is_before)


def available_backends() -> list[str]:
    """The backends that this machine can use now."""
    backends = ["numpy"]
    if find_spec("numba"):
        backends.append("float32")
        if find_spec("torch"):
            import torch

            backends += ["bfloat16", "cuda"] if torch.cuda.is_available() else ["bfloat16"]
    return [*backends, "faiss"] if find_spec("faiss") else backends


def _check_compiled() -> None:
    try:
        import harness.mining.compiled  # noqa: F401
    except RuntimeError as error:  # Numba's, where it can write neither beside the package nor to the user's cache
        raise InputError(
            f"compiled code cannot be kept ({error}); set NUMBA_CACHE_DIR to a folder, or take the backend numpy"
        ) from None


def choose_backend(backend: Backend, x: Side, y: Side, k: int) -> Backend:
    """The backend by its name, or for "auto" the one that fits. Raises as `nearest` does."""
    if backend not in get_args(Backend):
        raise unknown_name("backend", backend, get_args(Backend))
    is_too_long = max(x.largest_norm, y.largest_norm) > _LARGEST
    if backend != "auto":
        _check_backend(backend)
        if is_too_long and backend not in ("numpy", "faiss"):
            raise InputError(f"vectors longer than {_LARGEST:g} are too long for the backend {backend}; take numpy")
        return backend
    return "numpy" if is_too_long else fitting_backend(len(x), len(y), x.dim, k)


def fitting_backend(n: int, m: int, dim: int, k: int) -> Backend:
    """The exact backend that fits a search for k neighbours among `n` and `m` vectors of `dim`, on this machine."""
    work = n * m * dim
    if k > _MANY or work < _WORTH_NUMBA or not find_spec("numba"):
        return "numpy"
    if work >= _WORTH_TORCH and find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            return "cuda"
        # Private names: a version of torch that lacks one only costs speed.
        units = (getattr(torch.cpu, f"_is_{unit}_supported", None) for unit in ("avx512_bf16", "amx_tile"))
        if any(has_unit and has_unit() for has_unit in units):
            return "bfloat16"
    return "float32"


def _check_backend(name: str) -> None:
    needs = {"float32": ["numba"], "bfloat16": ["numba", "torch"], "cuda": ["numba", "torch"], "faiss": ["faiss"]}
    extras = {"numba": "mining", "torch": "torch", "faiss": "ann"}
    for package in needs.get(name, []):
        if not find_spec(package):
            raise MissingExtraError(package, extras[package])
    if name == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise InputError("the backend cuda needs a GPU; this machine has none")


def _nothing(n: int, k: int) -> Neighbours:
    return Neighbours(np.full((n, k), -1, dtype=np.int64), np.full((n, k), -np.inf))

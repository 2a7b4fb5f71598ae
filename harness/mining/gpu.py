"""Exact nearest neighbours of both sides on a GPU: half-precision products find candidates. Experimental.

The results are those of the other backends; how fast it is has not been measured.

The bound is that of `harness.mining.blocks`, with entries in float32, which need no rounding of their own. Every row
keeps the candidates with the highest entries; it is certain if the lowest of them is too low for the k best. Tensor
cores align and cut what they add instead of rounding it (Fasi et al. 2021, "Numerical behavior of NVIDIA tensor
cores"), so an addition is taken to err four times as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.mining.blocks import Lists, best_of_lists, centre, slacks
from harness.mining.search import Checkpoint, Floats, Neighbours, Report, Side

_SPARE = 12  # candidates beyond k
_LARGEST_BLOCK = 16_384
_UNIT = 2.0**-22  # error of an addition
_FREE_SHARE = 0.25  # of the free memory, for a block of similarities and as much again for its selection
_FP16_LARGEST = 128.0  # norms whose components and products float16 and float32 hold


Tensor = Any  # torch.Tensor; torch is not imported before it is needed


class _Top(NamedTuple):
    """The highest entries of every row so far and their columns, tensors (n, at most k + spare) on the GPU."""

    values: Tensor
    columns: Tensor


def nearest_on_gpu(
    x: Side,
    y: Side,
    k_x: int,
    k_y: int,
    block: int | None,
    checkpoint: Checkpoint,
    report: Report,
    device: str = "cuda",
) -> tuple[Neighbours, Neighbours]:
    """The `k_x` nearest rows of y of every row of x, and the `k_y` nearest rows of x of every row of y.

    Vectors come from the host block by block. For `block`, `checkpoint` and `report` see
    `harness.mining.neighbours.nearest`; the latter takes the rows of x that are done.
    """
    import torch

    try:
        with _whole_accumulation():
            return _nearest(x, y, k_x, k_y, block, checkpoint, report, device)
    except torch.OutOfMemoryError:
        raise InputError("the GPU has too little free memory; give a smaller block, or take another backend") from None


@contextmanager
def _whole_accumulation() -> Iterator[None]:
    """No sums in half precision, which a user may have allowed, and the bound knows nothing of."""
    import torch

    settings = torch.backends.cuda.matmul
    names = ("fp16_accumulation", "fp16_reduced_precision_reduction", "bf16_reduced_precision_reduction")
    before = {f"allow_{name}": getattr(settings, f"allow_{name}") for name in names}
    try:
        for name in before:
            setattr(settings, name, False)
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def _nearest(
    x: Side, y: Side, k_x: int, k_y: int, block: int | None, checkpoint: Checkpoint, report: Report, device: str
) -> tuple[Neighbours, Neighbours]:
    import torch

    half = torch.float16 if max(x.largest_norm, y.largest_norm) <= _FP16_LARGEST else torch.bfloat16
    tops = _empty(len(x), k_x, len(y), device), _empty(len(y), k_y, len(x), device)
    size = block or _block_size(device, len(x), len(y))
    centres = centre(x), centre(y)
    measures = _measure(x, *centres, half, size, device), _measure(y, *centres[::-1], half, size, device)
    biases = [torch.from_numpy(measure[:, 3]).to(device, torch.float32) for measure in measures]
    arrays = _on_host(tops)
    if start := checkpoint.restore(arrays, len(x)):
        for name, tensor in _named(tops).items():
            tensor.copy_(torch.from_numpy(arrays[name]))
    del arrays

    for first in range(start, len(x), size):
        rows = slice(first, min(first + size, len(x)))
        of_rows = _rounded(x, rows, centres[0], half, device)
        for left in range(0, len(y), size):
            columns = slice(left, min(left + size, len(y)))
            tile = _product(of_rows, _rounded(y, columns, centres[1], half, device))
            _take_in(tops[0], rows, tile + biases[1][columns], left)
            _take_in(tops[1], columns, tile.T + biases[0][rows], first)
        checkpoint.save(_on_host(tops), rows.stop)
        if rows.stop < len(x):
            report(rows.stop)
    lists_x = _lists(tops[0], slacks(x, y, *measures, unit=_UNIT), len(y))
    lists_y = _lists(tops[1], slacks(y, x, *measures[::-1], unit=_UNIT), len(x))
    return best_of_lists(x, y, lists_x, lists_y, k_x, k_y, block, report)


def _block_size(device: str, n: int, m: int) -> int:
    """Rows and columns of a block, for the memory that is free."""
    import torch

    free = torch.cuda.mem_get_info(device)[0]
    fits = int((_FREE_SHARE * free / 8) ** 0.5)  # 4 bytes an entry, twice
    return max(1, min(fits, _LARGEST_BLOCK, max(n, m)))


def _product(rows: Tensor, columns: Tensor) -> Tensor:
    """The dot products of rows with rows, float32, accumulated in float32."""
    import torch

    if rows.is_cuda:
        return torch.mm(rows, columns.T, out_dtype=torch.float32)
    return rows.float() @ columns.float().T


def _vectors(side: Side, rows: slice, device: str) -> Tensor:
    """The reference's vectors, float32."""
    import torch

    vectors = torch.from_numpy(np.ascontiguousarray(side.vectors[rows])).to(device, torch.float64)
    return (vectors / torch.from_numpy(side.divisors[rows]).to(device)[:, None]).float()


def _rounded(side: Side, rows: slice, centre: NDArray[np.float32], half: Any, device: str) -> Tensor:
    """Rows less the centre, in half precision."""
    import torch

    return (_vectors(side, rows, device) - torch.from_numpy(centre).to(device)).to(half)


def _measure(
    side: Side, centre: NDArray[np.float32], other_centre: NDArray[np.float32], half: Any, size: int, device: str
) -> Floats:
    """What the bound needs of every row, (n, 4); see `harness.mining.compiled.measure_rows`."""
    import torch

    centre_here, centre_there = (
        torch.from_numpy(vector).to(device, torch.float64) for vector in (centre, other_centre)
    )
    measures = np.empty((len(side), 4))
    for start in range(0, len(side), size):
        rows = slice(start, start + size)
        unit = _vectors(side, rows, device).double()
        rest, stored = unit - centre_here, _rounded(side, rows, centre, half, device).double()
        columns = [(stored - rest).norm(dim=1), rest.norm(dim=1), stored.norm(dim=1), unit @ centre_there]
        measures[rows] = torch.stack(columns, dim=1).cpu().numpy()
    return measures


def _empty(n: int, k: int, m: int, device: str) -> _Top:
    import torch

    shape = n, min(k + _SPARE, m)
    return _Top(
        torch.full(shape, -torch.inf, dtype=torch.float32, device=device),
        torch.zeros(shape, dtype=torch.int64, device=device),
    )


def _named(tops: tuple[_Top, _Top]) -> dict[str, Tensor]:
    """The tensors of a checkpoint."""
    (x_values, x_columns), (y_values, y_columns) = tops
    return {"x_values": x_values, "x_columns": x_columns, "y_values": y_values, "y_columns": y_columns}


def _on_host(tops: tuple[_Top, _Top]) -> dict[str, NDArray[Any]]:
    return {name: tensor.cpu().numpy() for name, tensor in _named(tops).items()}


def _take_in(top: _Top, rows: slice, entries: Tensor, first: int) -> None:
    """Let the entries of a block, columns `first`, ..., compete for places among the highest of its rows."""
    import torch

    values, columns = entries.topk(min(top.values.shape[1], entries.shape[1]), dim=1)
    values = torch.cat([top.values[rows], values], dim=1)
    columns = torch.cat([top.columns[rows], columns + first], dim=1)
    kept, places = values.topk(top.values.shape[1], dim=1)
    top.values[rows], top.columns[rows] = kept, columns.gather(1, places)


def _lists(top: _Top, slack: Floats, n_columns: int) -> Lists:
    """The highest entries as lists: what is not on one was no higher than the last."""
    values, columns = top.values.cpu().numpy(), top.columns.cpu().numpy()
    nothing = np.full(len(values), -np.inf, np.float32)
    return Lists(
        columns=columns.astype(np.int32),
        uppers=values,
        lowers=values,
        counts=np.full(len(values), values.shape[1], np.int32),
        floors=nothing,
        dropped=values[:, -1] if values.shape[1] < n_columns else nothing,
        slacks=slack,
    )

"""Compiled loops of `harness.mining.blocks`: rounding of vectors, scans of blocks of similarities, exact scores.

Numba compiles them at their first use and keeps what it made beside this file, or in the user's cache folder.

A list of candidates is kept for every row of a side. A list holds the columns that have passed, with an upper and a
lower bound of their similarities (both up to a constant and an error that belong to the row, see
`harness.mining.blocks`). What lies below the row's floor is passed over. A list that is full lifts the floor to the
k-th best lower bound less the row's slack, and is cut to what reaches it. One that stays full even so keeps its k best
by their lower bounds; the highest upper bound that was dropped is remembered, and what does not exceed it is passed
over from then on: it could only count where what was dropped counts too, and then the row is searched anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

_AT_ONCE = 64  # entries of a block that are compared before any of them is looked at
_PAIRWISE = 128  # numpy.sum adds so many numbers without halving

_serial = njit(cache=True, nogil=True)
_inlined = njit(cache=True, nogil=True, forceinline=True)
_parallel = njit(cache=True, nogil=True, parallel=True)


def _as_float32(stored: Any) -> Any:
    """A number as float32; uint16 holds the bits of a bfloat16."""
    raise NotImplementedError


# Numba wants the arguments of both functions alike, annotations included, and a lambda has none.
@overload(_as_float32)
def _(stored):  # type: ignore[no-untyped-def]
    if stored == types.uint16:
        return lambda stored: np.uint32(np.uint32(stored) << np.uint32(16)).view(np.float32)
    return lambda stored: stored


def _stored_as(value: Any, like: Any) -> Any:
    """float32 as `like` is stored: float32, or the bits of the nearest bfloat16, ties to even."""
    raise NotImplementedError


@overload(_stored_as)
def _(value, like):  # type: ignore[no-untyped-def]
    if like == types.uint16:

        def rounded(value, like):  # type: ignore[no-untyped-def]
            bits = np.float32(value).view(np.uint32)
            odd = (bits >> np.uint32(16)) & np.uint32(1)
            return np.uint16((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))

        return rounded
    return lambda value, like: value


@_parallel
def round_rows(vectors: Any, norms: Any, centre: Any, out: Any) -> None:
    """vectors / norms - centre as `out` stores them: all (n, dim), `norms` (n,) float64, `centre` (dim,) float32."""
    for row in prange(len(vectors)):
        for d in range(vectors.shape[1]):
            unit = np.float32(np.float64(vectors[row, d]) / norms[row])
            out[row, d] = _stored_as(unit - centre[d], out[row, d])


@_parallel
def measure_rows(vectors: Any, norms: Any, centre: Any, other_centre: Any, rounded: Any, out: Any) -> None:
    """What the error bound needs to know of every row, float64 (n, 4).

    With u the row divided by its norm in float32 (the reference's vector), r = u - centre and q what `round_rows` made
    of it: |q - r|, |r|, |q| and u . other_centre.
    """
    for row in prange(len(vectors)):
        missed, length, stored, dot = 0.0, 0.0, 0.0, 0.0
        for d in range(vectors.shape[1]):
            unit = np.float64(np.float32(np.float64(vectors[row, d]) / norms[row]))
            rest, q = unit - np.float64(centre[d]), np.float64(_as_float32(rounded[row, d]))
            missed += (q - rest) * (q - rest)
            length += rest * rest
            stored += q * q
            dot += unit * np.float64(other_centre[d])
        out[row, 0], out[row, 1], out[row, 2], out[row, 3] = np.sqrt(missed), np.sqrt(length), np.sqrt(stored), dot


@_inlined
def _push(
    row: Any,
    column: Any,
    upper: Any,
    lower: Any,
    k: Any,
    columns: Any,
    uppers: Any,
    lowers: Any,
    counts: Any,
    floors: Any,
    dropped: Any,
    slacks: Any,
) -> None:
    """Put a column with its bounds on the list of a row."""
    size = columns.shape[1]
    count = counts[row]
    if count == size:
        kth = _kth_largest(lowers, row, k)
        floor = np.nextafter(np.float32(np.float64(kth) - slacks[row]), np.float32(-np.inf))
        floors[row] = max(floors[row], floor)
        count = 0
        for place in range(size):
            if uppers[row, place] >= floors[row]:
                columns[row, count] = columns[row, place]
                uppers[row, count], lowers[row, count] = uppers[row, place], lowers[row, place]
                count += 1
        if count == size:
            count = _cut(row, k, kth, columns, uppers, lowers, dropped)
            floors[row] = max(floors[row], np.nextafter(dropped[row], np.float32(np.inf)))
        counts[row] = count
        if upper < floors[row]:
            return
    columns[row, count], uppers[row, count], lowers[row, count] = column, upper, lower
    counts[row] = count + 1


@_inlined
def _cut(row: Any, k: Any, kth: Any, columns: Any, uppers: Any, lowers: Any, dropped: Any) -> Any:
    """Leave on a full list its k best by their lower bounds, the k-th of which is `kth`; returns k."""
    size = columns.shape[1]
    equal = k  # places for those that are as good as the k-th
    for place in range(size):
        if lowers[row, place] > kth:
            equal -= 1
    count = 0
    for place in range(size):
        is_kept = lowers[row, place] > kth
        if lowers[row, place] == kth and equal > 0:
            is_kept, equal = True, equal - 1
        if is_kept:
            columns[row, count] = columns[row, place]
            uppers[row, count], lowers[row, count] = uppers[row, place], lowers[row, place]
            count += 1
        else:
            dropped[row] = max(dropped[row], uppers[row, place])
    return count


@_inlined
def _kth_largest(values: Any, row: Any, k: Any) -> Any:
    """The k-th largest of a row of `values`, without memory of its own."""
    bound, larger = np.float32(np.inf), 0
    while True:
        largest, number = np.float32(-np.inf), 0
        for place in range(values.shape[1]):
            value = values[row, place]
            if value < bound:
                if value > largest:
                    largest, number = value, 1
                elif value == largest:
                    number += 1
        larger += number
        if larger >= k:
            return largest
        bound = largest


@_inlined
def _bounds(stored: Any, error: Any, bias: Any) -> Any:
    """The upper and the lower bound of an entry."""
    value = _as_float32(stored)
    return value + abs(value) * error + bias, value - abs(value) * error + bias


# The loops stand in functions of their own, which unpack the lists at once: references to arrays are counted once a
# call then, not once an entry, which would cost a hundred times as much as the entry itself. And they run over slices
# from 0 on: elsewhere Numba must reckon with negative indices, and compares entries one by one, not eight at a time.


@_parallel
def scan_rows(tile: Any, top: Any, left: Any, biases: Any, error: Any, k: Any, lists: Any) -> None:
    """Push the entries of a block (rows `top`, ..., columns `left`, ...) that reach the floors of its rows.

    `biases` (columns,) float32 are added to the entries; `error` is the relative error of an entry.
    """
    for r in prange(len(tile)):
        _scan_row(tile[r], top + r, left, biases[left : left + tile.shape[1]], error, k, lists)


@_serial
def _scan_row(entries: Any, row: Any, left: Any, biases: Any, error: Any, k: Any, lists: Any) -> None:
    columns, uppers, lowers, counts, floors, dropped, slacks = lists
    for first in range(0, len(entries), _AT_ONCE):
        part, part_biases = entries[first : first + _AT_ONCE], biases[first : first + _AT_ONCE]
        floor, hits = floors[row], np.int32(0)
        for c in range(len(part)):
            upper, _ = _bounds(part[c], error, part_biases[c])
            hits += np.int32(upper >= floor)
        if hits:
            for c in range(len(part)):
                upper, lower = _bounds(part[c], error, part_biases[c])
                if upper >= floors[row]:
                    _push(
                        row, left + first + c, upper, lower, k, columns, uppers, lowers, counts, floors, dropped, slacks
                    )


@_parallel
def scan_columns(tile: Any, top: Any, left: Any, biases: Any, error: Any, k: Any, lists: Any, n_threads: Any) -> None:
    """The same for the columns of the block: `biases` (rows,), the lists are those of the other side."""
    # A strip a thread, as wide as can be: what is read of a row is long then.
    width = max(_AT_ONCE, -(-tile.shape[1] // n_threads))
    for strip in prange(-(-tile.shape[1] // width)):
        first = strip * width
        _scan_strip(tile[:, first : first + width], top, left + first, biases, error, k, lists)


@_serial
def _scan_strip(tile: Any, top: Any, left: Any, biases: Any, error: Any, k: Any, lists: Any) -> None:
    columns, uppers, lowers, counts, floors, dropped, slacks = lists
    strip_floors = floors[left : left + tile.shape[1]]
    for r in range(len(tile)):
        bias = biases[top + r]
        for first in range(0, tile.shape[1], _AT_ONCE):
            part, part_floors = tile[r, first : first + _AT_ONCE], strip_floors[first : first + _AT_ONCE]
            hits = np.int32(0)
            for c in range(len(part)):
                upper, _ = _bounds(part[c], error, bias)
                hits += np.int32(upper >= part_floors[c])
            if hits:
                for c in range(len(part)):
                    upper, lower = _bounds(part[c], error, bias)
                    row = left + first + c
                    if upper >= floors[row]:
                        _push(row, top + r, upper, lower, k, columns, uppers, lowers, counts, floors, dropped, slacks)


def _halves(first: int, n: int) -> list[tuple[int, int, int]]:
    """How numpy.sum adds up `n` numbers from `first` on: runs of them (first, number), left to right, and how many
    sums of two follow each. (Numba does not reload functions that call themselves.)"""
    if n <= _PAIRWISE:
        return [(first, n, 0)]
    half = n // 2
    half -= half % 8
    *before, (start, length, sums) = _halves(first, half) + _halves(first + half, n - half)
    return [*before, (start, length, sums + 1)]


@_serial
def _run_sum(x: Any, y: Any, first: Any, n: Any, sums: Any) -> Any:
    """The sum of x * y over a run: eight of them side by side, in `sums`, and their sum."""
    whole = n - n % 8
    total = 0.0
    if whole:
        sums[:] = 0
        for d in range(first, first + whole, 8):
            for lane in range(8):
                sums[lane] += x[d + lane] * y[d + lane]
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for d in range(first + whole, first + n):
        total += x[d] * y[d]
    return total


def score_lists(x: Any, x_norms: Any, y: Any, y_norms: Any, columns: Any, counts: Any, out: Any) -> None:
    """The reference similarities of rows of `x` and their first `counts` columns, rows of `y`, into `out`.

    The same numbers as `harness.mining.search.similarity`, to the last bit.
    """
    _score_lists(x, x_norms, y, y_norms, columns, counts, np.array(_halves(0, x.shape[1])), out)


@_parallel
def _score_lists(x: Any, x_norms: Any, y: Any, y_norms: Any, columns: Any, counts: Any, runs: Any, out: Any) -> None:
    dim = x.shape[1]
    for row in prange(len(x)):
        first, second, sums, lanes = np.empty(dim), np.empty(dim), np.empty(len(runs)), np.empty(8)
        for d in range(dim):
            first[d] = np.float32(np.float64(x[row, d]) / x_norms[row])
        for place in range(counts[row]):
            column = columns[row, place]
            for d in range(dim):
                second[d] = np.float32(np.float64(y[column, d]) / y_norms[column])
            open_sums = 0
            for run in range(len(runs)):
                sums[open_sums] = _run_sum(first, second, runs[run, 0], runs[run, 1], lanes)
                for _ in range(runs[run, 2]):
                    open_sums -= 1
                    sums[open_sums] += sums[open_sums + 1]
                open_sums += 1
            out[row, place] = sums[0]

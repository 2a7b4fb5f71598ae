"""Where the vectors of keys stand: an index that grows shard by shard, to tens of millions of keys.

Its keys are in sorted *runs*, each at least twice as long as the next, as in a log-structured merge tree. What is added
becomes one run with all those that are not twice as long; so a key is sorted O(log n) times in all, and searched for in
O(log n) runs. A key takes 24 bytes, its own 16 and 8 for the place, and up to 24 more while runs are merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16

_ROW_BITS = 32  # of a place; the others are the shard's number


class _Run(NamedTuple):
    """Keys in the order of their first halves, and where they are; (n,) each."""

    firsts: NDArray[np.uint64]
    seconds: NDArray[np.uint64]
    places: NDArray[np.int64]


class Index:
    """From keys to numbers of shards and rows. A key may be in several shards; one of them is found."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(len(run.places) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(column.nbytes for run in self._runs for column in run)

    def add(self, shard: int, keys: NDArray[np.bytes_]) -> None:
        """Index the keys of a shard, (n,) of 16 bytes, in the order of its rows."""
        if not len(keys):
            return
        parts = [_Run(*_halves(keys), (shard << _ROW_BITS) + np.arange(len(keys), dtype=np.int64))]
        total = len(keys)
        while self._runs and len(self._runs[-1].places) < 2 * total:
            parts.append(self._runs.pop())
            total += len(parts[-1].places)
        self._runs.append(_merged(parts))

    def find(self, keys: NDArray[np.bytes_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shard and the row of every key; shard -1 where a key is not there."""
        places = np.full(len(keys), -1, dtype=np.int64)
        firsts, seconds = _halves(keys)
        for run in self._runs:
            missing = np.flatnonzero(places < 0)
            places[missing] = _search(run, firsts[missing], seconds[missing])
        return places >> _ROW_BITS, places & ((1 << _ROW_BITS) - 1)

    def forget(self, shards: Iterable[int]) -> None:
        """Drop all that is in these shards."""
        lost = np.fromiter(shards, dtype=np.int64)
        kept = (~np.isin(run.places >> _ROW_BITS, lost) for run in self._runs)
        runs = [_Run._make(column[keep] for column in run) for run, keep in zip(self._runs, kept, strict=True)]
        self._runs = [run for run in runs if len(run.places)]


def _merged(parts: list[_Run]) -> _Run:
    """One run of several; `parts` is emptied, so that each column is freed once there is a new one."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()
    order = np.argsort(np.concatenate(columns[0]))
    merged = []
    for column in columns:
        merged.append(np.concatenate(column)[order])
        column.clear()
    return _Run(*merged)


def _halves(keys: NDArray[np.bytes_]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first and the last 8 bytes of keys as numbers in the order of the bytes: these are sorted much faster."""
    halves = np.ascontiguousarray(keys).view(">u8").reshape(len(keys), 2).astype(np.uint64)
    return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])


def _search(run: _Run, firsts: NDArray[np.uint64], seconds: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The places of keys in a run, -1 where a key is not there."""
    places = np.full(len(firsts), -1, dtype=np.int64)
    at, rows = np.searchsorted(run.firsts, firsts), np.arange(len(firsts))
    while len(rows):
        at, rows = _keep(at < len(run.firsts), at, rows)
        at, rows = _keep(run.firsts[at] == firsts[rows], at, rows)
        is_it = run.seconds[at] == seconds[rows]
        places[rows[is_it]] = run.places[at[is_it]]
        at, rows = _keep(~is_it, at + 1, rows)  # keys whose first halves are equal are neighbours
    return places


def _keep(
    chosen: NDArray[np.bool_], at: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return at[chosen], rows[chosen]

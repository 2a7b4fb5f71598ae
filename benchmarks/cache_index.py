"""The index of the vector cache, side by side in one run: insertion into sorted arrays, and the harness's sorted runs.

    python benchmarks/cache_index.py [--sizes N ...] [--limit 60]

Keys are random, as hashes are, in shards of 4,096. *Added*: shard by shard, as while sentences are encoded; insertion
is `np.insert` into sorted keys and places for each shard, and is given up after --limit seconds. *Opened*: all shards
of a folder; beside it, one `np.unique` of all their keys. Both read the same files, which hold vectors of one number.
"Last shard" is what the last one cost. Memory is what the index holds, and its peak while it grows, in bytes a key: 16
for the key and 8 for the place are the floor. Both ways find the same places. Prints Markdown.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.core.files import listed
from harness.encoders.cache import VectorCache
from harness.encoders.shards import KEY, KEY_BYTES, Effort, Index, open_shard, write_shard
from harness.encoders.vectors import CHUNK

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)


class Inserted:
    """Sorted keys with their places, by insertion."""

    def __init__(self) -> None:
        self.keys, self.places = np.empty(0, KEY), np.empty((0, 2), np.int64)

    def add(self, shard: int, keys: np.ndarray) -> None:
        order = np.argsort(keys)
        at = np.searchsorted(self.keys, keys[order])
        self.keys = np.insert(self.keys, at, keys[order])
        self.places = np.insert(self.places, at, np.column_stack([np.full(len(order), shard), order]), axis=0)

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shards, rows = self.places[np.searchsorted(self.keys, keys)].T
        return shards, rows

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.places.nbytes


class Added(NamedTuple):
    """Seconds for all shards and for the last one; bytes a key that are held, and at the peak."""

    seconds: float
    last: float
    held: float
    peak: float


class Numbers:
    """An encoder's name; nothing is encoded."""

    name, fingerprint, dim, uses_lang = "numbers", "numbers", 1, False

    def encode(self, sentences: Any, *, lang: str | None = None) -> np.ndarray:
        raise NotImplementedError


def random_keys(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, (n, KEY_BYTES), dtype=np.uint8).view(KEY).reshape(-1)


def in_shards(keys: np.ndarray) -> Iterator[np.ndarray]:
    return (keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK))


def add_all(index: Any, keys: np.ndarray, limit: float) -> Added | None:
    """None: it took longer than `limit` seconds."""
    tracemalloc.start()
    begin = time.perf_counter()
    for number, shard in enumerate(in_shards(keys)):
        last = time.perf_counter()
        if last - begin > limit:
            tracemalloc.stop()
            return None
        index.add(number, shard)
    end = time.perf_counter()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    places = np.arange(len(keys))
    sample = np.random.default_rng(0).choice(places, CHUNK)
    shards, rows = index.find(keys[sample])
    assert (shards * CHUNK + rows == sample).all()
    return Added(end - begin, end - last, index.nbytes / len(keys), peak / len(keys))


def write_shards(keys: np.ndarray, folder: Path) -> None:
    for shard in in_shards(keys):
        write_shard(folder, Numbers(), shard, np.zeros((len(shard), 1), np.float32), Effort(1.0))


def open_by_unique(folder: Path) -> None:
    found = [shard for path in listed(folder, ".shard") if (shard := open_shard(path))]
    sizes = [len(keys) for _, keys in found]
    places = np.empty((sum(sizes), 2), np.int64)
    places[:, 0] = np.repeat(np.arange(len(sizes)), sizes)
    places[:, 1] = [row for size in sizes for row in range(size)]
    _, first = np.unique(np.concatenate([keys for _, keys in found]), return_index=True)
    places = places[first]


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def opened(keys: np.ndarray) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as root:
        cache = VectorCache(root)
        folder = cache.of(Numbers())._folder
        write_shards(keys, folder)
        return seconds(lambda: open_by_unique(folder)), seconds(lambda: cache.of(Numbers()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="for insertion")
    options = parser.parse_args()
    print("| keys | added: insertion, s | runs, s | ratio | last shard: insertion, ms | runs, ms |", end="")
    print(" held: insertion, B | runs, B | peak: insertion, B | runs, B | opened: unique, s | runs, s | ratio |")
    print("|---:" * 13 + "|")
    is_too_slow = False
    for size in sorted(options.sizes):
        keys = random_keys(size)
        new = add_all(Index(), keys, float("inf"))
        old = None if is_too_slow else add_all(Inserted(), keys, options.limit)
        is_too_slow = old is None
        assert new is not None
        before, now = opened(keys)
        cells = [
            f"{size:,}",
            f"{old.seconds:.2f}" if old else f"> {options.limit:g}",
            f"{new.seconds:.2f}",
            f"{old.seconds / new.seconds:.1f}" if old else f"> {options.limit / new.seconds:.0f}",
            f"{1e3 * old.last:.1f}" if old else "",
            f"{1e3 * new.last:.1f}",
            f"{old.held:.0f}" if old else "",
            f"{new.held:.0f}",
            f"{old.peak:.0f}" if old else "",
            f"{new.peak:.0f}",
            f"{before:.2f}",
            f"{now:.2f}",
            f"{before / now:.1f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

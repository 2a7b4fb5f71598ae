"""What a mining job will take, from short measurements on this machine before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np

from harness.mining.neighbours import Backend, fitting_backend, nearest

_ENOUGH = 1.0  # seconds of measuring an encoder
_FEW = 16  # sentences to begin with
_SHARE = 0.01  # of the sentences, at most, for measuring
_ROWS = 4096  # of random vectors
_NOT_WORTH_MEASURING = 2 * 10**11  # products of components
_PRODUCTS = 2e10  # a second, on a slow machine
_BLOCKS = 400 << 20  # bytes for blocks of similarities, queries and the like
_A_DOCUMENT, _A_SIMILARITY = 4e-4, 2e-9  # seconds for a pair of documents, and for a component of a similarity


RECALL = "which finds about 98 % of the neighbours (student, 540,000 to 1,300,000 sentences)"
"""What `harness.mining.approximate.choose_index` says was measured."""


@dataclass(frozen=True)
class Estimate:
    """What a job, or what is left of it, takes.

    Attributes:
        n: sentences of both sides.
        encoding: seconds, for each side; NaN where that is not known.
        search: seconds.
        is_approximate: whether the search is.
        memory: bytes beside the encoder's own and the files that are mapped.
        disk: bytes of the job's folder in the end.
        cache: bytes by which the cache of vectors grows.
        cache_dir: folder of the cache, None where there is none.
    """

    n: int
    encoding: tuple[float, ...]
    search: float
    is_approximate: bool
    memory: int
    disk: int
    cache: int = 0
    cache_dir: Path | None = None

    @property
    def seconds(self) -> float:
        """In all, as far as it is known."""
        return sum(seconds for seconds in (*self.encoding, self.search) if not isnan(seconds))

    def __str__(self) -> str:
        search = "approximate search" if self.is_approximate else "search"
        encoding = sum(self.encoding)
        about = "at least" if isnan(encoding) else "about"
        return (
            f"{self.n:,} sentences, {about} {duration(self.seconds)} (encoding {duration(encoding)}, {search} "
            f"{duration(self.search)}), {gigabytes(self.memory)} of memory beside the encoder's, "
            f"{gigabytes(self.disk + self.cache)} of disk"
        )


def encoding_seconds(
    texts: Sequence[str], n_missing: int, encode: Callable[[Sequence[str]], object], clock: Callable[[], float]
) -> float:
    """About how long an encoder takes for `n_missing` of the sentences, from some that it encodes now.

    encode: of the encoder; what it returns is dropped. clock: seconds, as `time.perf_counter`.
    """
    if not n_missing:
        return 0.0
    n = _FEW

    def seconds_of(n: int) -> float:
        rows = np.linspace(0, len(texts) - 1, min(n, len(texts))).astype(np.int64)
        start = clock()
        encode([texts[row] for row in rows.tolist()])
        return (clock() - start) / len(rows)

    seconds_of(n)  # it may load and compile
    while True:
        a_sentence = seconds_of(n)
        if n * a_sentence > _ENOUGH or n * 4 > max(_SHARE * n_missing, _FEW) or n >= len(texts):
            return a_sentence * n_missing
        n *= 4


def exact_seconds(n: int, m: int, dim: int, k: int, backend: Backend) -> float:
    """About how long an exact search takes, from two on random vectors; of a small one, what it takes at most."""
    work = n * m * dim
    if work < _NOT_WORTH_MEASURING:
        return work / _PRODUCTS
    backend = fitting_backend(n, m, dim, k) if backend == "auto" else backend
    vectors = np.random.default_rng(0).standard_normal((2 * _ROWS, dim), np.float32)
    nearest(vectors[:64], vectors[64:128], k, backend=backend)  # loads and compiles
    times = []
    for rows in (_ROWS, 2 * _ROWS):
        start = time.perf_counter()
        nearest(vectors[:rows], vectors[:rows], k, backend=backend)
        times.append(time.perf_counter() - start)
    # t = rows * a + rows^2 * b
    of_pair = max(times[1] - 2 * times[0], 0.2 * times[1]) / (2 * _ROWS**2)
    of_row = max(0.0, times[1] - of_pair * (2 * _ROWS) ** 2) / (4 * _ROWS)
    return of_pair * n * m + of_row * (n + m)


def approximate_seconds(n: int, m: int, dim: int, k: int) -> float:
    """About how long an approximate search takes. Raises MissingExtraError without faiss."""
    from harness.mining.approximate import measured_speed

    speed = measured_speed(dim, k)
    return speed.seconds(n, m, dim) + speed.seconds(m, n, dim)


def documents_seconds(n_documents: int, n_similarities: int, dim: int) -> float:
    """About how long mining within documents takes; not measured."""
    return n_documents * _A_DOCUMENT + n_similarities * dim * _A_SIMILARITY


def memory_bytes(n: int, m: int, dim: int, k: int, *, is_approximate: bool) -> int:
    """About what a search takes beside the vectors: lists of candidates or an index, neighbours, pairs."""
    a_row = 16 * k + 150
    if not is_approximate:
        return _BLOCKS + (n + m) * (a_row + _lists(k) + 64)
    from harness.mining.approximate import index_bytes

    return _BLOCKS + (n + m) * a_row + max(index_bytes(n, dim), index_bytes(m, dim))


def search_bytes(n: int, m: int, k: int, *, is_approximate: bool) -> int:
    """About what a search leaves on disk: neighbours, and for as long as an exact one lasts its lists of candidates."""
    return (n + m) * (16 * k + (0 if is_approximate else _lists(k)))


def _lists(k: int) -> int:
    """Bytes of a row's list of candidates, see `harness.mining.blocks`."""
    return 12 * (2 * k + 24) + 24


def duration(seconds: float) -> str:
    """Seconds as people say them: `40 s`, `12 min`, `5 h 20 min`, `3 d 4 h`."""
    if isnan(seconds):
        return "unknown"
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24:,} d {hours % 24} h"


def gigabytes(n_bytes: float) -> str:
    """Bytes in GB, or in MB below one."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{max(1, round(n_bytes / 1e6)):,} MB"

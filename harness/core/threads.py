"""How many threads encoding may use: those of `--threads`, else a thread for each core that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

MAX_WORKERS = 16
"""Batches that adapters encode at once, a thread each: with more, Python's interpreter lock holds them up."""

_RAYON = "RAYON_NUM_THREADS"  # of Rust's threads
_chosen: int | None = None


def available_cores() -> int:
    """The cores that this process may use; fewer than `os.cpu_count()` in a container or under taskset."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def n_threads() -> int:
    """The threads that an encoder may use on a CPU."""
    return _chosen or available_cores()


@contextmanager
def using_threads(n: int | None) -> Iterator[None]:
    """Lets encoders use `n` threads in a `with` block, and limits BLAS, OpenMP and PyTorch to as many; None: no change.

    The number belongs to the process, as those of the libraries do. Tokenizers (Hugging Face's) read theirs once a
    process, when they first get a list: it is set for them too, if that is in the block.

    Raises:
        ValueError: `n` is less than 1.
    """
    global _chosen
    if n is None:
        yield
        return
    if n < 1:
        raise ValueError(f"threads must be at least 1, not {n}")
    import numpy  # noqa: F401  (loaded now, its BLAS is limited in all of the block)

    before, _chosen = _chosen, n
    variable = os.environ.get(_RAYON)
    os.environ[_RAYON] = str(n)
    try:
        with limited():
            yield
    finally:
        _chosen = before
        if variable is None:
            del os.environ[_RAYON]
        else:
            os.environ[_RAYON] = variable


@contextmanager
def limited() -> Iterator[None]:
    """Limits the libraries that are loaded now to the chosen number of threads, until the `with` block ends.

    A library that is loaded in the block is not limited by it, so whoever calls an encoder does so in a block of his
    own. Nothing is changed where no number was chosen.
    """
    if _chosen is None:
        yield
        return
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with ExitStack() as stack:
        torch: Any = sys.modules.get("torch")
        if hasattr(torch, "set_num_threads"):  # first: PyTorch has a number of its own beside OpenMP's
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(_chosen)
        stack.enter_context(threadpool_limits(_chosen))
        yield

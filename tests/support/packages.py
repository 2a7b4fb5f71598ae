"""Packages of one Python file, installed in a folder of their own, that offer encoders or tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.core.plugins import offers


def install(folder: Path, module: str, text: str, entry_points: str) -> Path:
    """Make `folder` one in which a distribution of one Python file is installed."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(text, "utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(entry_points, "utf-8")
    return folder


@contextmanager
def offering(folder: Path, module: str, text: str, entry_points: str) -> Iterator[None]:
    """A `with` block in which this process, and those that it starts with its environment, have the package."""
    install(folder, module, text, entry_points)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
            offers.cache_clear()
            yield
    finally:
        offers.cache_clear()
        sys.modules.pop(module, None)

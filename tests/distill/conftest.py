"""A small data directory with parallel sentences, and a guard."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.tasks.leakage import EvaluationSentences

Write = Callable[[str, "bytes | str"], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of the data directory `tmp_path/data`; one whose name ends in `.gz` is compressed."""

    def write(relative: str, content: bytes | str) -> Path:
        path = tmp_path / "data" / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") and isinstance(content, str) else raw)
        return path

    return write


@pytest.fixture
def guard() -> EvaluationSentences:
    """Two sentences are evaluated on."""
    return EvaluationSentences({"sts17": ["A man is playing a guitar."], "tatoeba": ["Ein Mann spielt Gitarre."]})

"""Evaluation harness for multilingual sentence embeddings.

from harness import evaluate, load_encoder, tasks

for result in evaluate("muse", "sts17"):
    print(result.subset, result.metrics["spearman"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from harness import tasks as tasks
    from harness.core.errors import HarnessError as HarnessError
    from harness.encoders.encoder import Encoder as Encoder
    from harness.encoders.registry import load_encoder as load_encoder
    from harness.encoders.sides import TwoSided as TwoSided
    from harness.results.records import Result as Result
    from harness.results.store import ResultStore as ResultStore
    from harness.running.evaluate import evaluate as evaluate

# Imported on first use: `leaderboard --help` must not wait for NumPy.
_HOME = {
    "Encoder": "harness.encoders.encoder",
    "HarnessError": "harness.core.errors",
    "Result": "harness.results.records",
    "ResultStore": "harness.results.store",
    "TwoSided": "harness.encoders.sides",
    "evaluate": "harness.running.evaluate",
    "load_encoder": "harness.encoders.registry",
}

__all__ = ["Encoder", "HarnessError", "Result", "ResultStore", "TwoSided", "evaluate", "load_encoder", "tasks"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("multilingual-embedding-harness")
    if name == "tasks":
        return importlib.import_module("harness.tasks")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")

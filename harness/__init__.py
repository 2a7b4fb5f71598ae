"""Evaluation harness for multilingual sentence embeddings.

from harness import evaluate, load_encoder, tasks

for result in evaluate("muse", "sts17"):
    print(result.subset, result.metrics["spearman"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness import tasks as tasks
    from harness.encoder import Encoder as Encoder
    from harness.errors import HarnessError as HarnessError
    from harness.evaluation import evaluate as evaluate
    from harness.registry import load_encoder as load_encoder
    from harness.results import Result as Result
    from harness.results import ResultStore as ResultStore

# Imported on first use: `leaderboard --help` must not wait for NumPy.
_HOME = {
    "Encoder": "harness.encoder",
    "HarnessError": "harness.errors",
    "Result": "harness.results",
    "ResultStore": "harness.results",
    "evaluate": "harness.evaluation",
    "load_encoder": "harness.registry",
}

__all__ = ["Encoder", "HarnessError", "Result", "ResultStore", "evaluate", "load_encoder", "tasks"]


def __getattr__(name: str) -> Any:
    if name == "tasks":
        return importlib.import_module("harness.tasks")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")

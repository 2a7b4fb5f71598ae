"""Result records and the store that keeps them: `results/records/ENCODER/TASK.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """One encoder on one subset of one task: the scores, and all it takes to trace and repeat them.

    Scores in `metrics` are x 100; counts, thresholds and seconds are plain.
    """

    task: str
    task_version: str
    subset: str
    encoder: str
    fingerprint: str
    metrics: dict[str, float]
    n: int
    signature: str
    dataset: dict[str, Any]  # {"name", "sha256", "files": {name: sha256}}
    zero_vectors: int = 0
    versions: dict[str, str] = field(default_factory=dict)  # package: version
    git: dict[str, Any] | None = None  # {"commit", "dirty"} of the harness's checkout, if it is one
    hardware: dict[str, Any] = field(default_factory=dict)
    spec: str = ""  # the encoder's spec string, a path shortened to its last component
    wall_time_s: float = 0.0
    sentences_per_s: float | None = None  # of the encoder, over the sentences that this subset needs
    peak_memory_mb: float = 0.0
    created: str = ""  # ISO 8601, UTC

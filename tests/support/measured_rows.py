"""Results with their per-item rows, made without an encoder: planted truth for tests of intervals and tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from result_records import record

from harness.results.records import Result
from harness.results.store import ResultStore
from harness.running.measure import averages_of
from harness.statistics.rows import save_rows
from harness.tasks import get_task

N = 80


def sts_rows(subset: str, error: float, seed: int, n: int = N) -> dict[str, np.ndarray]:
    """Cosines that are the gold scores and an error of that size; the gold of a subset is the same for all."""
    gold = np.random.default_rng(sum(map(ord, subset))).uniform(0, 5, n).round(1)
    cosine = gold + error * np.random.default_rng([seed, *map(ord, subset)]).normal(size=n)
    return {"item": np.arange(n), "gold": gold, "cosine": cosine}


def store_measured(
    root: Path, encoder: str, rows: Mapping[str, Mapping[str, np.ndarray]], task: str = "sts17", **other: Any
) -> list[Result]:
    """Store what a run would have: rows, records, and the averages that they complete. By subset."""
    measure = get_task(task)
    results = []
    for subset, own in rows.items():
        metrics = {m: round(v, 6) for m, v in measure.aggregate(own).items() if m in measure.metric_names}
        results.append(record(encoder, task, subset, metrics, measure.full_signature, **other))
        save_rows(root, results[-1].key, own)
    store = ResultStore(root)
    store.merge(results)
    store.merge(averages_of(measure, store.load(encoder, task)))
    return store.load(encoder, task)

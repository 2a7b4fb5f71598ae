"""Records made by hand, for tests of what is made from records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.core.provenance import GitState
from harness.results.records import Dataset, Result
from harness.results.store import ResultStore

STS_SIGNATURE = "task:sts17|version:1|similarity:cosine"


def record(
    encoder: str, task: str, subset: str, metrics: dict[str, float], signature: str = STS_SIGNATURE, **other: Any
) -> Result:
    """A complete record with fixed provenance; `other` replaces any of its fields."""
    result = Result(
        task=task,
        task_version="1",
        subset=subset,
        encoder=encoder,
        fingerprint=f"{encoder}-1",
        metrics=metrics,
        n=250,
        signature=signature,
        dataset=Dataset(task, "0123456789abcdef" * 4, {}),
        spec=encoder,
        versions={"numpy": "2.3.0", "python": "3.11.9"},
        git=GitState("6e8a5590000", False),
        hardware={"processor": "Made-up CPU", "cores": 2, "memory_gib": 8, "device": "cpu"},
        sentences_per_s=1234.5,
        created="2025-01-02T03:04:05+00:00",
    )
    return replace(result, **other)


def write_records(root: Path, results: Iterable[Result]) -> ResultStore:
    """Write records as they are, averages without all their parts too, which a store would not take."""
    store = ResultStore(root)
    by_file: dict[Path, list[Result]] = {}
    for result in results:
        by_file.setdefault(store.records / result.encoder / f"{result.task}.json", []).append(result)
    for file, records in by_file.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(record) for record in records]))
    return store


def sts(encoder: str, subset: str, spearman: float, **other: Any) -> Result:
    """A record of the task `sts17`."""
    return record(encoder, "sts17", subset, {"spearman": spearman, "pearson": spearman - 1}, **other)


def small_board() -> list[Result]:
    """Two encoders and the lexical floor on two sets of STS 2017, a stand-in and an average; one cell is missing."""
    parts = ["en-en", "es-es", "ar-ar"]
    return [
        sts("muse", "en-en", 83.456),
        sts("muse", "en-de@deepl", 79.96),
        sts("muse", "avg-same", 80.04, parts=parts, n=750),
        sts("e5", "en-en", 84.0),
        sts("e5", "avg-same", 81.0, parts=parts, n=750),
        sts("chargrams", "en-en", 70.0),
        sts("chargrams", "en-de@deepl", -0.04),
        sts("chargrams", "avg-same", 50.0, parts=parts, n=750),
    ]

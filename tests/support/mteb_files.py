"""Result files of mteb as its package and its repository of results have them, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LABSE = "sentence-transformers__LaBSE"
LABSE_REVISION = "e34fab64a3011d2176c99545a93d5cbddc9a91b7"


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def task_result(task: str, entries: list[dict[str, Any]], **other: Any) -> dict[str, Any]:
    """A file of mteb 1.11 or later."""
    return {
        "dataset_revision": "0123456",
        "task_name": task,
        "mteb_version": "1.36.26",
        "scores": {"test": [{"languages": ["eng-Latn"], **entry} for entry in entries]},
        "evaluation_time": 9.87,
        "kg_co2_emissions": None,
        **other,
    }


def sts_entry(subset: str, spearman: float | None, pearson: float | None = 0.5) -> dict[str, Any]:
    """One subset's scores as mteb's STS tasks have them."""
    return {
        "hf_subset": subset,
        "cosine_pearson": pearson,
        "cosine_spearman": spearman,
        "euclidean_pearson": 0.1,
        "euclidean_spearman": 0.1,
        "main_score": spearman,
    }


def tatoeba_entry(subset: str, accuracy: float, f1: float) -> dict[str, Any]:
    """One language's scores as mteb's Tatoeba has them."""
    return {"hf_subset": subset, "precision": 0.1, "recall": accuracy, "accuracy": accuracy, "f1": f1, "main_score": f1}


OLD_STS = {
    "dataset_revision": "af5e6fb845001ecf41f4c1e033ce921939a2a68d",
    "mteb_dataset_name": "STS17",
    "mteb_version": "0.0.2",
    "test": {
        "ar-ar": {
            "cos_sim": {"pearson": 0.6953, "spearman": 0.69066},
            "euclidean": {"pearson": 0.6811, "spearman": 0.69066},
            "manhattan": {"pearson": 0.6801, "spearman": 0.6891},
        },
        "es-en": {"cos_sim": {"pearson": 0.6445, "spearman": 0.6571}},
        "evaluation_time": 12.31,
    },
}
"""A file from before mteb 1.11."""

OLD_TATOEBA = {
    "dataset_revision": "9080400076fbadbb4c4dcb136ff4eddc40b42553",
    "mteb_dataset_name": "Tatoeba",
    "mteb_version": "0.0.2",
    "test": {
        "kat-eng": {"accuracy": 0.9611, "f1": 0.9502, "main_score": 0.9502, "precision": 0.945, "recall": 0.9611},
        "evaluation_time": 88.1,
    },
}

"""`check_task` passes the harness's own tasks, and for every promise there is a broken task that it refuses."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from harness.data import DataDir, bundled_sample
from harness.data.own import Options, open_set, own_data
from harness.tasks import Metric, get_task, task_names
from harness.testing import check_task

STS = get_task("sts17")
CALLS = count()


def users_own(folder: Path) -> DataDir:
    """A set of each kind that users have."""
    rows = {
        "faq.de-tr.tsv": [f"Satz {i}\tcümle {i}" for i in range(8)],
        "rated.de-tr.tsv": [f"Satz {i}\tcümle {i % 3}\t{i % 5}" for i in range(8)],
        "help/corpus.jsonl": [f'{{"_id": "d{i}", "text": "Satz {i}"}}' for i in range(8)],
        "help/queries.jsonl": [f'{{"_id": "q{i}", "text": "soru {i}"}}' for i in range(4)],
        "help/qrels/test.tsv": ["query-id\tcorpus-id\tscore", *(f"q{i}\td{2 * i}\t1" for i in range(4))],
    }
    for name, lines in rows.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(lines), "utf-8")
    return own_data(
        [
            open_set("pairs", folder / "faq.de-tr.tsv"),
            open_set("scored", folder / "rated.de-tr.tsv"),
            open_set("retrieval", folder / "help", Options(languages=("tr", "de"))),
        ]
    )


@pytest.mark.parametrize("name", task_names())
def test_bundled_tasks_keep_their_promises(name: str, tmp_path: Path) -> None:
    task = get_task(name)
    check_task(task, bundled_sample() if task.published else users_own(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": ""}, "version must be"),
        ({"name": "my task"}, "cannot name a file"),
        ({"metrics": (Metric("spearman"), Metric("spearman"))}, "distinct"),
        ({"metrics": (Metric("spearman"),)}, "pearson, which `metrics` does not name"),
        ({"sources": lambda data: {}}, "no subset found"),
        ({"sources": lambda data: {"x": next(iter(STS.sources(data).values()))}}, "is the key of"),
        ({"resolve": lambda name: ()}, "resolve"),
        ({"averages": lambda names: {"avg": ("nowhere",)}}, "not there"),
        ({"averages": lambda names: {"en-en@sample": ("es-es@sample",)}}, "name of a subset"),
        ({"count": lambda items: 0}, "positive"),
        ({"rows": lambda items, encode: {"gold": items.gold, "cosine": items.gold[1:]}}, "different lengths"),
        ({"rows": lambda items, encode: STS.rows(items, lambda texts, lang: encode(texts, "deutsch"))}, "ISO 639"),
        ({"rows": lambda items, encode: {"x": encode([1, 2], None)[:, 0]}}, "no sentence"),
        ({"aggregate": lambda rows: {}}, "no metric"),
        ({"aggregate": lambda rows: {"spearman": float("nan")}}, "nan"),
        ({"aggregate": lambda rows: {"spearman": float(next(CALLS))}}, "second time"),
        ({"aggregate": lambda rows: {"spearman": 1.0}}, "resample gives spearman 0.0, aggregate 1.0"),
        ({"aggregate": lambda rows: {"spearman": 1.0 if np.any(rows["cosine"]) else np.inf}}, "zero vectors"),
    ],
)
def test_broken_tasks_are_refused(change: dict, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_task(replace(STS, **change), bundled_sample())

"""Our records as result files that `mteb` loads: `results/MODEL/REVISION/TASK.json`, and `model_meta.json` beside them.

The folder above `results` is one that `mteb.ResultCache` takes. Only what means the same in mteb is written
(`harness.interchange.mteb_tasks`), divided by 100: published data, never a stand-in or an average.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from pathlib import PurePosixPath
from typing import Any

from harness.escaping import json_text
from harness.interchange.mteb_tasks import EXPORTED, SPLIT, MtebTask
from harness.names import Subset, check_name
from harness.results import Result, seconds_of

ORGANISATION = "multilingual-embedding-harness"
"""Of the models' names in mteb: what was measured here is not what mteb measured under a hub's name."""


@dataclass(frozen=True)
class Export:
    """Relative path -> content, and a line for each reason why records are not in there."""

    files: dict[PurePosixPath, bytes]
    left_out: list[str]


def mteb_files(results: Iterable[Result]) -> Export:
    """The result files of `results`: a model for each encoder, a revision of it for each of its fingerprints."""
    left_out: Counter[str] = Counter()
    grouped: dict[tuple[str, str], dict[str, list[Result]]] = {}
    for result in results:
        if why := _why_not(result):
            left_out[why] += 1
        else:
            grouped.setdefault((result.encoder, result.fingerprint), {}).setdefault(result.task, []).append(result)
    files = {}
    for (encoder, fingerprint), by_task in grouped.items():
        revision = hashlib.sha256(fingerprint.encode(errors="backslashreplace")).hexdigest()[:16]
        folder = PurePosixPath("results", f"{ORGANISATION}__{check_name(encoder, 'encoder')}", revision)
        files[folder / "model_meta.json"] = _json(_model_meta(f"{ORGANISATION}/{encoder}", revision))
        for name, own in by_task.items():
            task = EXPORTED[name]
            files[folder / f"{task.name}.json"] = _json(_task_result(task, own))
    reasons = [f"{n} {'record' if n == 1 else 'records'}: {why}" for why, n in sorted(left_out.items())]
    if any("tatoeba" in by_task for by_task in grouped.values()):
        reasons.append("the accuracy en -> xx of Tatoeba: mteb measures xx -> en only")
    return Export(files, reasons)


def _why_not(result: Result) -> str:
    task = EXPORTED.get(result.task)
    base, tag = Subset.parse(result.subset)
    if task is None:
        return f"mteb has no task with the data and the metrics of {result.task}"
    if tag:
        return f"{result.task} on a stand-in for the published data ({tag})"
    if result.parts:
        return f"averages of {result.task}, which mteb makes itself"
    if base not in task.languages:
        return f"mteb's {task.name} has no such subset"
    if result.dataset.published is False:
        return f"{result.task} on files that are not the published ones"
    if not all(metric in result.metrics for metric in task.metrics):
        return f"{result.task} without {' or '.join(task.metrics)}"
    return ""


def _task_result(task: MtebTask, results: list[Result]) -> dict[str, Any]:
    """The fields of `mteb.TaskResult`. No version of mteb measured this, hence none is named."""
    times = [seconds_of(result) for result in results if result.created]
    return {
        "task_name": task.name,
        "dataset_revision": task.revision,
        "mteb_version": None,
        "date": max(times, default=None),
        "evaluation_time": round(fsum(result.wall_time_s for result in results), 3),
        "kg_co2_emissions": None,
        "scores": {SPLIT: [_entry(task, result) for result in sorted(results, key=lambda result: result.subset)]},
    }


def _entry(task: MtebTask, result: Result) -> dict[str, Any]:
    """A subset's scores, and what traces them back to the record."""
    # Records have six decimals of a score x 100.
    scores = {theirs: round(result.metrics[ours] / 100, 8) for ours, theirs in task.metrics.items()}
    return {
        "hf_subset": task.subsets[result.subset],
        "languages": list(task.languages[result.subset]),
        **scores,
        "main_score": scores[task.main_score],
        "measured_by": f"{ORGANISATION} {result.versions.get(ORGANISATION, '')}".strip(),
        "fingerprint": result.fingerprint,
        "signature": result.signature,
        "dataset_sha256": result.dataset.sha256,
    }


def _model_meta(name: str, revision: str) -> dict[str, Any]:
    """The fields of `mteb.models.ModelMeta` without a default; what is not known is null."""
    unknown = (
        *("loader", "release_date", "languages", "n_parameters", "memory_usage_mb", "max_tokens", "embed_dim"),
        *("license", "open_weights", "public_training_code", "public_training_data", "use_instructions"),
        "training_datasets",
    )
    known = {"name": name, "revision": revision, "framework": [], "similarity_fn_name": "cosine"}
    return {**dict.fromkeys(unknown), **known}


def _json(content: dict[str, Any]) -> bytes:
    return (json_text(content, indent=2, sort_keys=True) + "\n").encode()

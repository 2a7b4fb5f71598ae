"""mteb: which of its tasks, subsets and metrics mean the same as ours, and our records as its result files.

STS17: the same 250 pairs a set, `cosine_spearman` and `cosine_pearson` as ours / 100. Tatoeba: LASER's pairs, xx -> en
only; `accuracy`, and `f1` weighted by class where every English line is a class. mteb's copies of the data differ from
the published files in blanks: its Tatoeba sentences end with a line end, some Arabic ones of STS17 lack a blank at
either end.

Nothing else is the same: mteb's BUCC does no mining, its KorSTS has three pairs fewer.

Files are `results/MODEL/REVISION/TASK.json`, and `model_meta.json` beside them; the folder above `results` is one that
`mteb.ResultCache` takes. Only what means the same in mteb is written, divided by 100: published data, never a stand-in
or an average.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from pathlib import PurePosixPath

from harness.core.escaping import json_text
from harness.core.names import Subset, check_name
from harness.data.tatoeba import GROUPS
from harness.published import source_file
from harness.results.records import Result, seconds_of

ORGANISATION = "multilingual-embedding-harness"
"""Of the models' names in mteb: what was measured here is not what mteb measured under a hub's name."""
SPLIT = "test"


@dataclass(frozen=True)
class MtebTask:
    """A task of mteb.

    Attributes:
        name: mteb's.
        task: ours.
        metrics: our metric -> mteb's.
        subsets: our subset -> mteb's.
        main_score: the metric that mteb ranks by.
        revision: of the data set, in mteb 2.
        languages: our subset -> mteb's codes of its languages, for tasks that are exported.
    """

    name: str
    task: str
    metrics: Mapping[str, str]
    subsets: Mapping[str, str]
    main_score: str
    revision: str = ""
    languages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_exported(self) -> bool:
        """Whether we measure the same; what we do not measure is imported only."""
        return bool(self.languages)


_STS = {
    **{name: name for name in ("en-en", "es-es", "ar-ar", "en-ar", "en-de", "en-tr")},
    **{"en-es": "es-en", "en-fr": "fr-en", "en-it": "it-en", "en-nl": "nl-en"},
}
_STS_LANGUAGES = {
    **{"en": "eng-Latn", "es": "spa-Latn", "ar": "ara-Arab", "de": "deu-Latn", "tr": "tur-Latn"},
    **{"fr": "fra-Latn", "it": "ita-Latn", "nl": "nld-Latn"},
}
_BUCC = {name: name for name in ("de-en", "fr-en", "ru-en", "zh-en")}


def _with_script(code: str) -> str:
    """mteb's name of one of LASER's languages: `kat-Geor`."""
    scripts = (script for script, codes in source_file("mteb")["scripts"].items() if code in codes.split())
    return f"{code}-{next(scripts, 'Latn')}"


TASKS = (
    MtebTask(
        name="STS17",
        task="sts17",
        metrics={"spearman": "cosine_spearman", "pearson": "cosine_pearson"},
        subsets={**_STS, "ko-ko": "ko-ko"},
        main_score="cosine_spearman",
        revision="faeb762787bd10488a50c8b5be4a3b82e411949c",
        languages={
            ours: tuple(dict.fromkeys(_STS_LANGUAGES[code] for code in theirs.split("-")))
            for ours, theirs in _STS.items()
        },
    ),
    MtebTask(
        name="Tatoeba",
        task="tatoeba",
        metrics={"accuracy_xx_en": "accuracy", "f1_weighted_xx_en": "f1"},
        subsets={code: f"{code}-eng" for code in GROUPS["all"]},
        main_score="f1",
        revision="69e8f12da6e31d59addadda9a9c8a2e601a0e282",
        languages={code: (_with_script(code), "eng-Latn") for code in GROUPS["all"]},
    ),
    MtebTask(name="BUCC", task="mteb-bucc", metrics={"f1_weighted_top1": "f1"}, subsets=_BUCC, main_score="f1"),
    MtebTask(name="BUCC.v2", task="mteb-bucc-v2", metrics={"f1_weighted_top1": "f1"}, subsets=_BUCC, main_score="f1"),
)
BY_MTEB_NAME = {task.name: task for task in TASKS}
EXPORTED = {task.task: task for task in TASKS if task.is_exported}


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
        if reason := _reason_to_leave_out(result):
            left_out[reason] += 1
        else:
            grouped.setdefault((result.encoder, result.fingerprint), {}).setdefault(result.task, []).append(result)
    files = {}
    for (encoder, fingerprint), by_task in grouped.items():
        revision = hashlib.sha256(fingerprint.encode(errors="backslashreplace")).hexdigest()[:16]
        folder = PurePosixPath("results", f"{ORGANISATION}__{check_name(encoder, 'encoder')}", revision)
        files[folder / "model_meta.json"] = _json(_model_meta(f"{ORGANISATION}/{encoder}", revision))
        for name, of_task in by_task.items():
            task = EXPORTED[name]
            files[folder / f"{task.name}.json"] = _json(_task_result(task, of_task))
    reasons = [f"{n} {'record' if n == 1 else 'records'}: {reason}" for reason, n in sorted(left_out.items())]
    if any("tatoeba" in by_task for by_task in grouped.values()):
        reasons.append("the accuracy en -> xx of Tatoeba: mteb measures xx -> en only")
    return Export(files, reasons)


def _reason_to_leave_out(result: Result) -> str:
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


def _task_result(task: MtebTask, results: list[Result]) -> dict[str, object]:
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


def _entry(task: MtebTask, result: Result) -> dict[str, object]:
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


def _model_meta(name: str, revision: str) -> dict[str, object]:
    """The fields of `mteb.models.ModelMeta` without a default; what is not known is null."""
    unknown = (
        *("loader", "release_date", "languages", "n_parameters", "memory_usage_mb", "max_tokens", "embed_dim"),
        *("license", "open_weights", "public_training_code", "public_training_data", "use_instructions"),
        "training_datasets",
    )
    known = {"name": name, "revision": revision, "framework": [], "similarity_fn_name": "cosine"}
    return {**dict.fromkeys(unknown), **known}


def _json(content: dict[str, object]) -> bytes:
    return (json_text(content, indent=2, sort_keys=True) + "\n").encode()

"""Result files of mteb, read without its package: those of `TaskResult`, and those from before mteb 1.11.

Layout: `MODEL/REVISION/TASK.json` with `model_meta.json` beside it, as in a `ResultCache` and in mteb's repository of
results, https://github.com/embeddings-benchmark/results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path, PurePath
from typing import Any

from harness.errors import InputError
from harness.interchange.mteb_export import ORGANISATION
from harness.interchange.mteb_tasks import BY_MTEB_NAME, SPLIT, MtebTask
from harness.schema import Name, Number, read_json

_META = "model_meta.json"
# What revision folders are called where nothing beside the file tells which model it is of.
_REVISION = re.compile(r"[0-9a-f]{7,40}|\d+|external|no_revision\w*")
_FIELD_OF_OLD = "mteb_dataset_name"  # mteb before 1.11
_FIELD_OF_STORE = "mteb_task"  # `ImportedResult`, as it is kept below a results folder


@dataclass(frozen=True)
class ImportedResult:
    """What mteb measured for one model on one of its tasks.

    Attributes:
        model, revision, mteb_version: as mteb states them; the version is empty where it states none.
        dataset_revision: of mteb's copy of the data.
        file: which one it is from: `MODEL/REVISION/TASK.json` without what is above, or its name where it is elsewhere.
        mteb_task, task: mteb's name and ours.
        scores: our subset -> our metric -> score x 100; averages of complete groups of subsets among them.
    """

    model: str
    revision: str
    mteb_version: str
    dataset_revision: str
    file: str
    mteb_task: str
    task: str
    scores: dict[Name, dict[str, Number]]

    @property
    def key(self) -> tuple[str, str, str]:
        """Of what a second import replaces."""
        return (self.model, self.revision, self.mteb_task)


@dataclass(frozen=True)
class Import:
    """The results of some files, and a line for each reason why something is not among them."""

    results: list[ImportedResult]
    left_out: list[str]


def read_results(paths: Iterable[Path]) -> Import:
    """Read result files, and in folders all that are of tasks with a counterpart here.

    The harness's own exports are left out: they are no published figures.

    Raises:
        InputError: no such path, a file that is no result of mteb's or of another task, a folder without any, nothing
            but own exports (each in one line that names the file and what is wrong).
    """
    results: dict[tuple[str, str, str], ImportedResult] = {}
    left_out: Counter[str] = Counter()
    own = None
    for path in paths:
        for file in _files(path):
            result, missing = _read(file)
            if result.model.startswith(f"{ORGANISATION}/"):
                left_out["files of the harness's own export"] += 1
                own = own or file
                continue
            left_out["subsets without a score"] += missing
            if not result.scores:
                left_out["files without a score of ours"] += 1
            elif result.key in results:
                left_out[f"files of the same model, revision and task as {results[result.key].file}"] += 1
            else:
                results[result.key] = result
    if own and not results:
        raise InputError(f"{own}: this is the harness's own export, no published result; name files that mteb wrote")
    return Import(list(results.values()), [f"{why}: {n}" for why, n in left_out.items() if n])


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for name in BY_MTEB_NAME for file in path.rglob(f"{name}.json"))
        # Without its description an experiment (`MODEL/REVISION/experiments/NAME`) is of nobody knows what.
        found = [file for file in found if "experiments" not in file.parts or (file.parent / _META).is_file()]
        if not found:
            names = ", ".join(f"{name}.json" for name in BY_MTEB_NAME)
            raise InputError(f"{path}: no result of mteb's with a counterpart here in this folder ({names})")
        return found
    if not path.exists():  # what is no file is refused where it is read
        raise InputError(f"{path}: no such file or folder; name result files of mteb or a folder with some")
    return [path]


def _read(file: Path) -> tuple[ImportedResult, int]:
    """The result in a file, and how many of its subsets have no score."""
    data = _object(file)
    is_old = _FIELD_OF_OLD in data
    if _FIELD_OF_STORE in data:
        raise InputError(f"{file}: this is the harness's own store of imported results; name files that mteb wrote")
    if not is_old and not (isinstance(data.get("scores"), dict) and isinstance(data.get("task_name"), str)):
        raise InputError(
            f"{file}: no result file of mteb: it has neither `task_name` and `scores` nor `{_FIELD_OF_OLD}`"
        )
    name = data[_FIELD_OF_OLD] if is_old else data["task_name"]
    if not isinstance(name, str) or name not in BY_MTEB_NAME:
        raise InputError(f"{file}: result of {name!r}, which has no counterpart here; {', '.join(BY_MTEB_NAME)} have")
    task = BY_MTEB_NAME[name]
    entries = _old_entries(file, data) if is_old else _entries(file, data["scores"])
    ours = {theirs: subset for subset, theirs in task.subsets.items()}
    scores, missing = {}, 0
    for subset, entry in entries.items():
        if subset in ours:
            found = _scores(file, task, subset, entry)
            missing += not found
            if found:
                scores[ours[subset]] = found
    model, revision = _model(file)
    return ImportedResult(
        model=model,
        revision=revision,
        mteb_version=str(data.get("mteb_version") or ""),
        dataset_revision=str(data.get("dataset_revision") or ""),
        file="/".join(file.resolve().parts[-3:]) if file.resolve().parent.name == revision else file.name,
        mteb_task=name,
        task=task.task,
        scores={**scores, **_averages(task, scores)},
    ), missing


def _object(file: Path) -> dict[str, Any]:
    try:
        return read_json(file, dict[str, Any], allow_nan=True)
    except ValueError as error:
        raise InputError(f"{file}: no JSON file of mteb ({error}); name files that mteb wrote") from None


def _entries(file: Path, scores: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """mteb's subset -> its scores."""
    entries = scores.get(SPLIT, [])
    if not isinstance(entries, list):
        raise InputError(f"{file}: scores.{SPLIT} is {type(entries).__name__} instead of a list")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("hf_subset"), str):
            raise InputError(f"{file}: scores.{SPLIT}[{number}] has no `hf_subset`")
    by_name = {entry["hf_subset"]: entry for entry in entries}
    if len(by_name) < len(entries):
        raise InputError(f"{file}: scores.{SPLIT} has a subset twice; name files as mteb wrote them")
    return by_name


def _old_entries(file: Path, data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The same from a file from before mteb 1.11, where a split's subsets stand beside its `evaluation_time`."""
    split = data.get(SPLIT, {})
    if not isinstance(split, dict):
        raise InputError(f"{file}: {SPLIT} is {type(split).__name__} instead of an object")
    return {name: entry for name, entry in split.items() if isinstance(entry, dict)}


def _scores(file: Path, task: MtebTask, subset: str, entry: Mapping[str, Any]) -> dict[str, float]:
    """Our metrics x 100; none that is not there, or was not finite, which mteb stores for constant similarities."""
    found = {}
    for ours, theirs in task.metrics.items():
        value = _value(entry, theirs)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{file}: {theirs} of {subset} is {value!r}, which is no number")
        if not -1 <= value <= 1:
            raise InputError(f"{file}: {theirs} of {subset} is {value!r:.20}, but scores of mteb are between -1 and 1")
        found[ours] = round(100.0 * value, 6)
    return found


def _value(entry: Mapping[str, Any], metric: str) -> Any:
    """A metric under the names that it has had: `cosine_spearman`, `cos_sim_spearman`, `cos_sim: {spearman}`."""
    if metric in entry:
        return entry[metric]
    measure, _, kind = metric.partition("_")
    if measure != "cosine":
        return None
    nested = entry.get("cos_sim")
    return nested.get(kind) if isinstance(nested, dict) else entry.get(f"cos_sim_{kind}")


def _model(file: Path) -> tuple[str, str]:
    """Name and revision: from `model_meta.json`, else from the folders."""
    meta = file.parent / _META
    if meta.is_file():
        data = _object(meta)
        if not isinstance(data.get("name"), str) or not _name(data["name"]):
            raise InputError(f"{meta}: has no `name` of a model")
        options = data.get("experiment_kwargs")
        shown = ", ".join(f"{key}={value}" for key, value in options.items()) if isinstance(options, dict) else ""
        return _name(data["name"]) + (f" ({shown})" if shown else ""), str(data.get("revision") or "no_revision")
    folder = file.resolve().parent
    if "__" not in folder.parent.name and not _REVISION.fullmatch(folder.name):
        raise InputError(
            f"{file}: nothing tells which model it is of: no {_META} beside it, and its folder is not MODEL/REVISION"
        )
    return _name(folder.parent.name), folder.name


def _name(stated: str) -> str:
    """A model's name; of one that mteb knows by a path of the machine it ran on, the last part."""
    name = stated.replace("__", "/")
    return PurePath(name).name if name.startswith(("/", ".", "~")) else name


def _averages(task: MtebTask, scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The unweighted means over the groups of subsets that are complete, as our task has them."""
    if not task.is_exported:  # a task that only mteb has
        return {}
    from harness.tasks import get_task  # imports NumPy

    means = {}
    for name, parts in get_task(task.task).averages(scores).items():
        shared = [metric for metric in scores[parts[0]] if all(metric in scores[part] for part in parts)]
        means[name] = {m: round(fsum(scores[part][m] for part in parts) / len(parts), 6) for m in shared}
    return means

"""Result files of mteb: read without its package, stored below a results folder, and as published figures.

They are those of `TaskResult`, and those from before mteb 1.11. Layout: `MODEL/REVISION/TASK.json` with
`model_meta.json` beside it, as in a `ResultCache` and in mteb's repository of results,
https://github.com/embeddings-benchmark/results. Below a results folder they are `imported/MODEL/REVISION/TASK.json`.
They are nobody's measurement here: tables show them as published, with mteb's model, revision and version as source.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from math import fsum
from pathlib import Path, PurePath
from typing import Annotated, TypedDict, TypeVar

import msgspec

from harness.core.errors import InputError
from harness.core.files import refuse_way_out, write_atomically
from harness.core.schema import Name, Number, read_json
from harness.published import PublishedScore, published_scores, source_file
from harness.published.mteb import BY_MTEB_NAME, ORGANISATION, SPLIT, MtebTask

T = TypeVar("T")

IMPORTED = "mteb results"
_FOLDER = "imported"
_META = "model_meta.json"
_LONGEST = 150  # characters of a model's name or a revision in a file name
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{16,40}")
# What revision folders are called where nothing beside the file tells which model it is of.
_REVISION = re.compile(r"[0-9a-f]{7,40}|\d+|external|no_revision\w*")
_OWN_PROMPTS = "mteb may begin every sentence with a prompt of its own for this model"


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
        """What a second import replaces."""
        return (self.model, self.revision, self.mteb_task)


@dataclass(frozen=True)
class Import:
    """The results of some files, and a line for each reason why something is not among them."""

    results: list[ImportedResult]
    left_out: list[str]


_Score = Annotated[float, msgspec.Meta(ge=-1, le=1)] | None
"""None where mteb has NaN: it stores that for constant similarities."""


class _Cosine(TypedDict, total=False):
    spearman: _Score
    pearson: _Score


class _Scores(TypedDict, total=False):
    """Those that we read of one subset, under all names that they have had."""

    cosine_spearman: _Score
    cosine_pearson: _Score
    cos_sim_spearman: _Score
    cos_sim_pearson: _Score
    cos_sim: _Cosine
    accuracy: _Score
    f1: _Score


class _SubsetScores(_Scores):
    hf_subset: str


class _File(TypedDict, total=False):
    """A result file; before mteb 1.11, the split's subsets stand beside its `evaluation_time`."""

    task_name: str
    scores: dict[str, list[_SubsetScores] | dict[str, object]]
    mteb_dataset_name: str
    test: dict[str, _Scores | float | None]
    mteb_version: str | None
    dataset_revision: str | None
    mteb_task: str  # of an `ImportedResult`


class _ModelMeta(TypedDict, total=False):
    name: str | None
    revision: str | None
    experiment_kwargs: dict[str, object] | None


def read_results(paths: Iterable[Path]) -> Import:
    """Read result files, and in folders all that are of tasks with a counterpart here.

    The harness's own exports are left out: they are no published figures.

    Raises:
        InputError: no such path, a file that is no result of mteb's or of another task, a folder without any, nothing
            but own exports (each in one line that names the file and what is wrong).
    """
    results: dict[tuple[str, str, str], ImportedResult] = {}
    left_out: Counter[str] = Counter()
    export = None
    for path in paths:
        for file in _files(path):
            result, missing = _read(file)
            if result.model.startswith(f"{ORGANISATION}/"):
                left_out["files of the harness's own export"] += 1
                export = export or file
                continue
            left_out["subsets without a score"] += missing
            if not result.scores:
                left_out["files without a score of ours"] += 1
            elif result.key in results:
                left_out[f"files of the same model, revision and task as {results[result.key].file}"] += 1
            else:
                results[result.key] = result
    if export and not results:
        raise InputError(f"{export}: this is the harness's own export, no published result; name files that mteb wrote")
    return Import(list(results.values()), [f"{reason}: {n}" for reason, n in left_out.items() if n])


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for name in BY_MTEB_NAME for file in path.rglob(f"{name}.json"))
        # Without a description, nothing tells which model an experiment (`MODEL/REVISION/experiments/NAME`) is of.
        files = [file for file in files if "experiments" not in file.parts or (file.parent / _META).is_file()]
        if not files:
            names = ", ".join(f"{name}.json" for name in BY_MTEB_NAME)
            raise InputError(f"{path}: no result of mteb's with a counterpart here in this folder ({names})")
        return files
    if not path.exists():  # what is no file is refused where it is read
        raise InputError(f"{path}: no such file or folder; name result files of mteb or a folder with some")
    return [path]


def _read(file: Path) -> tuple[ImportedResult, int]:
    """The result in a file, and how many of its subsets have no score.

    Raises:
        InputError: it is none, or of a task without a counterpart.
    """
    content = _json(file, _File)
    if "mteb_task" in content:
        raise InputError(f"{file}: this is the harness's own store of imported results; name files that mteb wrote")
    name = content.get("mteb_dataset_name") or content.get("task_name")
    if name is None or not ("mteb_dataset_name" in content or "scores" in content):
        raise InputError(
            f"{file}: no result file of mteb: it has neither `task_name` and `scores` nor `mteb_dataset_name`"
        )
    if name not in BY_MTEB_NAME:
        raise InputError(f"{file}: result of {name!r}, which has no counterpart here; {', '.join(BY_MTEB_NAME)} have")
    task = BY_MTEB_NAME[name]
    entries = _entries(file, content)
    scores = {ours: _scores(task, entries[theirs]) for ours, theirs in task.subsets.items() if theirs in entries}
    complete = {subset: values for subset, values in scores.items() if values}
    model, revision = _model(file)
    return ImportedResult(
        model=model,
        revision=revision,
        mteb_version=content.get("mteb_version") or "",
        dataset_revision=content.get("dataset_revision") or "",
        file="/".join(file.resolve().parts[-3:]) if file.resolve().parent.name == revision else file.name,
        mteb_task=name,
        task=task.task,
        scores={**complete, **_averages(task, complete)},
    ), len(scores) - len(complete)


def _json(file: Path, kind: type[T]) -> T:
    try:
        return read_json(file, kind, allow_nan=True)
    except ValueError as error:
        raise InputError(f"{file}: no JSON file of mteb ({error}); name files that mteb wrote") from None


def _entries(file: Path, content: _File) -> dict[str, _Scores]:
    """mteb's subset -> its scores."""
    if "mteb_dataset_name" in content:
        return {name: entry for name, entry in content.get("test", {}).items() if isinstance(entry, dict)}
    entries = content["scores"].get(SPLIT, [])
    if isinstance(entries, dict):
        raise InputError(f"{file}: scores.{SPLIT} is an object instead of a list")
    by_name: dict[str, _Scores] = {entry["hf_subset"]: entry for entry in entries}
    if len(by_name) < len(entries):
        raise InputError(f"{file}: scores.{SPLIT} has a subset twice; name files as mteb wrote them")
    return by_name


def _scores(task: MtebTask, entry: _Scores) -> dict[str, float]:
    """Our metrics x 100, as far as they are there."""
    # A cosine has been called `cosine_spearman`, `cos_sim_spearman` and `cos_sim: {spearman}`.
    by_name: dict[str, object] = {
        **{f"cosine_{name}": value for name, value in entry.get("cos_sim", {}).items()},
        **{name.replace("cos_sim_", "cosine_"): value for name, value in entry.items()},
    }
    values = {ours: by_name.get(theirs) for ours, theirs in task.metrics.items()}
    return {metric: round(100.0 * value, 6) for metric, value in values.items() if isinstance(value, float)}


def _model(file: Path) -> tuple[str, str]:
    """Name and revision: from `model_meta.json`, else from the folders."""
    meta = file.parent / _META
    if meta.is_file():
        content = _json(meta, _ModelMeta)
        name = _name(content.get("name") or "")
        if not name:
            raise InputError(f"{meta}: has no `name` of a model")
        options = ", ".join(f"{key}={value}" for key, value in (content.get("experiment_kwargs") or {}).items())
        return name + (f" ({options})" if options else ""), content.get("revision") or "no_revision"
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
    from harness.protocol import get_task  # imports NumPy

    means = {}
    for name, parts in get_task(task.task).averages(scores).items():
        shared = [metric for metric in scores[parts[0]] if all(metric in scores[part] for part in parts)]
        means[name] = {m: round(fsum(scores[part][m] for part in parts) / len(parts), 6) for m in shared}
    return means


def store(root: Path, results: Iterable[ImportedResult]) -> list[Path]:
    """Write each result to its file below `root`; one of the same model, revision and task is replaced.

    Raises:
        InputError: the folder cannot be written.
    """
    written = []
    for result in results:
        parts = (_safe(result.model), _safe(result.revision), f"{result.mteb_task}.json")
        path = refuse_way_out(root.joinpath(_FOLDER, *parts), root)
        text = json.dumps(asdict(result), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        write_atomically(path, text.encode())
        written.append(path)
    return written


def imported_scores(root: Path) -> list[PublishedScore]:
    """What was imported into the results folder `root`, as published figures.

    Raises:
        InputError: a file that holds no imported result (it is named).
    """
    files = sorted((root / _FOLDER).glob("*/*/*.json"))
    return [score for file in files for score in _published(_load(file))]


def _load(file: Path) -> ImportedResult:
    try:
        result = read_json(file, ImportedResult, exact=True)
        if result.mteb_task not in BY_MTEB_NAME or result.task != BY_MTEB_NAME[result.mteb_task].task:
            raise ValueError(f"no task {result.mteb_task!r} with a counterpart {result.task!r}")
    except ValueError as error:
        raise InputError(f"{file}: no imported result ({error}); import it again or delete it") from None
    return result


def _published(result: ImportedResult) -> Iterator[PublishedScore]:
    known = _known_models().get(result.model)
    models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if known is not None:
        models, notes = (f"mteb:{result.model}", *known.models), ("", *known.notes)
    elif _HUB_ID.fullmatch(result.model):
        models, notes = (f"mteb:{result.model}", f"sentence-transformers:{result.model}"), ("", _OWN_PROMPTS)
    version = f"mteb {result.mteb_version}" if result.mteb_version else "no version of mteb stated"
    columns = BY_MTEB_NAME[result.mteb_task].subsets
    for subset, scores in result.scores.items():
        for metric, value in scores.items():
            yield PublishedScore(
                source=IMPORTED,
                citation=f"{IMPORTED}, {result.model}@{result.revision}, {version}",
                table=result.mteb_task,
                row=result.model,
                column=columns.get(subset, subset),
                edition=result.revision[:7] if _COMMIT.fullmatch(result.revision) else result.revision,
                task=result.task,
                subset=subset,
                metric=metric,
                printed=f"{value:.2f}",
                models=models,
                notes=notes,
                name=known.name if known else result.model,
                exact=value,
            )


@cache
def _known_models() -> dict[str, PublishedScore]:
    """Hub id -> a published figure of mteb's: it says which encoders are the very same model."""
    by_row = {score.row: score for score in published_scores() if score.source == "mteb"}
    return {hub_id: by_row[row] for row, hub_id in source_file("mteb")["hub"].items()}


def _safe(name: str) -> str:
    """A name as mteb's folders have it, for any file system; two names never give the same.

    One that mteb's way of writing changes, or would give to another name too, gets the start of its checksum.
    """
    plain = name.replace("/", "__")
    safe = re.sub(r"[^A-Za-z0-9._+@=-]", "_", plain)[:_LONGEST]
    if safe == plain and "__" not in name and safe.strip("."):
        return safe
    return f"{safe.strip('.')}-{sha256(name.encode()).hexdigest()[:8]}"

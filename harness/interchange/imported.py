"""Imported results below a results folder, `imported/MODEL/REVISION/TASK.json`, and as published figures.

They are nobody's measurement here: tables show them as published, with mteb's model, revision and version as source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path

from harness.errors import InputError
from harness.files import refuse_way_out, write_atomically
from harness.interchange.mteb_import import ImportedResult
from harness.interchange.mteb_tasks import BY_MTEB_NAME
from harness.published import PublishedScore, published_scores
from harness.schema import read_json
from harness.spec import parse_spec

IMPORTED = "mteb results"
_FOLDER = "imported"
_LONGEST = 150  # characters of a model's name or a revision in a file name
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{16,40}")
_OWN_PROMPTS = "mteb may begin every sentence with a prompt of its own for this model"
# The models of `published/mteb.toml` by their ids on the hub: it says which encoders are the very same.
_OWNERS = {
    "sentence-transformers": (
        *("LaBSE", "all-MiniLM-L6-v2", "paraphrase-multilingual-MiniLM-L12-v2"),
        *("paraphrase-multilingual-mpnet-base-v2", "static-similarity-mrl-multilingual-v1"),
    ),
    "intfloat": ("multilingual-e5-small", "multilingual-e5-base"),
    "minishlab": ("potion-multilingual-128M",),
    "BAAI": ("bge-m3",),
}
_ROWS = {f"{owner}/{name}": name for owner, names in _OWNERS.items() for name in names}


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
    return [score for file in files for score in _scores(_load(file))]


def _load(file: Path) -> ImportedResult:
    try:
        result = read_json(file, ImportedResult, exact=True)
        if result.mteb_task not in BY_MTEB_NAME or result.task != BY_MTEB_NAME[result.mteb_task].task:
            raise ValueError(f"no task {result.mteb_task!r} with a counterpart {result.task!r}")
    except ValueError as error:
        raise InputError(f"{file}: no imported result ({error}); import it again or delete it") from None
    return result


def _scores(result: ImportedResult) -> Iterator[PublishedScore]:
    models, notes = _same_models(result.model)
    name = parse_spec(_known()[_ROWS[result.model]][0][0]).stored_name if result.model in _ROWS else result.model
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
                numbered="",
                versions=(),
                edition=result.revision[:7] if _COMMIT.fullmatch(result.revision) else result.revision,
                task=result.task,
                subset=subset,
                metric=metric,
                printed=f"{value:.2f}",
                models=models,
                notes=notes,
                name=name,
                parts=(),
                needs="",
                is_experiment=False,
                exact=value,
            )


def _same_models(model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Spec strings of the encoders that are the very same model, and what must be known of each."""
    if not _HUB_ID.fullmatch(model):
        return (), ()
    known, notes = _known().get(_ROWS.get(model, ""), ((f"sentence-transformers:{model}",), (_OWN_PROMPTS,)))
    return (f"mteb:{model}", *known), ("", *notes)


@cache
def _known() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    return {score.row: (score.models, score.notes) for score in published_scores() if score.source == "mteb"}


def _safe(name: str) -> str:
    """A name as mteb's folders have it, for any file system; two names never give the same.

    One that mteb's way of writing changes, or would give to another name too, gets the start of its checksum.
    """
    plain = name.replace("/", "__")
    safe = re.sub(r"[^A-Za-z0-9._+@=-]", "_", plain)[:_LONGEST]
    if safe == plain and "__" not in name and safe.strip("."):
        return safe
    return f"{safe.strip('.')}-{sha256(name.encode()).hexdigest()[:8]}"

"""The folder that a training writes, and the folder of its checkpoints: what they hold, and what may be replaced.

What the model cards of all trainings share is here too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from baselines.adapters.huggingface import quiet
from harness.core.errors import InputError
from harness.core.escaping import code, markdown
from harness.core.files import user_path
from harness.core.schema import decoded
from harness.report.cells import Cell, Column, Row, Table
from harness.report.markdown import markdown_grid

TRAINING_FILE = "training.json"
"""What a finished model folder says of its training; a folder without it is never replaced."""

SETTINGS_FILE = "settings.json"
"""What the folder of checkpoints says of the training that they are of."""

Settings = dict[str, object]
"""Everything that distinguishes one training from others, as JSON values by name."""

T = TypeVar("T")


def check_folders(out: Path, work: Path, sources: Iterable[str | Path]) -> None:
    """Check that a training will replace nothing but the output of a training, before anything is deleted.

    Args:
        out: the folder to write.
        work: the folder of its checkpoints, which is deleted in the end.
        sources: what the training begins with and learns from; those that are no folders do not count.

    Raises:
        InputError: a source is in `out` or `work`, or one of these is something else than what a training writes.
    """
    for source in sources:
        folder = user_path(source).resolve()
        for place in (out, work):
            if folder.is_dir() and folder.is_relative_to(place.resolve()):
                raise InputError(
                    f"{source} is what the training begins with, and would be replaced by what it writes to {place}; "
                    "give another --name or --out"
                )
    _check_model(out)
    if work.exists() and not (work / SETTINGS_FILE).is_file() and (not work.is_dir() or any(work.iterdir())):
        raise InputError(
            f"{work}, the place of the checkpoints, is there already and has none (no {SETTINGS_FILE}); move it away, "
            "or give another --name or --out"
        )


@contextmanager
def only_training(out: Path) -> Iterator[None]:
    """A lock: in a `with` block no other process trains a model for `out`.

    Raises:
        InputError: another one does, or there is no place for the lock beside `out`.
    """
    from filelock import FileLock, Timeout

    lock = out.with_name(f"{out.name}.training.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=0):
            yield
            lock.unlink(missing_ok=True)
    except Timeout:
        raise InputError(f"another process is training {out}; wait for it, or give another --name or --out") from None


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to fill in a `with` block; it gets the name `path` at the end, unless the block raises.

    Until then it has a hidden name beside `path`. What a killed process has left under that name is removed. `replace`:
    a folder that is at `path` makes way.

    Raises:
        OSError: the folder cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        if replace and path.exists():
            shutil.rmtree(path)
        part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def save_model(model: Any, folder: Path) -> None:
    """Save a `SentenceTransformer` into a folder, without the library's model card. Raises OSError."""
    with quiet():
        model.save_pretrained(str(folder), create_model_card=False)


def replace_folder(new: Path, out: Path) -> None:
    """Put the finished model `new` at `out`; a model that is there is kept beside `new`, as `replaced`, until then.

    Raises:
        InputError: what is at `out` is no model that was trained.
        OSError: a folder cannot be renamed; `out` is as before.
    """
    _check_model(out)
    replaced = new.with_name("replaced")
    if not out.exists():
        new.rename(out)
        return
    out.rename(replaced)
    try:
        new.rename(out)
    except OSError:
        replaced.rename(out)
        raise


def remove_work(work: Path) -> None:
    """Delete the folder of checkpoints, its settings last, so that it can be told from others if this is cut short."""
    for path in work.glob("*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)


def _check_model(out: Path) -> None:
    if out.exists() and not (out / TRAINING_FILE).is_file():
        raise InputError(
            f"{out} is there already; give another --name or --out (it is no model that was trained here: it has no "
            f"{TRAINING_FILE})"
        )


@dataclass(frozen=True)
class TrainerState:
    """What is read of the trainer's state in a checkpoint.

    Attributes:
        global_step: steps that were taken.
        best_global_step: the step of the best checkpoint, if any was evaluated.
        log_history: what the trainer logged: losses, and scores as `eval_NAME`, with their `step`.
    """

    global_step: int
    best_global_step: int | None
    log_history: list[dict[str, int | float]]


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint of a training: its folder and the trainer's state."""

    folder: Path
    state: TrainerState

    @property
    def step(self) -> int:
        """The step after which it was written."""
        return self.state.global_step


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """The last whole checkpoint. Others, whose trainer's state was not written, are deleted."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        if state := read_if_whole(path / "trainer_state.json", TrainerState):
            whole.append(Checkpoint(path, state))
        else:
            shutil.rmtree(path, ignore_errors=True)  # several processes may do this at once
    return max(whole, key=lambda checkpoint: checkpoint.step, default=None)


def check_equal(ours: Mapping[str, Any], theirs: Mapping[str, Any], where: Path) -> None:
    """Raise InputError, with a setting that differs, if `where` is from a training with other settings."""
    for key in (*ours, *theirs):
        if ours.get(key) != theirs.get(key):
            raise InputError(
                f"{where} is of a training with another {key} ({theirs.get(key)}, now {ours.get(key)}); give another "
                "--name or --out, or --fresh to begin anew"
            )


def read_if_whole(path: Path, kind: type[T]) -> T | None:
    """The content of a JSON file; None if the file is not there, cut off, or something else."""
    try:
        return decoded(path.read_bytes(), kind)
    except (OSError, ValueError):
        return None


def as_json(content: object) -> bytes:
    """JSON with sorted keys, ended by a line end: equal contents give equal bytes."""
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def hub_metadata(languages: Sequence[str] = ()) -> str:
    """The head of a model card, with the hub's metadata."""
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags: [sentence-transformers, feature-extraction, sentence-similarity]",
        *([f"language: [{', '.join(map(json.dumps, languages))}]"] if languages else []),
        "---",
    ]
    return "\n".join(lines)


def settings_table(values: Mapping[str, str], versions: Mapping[str, str]) -> str:
    """A training's settings, and the versions of packages, as a table in Markdown."""
    lines = [
        "| setting | value |",
        "|---|---|",
        *(f"| {markdown(key)} | {code(value, in_table=True)} |" for key, value in values.items()),
        *(f"| {markdown(package)} | {markdown(version)} |" for package, version in versions.items()),
    ]
    return "\n".join(lines)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts in Markdown."""
    columns = tuple(Column(head, is_number=False) for head in header)
    return markdown_grid(Table("", columns, tuple(Row(tuple(map(Cell, row))) for row in rows)))

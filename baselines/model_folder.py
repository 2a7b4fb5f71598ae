"""The folder that a training writes, and the folder of its checkpoints: what they hold, and what may be replaced."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import InputError
from harness.files import user_path
from harness.schema import decoded

TRAINING_FILE = "training.json"
"""What a finished model folder says of its training; a folder without it is never replaced."""

SETTINGS_FILE = "settings.json"
"""What the folder of checkpoints says of the training that they are of."""


def check_folders(out: Path, work: Path, sources: Iterable[str | Path]) -> None:
    """Check, before anything is deleted or trained, that what is in the way of a training came from a training.

    Args:
        out: the folder to write.
        work: the folder of its checkpoints, which is deleted in the end.
        sources: what the training begins with and learns from; those that are no folders do not count.

    Raises:
        InputError: a source is in `out` or `work`, or one of these is something else than what a training writes.
    """
    for source in sources:
        folder = Path(os.path.realpath(user_path(source)))
        for place in (out, work):
            if folder.is_dir() and folder.is_relative_to(os.path.realpath(place)):
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
    """For the time of a `with` block no other process trains a model for `out`.

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
    """Delete the folder of checkpoints, its settings last: cut short, it is still known for what it is."""
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


def last_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint that is whole: the trainer's state is written last. One that is not is deleted."""
    whole = []
    for checkpoint in folder.glob("checkpoint-*"):
        if read_json(checkpoint / "trainer_state.json") is None:
            shutil.rmtree(checkpoint, ignore_errors=True)  # several processes may be at it
        else:
            whole.append(checkpoint)
    return max(whole, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def check_equal(ours: Mapping[str, Any], theirs: Mapping[str, Any], where: Path) -> None:
    """Raises InputError if `where` is from a training with other settings; names one that differs."""
    for key in (*ours, *theirs):
        if ours.get(key) != theirs.get(key):
            raise InputError(
                f"{where} is of a training with another {key} ({theirs.get(key)}, now {ours.get(key)}); give another "
                "--name or --out, or --fresh to begin anew"
            )


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if it is not there, cut off, or no object."""
    try:
        return decoded(path.read_bytes(), dict[str, Any])
    except (OSError, ValueError):
        return None


def as_json(content: object) -> bytes:
    """JSON with sorted keys, ended by a line end: equal contents give equal bytes."""
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

"""The folder that a training writes, and the folder of its checkpoints: what may be replaced, and how."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from harness.errors import InputError

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
        folder = Path(source).expanduser().resolve()
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

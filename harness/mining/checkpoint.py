"""The state of a search between its blocks, in a folder, for the time when it is interrupted."""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError
from harness.files import refuse_special, replacing
from harness.mining.vectors import AT_ONCE, Side
from harness.results import cannot_write

_FILE = "search.npz"
_FORMAT = 2  # of the states; another bound or other lists make another one
_SHARE = 0.02  # of the time, at most, for writing


class Checkpoint:
    """A search's arrays under their names; without a file nothing is kept."""

    def __init__(self, file: Path | None, digest: str):
        self._file, self._digest = file, digest
        self._not_before = 0.0

    def load(self) -> dict[str, NDArray[Any]] | None:
        """What was saved last, if anything.

        Raises:
            InputError: it is of another search, or damaged.
        """
        if self._file is None or not self._file.exists():
            return None
        refuse_special(self._file)
        try:
            with np.load(self._file, allow_pickle=False) as stored:
                found = dict(stored)
            digest = str(found.pop("digest"))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{self._file} cannot be read ({error}); remove it to begin anew") from error
        if digest != self._digest:
            raise InputError(
                f"{self._file} is of a search in other vectors or with other options; remove it, or take another folder"
            )
        return found

    def save(self, arrays: Mapping[str, Any]) -> None:
        """Keep the arrays in place of those before, unless writing would take too much of the time."""
        start = time.monotonic()
        if self._file is None or start < self._not_before:
            return
        try:
            with replacing(self._file) as out:
                np.savez(out, allow_pickle=False, digest=np.array(self._digest), **arrays)
        except OSError as error:
            raise cannot_write(self._file, error) from error
        end = time.monotonic()
        self._not_before = end + (end - start) / _SHARE

    def remove(self) -> None:
        """The search is done."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


@contextmanager
def open_checkpoint(folder: Path | str | None, sides: tuple[Side, Side], options: str) -> Iterator[Checkpoint]:
    """The checkpoint of the search in these vectors with these options; removed if the block ends without an error."""
    if folder is None:
        yield Checkpoint(None, "")
        return
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    digest = hashlib.blake2b(f"format={_FORMAT} {options}".encode())
    for side in sides:
        digest.update(f"{side.vectors.dtype.str}{side.vectors.shape}".encode())
        rows = max(1, AT_ONCE // max(1, side.dim))
        for start in range(0, len(side), rows):
            digest.update(side.vectors[start : start + rows].tobytes())
    checkpoint = Checkpoint(folder / _FILE, digest.hexdigest())
    yield checkpoint
    checkpoint.remove()

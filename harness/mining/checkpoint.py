"""The state of a search between its blocks, in a folder, for the time when it is interrupted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError
from harness.files import refuse_special, replacing, writing
from harness.mining.vectors import AT_ONCE, Side

_FILE = "search.npz"
_FORMAT = 2  # of the states; another bound or other lists make another one
_SHARE = 0.02  # of the time, at most, for writing


class Checkpoint:
    """A search's arrays under their names; without a file nothing is kept."""

    def __init__(self, file: Path | None, digest: str):
        self._file, self._digest = file, digest
        self._not_before = 0.0

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_rows: int) -> int:
        """Fill the arrays with what was saved last; returns how many of `n_rows` are done, 0 where nothing was saved.

        Raises:
            InputError: it is of another search, or damaged.
        """
        if self._file is None or not self._file.exists():
            return 0
        refuse_special(self._file)
        try:
            with self._file.open("rb") as stream:
                stored = dict(np.lib.npyio.NpzFile(stream, allow_pickle=False))
            digest, done = str(stored.pop("digest")), stored.pop("done")
            if digest == self._digest:
                return _fill(arrays, stored, done, n_rows)
        except Exception as error:  # whatever NumPy and zipfile raise, which is much: the file may hold anything
            raise InputError(f"{self._file} cannot be read ({error}); remove it to begin anew") from error
        raise InputError(
            f"{self._file} is of a search in other vectors or with other options; remove it, or take another folder"
        )

    def save(self, arrays: Mapping[str, NDArray[Any]], done: int) -> None:
        """Keep the arrays in place of those before, unless writing would take too much of the time."""
        start = time.monotonic()
        if self._file is None or start < self._not_before:
            return
        with writing(self._file), replacing(self._file) as out:
            np.savez(out, allow_pickle=False, digest=np.array(self._digest), done=done, **arrays)
        end = time.monotonic()
        self._not_before = end + (end - start) / _SHARE

    def remove(self) -> None:
        """The search is done."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _fill(
    arrays: Mapping[str, NDArray[Any]], stored: Mapping[str, NDArray[Any]], done: NDArray[Any], n_rows: int
) -> int:
    """What was stored takes the place of what is in the arrays. Raises ValueError if it is of another shape or type."""
    for name, array in arrays.items():
        found = stored[name]
        if (found.shape, found.dtype) != (array.shape, array.dtype):
            raise ValueError(f"{name} is {found.dtype} {found.shape} where {array.dtype} {array.shape} is expected")
    if done.shape or done.dtype.kind != "i" or not 0 <= done <= n_rows:
        raise ValueError(f"done is {done.dtype} {done.shape} where a number up to {n_rows} is expected")
    for name, array in arrays.items():
        array[...] = stored[name]
    return int(done)


@contextmanager
def open_checkpoint(folder: Path | str | None, sides: tuple[Side, Side], options: str) -> Iterator[Checkpoint]:
    """The checkpoint of the search in these vectors with these options; removed if the block ends without an error."""
    if folder is None:
        yield Checkpoint(None, "")
        return
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.blake2b(f"format={_FORMAT} {options}".encode())
    for side in sides:
        digest.update(f"{side.vectors.dtype.str}{side.vectors.shape}".encode())
        rows = max(1, AT_ONCE // max(1, side.dim))
        for start in range(0, len(side), rows):
            digest.update(side.vectors[start : start + rows].tobytes())
    checkpoint = Checkpoint(folder / _FILE, digest.hexdigest())
    yield checkpoint
    checkpoint.remove()

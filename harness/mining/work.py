"""The folder in which a mining job keeps what it has done, so that the same job goes on from there.

What is in it is data, and nothing is believed of it: a *key* says of every stage what it was made from (checksums of
the texts, the encoder's fingerprint, options), a stage with another key is refused, and all content is under CRC-32.
What does not fit its checksum is made again. Files that grow do so in chunks, so a kill loses one chunk at most.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.core.escaping import terminal_line
from harness.core.files import SUFFIX, listed, locked, refuse_special, temporary_folder, write_atomically, writing
from harness.core.schema import read_json

Key = Mapping[str, str]

_JOB = "mining.json"  # marks the folder as one of ours
_LOCK = ".lock"
_CRC = np.dtype("<u4")
_READ_AT_ONCE = 1 << 22


@contextmanager
def open_work(folder: Path | None) -> Iterator[WorkDir]:
    """The folder of a job, made if need be; None: a temporary one, removed at the end of the `with` block.

    Raises:
        InputError: it cannot be written, or holds something else; or a link, through which others' files would be
            written.
    """
    if folder is None:
        with temporary_folder() as made:
            yield WorkDir(made)
        return
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _JOB).exists() and any(
        path.name != _LOCK and not path.name.endswith(SUFFIX) for path in listed(folder)
    ):
        raise InputError(f"{folder} is not empty and holds no mining job; name another folder with --work-dir")
    for path in listed(folder):  # before the lock is opened
        if path.is_symlink():
            raise InputError(f"{path}: a link, where nothing is written; remove it, or name another folder")
    with locked(folder / _LOCK):
        yield WorkDir(folder)


class WorkDir:
    """A job's folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def agree(self, stage: str, key: Key) -> None:
        """Note what a stage is made from.

        Raises:
            InputError: the folder holds the stage made from something else; or it cannot be written.
        """
        stages = self._stages()
        stored = stages.get(stage)
        if stored is None:
            write_atomically(self.folder / _JOB, json.dumps({**stages, stage: dict(key)}, sort_keys=True).encode())
            return
        if other := [name for name in {**key, **stored} if key.get(name) != stored.get(name)]:
            raise InputError(
                f"{self.folder} holds another job, with another {other[0]}; remove it, or name another folder with "
                "--work-dir"
            )

    def _stages(self) -> dict[str, dict[str, str]]:
        file = self.folder / _JOB
        if not file.exists():
            return {}
        try:
            return read_json(file, dict[str, dict[str, str]])
        except ValueError as error:
            raise InputError(f"{file} is damaged ({error}); remove {self.folder}, or name another folder") from None

    @property
    def n_bytes(self) -> int:
        """What the folder holds."""
        return sum(path.stat().st_size for path in listed(self.folder) if path.is_file())


class RowFile:
    """An array of `n` rows on disk that grows chunk by chunk and is never changed.

    Beside it, `NAME.crc` has a CRC-32 of every chunk that was written. When it is opened, all chunks are held against
    them; the first that differs is cut off, with all after it.

    Args:
        path: the file.
        n: rows when it is complete.
        row: dtype of a row, as `np.dtype((np.float32, (dim,)))`.
        chunk: rows of a chunk.
    """

    def __init__(self, path: Path, n: int, row: np.dtype[Any], chunk: int):
        self.path, self.n, self.row, self.chunk = path, n, row, chunk
        self._crcs = path.with_name(path.name + ".crc")
        for file in (self.path, self._crcs):
            refuse_special(file)
        with writing(path):
            for file in (self.path, self._crcs):
                file.touch()
            self.done = self._checked()

    def append(self, rows: NDArray[Any]) -> None:
        """Write the next chunk. Raises InputError if that is impossible."""
        content = np.ascontiguousarray(rows).tobytes()
        expected = min(self.chunk, self.n - self.done) * self.row.itemsize
        if len(content) != expected:
            raise ValueError(f"{len(content)} bytes are no chunk of {expected}")
        with writing(self.path):
            _write_at(self.path, self.done * self.row.itemsize, content)
            _write_at(self._crcs, self.done // self.chunk * _CRC.itemsize, _crc(content))
        self.done += len(rows)

    def array(self, mode: str = "r") -> NDArray[Any]:
        """What is there, memory-mapped, (done, ...); mode "c": changes stay in memory."""
        base, shape = (self.row.base, self.row.shape) if self.row.subdtype else (self.row, ())
        if not self.done:
            return np.empty((0, *shape), base)
        mapped: NDArray[Any] = np.memmap(self.path, base, mode, shape=(self.done, *shape))  # type: ignore[call-overload]
        return mapped

    def _checked(self) -> int:
        """How many rows are whole; what else is in the files is cut off."""
        done, whole, crcs = 0, 0, self._crcs.read_bytes()
        with self.path.open("rb") as stream:
            while done < self.n:
                size = min(self.chunk, self.n - done)
                expected = crcs[whole * _CRC.itemsize : (whole + 1) * _CRC.itemsize]
                content = stream.read(size * self.row.itemsize)
                if len(content) < size * self.row.itemsize or _crc(content) != expected:
                    break
                done, whole = done + size, whole + 1
        if len(crcs) // _CRC.itemsize > whole:
            warning = f"warning: {self.path} is damaged from row {done:,} on; from there it is made again"
            print(terminal_line(warning), file=sys.stderr)
        for file, length in ((self.path, done * self.row.itemsize), (self._crcs, whole * _CRC.itemsize)):
            with file.open("r+b") as out:
                out.truncate(length)
        return done


def _write_at(file: Path, offset: int, content: bytes) -> None:
    # Not through a memory map, where a full disk ends the process.
    with file.open("r+b") as stream:
        stream.seek(offset)
        stream.write(content)


def _crc(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CRC.itemsize, "little")


def crc_of(file: Path) -> int:
    """CRC-32 of a file's content. Raises OSError."""
    crc = 0
    with file.open("rb") as stream:
        while block := stream.read(_READ_AT_ONCE):
            crc = zlib.crc32(block, crc)
    return crc

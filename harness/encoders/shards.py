"""The files of the vector cache, and the index of the keys in them.

A *shard* is one file, written under a temporary name and then renamed, never changed: three arrays in NumPy's NPY
format, one after the other: JSON metadata (bytes), keys (n,) and vectors (n, dim) float32. The vectors are
memory-mapped while they are read. A shard that another process deletes only has to be computed again.

Every byte is under a CRC-32, which sees any single flipped bit. One CRC, in the metadata, is of keys and vectors: it is
checked when a process first reads vectors of the shard. The other, the last four bytes of the file, is of all that
stands before the vectors: it is checked when the shard is opened. (Shards that end with the vectors are older, and are
read all the same.)

The index grows shard by shard, to tens of millions of keys. Its keys are in sorted *runs*, each at least twice as long
as the next, as in a log-structured merge tree. New keys become one run with all the runs that are not twice as long; so
a key is sorted O(log n) times in all, and searched for in O(log n) runs. A key takes 24 bytes, its own 16 and 8 for the
place, and up to 24 more while runs are merged.
"""

from __future__ import annotations

import io
import json
import os
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, TypedDict
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from harness.core import files
from harness.core.errors import InputError
from harness.core.escaping import terminal_line
from harness.core.schema import Amount, Count, Number, decoded
from harness.encoders.encoder import Conditions, Encoder

KEY_BYTES = 16
KEY = np.dtype(f"S{KEY_BYTES}")
ENDING = ".shard"
_CRC_BYTES = 4

_ROW_BITS = 32  # the low bits of a place are the row, the others the shard's number


class _Run(NamedTuple):
    """Keys in the order of their first halves, and their places; (n,) each."""

    firsts: NDArray[np.uint64]
    seconds: NDArray[np.uint64]
    places: NDArray[np.int64]


class Index:
    """Maps keys to numbers of shards and rows. Of a key that is in several shards, `find` gives one place."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(len(run.places) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(column.nbytes for run in self._runs for column in run)

    def add(self, shard: int, keys: NDArray[np.bytes_]) -> None:
        """Index the keys of a shard, (n,) of 16 bytes, in the order of its rows."""
        if not len(keys):
            return
        parts = [_Run(*_halves(keys), (shard << _ROW_BITS) + np.arange(len(keys), dtype=np.int64))]
        total = len(keys)
        while self._runs and len(self._runs[-1].places) < 2 * total:
            parts.append(self._runs.pop())
            total += len(parts[-1].places)
        self._runs.append(_merged(parts))

    def find(self, keys: NDArray[np.bytes_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shard and the row of every key; shard -1 where a key is not there."""
        places = np.full(len(keys), -1, dtype=np.int64)
        firsts, seconds = _halves(keys)
        for run in self._runs:
            missing = np.flatnonzero(places < 0)
            places[missing] = _search(run, firsts[missing], seconds[missing])
        return places >> _ROW_BITS, places & ((1 << _ROW_BITS) - 1)

    def forget(self, shards: Iterable[int]) -> None:
        """Drop all that is in these shards."""
        lost = np.fromiter(shards, dtype=np.int64)
        kept = (~np.isin(run.places >> _ROW_BITS, lost) for run in self._runs)
        runs = [_Run._make(column[keep] for column in run) for run, keep in zip(self._runs, kept, strict=True)]
        self._runs = [run for run in runs if len(run.places)]


def _merged(parts: list[_Run]) -> _Run:
    """Merges runs into one; empties `parts`, so that each old column is freed as soon as there is a new one."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()
    order = np.argsort(np.concatenate(columns[0]))
    merged = []
    for column in columns:
        merged.append(np.concatenate(column)[order])
        column.clear()
    return _Run(*merged)


def _halves(keys: NDArray[np.bytes_]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first and the last 8 bytes of keys as numbers, which have the same order and are sorted much faster."""
    halves = np.ascontiguousarray(keys).view(">u8").reshape(len(keys), 2).astype(np.uint64)
    return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])


def _search(run: _Run, firsts: NDArray[np.uint64], seconds: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The places of keys in a run, -1 where a key is not there."""
    places = np.full(len(firsts), -1, dtype=np.int64)
    at, rows = np.searchsorted(run.firsts, firsts), np.arange(len(firsts))
    while len(rows):
        at, rows = _keep(at < len(run.firsts), at, rows)
        at, rows = _keep(run.firsts[at] == firsts[rows], at, rows)
        is_it = run.seconds[at] == seconds[rows]
        places[rows[is_it]] = run.places[at[is_it]]
        at, rows = _keep(~is_it, at + 1, rows)  # keys whose first halves are equal are neighbours
    return places


def _keep(
    chosen: NDArray[np.bool_], at: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return at[chosen], rows[chosen]


class _Required(TypedDict):
    name: str
    fingerprint: str
    seconds: Amount
    crc32: Count


class _Meta(_Required, total=False):
    conditions: dict[str, str | int | Number]  # older shards lack them
    usage: dict[str, Amount]


@dataclass(frozen=True)
class Effort:
    """How vectors were made.

    Attributes:
        seconds: what encoding them took.
        conditions: what they depend on by rounding.
        usage: what encoding them took of what the encoder counts (tokens, say).
    """

    seconds: float
    conditions: Conditions = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)

    def plus(self, other: Effort, share: float) -> Effort:
        """The effort of these vectors and of a share of others; of a condition that differs, all values in a text."""
        conditions = dict(self.conditions)
        for key, value in other.conditions.items():
            if conditions.setdefault(key, value) != value:
                both = {part for text in (conditions[key], value) for part in str(text).split(", ")}
                conditions[key] = ", ".join(sorted(both))
        usage = {key: self.usage.get(key, 0.0) + share * value for key, value in other.usage.items()}
        return Effort(self.seconds + share * other.seconds, conditions, self.usage | usage)


_UNKNOWN: Conditions = {"threads": "unknown"}


@dataclass
class Shard:
    """A file of vectors.

    Attributes:
        path: the file.
        shape: of the vectors.
        offset: of the vectors in the file, in bytes.
        effort: how they were made.
        crc32: of keys and vectors, as it is written in the file.
        keys_crc32: of the keys, as they were read.
        is_checked: whether the vectors have been held against `crc32`.
    """

    path: Path
    shape: tuple[int, ...]
    offset: int
    effort: Effort
    crc32: int
    keys_crc32: int
    is_checked: bool = False

    def read(self, dim: int) -> NDArray[np.float32]:
        """The vectors, of length `dim`, memory-mapped: dropped after use, they take no memory and no file descriptor.

        Raises:
            FileNotFoundError: the file was deleted.
            OSError: it is no file any more.
            ValueError: the file does not hold what was written, which is checked once.
        """
        if self.shape[1] != dim:  # a single number would be taken for as many
            raise ValueError(f"holds vectors of length {self.shape[1]}, not {dim}")
        vectors = np.memmap(self.path, dtype=np.float32, mode="r", offset=self.offset, shape=self.shape)
        if not self.is_checked and zlib.crc32(vectors.data, self.keys_crc32) != self.crc32:
            raise ValueError("checksum differs")
        self.is_checked = True
        return vectors


def write_shard(
    folder: Path, encoder: Encoder, keys: NDArray[np.bytes_], vectors: NDArray[np.float32], effort: Effort
) -> Shard:
    """Write a shard, (n,) keys and (n, dim) vectors, into an encoder's folder.

    Raises:
        InputError: the folder cannot be written.
    """
    keys_crc32 = zlib.crc32(keys.data)
    crc32 = zlib.crc32(vectors.data, keys_crc32)
    meta = {"name": encoder.name, "fingerprint": encoder.fingerprint, "crc32": crc32, **asdict(effort)}
    stream = io.BytesIO()
    np.save(stream, np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8))
    np.save(stream, keys)
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(vectors))
    head = stream.getvalue()
    path = folder / f"{uuid4().hex}{ENDING}"
    try:
        with suppress(FileNotFoundError):  # another process clears the cache at this moment; it won't the next
            _write_parts(path, head, vectors)
        if not path.exists():
            _write_parts(path, head, vectors)
    except OSError as error:
        raise InputError(
            f"cache folder {folder} cannot be written ({error.strerror}); free some space or give --cache-dir"
        ) from None
    return Shard(path, vectors.shape, len(head), effort, crc32, keys_crc32)


def _write_parts(path: Path, head: bytes, vectors: NDArray[np.float32]) -> None:
    with files.replacing(path) as stream:
        stream.write(head)
        stream.write(vectors.data)
        stream.write(_head_crc(head))


def _head_crc(head: bytes) -> bytes:
    return zlib.crc32(head).to_bytes(_CRC_BYTES, "little")


def open_shard(path: Path) -> tuple[Shard, NDArray[np.bytes_]] | None:
    """Opens a shard and reads its keys, (n,); None if it is gone or, with a warning, if it is damaged.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with _opened(path) as stream:
            meta = _meta(stream)
            keys = np.lib.format.read_array(stream, allow_pickle=False)
            np.lib.format.read_magic(stream)
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            if keys.dtype != KEY or keys.ndim != 1 or dtype != np.float32 or shape[:-1] != keys.shape or shape[1] < 0:
                raise ValueError(f"holds {keys.dtype} of shape {keys.shape} and {dtype} of shape {shape}")
            offset = stream.tell()
            stream.seek(0)
            head = stream.read(offset)
            stream.seek(offset + 4 * shape[0] * shape[1])
            if stream.read(_CRC_BYTES + 1) not in (_head_crc(head), b""):
                raise ValueError("checksum differs")
        effort = Effort(meta["seconds"], meta.get("conditions", _UNKNOWN), meta.get("usage", {}))
        return Shard(path, shape, offset, effort, meta["crc32"], zlib.crc32(keys.data)), keys
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cache file {path} cannot be read ({error.strerror}); give --cache-dir") from None
    except Exception as error:  # NumPy's reader raises many types: the file may hold anything
        discard(path, f"is damaged ({error})")
        return None


def _opened(path: Path) -> IO[bytes]:
    """Open a shard for reading. Raises OSError; ValueError for a folder, a loop of links, a fifo (it would block)."""
    if not path.is_file() and os.path.lexists(path):
        raise ValueError("no file")
    return path.open("rb")


def _meta(stream: IO[bytes]) -> _Meta:
    return decoded(np.lib.format.read_array(stream, allow_pickle=False).tobytes(), _Meta)


def discard(path: Path, reason: str) -> None:
    """Delete a shard that is damaged or gone, with a warning: its sentences count as missing from now on."""
    print(terminal_line(f"warning: cache file {path.name} {reason}; its vectors are computed again"), file=sys.stderr)
    with suppress(OSError):  # gone; or a folder, in which may be anything
        path.unlink()


def encoder_of(path: Path) -> tuple[str, str] | None:
    """The name and the fingerprint of the encoder that made a shard; None if it cannot be read."""
    try:
        with _opened(path) as stream:
            meta = _meta(stream)
    except Exception:  # see open_shard
        return None
    return meta["name"], meta["fingerprint"]

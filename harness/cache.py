"""A content-addressed cache of sentence vectors on disk.

A vector's key is a hash of the sentence and, where the encoder uses it, the language; each encoder fingerprint has
its own folder of *shards*. A shard is one file, written under a temporary name and then renamed, never changed:
three arrays in NumPy's NPY format, one after the other: JSON metadata (bytes), keys (n,) and vectors (n, dim) float32.
The vectors are memory-mapped while they are read. A shard that another process deletes only has to be computed again.

Every byte is under a CRC-32, which sees any single flipped bit: one of keys and vectors, in the metadata, is checked
when a process first reads vectors of the shard; one of all that stands before the vectors, the last four bytes of the
file, when the shard is opened. (Shards that end with the vectors are older, and are read all the same.)
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import IO, TypedDict
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from harness import files
from harness.encoder import Encoder
from harness.errors import InputError
from harness.escaping import terminal_line
from harness.index import KEY_BYTES, Index
from harness.memory import InParts
from harness.schema import Amount, Count, decoded

CHUNK = 4096
"""Sentences that are encoded, checked and stored at a time: what a kill can lose."""

_KEY = np.dtype(f"S{KEY_BYTES}")
_CRC_BYTES = 4


def default_cache_dir() -> Path:
    """`$HARNESS_CACHE`, else the user's cache folder. Raises InputError as `cache_folder`."""
    from platformdirs import user_cache_path

    return cache_folder(os.environ.get("HARNESS_CACHE") or user_cache_path("multilingual-embedding-harness"))


def cache_folder(given: str | Path) -> Path:
    """A cache folder as a user has named it, `~` expanded; it need not be there.

    Raises:
        InputError: there can be no such folder: an unknown user's, a name that is too long.
    """
    try:
        folder = files.user_path(given)
        with suppress(FileNotFoundError, NotADirectoryError):  # said where something is to be written
            folder.stat()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"cache folder {given} cannot be used ({reason}); set HARNESS_CACHE or give --cache-dir"
        ) from None
    return folder


@dataclass(frozen=True)
class Encoded:
    """Vectors of a list of sentences.

    Attributes:
        vectors: float32 (n, dim).
        n_distinct, n_new: distinct sentences among them, and those of them that had to be encoded now.
        seconds: what encoding the distinct sentences took, now or when they were encoded.
    """

    vectors: NDArray[np.float32]
    n_distinct: int
    n_new: int
    seconds: float


def default_max_bytes() -> int:
    """`$HARNESS_CACHE_GB` in bytes, else 20 GB. Raises InputError if it is no number, or a negative one."""
    text = os.environ.get("HARNESS_CACHE_GB") or "20"
    try:
        n_bytes = float(text) * 1e9 if text.isascii() else -1.0
    except ValueError:
        n_bytes = -1.0
    if not (n_bytes >= 0 and isfinite(n_bytes)):
        raise InputError(f"HARNESS_CACHE_GB is a number of gigabytes, 0 or more, not {text!r}")
    return int(n_bytes)


class VectorCache:
    """The vectors of every encoder below one folder.

    When an encoder is opened, and while vectors are added, those of other encoders are deleted, the least recently used
    first, until at most `max_bytes` are left; but none that this or another process has open. Where that leaves more,
    a warning says so once.
    """

    def __init__(self, root: str | Path | None = None, max_bytes: int | None = None):
        self.root = (cache_folder(root) if root is not None else default_cache_dir()) / "vectors"
        self.max_bytes = default_max_bytes() if max_bytes is None else max_bytes
        self._n_bytes = self._look_at = 0  # in the cache, as far as is known, and when to look again
        self._is_said = False

    def of(self, encoder: Encoder) -> EncoderVectors:
        """The cache of one encoder, which stays as long as the object that is returned is in use."""
        try:
            digest = blake2b(encoder.fingerprint.encode(), digest_size=16).hexdigest()
        except UnicodeEncodeError:
            raise InputError(
                f"encoder {encoder.name!r}: its fingerprint {encoder.fingerprint!r} holds half of a surrogate pair"
            ) from None
        folder = self.root / digest
        claim = _claim(folder)
        self._make_room(folder)
        return EncoderVectors(claim, encoder, partial(self._grown, folder))

    def size(self) -> dict[str, int]:
        """Bytes in the cache by encoder (its name and fingerprint)."""
        sizes: dict[str, int] = {}
        for folder in self._folders():
            shards = files.listed(folder, ".shard")
            if shards:
                named = next((f"{meta['name']} {meta['fingerprint']}" for meta in map(_read_meta, shards) if meta), "?")
                sizes[named] = sizes.get(named, 0) + sum(map(_bytes_of, shards))
        return sizes

    def clear(self) -> int:
        """Delete all vectors; returns the number of bytes freed."""
        freed = sum(_bytes_in(folder) for folder in self._folders())
        shutil.rmtree(self.root, ignore_errors=True)
        return freed

    def _folders(self) -> list[Path]:
        """The encoders' folders, the least recently used first."""
        return sorted((path for path in files.listed(self.root) if path.is_dir()), key=_last_used)

    def _grown(self, folder: Path, n_bytes: int) -> None:
        """So many bytes were added to an encoder's folder."""
        self._n_bytes += n_bytes
        if self._n_bytes > self._look_at:
            self._make_room(folder)

    def _make_room(self, keep: Path) -> None:
        sizes = {}
        for folder in self._folders():
            with suppress(OSError):  # another user's
                files.remove_abandoned(files.listed(folder, files.SUFFIX))
            sizes[folder] = _bytes_in(folder)
        self._n_bytes = sum(sizes.values())
        for folder, size in sizes.items():
            if self._n_bytes > self.max_bytes and folder != keep and files.remove_unclaimed(folder):
                self._n_bytes -= size
        is_too_large = self._n_bytes > self.max_bytes
        # Other processes add too; and looking after every chunk at all that is there would be quadratic.
        later = self._n_bytes + max(self._n_bytes, self.max_bytes) // 10
        self._look_at = later if is_too_large else min(later, self.max_bytes)
        if is_too_large and not self._is_said:
            self._is_said = True
            said = (
                f"warning: the vectors in {self.root} take {_mb(self._n_bytes)}, more than the limit of "
                f"{_mb(self.max_bytes)}, and those that are left are in use; set HARNESS_CACHE_GB higher, or free the "
                "space afterwards: leaderboard cache clear"
            )
            print(terminal_line(said), file=sys.stderr)


class EncoderVectors:
    """One encoder's vectors: from the cache where they are there, else encoded once and kept."""

    def __init__(self, claim: files.Claim, encoder: Encoder, on_growth: Callable[[int], None]):
        self._claim, self._folder, self._encoder, self._on_growth = claim, claim.folder, encoder, on_growth
        self._in_parts = InParts(encoder)
        self._shards: dict[int, _Shard] = {}
        self._n_shards = 0  # so far, also those that have been forgotten
        self._index = Index()
        for path in files.listed(self._folder, ".shard"):
            if (found := _open_shard(path)) is not None:
                self._add(*found)

    def __enter__(self) -> EncoderVectors:
        return self

    def __exit__(self, *_: object) -> None:
        """Other processes may evict it from now on, if there is no other object for it."""
        self._claim.release()

    def encode(
        self, sentences: Sequence[str], lang: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Encoded:
        """The vectors of `sentences`, row by row; `progress(done, total)` counts sentences that must be encoded.

        Raises:
            InputError: the encoder returned NaN, infinity or a wrong shape, or the cache cannot be written.
        """
        keys = self._hash(sentences, lang)
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        n_new = 0
        for _ in range(3):  # again where a shard turns out to be damaged, or another process deletes it
            missing = first[self._index.find(distinct)[0] < 0]
            # Longest first: batches of even length, and a too large batch fails at once rather than at the end.
            lengths = np.fromiter((len(sentences[i]) for i in missing), dtype=np.int64, count=len(missing))
            missing = missing[np.argsort(-lengths, kind="stable")]
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                self._encode_chunk(sentences, chunk, keys[chunk], lang)
                if progress:
                    progress(min(start + CHUNK, len(missing)), len(missing))
            n_new += len(missing)
            shards, rows = self._index.find(distinct)
            vectors = np.empty((len(sentences), self._encoder.dim), dtype=np.float32)
            if self._gather(shards[inverse], rows[inverse], vectors):
                break
        else:
            raise InputError(f"cache folder {self._folder} does not keep what is written to it; give --cache-dir")
        seconds = 0.0
        for number, count in zip(*np.unique(shards, return_counts=True), strict=True):
            shard = self._shards[int(number)]
            seconds += shard.seconds / shard.shape[0] * int(count)
        return Encoded(vectors, len(distinct), n_new, seconds)

    def stored(
        self, sentences: Sequence[str], lang: str | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows of `sentences` whose vectors are in the cache, (m,), and these, (m, dim); nothing is encoded."""
        keys = self._hash(sentences, lang)
        while True:  # again where a shard turns out to be damaged, and is forgotten
            shards, rows = self._index.find(keys)
            is_there = shards >= 0
            vectors = np.empty((int(is_there.sum()), self._encoder.dim), dtype=np.float32)
            if self._gather(shards[is_there], rows[is_there], vectors):
                return np.flatnonzero(is_there), vectors

    def _gather(self, shards: NDArray[np.int64], rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> bool:
        """Fill `vectors` from rows of shards; False, after forgetting them, if some are damaged or gone."""
        order = np.argsort(shards, kind="stable")
        numbers, starts = np.unique(shards[order], return_index=True)
        lost = []
        for number, places in zip(numbers.tolist(), np.split(order, starts[1:]), strict=False):
            shard = self._shards[number]
            try:
                vectors[places] = shard.read(vectors.shape[1])[rows[places]]
            except FileNotFoundError:
                _warn(shard.path, "was deleted")
                lost.append(number)
            except (OSError, ValueError) as error:
                _warn(shard.path, f"is damaged ({error})")
                lost.append(number)
        if lost:
            self._forget(lost)
        return not lost

    def _encode_chunk(
        self, sentences: Sequence[str], rows: NDArray[np.int64], keys: NDArray[np.bytes_], lang: str | None
    ) -> None:
        chunk = [sentences[row] for row in rows.tolist()]
        start = time.perf_counter()
        vectors = self._in_parts.encode(chunk, lang, rows)
        seconds = time.perf_counter() - start
        if not self._claim.is_valid:  # the cache has been cleared
            self._claim = _claim(self._folder)
        shard = _write_shard(self._folder, self._encoder, keys, vectors, seconds)
        self._add(shard, keys)
        self._on_growth(_bytes_of(shard.path))

    def _hash(self, sentences: Sequence[str], lang: str | None) -> NDArray[np.bytes_]:
        prefix = f"{lang or ''}\0" if self._encoder.uses_lang else ""
        digests = b"".join(
            blake2b((prefix + text).encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
            for text in sentences
        )
        return np.frombuffer(digests, dtype=_KEY)

    def _add(self, shard: _Shard, keys: NDArray[np.bytes_]) -> None:
        self._index.add(self._n_shards, keys)
        self._shards[self._n_shards] = shard
        self._n_shards += 1

    def _forget(self, damaged: list[int]) -> None:
        """Delete damaged shards, so that their sentences count as missing."""
        for number in damaged:
            _discard(self._shards.pop(number).path)
        self._index.forget(damaged)


def _claim(folder: Path) -> files.Claim:
    """Mark an encoder's folder as in use, and used last."""
    try:
        claim = files.Claim(folder)
        os.utime(folder)
    except OSError as error:
        raise InputError(f"cache folder {folder} cannot be written ({error.strerror}); give --cache-dir") from None
    return claim


class _Meta(TypedDict):
    name: str
    fingerprint: str
    seconds: Amount
    crc32: Count


@dataclass
class _Shard:
    path: Path
    shape: tuple[int, ...]
    offset: int  # of the vectors in the file
    seconds: float
    crc32: int  # of keys and vectors
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


def _write_shard(
    folder: Path, encoder: Encoder, keys: NDArray[np.bytes_], vectors: NDArray[np.float32], seconds: float
) -> _Shard:
    keys_crc32 = zlib.crc32(keys.data)
    crc32 = zlib.crc32(vectors.data, keys_crc32)
    meta: _Meta = {"name": encoder.name, "fingerprint": encoder.fingerprint, "seconds": seconds, "crc32": crc32}
    stream = io.BytesIO()
    np.save(stream, np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8))
    np.save(stream, keys)
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(vectors))
    head = stream.getvalue()
    path = folder / f"{uuid4().hex}.shard"
    try:
        with suppress(FileNotFoundError):  # another process clears the cache at this moment; it won't the next
            _write_parts(path, head, vectors)
        if not path.exists():
            _write_parts(path, head, vectors)
    except OSError as error:
        raise InputError(
            f"cache folder {folder} cannot be written ({error.strerror}); free some space or give --cache-dir"
        ) from None
    return _Shard(path, vectors.shape, len(head), seconds, crc32, keys_crc32)


def _write_parts(path: Path, head: bytes, vectors: NDArray[np.float32]) -> None:
    with files.replacing(path) as stream:
        stream.write(head)
        stream.write(vectors.data)
        stream.write(_head_crc(head))


def _head_crc(head: bytes) -> bytes:
    return zlib.crc32(head).to_bytes(_CRC_BYTES, "little")


def _open_shard(path: Path) -> tuple[_Shard, NDArray[np.bytes_]] | None:
    """A shard and its keys; None if it is gone or, with a warning, if it is no shard.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with _opened(path) as stream:
            meta = _meta(stream)
            keys = np.lib.format.read_array(stream, allow_pickle=False)
            np.lib.format.read_magic(stream)
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            if keys.dtype != _KEY or keys.ndim != 1 or dtype != np.float32 or shape[:-1] != keys.shape or shape[1] < 0:
                raise ValueError(f"holds {keys.dtype} of shape {keys.shape} and {dtype} of shape {shape}")
            offset = stream.tell()
            stream.seek(0)
            head = stream.read(offset)
            stream.seek(offset + 4 * shape[0] * shape[1])
            if stream.read(_CRC_BYTES + 1) not in (_head_crc(head), b""):
                raise ValueError("checksum differs")
        return _Shard(path, shape, offset, meta["seconds"], meta["crc32"], zlib.crc32(keys.data)), keys
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cache file {path} cannot be read ({error.strerror}); give --cache-dir") from None
    except Exception as error:  # whatever NumPy's reader raises, which is much: the file may hold anything
        _warn(path, f"is damaged ({error})")
        _discard(path)
        return None


def _opened(path: Path) -> IO[bytes]:
    """Open a shard for reading. Raises OSError; ValueError for a folder, a loop of links, a fifo (it would block)."""
    if not path.is_file() and os.path.lexists(path):
        raise ValueError("no file")
    return path.open("rb")


def _meta(stream: IO[bytes]) -> _Meta:
    return decoded(np.lib.format.read_array(stream, allow_pickle=False).tobytes(), _Meta)


def _discard(path: Path) -> None:
    with suppress(OSError):  # gone; or a folder, in which may be anything
        path.unlink()


def _warn(path: Path, what: str) -> None:
    said = f"warning: cache file {path.name} {what}; its vectors are computed again"
    print(terminal_line(said), file=sys.stderr)


def _read_meta(path: Path) -> _Meta | None:
    try:
        with _opened(path) as stream:
            return _meta(stream)
    except Exception:  # see _open_shard
        return None


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"


# Other processes may delete what has just been listed.


def _last_used(folder: Path) -> float:
    with suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


def _bytes_of(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _bytes_in(folder: Path) -> int:
    with suppress(OSError):
        return sum(_bytes_of(path) for path in folder.iterdir())
    return 0

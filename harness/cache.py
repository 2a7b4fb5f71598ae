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
from hashlib import blake2b
from pathlib import Path
from tokenize import TokenError  # of NumPy's reader, from a header that is damaged
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from harness import files
from harness.encoder import Encoder, check_vectors
from harness.errors import InputError
from harness.memory import encode_if_it_fits

CHUNK = 4096
"""Sentences that are encoded, checked and stored at a time: what a kill can lose."""

_KEY_BYTES = 16
_CRC_BYTES = 4


def default_cache_dir() -> Path:
    """`$HARNESS_CACHE`, else the user's cache folder."""
    from platformdirs import user_cache_path

    return Path(os.environ.get("HARNESS_CACHE") or user_cache_path("multilingual-embedding-harness"))


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
    """`$HARNESS_CACHE_GB` in bytes, else 20 GB. Raises InputError if it is no number."""
    text = os.environ.get("HARNESS_CACHE_GB") or "20"
    try:
        return int(float(text) * 1e9)
    except ValueError:
        raise InputError(f"HARNESS_CACHE_GB is a number of gigabytes, not {text!r}") from None


class VectorCache:
    """The vectors of every encoder below one folder.

    When an encoder is opened, others are deleted, the least recently used first, until at most `max_bytes` are left.
    """

    def __init__(self, root: str | Path | None = None, max_bytes: int | None = None):
        self.root = (Path(root) if root is not None else default_cache_dir()) / "vectors"
        self.max_bytes = default_max_bytes() if max_bytes is None else max_bytes

    def of(self, encoder: Encoder) -> EncoderVectors:
        """The cache of one encoder."""
        folder = self.root / blake2b(encoder.fingerprint.encode(), digest_size=16).hexdigest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
        except OSError as error:
            raise InputError(
                f"cache folder {self.root} cannot be written ({error.strerror}); give --cache-dir"
            ) from None
        self._evict(keep=folder)
        return EncoderVectors(folder, encoder)

    def size(self) -> dict[str, int]:
        """Bytes in the cache by encoder (its name and fingerprint)."""
        sizes = {}
        for folder in self._folders():
            shards = files.listed(folder, ".shard")
            if shards:
                meta = _read_meta(shards[0])
                sizes[f"{meta.get('name')} {meta.get('fingerprint')}"] = sum(map(_bytes_of, shards))
        return sizes

    def clear(self) -> int:
        """Delete all vectors; returns the number of bytes freed."""
        freed = sum(_bytes_in(folder) for folder in self._folders())
        shutil.rmtree(self.root, ignore_errors=True)
        return freed

    def _folders(self) -> list[Path]:
        """The encoders' folders, the least recently used first."""
        return sorted((path for path in files.listed(self.root) if path.is_dir()), key=_last_used)

    def _evict(self, keep: Path) -> None:
        sizes = {}
        for folder in self._folders():
            files.remove_abandoned(files.listed(folder, files.SUFFIX))
            sizes[folder] = _bytes_in(folder)
        excess = sum(sizes.values()) - self.max_bytes
        for folder, size in sizes.items():
            if excess > 0 and folder != keep:
                shutil.rmtree(folder, ignore_errors=True)
                excess -= size


class EncoderVectors:
    """One encoder's vectors: from the cache where they are there, else encoded once and kept."""

    def __init__(self, folder: Path, encoder: Encoder):
        self._folder, self._encoder = folder, encoder
        self._fitting = CHUNK  # sentences at a time, at least, for which there was memory so far
        self._shards: list[_Shard] = []
        self._keys = np.empty(0, dtype=f"S{_KEY_BYTES}")  # sorted
        self._places = np.empty((0, 2), dtype=np.int64)  # shard and row of each key
        for path in files.listed(folder, ".shard"):
            shard = _open_shard(path)
            if shard is not None:
                self._shards.append(shard)
        self._index_all()

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
            missing = first[self._find(distinct) < 0]
            # Longest first: batches of even length, and a too large batch fails at once rather than at the end.
            missing = missing[np.argsort([-len(sentences[i]) for i in missing], kind="stable")]
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                self._encode_chunk(sentences, chunk, keys[chunk], lang)
                if progress:
                    progress(min(start + CHUNK, len(missing)), len(missing))
            n_new += len(missing)
            places = self._places[self._find(distinct)]
            vectors = np.empty((len(sentences), self._encoder.dim), dtype=np.float32)
            if self._gather(places[inverse], vectors):
                break
        else:
            raise InputError(f"cache folder {self._folder} does not keep what is written to it; give --cache-dir")
        seconds = 0.0
        for number in np.unique(places[:, 0]).tolist():
            shard = self._shards[number]
            seconds += shard.seconds / len(shard.keys) * int((places[:, 0] == number).sum())
        return Encoded(vectors, len(distinct), n_new, seconds)

    def stored(
        self, sentences: Sequence[str], lang: str | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows of `sentences` whose vectors are in the cache, (m,), and these, (m, dim); nothing is encoded."""
        keys = self._hash(sentences, lang)
        while True:  # again where a shard turns out to be damaged, and is forgotten
            places = self._find(keys)
            rows = np.flatnonzero(places >= 0)
            vectors = np.empty((len(rows), self._encoder.dim), dtype=np.float32)
            if self._gather(self._places[places[rows]], vectors):
                return rows, vectors

    def _gather(self, places: NDArray[np.int64], vectors: NDArray[np.float32]) -> bool:
        """Fill `vectors` from the shards; False, after forgetting them, if some are damaged or gone."""
        order = np.argsort(places[:, 0], kind="stable")
        numbers, starts = np.unique(places[order, 0], return_index=True)
        ends = np.append(starts[1:], len(order))[: len(starts)]
        lost = []
        for number, start, end in zip(numbers.tolist(), starts, ends, strict=True):
            rows = order[start:end]
            shard = self._shards[number]
            try:
                vectors[rows] = shard.read()[places[rows, 1]]
            except FileNotFoundError:
                _warn(shard.path, "was deleted")
                lost.append(number)
            except ValueError as error:
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
        vectors = self._encode_in_parts(chunk, rows, lang)
        shard = _write_shard(self._folder, self._encoder, keys, vectors, time.perf_counter() - start)
        self._add(shard)

    def _encode_in_parts(self, chunk: list[str], rows: NDArray[np.int64], lang: str | None) -> NDArray[np.float32]:
        """The vectors of a chunk: all at once, or where memory does not suffice in halves, in quarters, and so on."""
        parts: list[NDArray[np.float32]] = []
        done, size = 0, len(chunk)
        while done < len(chunk):
            some = slice(done, done + size)
            vectors = encode_if_it_fits(self._encoder, chunk[some], lang)
            if vectors is None:
                size = -(-min(size, len(chunk) - done) // 2)
                continue
            parts.append(check_vectors(vectors, chunk[some], self._encoder, rows=rows[some]))
            done += size
            if size < min(len(chunk), self._fitting):
                self._fitting = size
                print(
                    f"warning: memory ran out; {self._encoder.name} encodes {size:,} sentences at a time",
                    file=sys.stderr,
                )
        return np.concatenate(parts)

    def _hash(self, sentences: Sequence[str], lang: str | None) -> NDArray[np.bytes_]:
        prefix = f"{lang or ''}\0" if self._encoder.uses_lang else ""
        digests = b"".join(
            blake2b((prefix + text).encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
            for text in sentences
        )
        return np.frombuffer(digests, dtype=f"S{_KEY_BYTES}")

    def _find(self, keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Positions in the index, -1 where a key is not there."""
        if len(self._keys) == 0:
            return np.full(len(keys), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, at, -1)

    def _add(self, shard: _Shard) -> None:
        """Index one more shard, by insertion: sorting all keys again for every chunk would be quadratic."""
        order = np.argsort(shard.keys)
        at = np.searchsorted(self._keys, shard.keys[order])
        self._keys = np.insert(self._keys, at, shard.keys[order])
        places = np.column_stack([np.full(len(order), len(self._shards)), order])
        self._places = np.insert(self._places, at, places, axis=0)
        self._shards.append(shard)

    def _index_all(self) -> None:
        sizes = [len(shard.keys) for shard in self._shards]
        places = np.empty((sum(sizes), 2), dtype=np.int64)
        places[:, 0] = np.repeat(np.arange(len(sizes)), sizes)
        places[:, 1] = [row for size in sizes for row in range(size)]
        keys = np.concatenate([shard.keys for shard in self._shards] or [self._keys[:0]])
        self._keys, first = np.unique(keys, return_index=True)
        self._places = places[first]

    def _forget(self, damaged: list[int]) -> None:
        """Delete damaged shards, so that their sentences count as missing."""
        for number in damaged:
            self._shards[number].path.unlink(missing_ok=True)
        self._shards = [shard for number, shard in enumerate(self._shards) if number not in damaged]
        self._index_all()


@dataclass
class _Shard:
    path: Path
    keys: NDArray[np.bytes_]
    shape: tuple[int, ...]
    offset: int  # of the vectors in the file
    seconds: float
    crc32: int
    is_checked: bool = False

    def read(self) -> NDArray[np.float32]:
        """The vectors, memory-mapped: dropped after use, they take neither memory nor a file descriptor.

        Raises:
            FileNotFoundError: the file was deleted.
            ValueError: the file does not hold what was written, which is checked once.
        """
        vectors = np.memmap(self.path, dtype=np.float32, mode="r", offset=self.offset, shape=self.shape)
        if not self.is_checked and _checksum(self.keys, vectors) != self.crc32:
            raise ValueError("checksum differs")
        self.is_checked = True
        return vectors


def _checksum(keys: NDArray[np.bytes_], vectors: NDArray[np.float32]) -> int:
    return zlib.crc32(vectors.data, zlib.crc32(keys.data))


def _write_shard(
    folder: Path, encoder: Encoder, keys: NDArray[np.bytes_], vectors: NDArray[np.float32], seconds: float
) -> _Shard:
    crc32 = _checksum(keys, vectors)
    meta = {"name": encoder.name, "fingerprint": encoder.fingerprint, "seconds": seconds, "crc32": crc32}
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
    return _Shard(path, keys, vectors.shape, len(head), seconds, crc32)


def _write_parts(path: Path, head: bytes, vectors: NDArray[np.float32]) -> None:
    with files.replacing(path) as stream:
        stream.write(head)
        stream.write(vectors.data)
        stream.write(_head_crc(head))


def _head_crc(head: bytes) -> bytes:
    return zlib.crc32(head).to_bytes(_CRC_BYTES, "little")


def _open_shard(path: Path) -> _Shard | None:
    """A shard; None if it is gone or, after deleting it with a warning, if it is no shard.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            meta = json.loads(np.lib.format.read_array(stream, allow_pickle=False).tobytes())
            keys = np.lib.format.read_array(stream, allow_pickle=False)
            np.lib.format.read_magic(stream)
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            if dtype != np.float32 or len(shape) != 2 or shape[0] != len(keys):
                raise ValueError(f"holds {dtype} of shape {shape}")
            offset = stream.tell()
            stream.seek(0)
            head = stream.read(offset)
            stream.seek(offset + 4 * shape[0] * shape[1])
            if stream.read(_CRC_BYTES + 1) not in (_head_crc(head), b""):
                raise ValueError("checksum differs")
            return _Shard(path, keys, shape, offset, float(meta["seconds"]), int(meta["crc32"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cache file {path} cannot be read ({error.strerror}); give --cache-dir") from None
    except (ValueError, EOFError, KeyError, TypeError, SyntaxError, TokenError) as error:
        _warn(path, f"is damaged ({error})")
        path.unlink(missing_ok=True)
        return None


def _warn(path: Path, what: str) -> None:
    print(f"warning: cache file {path.name} {what}; its vectors are computed again", file=sys.stderr)


def _read_meta(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as stream:
            meta: dict[str, object] = json.loads(np.lib.format.read_array(stream, allow_pickle=False).tobytes())
            return meta
    except (OSError, ValueError, EOFError):
        return {}


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

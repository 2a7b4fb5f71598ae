"""A content-addressed cache of sentence vectors on disk.

A vector's key is a hash of the sentence and, where the encoder uses it, the language; each encoder fingerprint has
its own folder of *shards*. A shard is one file, written under a temporary name and then renamed, never changed:
three arrays in NumPy's NPY format, one after the other: JSON metadata (bytes), keys (n,) and vectors (n, dim) float32,
the last of which is memory-mapped.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.encoder import Encoder, check_vectors
from harness.errors import InputError

CHUNK = 4096
"""Sentences that are encoded, checked and stored at a time: what a kill can lose."""

_KEY_BYTES = 16


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


class VectorCache:
    """The vectors of every encoder below one folder, at most `max_bytes` of them (oldest used encoders go first)."""

    def __init__(self, root: str | Path | None = None, max_bytes: int = 20 << 30):
        self.root = (Path(root) if root is not None else default_cache_dir()) / "vectors"
        self.max_bytes = max_bytes

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
            shards = list(folder.glob("*.shard"))
            if shards:
                meta = _read_meta(shards[0])
                sizes[f"{meta.get('name')} {meta.get('fingerprint')}"] = sum(path.stat().st_size for path in shards)
        return sizes

    def clear(self) -> int:
        """Delete all vectors; returns the number of bytes freed."""
        freed = sum(_bytes_in(folder) for folder in self._folders())
        shutil.rmtree(self.root, ignore_errors=True)
        return freed

    def _folders(self) -> list[Path]:
        """The encoders' folders, the least recently used first."""
        if not self.root.is_dir():
            return []
        return sorted((p for p in self.root.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)

    def _evict(self, keep: Path) -> None:
        sizes = {folder: _bytes_in(folder) for folder in self._folders()}
        excess = sum(sizes.values()) - self.max_bytes
        for folder, size in sizes.items():
            if excess > 0 and folder != keep:
                shutil.rmtree(folder, ignore_errors=True)
                excess -= size


class EncoderVectors:
    """One encoder's vectors: from the cache where they are there, else encoded once and kept."""

    def __init__(self, folder: Path, encoder: Encoder):
        self._folder, self._encoder = folder, encoder
        self._shards: list[_Shard] = []
        self._keys = np.empty(0, dtype=f"S{_KEY_BYTES}")  # sorted
        self._places = np.empty((0, 2), dtype=np.int64)  # shard and row of each key
        for path in sorted(folder.glob("*.shard")):
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
        while True:
            missing = first[self._find(distinct) < 0]
            # Longest first: batches of even length, and a too large batch fails at once rather than at the end.
            missing = missing[np.argsort([-len(sentences[i]) for i in missing], kind="stable")]
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                self._encode_chunk([sentences[i] for i in chunk], keys[chunk], lang)
                if progress:
                    progress(min(start + CHUNK, len(missing)), len(missing))
            n_new += len(missing)
            places = self._places[self._find(distinct)]
            used = np.unique(places[:, 0]).tolist()
            damaged = [number for number in used if not self._shards[number].is_sound()]
            if not damaged:
                break
            self._forget(damaged)
        vectors = np.empty((len(sentences), self._encoder.dim), dtype=np.float32)
        of_sentence = places[inverse]
        seconds = 0.0
        for number in used:
            shard = self._shards[number]
            here = np.flatnonzero(of_sentence[:, 0] == number)
            vectors[here] = shard.vectors[of_sentence[here, 1]]
            seconds += shard.seconds / len(shard.keys) * int((places[:, 0] == number).sum())
        return Encoded(vectors, len(distinct), n_new, seconds)

    def _encode_chunk(self, sentences: list[str], keys: NDArray[np.bytes_], lang: str | None) -> None:
        start = time.perf_counter()
        vectors = check_vectors(self._encoder.encode(sentences, lang=lang), sentences, self._encoder)
        shard = _write_shard(self._folder, self._encoder, keys, vectors, time.perf_counter() - start)
        self._add(shard)

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
    vectors: NDArray[np.float32]  # memory-mapped
    seconds: float
    crc32: int
    checked: bool = False

    def is_sound(self) -> bool:
        """Whether the file still holds what was written; reads it all, once."""
        if not self.checked:
            self.checked = _checksum(self.keys, self.vectors) == self.crc32
            if not self.checked:
                _warn_damaged(self.path, "checksum differs")
        return self.checked


def _checksum(keys: NDArray[np.bytes_], vectors: NDArray[np.float32]) -> int:
    return zlib.crc32(vectors.data, zlib.crc32(keys.data))


def _write_shard(
    folder: Path, encoder: Encoder, keys: NDArray[np.bytes_], vectors: NDArray[np.float32], seconds: float
) -> _Shard:
    meta = {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "seconds": seconds,
        "crc32": _checksum(keys, vectors),
    }
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=folder, suffix=".part")
        with os.fdopen(descriptor, "wb") as stream:
            np.save(stream, np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8))
            np.save(stream, keys)
            np.save(stream, vectors)
            stream.flush()
            os.fsync(stream.fileno())
        path = Path(temporary).with_suffix(".shard")
        Path(temporary).rename(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(
            f"cache folder {folder} cannot be written ({error.strerror}); free some space or give --cache-dir"
        ) from None
    shard = _open_shard(path)
    if shard is None:
        raise InputError(f"cache folder {folder} does not keep what is written to it; give --cache-dir")
    return shard


def _open_shard(path: Path) -> _Shard | None:
    """A shard, its vectors memory-mapped; None, after deleting it with a warning, if it cannot be read."""
    try:
        with path.open("rb") as stream:
            meta = json.loads(np.lib.format.read_array(stream, allow_pickle=False).tobytes())
            keys = np.lib.format.read_array(stream, allow_pickle=False)
            np.lib.format.read_magic(stream)
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            vectors = np.memmap(path, dtype=dtype, mode="r", offset=stream.tell(), shape=shape)
        return _Shard(path, keys, vectors, float(meta["seconds"]), int(meta["crc32"]))
    except (OSError, ValueError, EOFError, KeyError) as error:
        _warn_damaged(path, str(error))
        path.unlink(missing_ok=True)
        return None


def _warn_damaged(path: Path, why: str) -> None:
    print(f"warning: cache file {path.name} is damaged ({why}); its vectors are computed again", file=sys.stderr)


def _read_meta(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as stream:
            meta: dict[str, object] = json.loads(np.lib.format.read_array(stream, allow_pickle=False).tobytes())
            return meta
    except (OSError, ValueError, EOFError):
        return {}


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())

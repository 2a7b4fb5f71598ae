"""A content-addressed cache of sentence vectors on disk.

A vector's key is a hash of the sentence and, where the encoder uses it, the language. Each encoder fingerprint has a
folder of its own, with files that `harness.encoders.shards` writes and reads.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core import files
from harness.core.errors import InputError
from harness.core.escaping import terminal_line
from harness.core.threads import n_threads
from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder, PartialError
from harness.encoders.shards import (
    ENDING,
    KEY,
    KEY_BYTES,
    Effort,
    Index,
    Shard,
    discard,
    encoder_of,
    open_shard,
    write_shard,
)
from harness.encoders.variant import Variant, full_of

CHUNK = 4096
"""Sentences that are encoded, checked and stored at a time: what a kill loses. An encoder may have a `chunk_size`."""


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
        folder = files.user_path(given, "cache folder")
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
        effort: what encoding the distinct sentences took, now or when they were encoded.
    """

    vectors: NDArray[np.float32]
    n_distinct: int
    n_new: int
    effort: Effort


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
        self._n_bytes = self._recount_above = 0  # in the cache, as far as is known; more than which are counted again
        self._has_warned = False

    def of(self, encoder: Encoder) -> EncoderVectors:
        """The cache of one encoder. It is not deleted as long as the returned object is in use.

        Of cut or quantised vectors it is that of the full ones.
        """
        if isinstance(encoder, Variant):
            return _VariantVectors(*self._opened(encoder.base), encoder)
        return EncoderVectors(*self._opened(encoder))

    def _opened(self, encoder: Encoder) -> tuple[files.Claim, Encoder, Callable[[int], None]]:
        folder = self._folder(encoder)
        claim = _claim(folder)
        self._make_room(folder)
        return claim, encoder, partial(self._grown, folder)

    def has(self, encoder: Encoder) -> bool:
        """Whether there is a folder for this encoder."""
        return self._folder(encoder).is_dir()

    def fingerprints(self) -> list[str]:
        """Those of the encoders whose vectors are here, the latest last."""
        found = (next(filter(None, map(encoder_of, files.listed(folder, ENDING))), None) for folder in self._folders())
        return [fingerprint for _, fingerprint in filter(None, found)]

    def size(self) -> dict[str, int]:
        """Bytes in the cache by encoder (its name and fingerprint)."""
        sizes: dict[str, int] = {}
        for folder in self._folders():
            shards = files.listed(folder, ENDING)
            if shards:
                encoder = " ".join(next(filter(None, map(encoder_of, shards)), ("?",)))
                sizes[encoder] = sizes.get(encoder, 0) + sum(map(_bytes_of, shards))
        return sizes

    def clear(self) -> int:
        """Delete all vectors; returns the number of bytes freed."""
        freed = sum(_bytes_in(folder) for folder in self._folders())
        shutil.rmtree(self.root, ignore_errors=True)
        return freed

    def _folder(self, encoder: Encoder) -> Path:
        encoder = full_of(encoder)
        try:
            digest = blake2b(encoder.fingerprint.encode(), digest_size=16).hexdigest()
        except UnicodeEncodeError:
            raise InputError(
                f"encoder {encoder.name!r}: its fingerprint {encoder.fingerprint!r} holds half of a surrogate pair"
            ) from None
        return self.root / digest

    def _folders(self) -> list[Path]:
        """The encoders' folders, the least recently used first."""
        return sorted((path for path in files.listed(self.root) if path.is_dir()), key=_last_used)

    def _grown(self, folder: Path, n_bytes: int) -> None:
        """Count `n_bytes` that were added to an encoder's folder."""
        self._n_bytes += n_bytes
        if self._n_bytes > self._recount_above:
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
        # Other processes add too; but to count all files after every chunk would take quadratic time.
        later = self._n_bytes + max(self._n_bytes, self.max_bytes) // 10
        self._recount_above = later if is_too_large else min(later, self.max_bytes)
        if is_too_large and not self._has_warned:
            self._has_warned = True
            warning = (
                f"warning: the vectors in {self.root} take {_mb(self._n_bytes)}, more than the limit of "
                f"{_mb(self.max_bytes)}, and those that are left are in use; set HARNESS_CACHE_GB higher, or free the "
                "space afterwards: leaderboard cache clear"
            )
            print(terminal_line(warning), file=sys.stderr)


class EncoderVectors:
    """One encoder's vectors: from the cache where they are there, else encoded once and kept."""

    def __init__(self, claim: files.Claim, encoder: Encoder, on_growth: Callable[[int], None]):
        self._claim, self._folder, self._encoder, self._on_growth = claim, claim.folder, encoder, on_growth
        self._in_parts = InParts(encoder)
        self._shards: dict[int, Shard] = {}
        self._n_shards = 0  # so far, also those that have been forgotten
        self._index = Index()
        for path in files.listed(self._folder, ENDING):
            if (opened := open_shard(path)) is not None:
                self._add(*opened)

    def __enter__(self) -> EncoderVectors:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the folder: other processes may delete it, unless another object is in use for it."""
        self._claim.release()

    def encode(
        self, sentences: Sequence[str], lang: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Encoded:
        """The vectors of `sentences`, row by row; `progress(done, total)` counts sentences that must be encoded.

        Raises:
            InputError: the encoder returned NaN, infinity or a wrong shape, or the cache cannot be written.
            Exception: what the encoder raises; of a PartialError its `error`, when its vectors are stored.
        """
        keys = self._hash(sentences, lang)
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        n_new, size = 0, getattr(self._encoder, "chunk_size", None) or CHUNK
        for _ in range(3):  # again where a shard turns out to be damaged, or another process deletes it
            missing = first[self._index.find(distinct)[0] < 0]
            missing = missing[longest_first(sentences, missing)]
            for start in range(0, len(missing), size):
                chunk = missing[start : start + size]
                self._encode_chunk(sentences, chunk, keys[chunk], lang)
                if progress:
                    progress(min(start + size, len(missing)), len(missing))
            n_new += len(missing)
            shards, rows = self._index.find(distinct)
            vectors = np.empty((len(sentences), self._encoder.dim), dtype=np.float32)
            if self._gather(shards[inverse], rows[inverse], vectors):
                break
        else:
            raise InputError(f"cache folder {self._folder} does not keep what is written to it; give --cache-dir")
        effort = Effort(0.0)
        for number, count in zip(*np.unique(shards, return_counts=True), strict=True):
            shard = self._shards[int(number)]
            effort = effort.plus(shard.effort, int(count) / shard.shape[0])
        return Encoded(vectors, len(distinct), n_new, effort)

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

    def missing(self, sentences: Sequence[str], lang: str | None = None) -> list[str]:
        """Those of `sentences` whose vectors are not in the cache; nothing is encoded."""
        shards, _ = self._index.find(self._hash(sentences, lang))
        return [sentences[row] for row in np.flatnonzero(shards < 0).tolist()]

    def _gather(self, shards: NDArray[np.int64], rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> bool:
        """Fill `vectors` from rows of shards; False, after forgetting them, if some are damaged or gone."""
        order = np.argsort(shards, kind="stable")
        numbers, starts = np.unique(shards[order], return_index=True)
        lost = []
        for number, places in zip(numbers.tolist(), np.split(order, starts[1:]), strict=False):
            shard = self._shards[number]
            try:
                vectors[places] = shard.read(vectors.shape[1])[rows[places]]
            except (OSError, ValueError) as error:
                discard(shard.path, "was deleted" if isinstance(error, FileNotFoundError) else f"is damaged ({error})")
                del self._shards[number]
                lost.append(number)
        if lost:
            self._index.forget(lost)
        return not lost

    def _encode_chunk(
        self, sentences: Sequence[str], rows: NDArray[np.int64], keys: NDArray[np.bytes_], lang: str | None
    ) -> None:
        chunk = [sentences[row] for row in rows.tolist()]
        before = _attribute(self._encoder, "usage")
        start, error = time.perf_counter(), None
        try:
            vectors = self._in_parts.encode(chunk, lang, rows)
        except PartialError as partial:
            error, vectors, keys = partial.error, partial.vectors, keys[partial.rows]
        seconds = time.perf_counter() - start
        usage = {key: value - before.get(key, 0) for key, value in _attribute(self._encoder, "usage").items()}
        conditions = {"threads": n_threads(), **_attribute(self._encoder, "conditions")}
        if self._in_parts.smallest < len(chunk):
            conditions["sentences_at_a_time"] = self._in_parts.smallest
        if not self._claim.is_valid:  # the cache has been cleared
            self._claim = _claim(self._folder)
        shard = write_shard(self._folder, self._encoder, keys, vectors, Effort(seconds, conditions, usage))
        self._add(shard, keys)
        self._on_growth(_bytes_of(shard.path))
        if error is not None:
            raise error

    def _hash(self, sentences: Sequence[str], lang: str | None) -> NDArray[np.bytes_]:
        return sentence_keys(self._encoder, sentences, lang)

    def _add(self, shard: Shard, keys: NDArray[np.bytes_]) -> None:
        self._index.add(self._n_shards, keys)
        self._shards[self._n_shards] = shard
        self._n_shards += 1


class _VariantVectors(EncoderVectors):
    """The vectors of a variant, made from those of its base, which alone are kept."""

    def __init__(self, claim: files.Claim, encoder: Encoder, on_growth: Callable[[int], None], variant: Variant):
        super().__init__(claim, encoder, on_growth)
        self._variant = variant

    def encode(
        self, sentences: Sequence[str], lang: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Encoded:
        encoded = super().encode(sentences, lang, progress)
        return replace(encoded, vectors=self._reduced(encoded.vectors))

    def stored(
        self, sentences: Sequence[str], lang: str | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        rows, vectors = super().stored(sentences, lang)
        return rows, self._reduced(vectors)

    def _reduced(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        full = super().encode
        return self._variant.transform(vectors, lambda sentences, lang: full(sentences, lang).vectors)


def sentence_keys(encoder: Encoder, sentences: Sequence[str], lang: str | None) -> NDArray[np.bytes_]:
    """The key of every sentence, (n,): a hash of it and, where the encoder uses it, the language."""
    prefix = f"{lang or ''}\0" if encoder.uses_lang else ""
    digests = b"".join(
        blake2b((prefix + text).encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest() for text in sentences
    )
    return np.frombuffer(digests, dtype=KEY)


def longest_first(sentences: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order in which sentences (their `rows`, in the order of their keys) are encoded, places in `rows`.

    Batches are of even length so, and a too large one fails at once rather than at the end.
    """
    lengths = np.fromiter((len(sentences[i]) for i in rows), dtype=np.int64, count=len(rows))
    return np.argsort(-lengths, kind="stable")


def _claim(folder: Path) -> files.Claim:
    """Mark an encoder's folder as in use, and used last."""
    try:
        claim = files.Claim(folder)
        os.utime(folder)
    except OSError as error:
        raise InputError(f"cache folder {folder} cannot be written ({error.strerror}); give --cache-dir") from None
    return claim


def _attribute(encoder: Encoder, name: str) -> dict[str, Any]:
    """One of the attributes that an encoder need not have, as it is now."""
    return dict(getattr(encoder, name, {}))


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

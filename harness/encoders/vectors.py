"""One encoder's vectors: which are in the cache, which have to be encoded, and in which chunks.

A vector depends, by rounding, on the sentences that it is encoded with. So a *chunk*, what is encoded and stored at a
time, is a function of what is asked for and what is there alone: whoever encodes it, here or on another machine, gives
the same bits where threads and hardware are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core import files
from harness.core.errors import InputError
from harness.core.threads import n_threads
from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder, PartialError
from harness.encoders.shards import ENDING, KEY, KEY_BYTES, Effort, Index, Shard, discard, open_shard, write_shard
from harness.encoders.variant import Variant

CHUNK = 4096
"""Sentences that are encoded, checked and stored at a time: what a kill loses. An encoder may have a `chunk_size`."""


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


@dataclass(frozen=True, eq=False)
class Chunk:
    """Sentences that are encoded together.

    Attributes:
        sentences: the longest first.
        lang: their language.
        rows: their numbers in what was asked for, (n,), which errors name.
    """

    sentences: list[str]
    lang: str | None
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Made:
    """What became of a chunk.

    Attributes:
        rows: of the chunk that have vectors, (m,): all, unless there is an error.
        vectors: float32 (m, dim).
        effort: what they took.
        error: why the others have none.
    """

    rows: NDArray[np.int64]
    vectors: NDArray[np.float32]
    effort: Effort
    error: Exception | None = None


Elsewhere = Callable[["EncoderVectors", Sequence[Chunk]], None]
"""Has chunks encoded by others, who keep their vectors in the cache (see `EncoderVectors.adopt`, `keep`).

It raises what an encoder here would: the first error of these chunks.
"""


def make(chunk: Chunk, encoder: Encoder, in_parts: InParts) -> Made:
    """Encode a chunk, with the `in_parts` of this encoder. Raises as `EncoderVectors.encode`; but not PartialError."""
    before = _attribute(encoder, "usage")
    start, error = time.perf_counter(), None
    rows = np.arange(len(chunk.sentences))
    try:
        vectors = in_parts.encode(chunk.sentences, chunk.lang, chunk.rows)
    except PartialError as partial:
        error, vectors, rows = partial.error, partial.vectors, partial.rows
    seconds = time.perf_counter() - start
    usage = {key: value - before.get(key, 0) for key, value in _attribute(encoder, "usage").items()}
    conditions = {"threads": n_threads(), **_attribute(encoder, "conditions")}
    if in_parts.smallest < len(chunk.sentences):
        conditions["sentences_at_a_time"] = in_parts.smallest
    return Made(rows, vectors, Effort(seconds, conditions, usage), error)


def keys_of(encoder: Encoder, sentences: Sequence[str], lang: str | None) -> NDArray[np.bytes_]:
    """What the vectors of sentences are kept under, (n,) of 16 bytes."""
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


class EncoderVectors:
    """One encoder's vectors: from the cache where they are there, else encoded once and kept.

    elsewhere: who encodes what is missing; by default this process.

    Attributes:
        encoder: the encoder; of a variant, its base.
        folder: where its vectors are.
    """

    def __init__(
        self,
        claim: files.Claim,
        encoder: Encoder,
        on_growth: Callable[[int], None],
        elsewhere: Elsewhere | None = None,
    ):
        self._claim, self._on_growth = claim, on_growth
        self.encoder, self.folder = encoder, claim.folder
        self._elsewhere = elsewhere
        self._in_parts = InParts(encoder)
        self._shards: dict[int, Shard] = {}
        self._n_shards = 0  # so far, also those that have been forgotten
        self._index = Index()
        for path in files.listed(self.folder, ENDING):
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
        keys = keys_of(self.encoder, sentences, lang)
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        n_new, size = 0, self._chunk_size
        for _ in range(3):  # again where a shard turns out to be damaged, or another process deletes it
            missing = self._missing(sentences, distinct, first)
            parts = [missing[start : start + size] for start in range(0, len(missing), size)]
            if self._elsewhere is not None and parts:
                self._elsewhere(self, [_chunk(sentences, rows, lang) for rows in parts])
            for number, rows in enumerate(parts if self._elsewhere is None else ()):
                self._encode_chunk(_chunk(sentences, rows, lang), keys[rows])
                if progress:
                    progress(min((number + 1) * size, len(missing)), len(missing))
            n_new += len(missing)
            shards, rows = self._index.find(distinct)
            vectors = np.empty((len(sentences), self.encoder.dim), dtype=np.float32)
            if (shards >= 0).all() and self._gather(shards[inverse], rows[inverse], vectors):
                break
        else:
            raise InputError(f"cache folder {self.folder} does not keep what is written to it; give --cache-dir")
        effort = Effort(0.0)
        for number, count in zip(*np.unique(shards, return_counts=True), strict=True):
            shard = self._shards[int(number)]
            effort = effort.plus(shard.effort, int(count) / shard.shape[0])
        return Encoded(vectors, len(distinct), n_new, effort)

    def stored(
        self, sentences: Sequence[str], lang: str | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows of `sentences` whose vectors are in the cache, (m,), and these, (m, dim); nothing is encoded."""
        keys = keys_of(self.encoder, sentences, lang)
        while True:  # again where a shard turns out to be damaged, and is forgotten
            shards, rows = self._index.find(keys)
            is_there = shards >= 0
            vectors = np.empty((int(is_there.sum()), self.encoder.dim), dtype=np.float32)
            if self._gather(shards[is_there], rows[is_there], vectors):
                return np.flatnonzero(is_there), vectors

    def missing(self, sentences: Sequence[str], lang: str | None = None) -> list[str]:
        """Those of `sentences` whose vectors are not in the cache; nothing is encoded."""
        shards, _ = self._index.find(keys_of(self.encoder, sentences, lang))
        return [sentences[row] for row in np.flatnonzero(shards < 0).tolist()]

    def unplanned(self, sentences: Sequence[str], lang: str | None, planned: Index) -> list[Chunk]:
        """The chunks that `encode` would make of sentences once those in `planned` are there; which gets these too."""
        keys = keys_of(self.encoder, sentences, lang)
        distinct, first = np.unique(keys, return_index=True)
        is_new = planned.find(distinct)[0] < 0
        missing = self._missing(sentences, distinct[is_new], first[is_new])
        planned.add(0, keys[missing])
        size = self._chunk_size
        return [_chunk(sentences, missing[start : start + size], lang) for start in range(0, len(missing), size)]

    def adopt(self, name: str) -> bool:
        """Take up a shard that others have written into the folder; False if it is not there, or damaged."""
        if (opened := open_shard(self.folder / name)) is None:
            return False
        self._add(*opened)
        self._on_growth(bytes_of(opened[0].path))
        return True

    def keep(self, chunk: Chunk, made: Made) -> None:
        """Store what others have made of a chunk. Raises InputError: the cache cannot be written."""
        self._keep(keys_of(self.encoder, chunk.sentences, chunk.lang)[made.rows], made)

    @property
    def _chunk_size(self) -> int:
        return getattr(self.encoder, "chunk_size", None) or CHUNK

    def _missing(
        self, sentences: Sequence[str], distinct: NDArray[np.bytes_], first: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """The rows, in the order in which they are encoded, of those keys that are not there."""
        missing = first[self._index.find(distinct)[0] < 0]
        return missing[longest_first(sentences, missing)]

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

    def _encode_chunk(self, chunk: Chunk, keys: NDArray[np.bytes_]) -> None:
        made = make(chunk, self.encoder, self._in_parts)
        self._keep(keys[made.rows], made)
        if made.error is not None:
            raise made.error

    def _keep(self, keys: NDArray[np.bytes_], made: Made) -> None:
        if not self._claim.is_valid:  # the cache has been cleared
            self._claim = claim(self.folder)
        shard = write_shard(self.folder, self.encoder, keys, made.vectors, made.effort)
        self._add(shard, keys)
        self._on_growth(bytes_of(shard.path))

    def _add(self, shard: Shard, keys: NDArray[np.bytes_]) -> None:
        self._index.add(self._n_shards, keys)
        self._shards[self._n_shards] = shard
        self._n_shards += 1


class VariantVectors(EncoderVectors):
    """The vectors of a variant, made from those of its base, which alone are kept."""

    def __init__(
        self,
        claim: files.Claim,
        encoder: Encoder,
        on_growth: Callable[[int], None],
        elsewhere: Elsewhere | None,
        variant: Variant,
    ):
        super().__init__(claim, encoder, on_growth, elsewhere)
        self._variant = variant

    def encode(
        self, sentences: Sequence[str], lang: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Encoded:
        """As `EncoderVectors.encode`."""
        encoded = super().encode(sentences, lang, progress)
        return replace(encoded, vectors=self._reduced(encoded.vectors))

    def stored(
        self, sentences: Sequence[str], lang: str | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """As `EncoderVectors.stored`."""
        rows, vectors = super().stored(sentences, lang)
        return rows, self._reduced(vectors)

    def _reduced(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        full = super().encode
        return self._variant.transform(vectors, lambda sentences, lang: full(sentences, lang).vectors)


def _chunk(sentences: Sequence[str], rows: NDArray[np.int64], lang: str | None) -> Chunk:
    return Chunk([sentences[row] for row in rows.tolist()], lang, rows)


def claim(folder: Path) -> files.Claim:
    """Mark an encoder's folder as in use, and used last."""
    try:
        claimed = files.Claim(folder)
        os.utime(folder)
    except OSError as error:
        raise InputError(f"cache folder {folder} cannot be written ({error.strerror}); give --cache-dir") from None
    return claimed


def _attribute(encoder: Encoder, name: str) -> dict[str, Any]:
    """One of the attributes that an encoder need not have, as it is now."""
    return dict(getattr(encoder, name, {}))


def bytes_of(path: Path) -> int:
    """The size of a file; 0 if another process has just deleted it."""
    with suppress(OSError):
        return path.stat().st_size
    return 0

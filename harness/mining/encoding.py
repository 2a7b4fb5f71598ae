"""The vectors of a side, encoded chunk by chunk into a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.encoders.containment import InParts
from harness.encoders.encoder import Encoder, PartialError, normalise
from harness.encoders.vectors import CHUNK, EncoderVectors, keys_of, longest_first
from harness.mining.work import RowFile, WorkDir

Kind = Literal["float32", "float16"]
EncodeChunk = Callable[[Sequence[str]], NDArray[np.float32]]
"""The vectors of some sentences, (n, dim)."""


class Encoding:
    """The vectors of one side in a job's folder; those that are there are not encoded again.

    float16 takes half the disk; vectors are scaled to unit norm first then, so that all of its digits count.

    Raises:
        InputError: the folder holds vectors of another encoder, language or kind.
    """

    def __init__(
        self, work: WorkDir, side: str, text: Sequence[str], encoder: Encoder, kind: Kind, lang: str | None = None
    ):
        chunk = getattr(encoder, "chunk_size", None) or CHUNK
        work.agree(
            f"vectors of {side}",
            {
                "encoder": encoder.fingerprint,
                **({"language": str(lang)} if encoder.uses_lang else {}),
                "dimension": str(encoder.dim),
                "kind of vectors": kind,
                "chunk": str(chunk),
            },
        )
        self._file = RowFile(work.folder / f"{side}.{kind}", len(text), np.dtype((kind, (encoder.dim,))), chunk)
        self._text, self._kind = text, kind

    @property
    def n_missing(self) -> int:
        """Sentences that have no vector yet."""
        return self._file.n - self._file.done

    @property
    def missing_bytes(self) -> int:
        """What they will take."""
        return self.n_missing * self._file.row.itemsize

    def run(self, encode: EncodeChunk, progress: Callable[[int, int], None]) -> NDArray[np.floating[Any]]:
        """All vectors, (n, dim), memory-mapped; `progress(done, total)` counts sentences."""
        file = self._file
        while file.done < file.n:
            vectors = encode(self._text[file.done : file.done + file.chunk])
            file.append(normalise(vectors).astype(np.float16) if self._kind == "float16" else vectors)
            progress(file.done, file.n)
        return file.array()


def by_cache(vectors: EncoderVectors, lang: str | None) -> EncodeChunk:
    """Encodes what is not in the cache, and keeps it there."""
    return lambda sentences: vectors.encode(sentences, lang).vectors


def without_cache(encoder: Encoder, lang: str | None) -> EncodeChunk:
    """Encodes the distinct ones of the sentences, in the order in which an empty cache would have it done."""
    in_parts = InParts(encoder)

    def encode(sentences: Sequence[str]) -> NDArray[np.float32]:
        keys = keys_of(encoder, sentences, lang)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = longest_first(sentences, first)
        rows = first[order]
        vectors = np.empty((len(rows), encoder.dim), np.float32)
        try:
            vectors[order] = in_parts.encode([sentences[row] for row in rows.tolist()], lang, rows)
        except PartialError as partial:
            raise partial.error from None
        return vectors[inverse]

    return encode

"""The `Encoder` protocol: the one thing that the harness knows of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from harness.errors import InputError


@runtime_checkable
class Encoder(Protocol):
    """Turns sentences into vectors; knows nothing of tasks.

    Attributes:
        name: the name under which results are stored.
        fingerprint: identifies weights and options (revision or content hash, pooling, prompt, max length,
            precision); equal fingerprints promise equal vectors. Part of every cache key and of every result.
        dim: length of a vector.
        uses_lang: whether `lang` changes the vectors.

    Caching, deduplication and normalisation wrap an encoder; no adapter repeats them.
    """

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def uses_lang(self) -> bool: ...

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """Encode `sentences`, all in the language `lang` (ISO 639-1 where one exists, else 639-3, or None).

        Returns a float32 array of shape (len(sentences), dim), row i for sentence i; a zero row is legal,
        NaN and infinities are not. An empty list gives shape (0, dim); an empty sentence is legal.
        """
        ...


def check_vectors(vectors: object, sentences: Sequence[str], encoder: Encoder) -> np.ndarray:
    """`vectors` as a C-contiguous float32 array of shape (len(sentences), encoder.dim).

    Raises:
        InputError: wrong type or shape, NaN or infinity; names the encoder, the row and the sentence.
    """
    array = np.asarray(vectors)
    expected = (len(sentences), encoder.dim)
    if array.shape != expected or array.dtype.kind not in "fiu":
        raise InputError(
            f"encoder {encoder.name!r} returned {array.dtype} vectors of shape {array.shape} for "
            f"{len(sentences)} sentences, expected float32 of shape {expected}"
        )
    array = np.ascontiguousarray(array, dtype=np.float32)
    # A sum is finite only if every term is, and needs no temporary of the array's size.
    if not np.isfinite(array.sum(dtype=np.float64)):
        bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
        if len(bad):
            row = int(bad[0])
            value = "NaN" if np.isnan(array[row]).any() else "infinity"
            raise InputError(
                f"encoder {encoder.name!r} returned {value} in row {row} for the sentence {sentences[row]!r}"
            )
    return array

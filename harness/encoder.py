"""The `Encoder` protocol: the one thing that the harness knows of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from harness.errors import VectorError


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
    def name(self) -> str:
        """The name under which results are stored."""
        ...

    @property
    def fingerprint(self) -> str:
        """What equal vectors share: weights and options."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def uses_lang(self) -> bool:
        """Whether `lang` changes the vectors."""
        ...

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """Encode `sentences`, all in the language `lang` (ISO 639-1 where one exists, else 639-3, or None).

        Returns a float32 array of shape (len(sentences), dim), row i for sentence i; a zero row is legal,
        NaN and infinities are not. An empty list gives shape (0, dim); an empty sentence is legal.
        """
        ...


def check_vectors(
    vectors: object, sentences: Sequence[str], encoder: Encoder, rows: Sequence[int] | np.ndarray | None = None
) -> np.ndarray:
    """`vectors` as a C-contiguous float32 array of shape (len(sentences), encoder.dim).

    rows: the numbers by which the user knows the sentences, where they are not 0, 1, ...

    Raises:
        VectorError: wrong type or shape, NaN or infinity; names the encoder, the row and the sentence.
    """
    expected = (len(sentences), encoder.dim)
    try:
        array = np.asarray(vectors)
    except Exception as error:  # rows of different lengths; a tensor on another device
        raise VectorError(
            f"encoder {encoder.name!r} returned {type(vectors).__name__}, which is no float32 array of shape "
            f"{expected}: {str(error).partition(chr(10))[0]}"
        ) from error
    if array.shape != expected or array.dtype.kind not in "fiu":
        raise VectorError(
            f"encoder {encoder.name!r} returned {array.dtype} vectors of shape {array.shape} for "
            f"{len(sentences)} sentences, expected float32 of shape {expected}"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows float32 becomes infinity, and is refused
        array = np.ascontiguousarray(array, dtype=np.float32)
        # A sum is finite only if every term is, and needs no temporary of the array's size.
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total):
        bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
        if len(bad):
            row = int(bad[0])
            value = "NaN" if np.isnan(array[row]).any() else "infinity"
            known_as = row if rows is None else int(rows[row])
            raise VectorError(
                f"encoder {encoder.name!r} returned {value} in row {known_as} for the sentence {sentences[row][:200]!r}"
            )
    return array

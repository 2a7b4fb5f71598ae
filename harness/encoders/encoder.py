"""The `Encoder` protocol: all that the harness knows of an embedding model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EncoderError, VectorError

Conditions = dict[str, str | int | float]
"""What vectors depend on by rounding alone: threads, precision, sentences at a time."""

_AT_ONCE = 1 << 21  # components: some tens of MB of temporaries


@runtime_checkable
class Encoder(Protocol):
    """Turns sentences into vectors; knows nothing of tasks.

    Attributes:
        name: the name under which results are stored.
        fingerprint: identifies weights and options (revision or content hash, pooling, prompt, max length,
            precision); equal fingerprints promise equal vectors. Part of every cache key and of every result.
        dim: length of a vector.
        uses_lang: whether `lang` changes the vectors.

    More attributes are read where an encoder has them. Three become part of records: `device`, where it runs;
    `conditions`, what moves its vectors by rounding (`{"precision": "bf16"}`); and `usage`, what all calls so far have
    taken, counted up (`{"tokens": 5120}`). Three are for encoders whose calls cost money: `chunk_size`, of how many
    sentences the vectors are stored at a time, and so lost at most by a kill; `price`, of 10^6 tokens; and
    `sent_text(sentence)`, what is sent of a sentence. If a call fails, they may raise PartialError, and lose nothing.

    Four are read by `leaderboard speed`, whole numbers or None: `n_parameters`; `size_bytes`, of the files that it is
    loaded from; `max_length`, the tokens after which it cuts a text (None: it reads all); and `vector_bytes`, what a
    vector takes where it is stored (else four for each component).

    With a method `with_prompt(prompt)`, which gives the same model with another prompt, weights are loaded once where
    queries and documents have different ones (see `harness.encoders.registry.load_sides`).

    Caching, deduplication, normalisation, cutting and quantising wrap an encoder; no adapter repeats them.
    """

    @property
    def name(self) -> str:
        """The name under which results are stored."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies weights and options: equal fingerprints promise equal vectors."""
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


class PartialError(EncoderError):
    """A call of an encoder failed, and these vectors need not be lost: they are stored, and then `error` is raised.

    Attributes:
        rows: the numbers of the sentences that have vectors, (m,).
        vectors: float32 (m, dim).
        error: why the others have none.
    """

    def __init__(self, rows: NDArray[np.int64], vectors: NDArray[np.float32], error: Exception):
        super().__init__(str(error))
        self.rows, self.vectors, self.error = rows, vectors, error


def encode_all(encoder: Encoder, sentences: Sequence[str], lang: str | None) -> np.ndarray:
    """The vectors of all sentences, checked, float32 (len(sentences), dim).

    Raises:
        Exception: what the encoder raises; of a PartialError its `error`.
        VectorError: see `check_vectors`.
    """
    try:
        vectors = encoder.encode(sentences, lang=lang)
    except PartialError as partial:
        raise partial.error from None
    return check_vectors(vectors, sentences, encoder)


def check_vectors(
    vectors: object, sentences: Sequence[str], encoder: Encoder, rows: Sequence[int] | np.ndarray | None = None
) -> np.ndarray:
    """Returns `vectors` as a C-contiguous float32 array of shape (len(sentences), encoder.dim).

    rows: the numbers of the sentences in errors, where they are not 0, 1, ...

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
        form = f"{array.dtype} vectors of shape {array.shape}" if array.ndim else type(vectors).__name__
        raise VectorError(
            f"encoder {encoder.name!r} returned {form} for {len(sentences)} sentences, expected float32 of shape "
            f"{expected}" + ("; does its `encode` lack a `return`?" if vectors is None else "")
        )
    if (masked := _first_masked(vectors)) is not None:
        raise _bad_row("a masked value", masked, sentences, encoder, rows)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows float32 becomes infinity, and is refused
        array = np.ascontiguousarray(array, dtype=np.float32)
        # A sum is finite only if every term is, and needs no temporary of the array's size.
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total):
        bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
        if len(bad):
            value = "NaN" if np.isnan(array[bad[0]]).any() else "infinity"
            raise _bad_row(value, int(bad[0]), sentences, encoder, rows)
    return array


def _first_masked(vectors: object) -> int | None:
    """The first row of an array, or of a list of arrays, that has a masked value (which is no number), if any."""
    if "numpy.ma" not in sys.modules:  # NumPy imports it where it is used; without it there are no such arrays
        return None
    if isinstance(vectors, np.ndarray) and not np.ma.is_masked(vectors):
        return None
    rows = enumerate(vectors if isinstance(vectors, list | tuple | np.ndarray) else ())
    return next((row for row, vector in rows if np.ma.is_masked(vector)), None)


def _bad_row(
    value: str, row: int, sentences: Sequence[str], encoder: Encoder, rows: Sequence[int] | np.ndarray | None
) -> VectorError:
    known_as = row if rows is None else int(rows[row])
    return VectorError(
        f"encoder {encoder.name!r} returned {value} in row {known_as} for the sentence {sentences[row][:200]!r}"
    )


def normalise(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """The rows of `vectors` (n, dim) scaled to unit L2 norm, in float32; zero rows stay zero."""
    norms = row_norms(vectors)
    return scaled(vectors, np.where(norms > 0, norms, 1))


def row_norms(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The L2 norm of every row of `vectors` (n, dim), accumulated in float64, block by block; shape (n,)."""
    norms = np.empty(len(vectors))
    rows = max(1, _AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        part = vectors[start : start + rows].astype(np.float64, order="C")  # equal rows have equal sums in one order
        norms[start : start + rows] = np.sqrt(np.multiply(part, part, out=part).sum(axis=1))
    return norms


def scaled(vectors: NDArray[np.floating[Any]], divisors: NDArray[np.float64]) -> NDArray[np.float32]:
    """The rows of `vectors` (n, dim) divided by `divisors` (n,), rounded to float32 once; shape (n, dim)."""
    unit = np.empty(vectors.shape, dtype=np.float32)
    rows = max(1, _AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        part = slice(start, start + rows)
        # Divided in float64: the norm of a row of denormals, or of the largest numbers, has no float32.
        np.divide(vectors[part], divisors[part, None], out=unit[part], dtype=np.float64, casting="same_kind")
    return unit

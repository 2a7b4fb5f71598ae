"""Cut and quantised vectors of any encoder, made from its vectors after the cache: one encoding serves them all.

Each is a pure function of one vector x of the encoder (which `normalize=true` has scaled before), in this order:

1. *Cut* (`truncate_dim=N`): the first N components, scaled to the length of x: of a unit vector they are one again.
   The direction is that of sentence-transformers' `truncate_dim`, hence all cosines are. Kusupati et al. 2022,
   "Matryoshka Representation Learning" (https://arxiv.org/abs/2205.13147) trains for it.
2. *Quantised* (`quantize=`)

   - `int8`: component i becomes the whole number nearest to x_i / s_i (halves to even), at most 127 and at least -127,
     and is decoded as that number times s_i. The scales s_i are those of 127 at the largest absolute value that the
     component has in a fixed set of sentences (`CALIBRATION`, of the bundled sample), never in the batch. This is what
     an index of 8-bit scalars with a range for each component does: it decodes before it compares (QT_8bit of faiss's
     ScalarQuantizer, https://github.com/facebookresearch/faiss/wiki/Faiss-indexes). sentence-transformers'
     `quantize_embeddings` has ranges that need not be symmetric, and rounds down. A dot product of bare codes would be
     another similarity: a component counted as much as any other, however little it varies.
   - `binary`: +1 where x_i > 0, else -1, so that a cosine is 1 - 2 * hamming / N; sentence-transformers' bits are the
     same, packed. A zero vector stays zero. (With bits as 0 and 1 the cosine would be another measure.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError, LanguageError
from harness.encoders.encoder import Encoder, encode_all, row_norms, scaled
from harness.encoders.reduction import Reduction, vector_bytes

CALIBRATION = Path(__file__).parents[1] / "sample" / "calibration.tsv"
"""Language TAB sentence: the distinct sentences of the bundled sample."""

_MOST = 127
_LARGEST = float(np.finfo(np.float32).max)

EncodeBase = Callable[[Sequence[str], "str | None"], NDArray[np.float32]]
"""Gives vectors of the full encoder: sentences and their language -> float32 (n, dim)."""


class Variant:
    """An encoder whose vectors are those of another one, cut, quantised or both.

    Attributes:
        base: the full encoder. The cache keeps its vectors, under its fingerprint.
        reduction: what is done to them.
        name: under which results are stored; by default `BASE@256-int8`.

    Raises:
        InputError: the encoder has fewer dimensions, or is a variant itself.
    """

    def __init__(self, base: Encoder, reduction: Reduction, name: str = ""):
        if isinstance(base, Variant):
            raise InputError(f"{base.name} is cut or quantised already; give the full encoder, {base.base.name}")
        self.name: str = name or base.name + reduction.suffix
        dim = reduction.truncate_dim
        if dim is not None and 0 < base.dim < dim:  # 0: not known, since nothing may be sent
            raise InputError(f"{self.name}: truncate_dim must be 1 to {base.dim}, not {dim}")
        self.base: Encoder = base
        self.reduction = reduction
        self._scales: NDArray[np.float32] | None = None

    # Not left to __getattr__: from Python 3.12 on, `isinstance(variant, Encoder)` does not see what that gives.
    @property
    def fingerprint(self) -> str:
        """The base's and what is done; for int8 also the digest of the calibration sentences."""
        options = self.reduction.options
        if self.reduction.quantize == "int8":
            options["quantize"] += f":{calibration_digest()}"
        return "|".join([self.base.fingerprint, *(f"{key}:{value}" for key, value in options.items())])

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.reduction.truncate_dim or self.base.dim

    @property
    def vector_bytes(self) -> int:
        """Bytes that a vector takes in an index."""
        return vector_bytes(self.dim, self.reduction.quantize)

    @property
    def uses_lang(self) -> bool:
        """Whether `lang` changes the vectors."""
        return self.base.uses_lang

    @property
    def calibration(self) -> dict[str | None, list[str]]:
        """Sentences whose full vectors are needed before any vector can be made, by language."""
        return calibration_sentences(self.uses_lang) if self.reduction.quantize == "int8" else {}

    def __getattr__(self, attribute: str) -> Any:  # `device`, say
        if attribute.startswith("_") or attribute == "base":  # copying asks for some before `base` is there
            raise AttributeError(attribute)
        return getattr(self.base, attribute)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim), without any cache."""
        return self.transform(self._encode_base(sentences, lang), self._encode_base)

    def _encode_base(self, sentences: Sequence[str], lang: str | None) -> NDArray[np.float32]:
        return encode_all(self.base, sentences, lang)

    def transform(self, vectors: NDArray[np.float32], encode: EncodeBase) -> NDArray[np.float32]:
        """The base's vectors, (n, base.dim), as the variant has them, (n, dim).

        encode: asked for the base's vectors of the calibration sentences, once, if the variant needs them.
        """
        vectors = cut(vectors, self.dim)
        if self.reduction.quantize == "binary":
            return binary(vectors)
        if self.reduction.quantize == "int8":
            if self._scales is None:
                self._scales = self._calibrated(encode)
            return int8(vectors, self._scales)
        return vectors

    def _calibrated(self, encode: EncodeBase) -> NDArray[np.float32]:
        largest, is_any = np.zeros(self.dim, dtype=np.float32), False
        for lang, sentences in self.calibration.items():
            try:
                vectors = cut(encode(sentences, lang), self.dim)
            except LanguageError:  # the scales are those of the languages that it takes
                continue
            largest, is_any = np.maximum(largest, np.abs(vectors).max(axis=0)), True
        if not is_any:
            raise LanguageError(f"{self.name}: the encoder takes none of the languages that int8 is calibrated with")
        return scales(largest)


def full_of(encoder: Encoder) -> Encoder:
    """The encoder whose vectors are cut or quantised; itself if they are not."""
    return encoder.base if isinstance(encoder, Variant) else encoder


def cut(vectors: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """The first `dim` components of every row, scaled to the length of the whole row; zero rows stay zero."""
    if dim == vectors.shape[1]:
        return vectors
    part = np.ascontiguousarray(vectors[:, :dim])
    kept, whole = row_norms(part), np.minimum(row_norms(vectors), _LARGEST)
    return scaled(part, np.divide(kept, whole, out=np.ones(len(part)), where=kept > 0))


def binary(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """+1 for every component above 0, else -1; zero rows stay zero. Float32 of the same shape."""
    signs = np.full(vectors.shape, -1, dtype=np.float32)
    signs[vectors > 0] = 1
    signs[~vectors.any(axis=1)] = 0
    return signs


def int8(vectors: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every component as the nearest multiple, -127 to 127 times, of its scale (d,). Float32 of the same shape."""
    with np.errstate(over="ignore"):  # infinity is 127 then
        codes = np.divide(vectors, scales, dtype=np.float32)
    np.rint(codes, out=codes)
    np.clip(codes, -_MOST, _MOST, out=codes)
    return np.multiply(codes, scales, out=codes)


def scales(largest: NDArray[np.float32]) -> NDArray[np.float32]:
    """The scales that put 127 at the largest absolute value of each component, (d,).

    A component that is always 0 has the largest scale of the others, since nothing is known of its range.
    """
    steps = (largest.astype(np.float64) / _MOST).astype(np.float32)
    return np.where(steps > 0, steps, steps.max() or np.float32(1))


@cache
def _calibration() -> bytes:
    return CALIBRATION.read_bytes()


@cache
def calibration_digest() -> str:
    """The start of the sha256 of the calibration sentences."""
    return sha256(_calibration()).hexdigest()[:12]


def calibration_sentences(by_language: bool) -> dict[str | None, list[str]]:
    """The calibration sentences by language, or all of them under None."""
    sentences: dict[str | None, list[str]] = {}
    for line in _calibration().decode().splitlines():
        lang, _, sentence = line.partition("\t")
        sentences.setdefault(lang if by_language else None, []).append(sentence)
    return sentences

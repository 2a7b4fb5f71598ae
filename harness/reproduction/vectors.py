"""Checks the cached vectors of an encoder while it is used: equal fingerprints are only a promise of equal vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.encoders.encoder import Encoder, encode_all
from harness.encoders.vectors import EncoderVectors

STALE_DISTANCE = 0.03
"""How far a cached vector may be from a fresh one, relative to its length. In bf16 a vector depends on its batch by
about 0.001 of its length, at worst by 0.01; other weights, another pooling or another prompt are farther off."""

SAMPLE = 32
"""How many cached sentences of a call (a side of a subset, or 4,096 of it) are encoded again with `use_cached`."""

_SEED = 12345


class AuditedEncoder:
    """Wraps an encoder and compares its vectors with those that a cache holds under its fingerprint.

    By default every sentence is encoded, and every cached vector of these sentences is compared. With `use_cached`,
    cached vectors are returned, and a fixed random sample of them is encoded again: if a share s of the vectors is
    stale, a call does not notice it with a probability of (1 - s) ** 32.

    Attributes:
        compared, stale: how many cached vectors were compared, and how many of them differ from the fresh ones.
        worst: the largest distance between a cached vector and the fresh one, relative to the longer of the two.
        example: a sentence whose cached vector is stale.
    """

    def __init__(self, encoder: Encoder, cache: EncoderVectors, *, use_cached: bool = False):
        self._encoder, self._cache, self._use_cached = encoder, cache, use_cached
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self.dim, self.uses_lang = encoder.dim, encoder.uses_lang
        self.compared = self.stale = 0
        self.worst = 0.0
        self.example = ""

    def __getattr__(self, attribute: str) -> Any:  # `device`, say
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(self._encoder, attribute)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """Returns what the encoder's own `encode` returns."""
        rows, cached = self._cache.stored(sentences, lang)
        if not self._use_cached:
            vectors = self._fresh(sentences, np.arange(len(sentences)), lang)
            self._compare(sentences, rows, cached, vectors[rows])
            return vectors
        vectors = np.empty((len(sentences), self.dim), dtype=np.float32)
        vectors[rows] = cached
        drawn = np.random.default_rng(_SEED).permutation(len(rows))[:SAMPLE]
        missing = np.setdiff1d(np.arange(len(sentences)), rows)
        fresh = self._fresh(sentences, np.concatenate([rows[drawn], missing]), lang)
        self._compare(sentences, rows[drawn], cached[drawn], fresh[: len(drawn)])
        vectors[missing] = fresh[len(drawn) :]
        return vectors

    def _fresh(self, sentences: Sequence[str], rows: NDArray[np.int64], lang: str | None) -> np.ndarray:
        chosen = [sentences[row] for row in rows.tolist()]
        return encode_all(self._encoder, chosen, lang)

    def _compare(
        self, sentences: Sequence[str], rows: NDArray[np.int64], cached: NDArray[np.float32], fresh: np.ndarray
    ) -> None:
        if not len(rows):
            return
        lengths = np.maximum(np.linalg.norm(cached, axis=1), np.linalg.norm(fresh, axis=1))
        differences = np.linalg.norm(cached - fresh, axis=1)
        distances = np.divide(differences, lengths, out=np.zeros(len(rows), np.float32), where=lengths > 0)
        is_stale = distances > STALE_DISTANCE
        self.compared += len(rows)
        self.stale += int(is_stale.sum())
        self.worst = max(self.worst, float(distances.max()))
        if is_stale.any():
            self.example = self.example or sentences[int(rows[is_stale][0])]

"""Cached vectors against fresh ones: what is found stale, counted by plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import VectorError
from harness.encoders.cache import VectorCache
from harness.encoders.encoder import PartialError
from harness.reproduction.vectors import SAMPLE, STALE_DISTANCE, AuditedEncoder

SENTENCES = [f"sentence {number}" for number in range(200)]


class Noisy:
    """Vectors of each sentence's own, with noise of a given length; empty sentences have the zero vector."""

    name, fingerprint, dim, uses_lang, device = "noisy", "noisy-1", 8, True, "abacus"

    def __init__(self, noise: float = 0.0):
        self.noise, self.encoded = noise, 0

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        self.encoded += len(sentences)
        vectors = np.zeros((len(sentences), 8), np.float32)
        for row, text in enumerate(sentences):
            if text:
                draw = np.random.default_rng([len(text), sum(map(ord, text)), len(lang or "")])
                vector = draw.normal(size=8)
                direction = draw.normal(size=8)
                length = np.linalg.norm(vector) / np.linalg.norm(direction)
                vectors[row] = vector + self.noise * length * direction
        return vectors


def audited(cache: Path, stored: Sequence[str], noise: float, **options: bool) -> AuditedEncoder:
    VectorCache(cache).of(Noisy()).encode(stored, "de")
    return AuditedEncoder(Noisy(noise), VectorCache(cache).of(Noisy()), **options)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.2])
def test_every_cached_vector_is_compared(tmp_path: Path, noise: float) -> None:
    encoder = audited(tmp_path, [*SENTENCES[:50], ""], noise)
    vectors = encoder.encode([*SENTENCES, ""], lang="de")
    np.testing.assert_array_equal(vectors, Noisy(noise).encode([*SENTENCES, ""], lang="de"))
    apart = []
    for old, new in zip(Noisy().encode(SENTENCES[:50], lang="de").tolist(), vectors[:50].tolist(), strict=True):
        longer = max(math.sqrt(math.fsum(v * v for v in vector)) for vector in (old, new))
        apart.append(math.dist(old, new) / longer)
    assert (encoder.compared, encoder.stale) == (51, sum(distance > STALE_DISTANCE for distance in apart))
    assert encoder.worst == pytest.approx(max(apart), abs=1e-6)
    assert encoder.example == (SENTENCES[0] if noise == 0.2 else "")


def test_another_language_is_another_sentence(tmp_path: Path) -> None:
    encoder = audited(tmp_path, SENTENCES, 0.2)
    encoder.encode(SENTENCES, lang="fr")
    assert encoder.compared == 0


def test_cached_vectors_are_used_and_a_sample_is_encoded_again(tmp_path: Path) -> None:
    encoder = audited(tmp_path, SENTENCES[50:], 0.2, use_cached=True)
    vectors = encoder.encode(SENTENCES, lang="de")
    np.testing.assert_array_equal(vectors[50:], Noisy().encode(SENTENCES[50:], lang="de"))
    np.testing.assert_array_equal(vectors[:50], Noisy(0.2).encode(SENTENCES[:50], lang="de"))
    assert (encoder.compared, encoder.stale) == (SAMPLE, SAMPLE)
    assert encoder._encoder.encoded == 50 + SAMPLE


def test_vectors_of_some_sentences_are_not_taken_for_those_of_others(tmp_path: Path) -> None:
    """The encoder is asked for other rows than the caller."""

    class Failing(Noisy):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            raise PartialError(np.array([0]), super().encode(sentences[:1], lang=lang), KeyError("no"))

    VectorCache(tmp_path).of(Noisy()).encode(SENTENCES[50:], "de")
    encoder = AuditedEncoder(Failing(), VectorCache(tmp_path).of(Noisy()), use_cached=True)
    with pytest.raises(KeyError, match="no"):
        encoder.encode(SENTENCES, lang="de")


def test_it_is_the_encoder_in_all_else(tmp_path: Path) -> None:
    encoder = audited(tmp_path, [], 0.0)
    assert (encoder.name, encoder.fingerprint, encoder.dim, encoder.uses_lang) == ("noisy", "noisy-1", 8, True)
    assert encoder.device == "abacus"
    assert encoder.encode([], lang="de").shape == (0, 8)


def test_what_is_no_vector_is_refused_before_it_is_compared(tmp_path: Path) -> None:
    encoder = audited(tmp_path, SENTENCES, math.nan)
    with pytest.raises(VectorError, match="NaN"):
        encoder.encode(SENTENCES, lang="de")

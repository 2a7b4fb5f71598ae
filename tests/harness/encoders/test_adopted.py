"""Models of other libraries as encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoders import Letters

from harness.core.errors import InputError
from harness.encoders.adopted import AdoptedEncoder
from harness.testing import check_encoder


class Model:
    """As little as there can be: `encode`."""

    def __init__(self, seed: int = 0, kind: type = np.ndarray):
        self.table = np.random.default_rng(seed).normal(size=(997, 8))
        self.kind = kind

    def encode(self, sentences: list[str]) -> Any:
        vectors = [self.table[[ord(c) % 997 for c in text] or [0]].mean(axis=0) for text in sentences]
        return vectors if self.kind is list else np.array(vectors)


@pytest.mark.parametrize("kind", [np.ndarray, list])
def test_an_object_with_encode_is_an_encoder(kind: type) -> None:
    encoder = AdoptedEncoder(Model(kind=kind))
    check_encoder(encoder)
    assert (encoder.name, encoder.dim, encoder.uses_lang) == ("Model", 8, False)


def test_other_weights_are_another_encoder() -> None:
    prints = [AdoptedEncoder(Model(seed)).fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


def test_the_language_is_passed_on_where_it_is_taken() -> None:
    seen = []

    class WithLanguage(Letters):
        def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
            seen.append(lang)
            return super().encode(sentences, lang=lang)

    encoder = AdoptedEncoder(WithLanguage(), "named")
    encoder.encode(["a"], lang="tr")
    assert encoder.uses_lang and seen[-1] == "tr" and encoder.name == "named"


@pytest.mark.parametrize("answer", [np.ones(7), np.ones((3, 4)), 7])
def test_what_gives_no_vectors_is_refused(answer: Any) -> None:
    class Bad:
        def encode(self, sentences: list[str]) -> Any:
            return answer

    with pytest.raises(InputError, match=r"Bad\.encode returned an array of shape"):
        AdoptedEncoder(Bad())


@pytest.mark.slow
def test_a_sentence_transformer(tmp_path: Path) -> None:
    models = pytest.importorskip("sentence_transformers")
    from tiny_models import write_bert, write_sentence_transformer

    folder = write_sentence_transformer(tmp_path / "my model", write_bert(tmp_path / "bert"))
    model = models.SentenceTransformer(str(folder), device="cpu")
    encoder = AdoptedEncoder(model)
    check_encoder(encoder)
    assert np.allclose(encoder.encode(["a dog runs"])[0], model.encode("a dog runs"), atol=1e-6)
    assert encoder.device == "cpu" and "/" not in encoder.name

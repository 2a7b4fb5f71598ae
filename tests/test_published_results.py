"""The records in results/ against figures that others have published for the same model on the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.published import Measurements, PublishedScore, published_scores
from harness.results.store import ResultStore

STORE = ResultStore(Path(__file__).parents[1] / "results")


def published(source: str, model: str) -> list[PublishedScore]:
    return [s for s in published_scores() if s.source == source and s.task == "sts17" and model in s.models]


def test_minilm_has_the_scores_that_mteb_stores() -> None:
    measurements = Measurements(STORE.load("minilm"))
    compared = {s.subset: (m.value, s.value) for s in published("mteb", "minilm") if (m := measurements.measured(s))}
    assert compared.keys() >= {"en-en", "es-es", "ar-ar", "en-ar", "en-es", "en-tr"}
    for measured, theirs in compared.values():
        assert measured == pytest.approx(theirs, abs=0.05)


def test_e5_with_4_bit_weights_is_near_the_full_model() -> None:
    scores = {r.subset: r.metrics["spearman"] for r in STORE.load("e5-small-q4", "sts17")}
    full = {s.subset: s.value for s in published("mteb", "e5-small") if s.edition == "fd1525a"}
    compared = {subset: (scores[subset], full[subset]) for subset in ("en-en", "es-es", "en-es")}
    for measured, theirs in compared.values():
        assert measured == pytest.approx(theirs, abs=1.0)


def test_muse_is_near_the_savedmodel() -> None:
    """Ours has 6-bit embeddings and keeps capitals: near is all that can be asked, and no table compares them."""
    [cnn] = published("sts_eval", "muse-tfhub")
    results = STORE.load("muse", "sts17")
    assert Measurements(results).measured(cnn) is None
    [measured] = [r.metrics["spearman"] for r in results if r.subset == cnn.subset == "es-es"]
    assert measured == pytest.approx(cnn.value, abs=0.5)

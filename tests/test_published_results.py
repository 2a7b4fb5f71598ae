"""The records in results/ against figures that others have published for the same model on the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RECORDS = Path(__file__).parents[1] / "results" / "records"


def spearman(encoder: str) -> dict[str, float]:
    records = json.loads((RECORDS / encoder / "sts17.json").read_text(encoding="utf-8"))
    return {record["subset"]: record["metrics"]["spearman"] for record in records}


@pytest.mark.parametrize(
    ("subset", "published"),
    [("en-en", 87.59), ("es-es", 76.12), ("ar-ar", 50.89), ("en-ar", -4.28), ("en-es", 16.31), ("en-tr", 4.50)],
)
def test_minilm_has_the_scores_that_mteb_stores(subset: str, published: float) -> None:
    """embeddings-benchmark/results, all-MiniLM-L6-v2 at revision 8b3219a, STS17."""
    assert spearman("minilm")[subset] == pytest.approx(published, abs=0.05)


@pytest.mark.parametrize(("subset", "published"), [("en-en", 87.16), ("es-es", 85.27), ("en-es", 73.00)])
def test_e5_with_4_bit_weights_is_near_the_full_model(subset: str, published: float) -> None:
    """The same repository, multilingual-e5-small at revision fd1525a."""
    assert spearman("e5-small-q4")[subset] == pytest.approx(published, abs=1.0)


def test_muse_is_near_the_savedmodel() -> None:
    """eduardofv/sts_eval, universal-sentence-encoder-multilingual/3 (CNN): ES-ES 84.24; ours has 6-bit embeddings."""
    assert spearman("muse")["es-es"] == pytest.approx(84.24, abs=0.5)

"""The student that ships: its size, its vectors by two libraries, its stored scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distill.static import STUDENT
from harness import evaluate, load_encoder
from harness.data import bundled_sample
from harness.results.store import ResultStore
from harness.tasks import get_task
from harness.testing import check_encoder

for module in ("tokenizers", "safetensors"):
    pytest.importorskip(module)

LIMIT = 16 * 2**20


def test_it_takes_at_most_16_mib_and_says_its_licence():
    assert sum(path.stat().st_size for path in STUDENT.rglob("*") if path.is_file()) <= LIMIT
    card = (STUDENT / "README.md").read_text(encoding="utf-8")
    assert "license: cc-by-nc-4.0" in card and "Not for commercial use" in card and "leaderboard distill" in card


def test_it_keeps_the_contract():
    check_encoder(load_encoder("student"))


def test_its_vectors_are_those_of_sentence_transformers(tmp_path):
    from distill.compact import save_compact

    library = pytest.importorskip("sentence_transformers")
    task = get_task("tatoeba")
    texts = [text for source in task.sources(bundled_sample()).values() for text in task.load(source).foreign]
    save_compact(STUDENT, tmp_path / "int8", bits="int8")
    theirs = library.SentenceTransformer(str(tmp_path / "int8"), device="cpu").encode(texts, show_progress_bar=False)
    ours = load_encoder("student").encode(texts)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert len(texts) > 300 and ((ours * theirs).sum(1) / norms).min() > 0.999


@pytest.mark.slow
def test_it_finds_translations_and_paraphrases():
    """On the bundled sample, far from what spellings alone give (`chargrams`: accuracies below 30 on the average)."""
    encoder = load_encoder("student")
    found = {r.subset: r.metrics for r in evaluate(encoder, "tatoeba")}["avg-student@sample"]
    assert min(found["accuracy_en_xx"], found["accuracy_xx_en"]) > 90
    sts = {r.subset: r.metrics["spearman"] for r in evaluate(encoder, "sts17")}
    assert sts["avg-same@sample"] > 70 and sts["avg-cross@sample"] > 65


@pytest.mark.slow
def test_it_scores_what_its_record_says(real_data):
    stored = {r.subset: r for r in ResultStore(Path(__file__).parents[2] / "results").load("student", "sts17")}
    measured = evaluate(load_encoder("student"), "sts17", data_dir=real_data)
    assert len(measured) >= 6
    for result in measured:
        assert result.fingerprint == stored[result.subset].fingerprint
        assert result.metrics["spearman"] == pytest.approx(stored[result.subset].metrics["spearman"], abs=0.05)

"""Tatoeba against plain loops, scikit-learn's weighted F1 and sentence-transformers' own evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from harness.data.tatoeba import TatoebaPairs
from harness.tasks import get_task
from harness.tasks.tatoeba import averages, resolve

tatoeba = get_task("tatoeba")


def pairs_of(n: int) -> TatoebaPairs:
    return TatoebaPairs("deu", [f"x{i}" for i in range(n)], [f"e{i}" for i in range(n)], "de")


def encode_from(foreign: np.ndarray, english: np.ndarray):
    return lambda sentences, lang: english if lang == "en" else foreign


def nearest_by_hand(queries: np.ndarray, others: np.ndarray) -> list[int]:
    found = []
    for query in queries:
        scores = []
        for other in others:
            norm = float(np.linalg.norm(query)) * float(np.linalg.norm(other))
            scores.append(round(float(query @ other) / norm, 5) if norm else 0.0)
        found.append(scores.index(max(scores)))
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 15))
def test_both_directions_match_plain_loops(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    # Small whole numbers: ties are frequent, and cosines differ by more than the rounding of the oracle.
    foreign, english = (rng.integers(-1, 2, (n, 3)).astype(np.float32) for _ in range(2))
    rows = tatoeba.rows(pairs_of(n), encode_from(foreign, english))
    metrics = tatoeba.aggregate(rows)
    en_xx, xx_en = nearest_by_hand(english, foreign), nearest_by_hand(foreign, english)
    assert rows["found_en_xx"].tolist() == en_xx
    assert rows["found_xx_en"].tolist() == xx_en
    assert metrics["accuracy_en_xx"] == pytest.approx(100 * sum(i == j for i, j in enumerate(en_xx)) / n)
    assert metrics["accuracy_xx_en"] == pytest.approx(100 * sum(i == j for i, j in enumerate(xx_en)) / n)
    f1 = f1_score(range(n), xx_en, average="weighted", zero_division=0)
    assert metrics["f1_weighted_xx_en"] == pytest.approx(100 * f1)


def test_accuracy_is_that_of_sentence_transformers() -> None:
    torch = pytest.importorskip("torch")
    from sentence_transformers.sentence_transformer.evaluation import TranslationEvaluator

    rng = np.random.default_rng(7)
    n = 200
    english = rng.standard_normal((n, 16)).astype(np.float32)
    foreign = (english + 1.2 * rng.standard_normal((n, 16))).astype(np.float32)
    pairs = pairs_of(n)
    table = dict(zip(pairs.foreign + pairs.english, np.concatenate([foreign, english]), strict=True))

    class Model:
        """The one method that the evaluator calls."""

        model_card_data = None

        def encode(self, sentences: list[str], **options: object) -> list[object]:
            return [torch.from_numpy(table[sentence]) for sentence in sentences]

    evaluator = TranslationEvaluator(pairs.english, pairs.foreign, write_csv=False)
    evaluator.store_metrics_in_model_card_data = lambda *args, **kwargs: None
    theirs = evaluator(Model())
    ours = tatoeba.aggregate(tatoeba.rows(pairs, encode_from(foreign, english)))
    assert 30 < ours["accuracy_en_xx"] < 99
    assert ours["accuracy_en_xx"] == pytest.approx(100 * theirs["src2trg_accuracy"])
    assert ours["accuracy_xx_en"] == pytest.approx(100 * theirs["trg2src_accuracy"])


def test_groups_and_languages() -> None:
    assert resolve("paper") == resolve("avg-paper") == ("kat", "swh", "tgl", "tat")
    assert resolve("de") == resolve("deu") == ("deu",)
    assert resolve("de@sample") == ("deu@sample",)
    assert set(averages(["kat", "swh", "tgl", "tat", "deu"])) == {"avg-paper"}
    assert averages(["kat", "swh", "tgl"]) == {}

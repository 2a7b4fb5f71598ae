"""STS 2017 and language bias against SciPy, and the rules for averages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from harness.core.errors import InputError
from harness.data import DataDir, bundled_sample, open_data_dir
from harness.data.sts import STSPairs, load_sts, sts_sources
from harness.tasks import get_task
from harness.tasks.sts17 import averages, correlations, cosine, resolve

TEN = ("en-en", "es-es", "ar-ar", "en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")


def pseudo_vectors(sentences: list[str], lang: str | None) -> np.ndarray:
    """Some function of the text: counts of characters, by code point modulo 26."""
    return np.array([np.bincount([ord(c) % 26 for c in s], minlength=26) for s in sentences], np.float32)


def cosine_by_hand(a: np.ndarray, b: np.ndarray) -> float:
    a, b = [float(v) for v in a], [float(v) for v in b]
    norm = sum(v * v for v in a) ** 0.5 * sum(v * v for v in b) ** 0.5
    return sum(p * q for p, q in zip(a, b, strict=True)) / norm if norm else 0.0


def spearman_by_hand(pairs: STSPairs) -> tuple[list[float], float]:
    x, y = pseudo_vectors(pairs.sentences1, None), pseudo_vectors(pairs.sentences2, None)
    cosines = [cosine_by_hand(a, b) for a, b in zip(x, y, strict=True)]
    return cosines, 100 * spearmanr(cosines, pairs.gold).statistic


@pytest.mark.parametrize("subset", [f"{name}@sample" for name in TEN])
def test_spearman_is_scipys(subset: str) -> None:
    task, source = get_task("sts17"), sts_sources(bundled_sample())[subset]
    pairs = task.load(source)
    rows = task.rows(pairs, pseudo_vectors)
    cosines, spearman = spearman_by_hand(pairs)
    np.testing.assert_allclose(rows["cosine"], cosines, rtol=1e-12)
    assert task.aggregate(rows)["spearman"] == pytest.approx(spearman, abs=1e-9)
    assert task.count(pairs) == len(pairs.gold)


def test_language_bias_is_actual_minus_expected() -> None:
    task = get_task("language-bias")
    sources = task.sources(bundled_sample())
    assert list(sources) == ["official6@sample", "ten@sample"]
    sets = [load_sts(sts_sources(bundled_sample())[f"{name}@sample"]) for name in TEN]
    by_hand = [spearman_by_hand(pairs) for pairs in sets]
    expected = sum(spearman for _, spearman in by_hand) / len(sets)
    joined = [value for cosines, _ in by_hand for value in cosines]
    actual = 100 * spearmanr(joined, np.concatenate([pairs.gold for pairs in sets])).statistic
    metrics = task.aggregate(task.rows(task.load(sources["ten@sample"]), pseudo_vectors))
    assert metrics["expected"] == pytest.approx(expected)
    assert metrics["actual"] == pytest.approx(actual)
    assert metrics["difference"] == pytest.approx(actual - expected)


def test_a_zero_vector_has_cosine_zero() -> None:
    x, y = np.array([[0, 0], [1, 0]], np.float32), np.array([[1, 1], [2, 0]], np.float32)
    assert cosine(x, y).tolist() == [0, 1]


def test_constant_scores_correlate_with_nothing() -> None:
    assert correlations({"gold": np.array([1.0, 1.0]), "cosine": np.array([0.1, 0.2])})["spearman"] == 0


def test_averages_want_all_their_sets() -> None:
    assert averages(["en-en", "es-es"]) == {}
    assert set(averages(["en-en", "es-es", "ar-ar"])) == {"avg-same"}
    assert set(averages(TEN)) == {"avg-same", "avg-cross"}
    deepl = ["en-en", "es-es", "ar-ar", "en-ar", "en-tr", "en-es", "en-de@deepl", "en-fr@deepl", "en-it@deepl"]
    assert set(averages(deepl)) == {"avg-same"}
    complete = averages([*deepl, "en-nl@deepl", "en-es@deepl", "en-ja@deepl"])
    assert set(complete) == {"avg-same", "avg-cross@deepl"}
    # The Spanish set of the stand-ins' `more/` enters no average: the official one is there.
    assert "en-es" in complete["avg-cross@deepl"] and "en-es@deepl" not in complete["avg-cross@deepl"]
    assert set(averages([f"{name}@sample" for name in TEN])) == {"avg-same@sample", "avg-cross@sample"}


def test_names_of_averages_stand_for_their_sets() -> None:
    assert resolve("avg-same") == ("en-en", "es-es", "ar-ar")
    assert resolve("avg-cross@sample")[0] == "en-ar@sample"
    assert resolve("en-de") == ("en-de",)


def test_real_sets_have_250_pairs_each(real_data: Path) -> None:
    task = get_task("sts17")
    sources = task.sources(open_data_dir(real_data))
    assert {"en-en", "es-es", "ar-ar", "en-ar", "en-es", "en-tr"} <= set(sources)
    assert {task.count(task.load(source)) for source in sources.values()} == {250}


@pytest.mark.parametrize(
    ("task", "file", "header"),
    [
        ("sts17", "sts17-extended-mine/STS.en-de.txt", ""),
        ("korsts", "korsts-mine/sts-test.tsv", "sentence1\tsentence2\tscore\n"),
    ],
)
def test_one_pair_has_no_correlation(tmp_path: Path, task: str, file: str, header: str) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(f"{header}a\tb\t1\nc\td\t2\n")
    (source,) = get_task(task).sources(DataDir(tmp_path)).values()
    assert len(get_task(task).load(source).gold) == 2
    path.write_text(f"{header}a\tb\t1\n")
    with pytest.raises(InputError, match=f"{file}: one sentence pair has no correlation; add pairs"):
        get_task(task).load(source)

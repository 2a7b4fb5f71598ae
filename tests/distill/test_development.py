"""The development set: what is held out, and its scores against plain loops."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from distill.development import Development, DevPairs, hold_out
from harness.core.errors import InputError
from harness.data.sources import DataDir
from harness.tasks.leakage import EvaluationSentences

NO_GUARD = EvaluationSentences([])


def store(**sizes):
    """Corpora by name (`a_de`: 60 pairs); pair n of each has source `s n`."""
    parts, rows, targets = [], [], []
    for name, size in sizes.items():
        corpus, language = name.split("_")
        part = SimpleNamespace(name=f"{corpus}.en-{language}", target_lang=language, start=len(rows))
        rows += range(size)
        targets += [f"{name} {number}" for number in range(size)]
        part.stop = len(rows)
        parts.append(part)
    sources = [f"s {number}" for number in range(max(sizes.values()))]
    return SimpleNamespace(parts=parts, sources=sources, source_rows=np.array(rows, dtype=np.int32), targets=targets)


def test_about_evenly_over_corpora_and_at_most_a_tenth():
    pairs = store(a_de=500, b_de=100, c_de=5, a_tr=90)
    found = hold_out(pairs, NO_GUARD, pairs_per_language=60)
    names = [text.split()[0] for text in found.pairs["de"].targets]
    # 20 of each are wanted; a source that is drawn from both counts once.
    assert 0 < names.count("b_de") <= 10 and 15 <= names.count("a_de") <= 20 and "c_de" not in names
    assert len(found.pairs["tr"].targets) == 9
    assert found.is_held_out.sum() == len({text for dev in found.pairs.values() for text in dev.sources})
    for dev in found.pairs.values():
        assert [pairs.sources[row] for row in dev.source_rows] == dev.sources
        assert found.is_held_out[dev.source_rows].all()
        assert len(set(dev.sources)) == len(dev.sources) == len(set(dev.targets)) == len(dev.targets)


def test_what_is_drawn_of_a_corpus_does_not_depend_on_the_others():
    alone, beside = (hold_out(store(**sizes), NO_GUARD) for sizes in ({"a_tr": 90}, {"a_de": 500, "a_tr": 90}))
    assert alone.pairs["tr"].targets == beside.pairs["tr"].targets
    assert alone.digest == hold_out(store(a_tr=90), NO_GUARD).digest != beside.digest


def test_sentences_that_are_there_twice_are_taken_once():
    pairs = store(a_de=200)
    pairs.targets = [f"t {number % 4}" for number in range(200)]
    assert sorted(hold_out(pairs, NO_GUARD).pairs["de"].targets) == ["t 0", "t 1", "t 2", "t 3"]


def test_too_few_pairs():
    with pytest.raises(InputError, match="18 pairs are too few: a tenth of a corpus is held out"):
        hold_out(store(a_de=9, b_de=9), NO_GUARD)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "stsb").mkdir()
    for language in ("en", "de", "fr"):
        rows = [f"{language} one {n},{language} two {n},{n % 6}" for n in range(60 if language != "fr" else 59)]
        (tmp_path / f"stsb/stsb-{language}-train.csv").write_text("\n".join(rows) + "\n")
    return DataDir(tmp_path)


def test_sts_rows_are_aligned_and_free_of_evaluation_data(data):
    pairs = store(a_de=100, a_fr=100, a_tr=100)
    pairs.sources[7:9] = ["EN one 7!", "en two 8"]
    guard = EvaluationSentences([*(f"DE two {n}." for n in range(10, 30)), *(f"en one {n}" for n in range(30, 50))])
    found = hold_out(pairs, guard, data, sts_rows=50)
    sts = found.sts
    assert set(sts.sentences1) == {"en", "de"}  # fr has another number of rows, tr none
    numbers = [int(text.split()[-1]) for text in sts.sentences1["en"]]
    assert sorted(numbers) == [*range(10), *range(50, 60)]
    assert sts.sentences2["de"] == [f"de two {n}" for n in numbers] and sts.scores == [n % 6 for n in numbers]
    # What is in it is not trained on, either.
    assert found.is_held_out[7] and found.is_held_out[8]
    assert len(hold_out(pairs, guard, data, sts_rows=5).sts.scores) == 5


def cosine(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True)) / math.sqrt(sum(a * a for a in u) * sum(b * b for b in v))


def unit(u):
    return [a / math.sqrt(sum(b * b for b in u)) for a in u]


def test_scores_against_plain_loops(data):
    from scipy.stats import spearmanr

    random = np.random.default_rng(0)
    found = hold_out(store(a_de=300, a_tr=100), EvaluationSentences(["x"]), data, sts_rows=30)
    vectors: dict[str, np.ndarray] = {}
    asked = []

    def encode(texts):
        asked.append(texts)
        for text in texts:
            near = vectors.get("s " + text.split()[-1], np.zeros(5)) if text[:2] in ("a_", "de") else 0
            vectors[text] = random.standard_normal(5) + 0.7 * near
        return np.array([vectors[text] for text in texts], dtype=np.float32)

    wanted = random.standard_normal((300, 5)).astype(np.float32)
    scores = found.evaluate(encode, lambda rows: wanted[rows])
    assert len(asked) == 1 and len(asked[0]) == len(set(asked[0])) == found.n_sentences
    means = {name: [] for name in ("mse", "mse_unit", "accuracy_en_xx", "accuracy_xx_en")}
    for language, dev in found.pairs.items():
        source = [vectors[text].astype(np.float32).tolist() for text in dev.sources]
        target = [vectors[text].astype(np.float32).tolist() for text in dev.targets]
        teacher = wanted[dev.source_rows].tolist()
        n = len(source)
        error = [(a - b) ** 2 for t, v in zip(teacher, target, strict=True) for a, b in zip(t, v, strict=True)]
        units = [
            (a - b) ** 2 for t, v in zip(teacher, target, strict=True) for a, b in zip(unit(t), unit(v), strict=True)
        ]
        forward = [max(range(n), key=lambda j: cosine(source[i], target[j])) == i for i in range(n)]
        backward = [max(range(n), key=lambda i: cosine(source[i], target[j])) == j for j in range(n)]
        for name, value in zip(means, (error, units, forward, backward), strict=True):
            means[name].append(100 * sum(value) / len(value))
            assert scores[f"{name}:{language}"] == pytest.approx(means[name][-1], rel=1e-5)
    for name, values in means.items():
        assert scores[name] == pytest.approx(sum(values) / 2, rel=1e-5)
    assert 0 < scores["accuracy_en_xx"] < 100

    def rho(ones, twos):
        return 100 * spearmanr([cosine(vectors[a], vectors[b]) for a, b in zip(ones, twos, strict=True)], gold)[0]

    one, two, gold = found.sts.sentences1, found.sts.sentences2, found.sts.scores
    same = [rho(one[language], two[language]) for language in ("en", "de")]
    cross = (rho(one["en"], two["de"]) + rho(one["de"], two["en"])) / 2
    assert scores["sts:en-en"] == pytest.approx(same[0]) and scores["sts:en-de"] == pytest.approx(cross)
    assert scores["sts_same"] == pytest.approx(sum(same) / 2) and scores["sts_cross"] == pytest.approx(cross)


def test_zero_vectors_are_no_failure(data):
    found = hold_out(store(a_de=100), EvaluationSentences(["x"]), data, sts_rows=30)
    scores = found.evaluate(lambda texts: np.zeros((len(texts), 3), np.float32), lambda rows: np.ones((len(rows), 3)))
    assert scores["mse"] == 100 and scores["sts_same"] == 0
    assert scores["accuracy_en_xx"] == 10  # ties go to the first


def test_without_the_sts_benchmark():
    dev = {"de": DevPairs(np.array([0]), ["s"], ["t"])}
    scores = Development(dev, None, np.array([True])).evaluate(
        lambda texts: np.ones((len(texts), 2), np.float32), lambda rows: np.ones((1, 2), np.float32)
    )
    assert scores["mse"] == 0 and not any(name.startswith("sts") for name in scores)

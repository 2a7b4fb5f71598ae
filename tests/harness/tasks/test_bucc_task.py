"""The BUCC task from sentences to F1, against a reading of DESIGN's steps in plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mining_oracle import mine_oracle, threshold_oracle, unit_vectors

from harness.data import bundled_sample
from harness.data.bucc import BUCCPair, BUCCSplit
from harness.tasks import get_task

bucc = get_task("bucc")


def encode(sentences: list[str], lang: str | None) -> np.ndarray:
    """A vector a sentence: four whole numbers drawn by its stripped text."""
    rows = [np.random.default_rng(list(s.encode())).integers(-4, 5, 4) for s in sentences]
    return np.array(rows, np.float32).reshape(len(sentences), 4)


def split_of(seed: int, n: int, m: int) -> BUCCSplit:
    """Sentences with repetitions, some of which differ in a trailing blank only."""
    rng = np.random.default_rng(seed)
    texts1 = [f"{rng.integers(12)}" + " " * int(rng.integers(4) == 0) for _ in range(n)]
    texts2 = [f"{rng.integers(12)}" + " " * int(rng.integers(4) == 0) for _ in range(m)]
    gold = sorted({(int(rng.integers(n)), int(rng.integers(m))) for _ in range(max(1, min(n, m) // 2))})
    return BUCCSplit(texts1, texts2, np.array(gold, dtype=np.int64).reshape(-1, 2))


def scored_by_hand(split: BUCCSplit) -> list[tuple[float, tuple[int, int]]]:
    texts = (split.sentences1, split.sentences2)
    kept = []
    for side in texts:
        seen: list[str] = []
        kept.append([i for i, s in enumerate(side) if s not in seen and not seen.append(s)])
    vectors = [unit_vectors(encode([side[i] for i in rows], None)) for side, rows in zip(texts, kept, strict=True)]
    pairs, scores = mine_oracle(vectors[0], vectors[1], 4, "ratio", "max")
    counts = [Counter(s.strip() for s in side) for side in texts]
    scored = []
    for (i, j), score in zip(pairs, scores, strict=True):
        row1, row2 = kept[0][i], kept[1][j]
        single = counts[0][texts[0][row1].strip()] == 1 and counts[1][texts[1][row2].strip()] == 1
        if single:
            scored.append((score, (row1, row2)))
    return scored


def f1(correct: int, extracted: int, gold: int) -> float:
    return 200 * correct / (extracted + gold) if extracted + gold else 0.0


def counts(scored: list, gold: set, threshold: float) -> tuple[int, int, int]:
    taken = [pair for score, pair in scored if score >= threshold]
    return sum(pair in gold for pair in taken), len(taken), len(gold)


def tune(scored: list, gold: set) -> float:
    return threshold_oracle([score for score, _ in scored], [pair in gold for _, pair in scored], len(gold))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 16), st.integers(1, 16))
def test_from_sentences_to_scores(seed: int, n: int, m: int) -> None:
    training, test = split_of(seed, n, m), split_of(seed + 1, m, n)
    metrics = bucc.aggregate(bucc.rows(BUCCPair("xx-en", "xx", "en", training, test), encode))
    scored = {name: scored_by_hand(s) for name, s in (("training", training), ("test", test))}
    gold = {name: {tuple(p) for p in s.gold.tolist()} for name, s in (("training", training), ("test", test))}
    threshold = tune(scored["training"], gold["training"])
    assert metrics["threshold"] == pytest.approx(threshold)
    assert metrics["f1_train"] == pytest.approx(f1(*counts(scored["training"], gold["training"], threshold)))
    assert metrics["f1_test"] == pytest.approx(f1(*counts(scored["test"], gold["test"], threshold)))
    total = np.zeros(3, int)
    for parity in (0, 1):
        of_fold = [entry for entry in scored["training"] if entry[1][0] % 2 == parity]
        others = [entry for entry in scored["training"] if entry[1][0] % 2 != parity]
        gold_of_fold = {pair for pair in gold["training"] if pair[0] % 2 == parity}
        tuned = tune(others, gold["training"] - gold_of_fold)
        total += counts(of_fold, gold_of_fold, tuned)
    assert metrics["f1_heldout"] == pytest.approx(f1(*total.tolist()))


def test_a_repeated_sentence_is_not_scored_but_its_gold_pair_counts() -> None:
    vectors = {"a": [1, 0, 0], "b": [0, 1, 0], "b ": [0, 1, 0], "A": [1, 0, 0], "B": [0, 1, 0]}

    def encode_by_table(sentences: list[str], lang: str | None) -> np.ndarray:
        return np.array([vectors[s] for s in sentences], np.float32)

    split = BUCCSplit(["a", "b", "b "], ["A", "B"], np.array([[0, 0], [1, 1]]))
    metrics = bucc.aggregate(bucc.rows(BUCCPair("xx-en", "xx", "en", split, None), encode_by_table))
    assert (metrics["precision_train"], metrics["recall_train"]) == (100, 50)
    assert "f1_test" not in metrics


def test_signature_spells_the_protocol() -> None:
    assert "k:4|margin:ratio|retrieval:max|threshold:train|dedup:laser" in bucc.full_signature


def test_sample_is_mined_well_by_a_perfect_encoder() -> None:
    source = bucc.sources(bundled_sample())["de-en@sample"]
    pair = bucc.load(source)
    rng = np.random.default_rng(0)
    split = pair.training
    vectors = {s: rng.standard_normal(16) for s in split.sentences1 + split.sentences2}
    vectors |= {split.sentences1[i]: vectors[split.sentences2[j]] for i, j in split.gold.tolist()}
    found = bucc.rows(
        BUCCPair(pair.subset, pair.lang1, pair.lang2, split, None),
        lambda sentences, lang: np.array([vectors[s] for s in sentences], np.float32),
    )
    assert bucc.aggregate(found)["f1_train"] == 100


def test_an_average_needs_all_four_pairs() -> None:
    pairs = ("de-en", "fr-en", "ru-en", "zh-en")
    tagged = tuple(f"{pair}@ntrex" for pair in pairs)
    assert bucc.averages([*pairs[:3], *tagged]) == {"avg@ntrex": tagged}
    assert bucc.averages(pairs) == {"avg": pairs} and bucc.averages(pairs[1:]) == {}
    assert bucc.resolve("avg@ntrex") == tagged and bucc.resolve("avg") == pairs and bucc.resolve("de-en") == ("de-en",)

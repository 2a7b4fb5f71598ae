"""F1 with accepted pairs, and the rivals of a pair, beside plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mining_oracle import dot, neighbours, score_of, threshold_oracle, unit_vectors

from harness.data.bucc import BUCCPair, BUCCSplit
from harness.review.audit import audit, find_rivals, not_in_gold
from harness.review.sheet import Candidate
from harness.tasks.bucc import bucc


def encode(sentences: list[str], lang: str | None) -> np.ndarray:
    """A vector a sentence: five numbers drawn by its text."""
    return np.array([np.random.default_rng(list(s.encode())).standard_normal(5) for s in sentences], np.float32)


def pair_of(seed: int, n: int, m: int, n_distinct: int) -> BUCCPair:
    """Sentences, of which some recur, and gold pairs one to one."""
    rng = np.random.default_rng(seed)
    texts1, texts2 = ([f"{side}{rng.integers(n_distinct)}" for _ in range(size)] for side, size in (("x", n), ("y", m)))
    n_gold = max(1, min(n, m) // 2)
    gold = np.column_stack([rng.permutation(n)[:n_gold], rng.permutation(m)[:n_gold]]).astype(np.int64)
    return BUCCPair("xx-en", "xx", "en", BUCCSplit(texts1, texts2, gold), None)


def candidate(rows: dict[str, np.ndarray], position: int, threshold: float, gold: set[tuple[int, int]]) -> Candidate:
    row1, row2, score = int(rows["row1"][position]), int(rows["row2"][position]), float(rows["score"][position])
    partners = [b for a, b in gold if a == row1], [a for a, b in gold if b == row2]
    of_both = tuple("partner" if listed else "" for listed in partners)
    return Candidate(position, score, score >= threshold, (f"x-{row1}", f"y-{row2}"), ("a", "b"), of_both)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 20), st.integers(2, 20), st.integers(1, 8), st.data())
def test_scores_with_accepted_pairs(seed: int, n: int, m: int, top: int, data: st.DataObject) -> None:
    pair = pair_of(seed, n, m, 30)
    rows = bucc.rows(pair, encode)
    gold = {(a, b) for a, b in pair.training.gold.tolist()}
    mined = [
        (score, (a, b))
        for a, b, score in zip(rows["row1"].tolist(), rows["row2"].tolist(), rows["score"].tolist(), strict=True)
        if not math.isnan(score)
    ]

    def tuned(gold: set[tuple[int, int]]) -> float:
        return threshold_oracle([score for score, _ in mined], [p in gold for _, p in mined], len(gold))

    def scores(gold: set[tuple[int, int]], threshold: float) -> tuple[float, float, float, int, int, int]:
        taken = [p for score, p in mined if score >= threshold]
        correct = sum(p in gold for p in taken)
        precision, recall = 100 * correct / len(taken) if taken else 0.0, 100 * correct / len(gold)
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return precision, recall, f1, correct, len(taken), len(gold)

    positions = not_in_gold(rows, top)
    lacking = [p for _, p in mined if p not in gold][:top]
    assert [(int(rows["row1"][i]), int(rows["row2"][i])) for i in positions] == lacking
    if not lacking:
        return
    verdicts = data.draw(st.lists(st.sampled_from(["yes", "no", "unsure", ""]), min_size=len(lacking), max_size=top))
    verdicts = [*verdicts[: len(lacking) - 1], "yes"]
    kept = tuned(gold)
    accepted = [p for p, verdict in zip(lacking, verdicts, strict=True) if verdict == "yes"]
    result = audit(rows, [candidate(rows, int(i), kept, gold) for i in positions], verdicts)

    more = gold | set(accepted)
    for reading, its_gold, threshold in (
        (result.train, gold, kept),
        (result.audited, more, tuned(more)),
        (result.audited_kept, more, kept),
    ):
        assert reading.threshold == pytest.approx(threshold)
        counted = (reading.n_correct, reading.n_extracted, reading.n_gold)
        assert (reading.precision, reading.recall, reading.f1, *counted) == pytest.approx(scores(its_gold, threshold))
    assert result.train.f1 == pytest.approx(bucc.aggregate(rows)["f1_train"])
    assert (result.n_listed, result.n_accepted) == (len(lacking), len(accepted))
    assert (result.n_rejected, result.n_unsure) == (verdicts.count("no"), verdicts.count("unsure"))
    assert result.n_reviewed == len(verdicts) - verdicts.count("")
    wrong = [p for score, p in mined if score >= kept and p not in gold]
    assert result.n_unconfirmed == len(wrong)
    assert result.n_unconfirmed_reviewed == sum(v != "" and p in wrong for p, v in zip(lacking, verdicts, strict=True))
    assert result.n_sharing == sum(any(a == c or b == d for c, d in gold) for a, b in accepted)
    assert rows["gold"].sum() == len(gold)  # the rows that were given are as they were


@pytest.mark.parametrize(("good", "n"), [(57, 60), (0, 7), (7, 7), (1, 1)])
def test_share_of_good_translations(good: int, n: int) -> None:
    """Wilson's interval (JASA 1927) as its formula stands."""
    rows = {
        "split": np.full(n + 1, "training"),
        "row1": np.arange(n + 1),
        "row2": np.arange(n + 1),
        "score": np.linspace(2, 1, n + 1),
        "gold": np.arange(n + 1) == 0,
    }
    candidates = [candidate(rows, i, 0.0, set()) for i in range(1, n + 1)]
    result = audit(rows, candidates, ["yes"] * good + ["no"] * (n - good))
    z, p = 1.959963984540054, good / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((p + z * z / (2 * n) + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    assert (result.good, result.good_low, result.good_high) == pytest.approx((100 * p, 100 * low, 100 * high), abs=1e-9)


def rivals_by_hand(
    x: list[str], y: list[str], pairs: list[tuple[str, str]], n: int, k: int
) -> list[list[tuple[float, float, str]]]:
    """For each x of the pairs, the best other y: margin score, similarity, sentence."""
    of_x, of_y = unit_vectors(encode(x, None)), unit_vectors(encode(y, None))
    similarity = [[dot(a, b) for b in of_y] for a in of_x]

    def means(rows: list[list[float]]) -> list[float]:
        return [sum(row[j] for j in near) / len(near) for row, near in zip(rows, neighbours(rows, k), strict=True)]

    mean_x, mean_y = means(similarity), means([list(column) for column in zip(*similarity, strict=True)])
    listed = []
    for own, partner in pairs:
        i = x.index(own)
        scored = [
            (score_of(similarity[i][j], (mean_x[i] + mean_y[j]) / 2, "ratio"), similarity[i][j], y[j])
            for j in neighbours(similarity, max(k, n + 1))[i]
            if y[j] != partner
        ]
        listed.append(sorted(scored, reverse=True)[:n])
    return listed


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 14), st.integers(1, 14), st.integers(1, 4), st.integers(1, 4), st.data())
def test_rivals(seed: int, n_x: int, n_y: int, n: int, k: int, data: st.DataObject) -> None:
    pair = pair_of(seed, n_x, n_y, 12)
    split = pair.training
    # Any pair may be asked for, whether or not it was mined; mining names a repeated sentence by its first row.
    firsts = [[i for i, s in enumerate(side) if side.index(s) == i] for side in (split.sentences1, split.sentences2)]
    chosen = [data.draw(st.lists(st.sampled_from(rows), min_size=3, max_size=3)) for rows in firsts]
    found = find_rivals(pair, *(np.array(rows) for rows in chosen), n, encode, k)
    x, y = list(dict.fromkeys(split.sentences1)), list(dict.fromkeys(split.sentences2))
    pairs = [(split.sentences1[a], split.sentences2[b]) for a, b in zip(*chosen, strict=True)]
    expected = (
        rivals_by_hand(x, y, pairs, n, k),
        rivals_by_hand(y, x, [(second, first) for first, second in pairs], n, k),
    )
    for side, others, of_side in zip(found, (split.sentences2, split.sentences1), expected, strict=True):
        for listed, by_hand in zip(side, of_side, strict=True):
            assert [others[rival.row] for rival in listed] == [text for _, _, text in by_hand]
            assert [others.index(others[rival.row]) for rival in listed] == [rival.row for rival in listed]
            assert [rival.score for rival in listed] == pytest.approx([score for score, _, _ in by_hand])
            assert [rival.similarity for rival in listed] == pytest.approx([value for _, value, _ in by_hand])

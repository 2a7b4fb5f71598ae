"""Auditing the gold of BUCC: the best mined pairs that it lacks, and F1 with those added that a reviewer accepts.

The gold has the translations that were planted in the text, and not those that stand there anyway: of 60 top "false
positives", Reimers and Gurevych (2020), section 4.2, found 57 to be good translations. See `harness.tasks.bucc_review`
for the file that the reviewer fills in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.data.bucc import BUCCPair
from harness.data.sources import Source
from harness.data.text import iter_lines
from harness.mining import margin_scores, nearest, precision_recall_f1
from harness.tasks.bucc import K, aggregate, count_pairs, distinct
from harness.tasks.task import Encode, Rows

VERDICTS = ("yes", "no", "unsure")


@dataclass(frozen=True)
class Rival:
    """Another candidate for one side of a pair: its margin score and similarity to that side, and its row."""

    score: float
    similarity: float
    row: int


@dataclass(frozen=True)
class Candidate:
    """A mined pair that is not in the gold.

    Attributes:
        position: its row in the rows of the training split.
        score: its margin score; `above_threshold`: whether `f1_train` counts it as extracted.
        ids, sentences: of both sides.
        gold: for each side, id and sentence of its partner in the gold; empty if it has none.
        rivals: for each side, the best other candidates, best first, as text.
    """

    position: int
    score: float
    above_threshold: bool
    ids: tuple[str, str]
    sentences: tuple[str, str]
    gold: tuple[str, str]
    rivals: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def not_in_gold(training: Rows, top: int) -> NDArray[np.int64]:
    """Positions of the `top` highest-scoring mined pairs that are not in the gold, in descending score."""
    return np.flatnonzero(~np.isnan(training["score"]) & ~training["gold"])[:top]


def find_rivals(
    pair: BUCCPair, rows1: NDArray[np.int64], rows2: NDArray[np.int64], n: int, encode: Encode
) -> tuple[list[list[Rival]], list[list[Rival]]]:
    """For each side of the pairs (rows1[i], rows2[i]), the n best candidates other than the pair's own.

    Candidates are the nearest neighbours, K of them and at least n + 1, in descending margin score. A
    repeated sentence is one candidate, with its first row.
    """
    texts, rows, at = [], [], []
    for sentences, wanted in ((pair.training.sentences1, rows1), (pair.training.sentences2, rows2)):
        kept, first = distinct(sentences)
        texts.append(kept)
        rows.append(first)
        at.append(np.searchsorted(first, wanted))
    x, y = encode(texts[0], pair.lang1), encode(texts[1], pair.lang2)
    return (
        _rivals_of_x(x, y, at[0], at[1], rows[1], n),
        _rivals_of_x(y, x, at[1], at[0], rows[0], n),
    )


def _rivals_of_x(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    at_x: NDArray[np.int64],
    at_y: NDArray[np.int64],
    rows_of_y: NDArray[np.int64],
    n: int,
) -> list[list[Rival]]:
    # The means of the few sentences in question, from all of the other side: the whole need not be mined again.
    near, _ = nearest(x[at_x], y, max(K, n + 1))
    rivals, places = np.unique(near.rows, return_inverse=True)
    around_y, _ = nearest(y[rivals], x, K)
    mean_x = near.similarity[:, :K].mean(axis=1)
    mean_y = around_y.similarity.mean(axis=1)[places.reshape(near.rows.shape)]
    scores = margin_scores(near.similarity, mean_x[:, None], mean_y, "ratio")
    found = []
    for own, order in enumerate(np.argsort(-scores, axis=1, kind="stable")):
        others = [i for i in order if near.rows[own, i] != at_y[own]][:n]
        found.append(
            [Rival(scores[own, i], near.similarity[own, i], int(rows_of_y[near.rows[own, i]])) for i in others]
        )
    return found


def describe(
    training: Rows,
    positions: NDArray[np.int64],
    pair: BUCCPair,
    source: Source,
    rivals: tuple[list[list[Rival]], list[list[Rival]]] | None = None,
) -> list[Candidate]:
    """What a reviewer is to see of the mined pairs at `positions`. Reads their ids from the files of `source`."""
    threshold = aggregate(training)["threshold"]
    sides = (pair.training.sentences1, pair.training.sentences2)
    pairs = np.column_stack([training["row1"], training["row2"]])[positions].tolist()
    partners = (dict(pair.training.gold.tolist()), dict(pair.training.gold[:, ::-1].tolist()))
    rivals = rivals or ([[] for _ in pairs], [[] for _ in pairs])
    # A sentence's partner and its rivals are rows of the other side.
    wanted: tuple[set[int], set[int]] = ({first for first, _ in pairs}, {second for _, second in pairs})
    for own in (0, 1):
        wanted[1 - own].update(partners[own][two[own]] for two in pairs if two[own] in partners[own])
        wanted[1 - own].update(rival.row for listed in rivals[own] for rival in listed)
    ids = [_ids(source, lang, rows) for lang, rows in zip((pair.lang1, pair.lang2), wanted, strict=True)]

    def text(side: int, row: int | None) -> str:
        return "" if row is None else f"{ids[side][row]} {sides[side][row]}"

    def of_rivals(own: int, i: int) -> tuple[str, ...]:
        return tuple(f"{r.score:.4f} (cosine {r.similarity:.4f}) {text(1 - own, r.row)}" for r in rivals[own][i])

    found = []
    for i, (position, (first, second)) in enumerate(zip(positions.tolist(), pairs, strict=True)):
        score = float(training["score"][position])
        found.append(
            Candidate(
                position=position,
                score=score,
                above_threshold=score >= threshold,
                ids=(ids[0][first], ids[1][second]),
                sentences=(sides[0][first], sides[1][second]),
                gold=(text(1, partners[0].get(first)), text(0, partners[1].get(second))),
                rivals=(of_rivals(0, i), of_rivals(1, i)),
            )
        )
    return found


def _ids(source: Source, lang: str, rows: set[int]) -> dict[int, str]:
    """The ids of some rows of the training split's file in a language."""
    (path,) = (p for p in source.files if p.name.removesuffix(".gz").endswith(f".training.{lang}"))
    return {row: line.partition("\t")[0] for row, line in enumerate(iter_lines(path)) if row in rows}


@dataclass(frozen=True)
class Reading:
    """F1 at one threshold against one gold: precision, recall and F1 x 100, and the counts that they come from."""

    threshold: float
    precision: float
    recall: float
    f1: float
    n_correct: int
    n_extracted: int
    n_gold: int


@dataclass(frozen=True)
class Audit:
    """What the verdicts make of F1 on the training split.

    Attributes:
        train: against the gold of the data, `f1_train`.
        audited: by the same procedure (threshold tuned, then scored) against the gold with the accepted pairs added.
        audited_kept: against that gold too, at the threshold of `train`; what lies below it lowers the recall.
        n_listed, n_reviewed, n_accepted, n_rejected, n_unsure: pairs in the file, and the verdicts on them.
        n_unconfirmed: extracted pairs that are not in the gold of the data; n_unconfirmed_reviewed: those reviewed.
        n_sharing: accepted pairs with a sentence that has another partner in the gold of the data. Where each sentence
            is used once, only one of the two can be extracted, and the other lowers the recall.
        good: accepted among the reviewed, in per cent; `good_low`, `good_high`: Wilson's 95 % interval.
    """

    train: Reading
    audited: Reading
    audited_kept: Reading
    n_listed: int
    n_reviewed: int
    n_accepted: int
    n_rejected: int
    n_unsure: int
    n_unconfirmed: int
    n_unconfirmed_reviewed: int
    n_sharing: int
    good: float
    good_low: float
    good_high: float


def audit(training: Rows, candidates: Sequence[Candidate], verdicts: Sequence[str]) -> Audit:
    """F1 with the accepted candidates as gold pairs, on the rows of the training split that they were taken from.

    verdicts: one a candidate, of `VERDICTS` or ""; not all empty. "unsure" counts as reviewed and not accepted.
    """
    from scipy.stats import binomtest

    accepted = [one for one, verdict in zip(candidates, verdicts, strict=True) if verdict == "yes"]
    gold = training["gold"].copy()
    gold[[one.position for one in accepted]] = True
    with_accepted = {**training, "gold": gold}
    threshold = aggregate(training)["threshold"]
    train = _reading(training, threshold)
    counts = Counter(verdicts)
    n_reviewed = sum(counts[verdict] for verdict in VERDICTS)
    share = binomtest(len(accepted), n_reviewed)
    interval = share.proportion_ci(0.95, method="wilson")
    return Audit(
        train=train,
        audited=_reading(with_accepted, aggregate(with_accepted)["threshold"]),
        audited_kept=_reading(with_accepted, threshold),
        n_listed=len(candidates),
        n_reviewed=n_reviewed,
        n_accepted=len(accepted),
        n_rejected=counts["no"],
        n_unsure=counts["unsure"],
        n_unconfirmed=train.n_extracted - train.n_correct,
        n_unconfirmed_reviewed=sum(
            one.above_threshold and v != "" for one, v in zip(candidates, verdicts, strict=True)
        ),
        n_sharing=sum(any(one.gold) for one in accepted),
        good=100 * share.statistic,
        good_low=100 * interval.low,
        good_high=100 * interval.high,
    )


def _reading(training: Rows, threshold: float) -> Reading:
    n_correct, n_extracted, n_gold = count_pairs(training, threshold).tolist()
    return Reading(threshold, *precision_recall_f1(n_correct, n_extracted, n_gold), n_correct, n_extracted, n_gold)

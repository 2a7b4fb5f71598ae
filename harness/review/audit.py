"""Auditing the gold of BUCC: the best mined pairs that it lacks, and F1 with those added that a reviewer accepts.

The gold has the translations that were planted in the text, and not those that stand there anyway: of 60 top "false
positives", Reimers and Gurevych (2020), section 4.2, found 57 to be good translations. See `harness.review.sheet`
for the file that the reviewer fills in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.escaping import json_text
from harness.core.text import iter_lines
from harness.data.bucc import BUCCPair
from harness.data.sources import Source
from harness.encoders.encoder import Encoder
from harness.mining import margin_scores, nearest, precision_recall_f1
from harness.protocol.task import Encode, Rows
from harness.report.cells import Cell, Column, Note, Row, Table
from harness.review.sheet import VERDICTS, Candidate
from harness.tasks.bucc import K, aggregate, bucc, count_pairs, distinct


@dataclass(frozen=True)
class Rival:
    """Another candidate for one side of a pair: its margin score and similarity to that side, and its row."""

    score: float
    similarity: float
    row: int


def origin_of(encoder: Encoder, source: Source) -> dict[str, str]:
    """What a review belongs to: equal values promise the same mined pairs."""
    return {
        "subset": source.subset,
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "data": source.sha256,
        "protocol": bucc.full_signature,
    }


def not_in_gold(training: Rows, top: int) -> NDArray[np.int64]:
    """Positions of the `top` highest-scoring mined pairs that are not in the gold, in descending score."""
    return np.flatnonzero(~np.isnan(training["score"]) & ~training["gold"])[:top]


def find_rivals(
    pair: BUCCPair, rows1: NDArray[np.int64], rows2: NDArray[np.int64], n: int, encode: Encode, k: int = K
) -> tuple[list[list[Rival]], list[list[Rival]]]:
    """For each side of the pairs (rows1[i], rows2[i]), the n best candidates other than the pair's own.

    Candidates are the nearest neighbours, k of them and at least n + 1, in descending margin score. A repeated sentence
    is one candidate, with its first row.
    """
    (texts1, first1), (texts2, first2) = distinct(pair.training.sentences1), distinct(pair.training.sentences2)
    x, y = encode(texts1, pair.lang1), encode(texts2, pair.lang2)
    at1, at2 = np.searchsorted(first1, rows1), np.searchsorted(first2, rows2)
    return _rivals_of_x(x, y, at1, at2, first2, n, k), _rivals_of_x(y, x, at2, at1, first1, n, k)


def _rivals_of_x(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    at_x: NDArray[np.int64],
    at_y: NDArray[np.int64],
    rows_of_y: NDArray[np.int64],
    n: int,
    k: int,
) -> list[list[Rival]]:
    # The means of the few sentences in question, from all of the other side: the whole need not be mined again.
    near, _ = nearest(x[at_x], y, max(k, n + 1))
    candidates, places = np.unique(near.rows, return_inverse=True)
    around_y, _ = nearest(y[candidates], x, k)
    mean_x = near.similarity[:, :k].mean(axis=1)
    mean_y = around_y.similarity.mean(axis=1)[places.reshape(near.rows.shape)]
    scores = margin_scores(near.similarity, mean_x[:, None], mean_y)
    rivals = []
    for i, order in enumerate(np.argsort(-scores, axis=1, kind="stable")):
        others = [place for place in order if near.rows[i, place] != at_y[i]][:n]
        rivals.append(
            [Rival(scores[i, j], near.similarity[i, j], int(rows_of_y[near.rows[i, j]])) for j in others],
        )
    return rivals


def describe(
    training: Rows,
    positions: NDArray[np.int64],
    pair: BUCCPair,
    source: Source,
    rivals: tuple[list[list[Rival]], list[list[Rival]]] | None = None,
) -> list[Candidate]:
    """What a reviewer is to see of the mined pairs at `positions`. Reads the ids from the files of `source`."""
    threshold = aggregate(training)["threshold"]
    sentences = (pair.training.sentences1, pair.training.sentences2)
    ids = [_ids(source, lang) for lang in (pair.lang1, pair.lang2)]
    partners = (dict(pair.training.gold.tolist()), dict(pair.training.gold[:, ::-1].tolist()))

    def text(side: int, row: int | None) -> str:
        return "" if row is None else f"{ids[side][row]} {sentences[side][row]}"

    def rival_texts(side: int, i: int) -> tuple[str, ...]:
        """A sentence's rivals are rows of the other side."""
        listed = rivals[side][i] if rivals else []
        return tuple(f"{r.score:.4f} (cosine {r.similarity:.4f}) {text(1 - side, r.row)}" for r in listed)

    candidates = []
    for i, position in enumerate(positions.tolist()):
        row1, row2 = int(training["row1"][position]), int(training["row2"][position])
        score = float(training["score"][position])
        candidates.append(
            Candidate(
                position=position,
                score=score,
                above_threshold=score >= threshold,
                ids=(ids[0][row1], ids[1][row2]),
                sentences=(sentences[0][row1], sentences[1][row2]),
                gold=(text(1, partners[0].get(row1)), text(0, partners[1].get(row2))),
                rivals=(rival_texts(0, i), rival_texts(1, i)),
            )
        )
    return candidates


def _ids(source: Source, lang: str) -> list[str]:
    """The ids of the training split's file in a language, in the order of its lines."""
    (path,) = (path for path in source.files if path.name.removesuffix(".gz").endswith(f".training.{lang}"))
    return [line.partition("\t")[0] for line in iter_lines(path)]


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

    @property
    def readings(self) -> dict[str, Reading]:
        """The three readings of F1 by the endings of their names."""
        return {"": self.train, "_audited": self.audited, "_audited_kept": self.audited_kept}


def audit(training: Rows, candidates: Sequence[Candidate], verdicts: Sequence[str]) -> Audit:
    """F1 with the accepted candidates as gold pairs, on the rows of the training split that they were taken from.

    verdicts: one a candidate, of `VERDICTS` or ""; not all empty. "unsure" counts as reviewed and not accepted.
    """
    from scipy.stats import binomtest

    accepted = [candidate for candidate, verdict in zip(candidates, verdicts, strict=True) if verdict == "yes"]
    gold = training["gold"].copy()
    gold[[candidate.position for candidate in accepted]] = True
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
            bool(candidate.above_threshold and verdict) for candidate, verdict in zip(candidates, verdicts, strict=True)
        ),
        n_sharing=sum(any(candidate.gold or ()) for candidate in accepted),
        good=100 * share.statistic,
        good_low=100 * interval.low,
        good_high=100 * interval.high,
    )


def _reading(training: Rows, threshold: float) -> Reading:
    n_correct, n_extracted, n_gold = count_pairs(training, threshold).tolist()
    return Reading(threshold, *precision_recall_f1(n_correct, n_extracted, n_gold), n_correct, n_extracted, n_gold)


def as_table(result: Audit, encoder: str, subset: str) -> Table:
    """The three readings of F1 and what the review says."""

    heads = ("metric", "F1", "precision", "recall", "threshold", "correct", "extracted", "gold")
    rows = []
    for suffix, reading in result.readings.items():
        scores = [Cell(value, "score") for value in (reading.f1, reading.precision, reading.recall)]
        counts = [Cell(n, "count") for n in (reading.n_correct, reading.n_extracted, reading.n_gold)]
        rows.append(Row((Cell(f"f1_train{suffix}"), *scores, Cell(reading.threshold, "threshold"), *counts)))
    notes = [
        "f1_train: against the gold of the data, as published figures are",
        "f1_train_audited: accepted pairs added to the gold, threshold tuned on it; kept: at the threshold of f1_train",
        f"{result.n_reviewed} of {result.n_listed} listed pairs reviewed: {result.n_accepted} accepted, "
        f"{result.n_rejected} rejected, {result.n_unsure} unsure",
        f"good translations among them (unsure is not): {result.good:.1f} %, 95 % interval {result.good_low:.1f} to "
        f"{result.good_high:.1f} (Wilson)",
        f"of {result.n_unconfirmed} extracted pairs that are not in the gold, {result.n_unconfirmed_reviewed} were "
        "reviewed; the others count as wrong",
    ]
    if n := result.n_sharing:
        notes.append(
            f"{n} accepted pair{'s have' if n > 1 else ' has'} a sentence that the gold pairs with another: of the "
            "two, one at most is extracted, and the other counts as missed"
        )
    columns = tuple(Column(head, is_number=head != "metric") for head in heads)
    return Table(f"BUCC audit of {encoder} on {subset}, scores x 100", columns, tuple(rows), tuple(map(Note, notes)))


def as_json(result: Audit, origin: Mapping[str, str]) -> str:
    """The metrics under the names of the table; `review` has the counts and the share of `Audit`.

    origin: what the pairs come from, see `origin_of`.
    """
    metrics: dict[str, float] = {}
    for suffix, reading in result.readings.items():
        metrics |= {f"{name}_train{suffix}": round(getattr(reading, name), 6) for name in ("f1", "precision", "recall")}
        metrics |= {f"{name}{suffix}": getattr(reading, name) for name in ("n_correct", "n_extracted", "n_gold")}
        metrics[f"threshold{suffix}"] = round(reading.threshold, 6)
    review = {name: round(value, 6) for name, value in vars(result).items() if not isinstance(value, Reading)}
    content = {
        **{key: origin[key] for key in ("subset", "encoder", "fingerprint", "protocol")},
        "dataset_sha256": origin["data"],
        "metrics": metrics,
        "review": review,
    }
    return json_text(content, indent=2, sort_keys=True)

"""BUCC bitext mining: margin scores, one-to-one retrieval, a threshold tuned on the training split, F1.

Zweigenbaum, Sharoff and Rapp, "Overview of the Third BUCC Shared Task" (2018); the protocol is that of Artetxe and
Schwenk (ACL 2019) and LASER's `bucc.sh`, which Reimers and Gurevych (2020), section 4.2, follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.data.bucc import PAIRS, BUCCPair, BUCCSplit, bucc_sources, load_bucc
from harness.mining import Margin, Retrieval, best_threshold, mine, precision_recall_f1
from harness.tasks.task import Encode, Rows, Task

READINGS = ("train", "test", "heldout")
K = 4
"""Neighbours a side for candidates and margin."""
Dedup = Literal["laser", "none"]


@dataclass(frozen=True)
class Protocol:
    """The choices that the scores depend on; see `harness.mining.mine` for the first three.

    dedup: "laser" merges identical sentences of a side before mining (its `--unify`) and drops the pairs of a sentence
    that occurs more than once in its file, compared stripped, while its gold pairs stay in the recall denominator (its
    `bucc.py`); "none" does neither.
    """

    k: int = K
    margin: Margin = "ratio"
    retrieval: Retrieval = "max"
    dedup: Dedup = "laser"

    @property
    def signature(self) -> str:
        """The protocol spelt out."""
        mining = f"k:{self.k}|margin:{self.margin}|retrieval:{self.retrieval}"
        return f"{mining}|threshold:train|dedup:{self.dedup}|backend:exact"


def mine_split(protocol: Protocol, split: BUCCSplit, langs: tuple[str, str], encode: Encode, name: str) -> Rows:
    """One row a mined pair in descending score, then one a gold pair that was not mined (score NaN).

    Columns: split, row1 and row2 (rows of the two files), score, gold (whether it is a gold pair).
    """
    texts1, texts2 = split.sentences1, split.sentences2
    first1, first2 = np.arange(len(texts1)), np.arange(len(texts2))
    if protocol.dedup == "laser":
        (texts1, first1), (texts2, first2) = distinct(texts1), distinct(texts2)
    x, y = encode(texts1, langs[0]), encode(texts2, langs[1])
    mined, scores = mine(x, y, k=protocol.k, margin=protocol.margin, retrieval=protocol.retrieval)
    pairs = np.column_stack([first1[mined[:, 0]], first2[mined[:, 1]]])
    if protocol.dedup == "laser":
        kept = ~(repeated(split.sentences1)[pairs[:, 0]] | repeated(split.sentences2)[pairs[:, 1]])
        pairs, scores = pairs[kept], scores[kept]

    # A pair as one number, so that membership is a set operation on arrays.
    width = max(len(split.sentences2), 1)
    codes, gold_codes = pairs @ [width, 1], split.gold @ [width, 1]
    missed = split.gold[~np.isin(gold_codes, codes)]
    rows = np.concatenate([pairs, missed])
    return {
        "split": np.full(len(rows), name),
        "row1": rows[:, 0],
        "row2": rows[:, 1],
        "score": np.concatenate([scores, np.full(len(missed), np.nan)]),
        "gold": np.concatenate([np.isin(codes, gold_codes), np.ones(len(missed), dtype=bool)]),
    }


def distinct(sentences: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct sentences in the order of their first occurrence, and the rows of those."""
    first: dict[str, int] = {}
    for row, sentence in enumerate(sentences):
        first.setdefault(sentence, row)
    return list(first), np.fromiter(first.values(), dtype=np.int64, count=len(first))


def repeated(sentences: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each sentence, stripped, occurs more than once."""
    counts = Counter(sentence.strip() for sentence in sentences)
    return np.fromiter((counts[s.strip()] > 1 for s in sentences), dtype=bool, count=len(sentences))


def rows(protocol: Protocol, pair: BUCCPair, encode: Encode) -> Rows:
    """The rows of the training split and, where its gold is there, of the test split."""
    langs = (pair.lang1, pair.lang2)
    parts = [mine_split(protocol, pair.training, langs, encode, "training")]
    if pair.test is not None:
        parts.append(mine_split(protocol, pair.test, langs, encode, "test"))
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def aggregate(rows: Rows) -> dict[str, float]:
    """`threshold` and, for each of three readings, precision, recall and F1 x 100.

    train: the threshold tuned and scored on the training split, as published figures are; test: that threshold on the
    test split; heldout: two folds of the training split by the parity of the source row, tuned on one, scored on the
    other, the folds' counts added.
    """
    training = _select(rows, rows["split"] == "training")
    threshold = _tuned(training)
    readings = {"train": count_pairs(training, threshold)}
    if (rows["split"] == "test").any():
        readings["test"] = count_pairs(_select(rows, rows["split"] == "test"), threshold)
    even, odd = (_select(training, training["row1"] % 2 == parity) for parity in (0, 1))
    readings["heldout"] = count_pairs(even, _tuned(odd)) + count_pairs(odd, _tuned(even))
    metrics = {"threshold": threshold}
    for reading, counts in readings.items():
        values = precision_recall_f1(*counts.tolist())
        metrics |= {f"{m}_{reading}": v for m, v in zip(("precision", "recall", "f1"), values, strict=True)}
    return metrics


def _select(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    return {key: column[chosen] for key, column in rows.items()}


def _tuned(rows: Rows) -> float:
    """The threshold with the best F1; mined rows stand in descending score."""
    mined = ~np.isnan(rows["score"])
    return best_threshold(rows["score"][mined], rows["gold"][mined], int(rows["gold"].sum()))


def count_pairs(rows: Rows, threshold: float) -> NDArray[np.int64]:
    """Correct pairs, extracted pairs and gold pairs; NaN (not mined) is below every threshold."""
    extracted = rows["score"] >= threshold
    return np.array([(extracted & rows["gold"]).sum(), extracted.sum(), rows["gold"].sum()])


def bucc_task(protocol: Protocol | None = None, *, name: str = "bucc") -> Task:
    """The task under a protocol; one that is not the default wants a name of its own, its results are others."""
    protocol = protocol or Protocol()
    return Task(
        name=name,
        version="1",
        description="BUCC: F1 of margin-based bitext mining with a threshold tuned on the training split",
        metrics=(*(f"{m}_{reading}" for m in ("f1", "precision", "recall") for reading in READINGS), "threshold"),
        signature=protocol.signature,
        published=PAIRS,
        sources=bucc_sources,
        load=load_bucc,
        rows=partial(rows, protocol),
        aggregate=aggregate,
        count=lambda pair: len(pair.training.gold),
    )


bucc = bucc_task()

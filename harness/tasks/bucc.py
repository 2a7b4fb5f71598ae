"""BUCC bitext mining: margin scores, one-to-one retrieval, a threshold tuned on the training split, F1.

Zweigenbaum, Sharoff and Rapp, "Overview of the Third BUCC Shared Task" (2018); the protocol is that of Artetxe and
Schwenk (ACL 2019) and LASER's `bucc.sh`, which Reimers and Gurevych (2020), section 4.2, follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from harness.core.errors import InputError
from harness.core.names import Subset
from harness.core.text import iter_lines
from harness.data import DataDir
from harness.data.bucc import PAIRS, BUCCPair, BUCCSplit, bucc_sources, bucc_texts, load_bucc
from harness.data.citations import cited
from harness.protocol.task import Display, Encode, Metric, OverviewColumn, Page, Rows, Task, languages_of_pair, tags_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.resampling.metrics import Sample
    from harness.results.records import Result
    from harness.results.statistics import Statistics

READINGS = ("train", "test", "heldout")
K = 4
"""Neighbours in the margin, as in LASER's `bucc.sh`."""


def mine_split(split: BUCCSplit, langs: tuple[str, str], encode: Encode, name: str) -> Rows:
    """One row a mined pair in descending score, then one a gold pair that was not mined (score NaN).

    As in LASER: identical sentences of a side are merged before mining (`--unify`); pairs of a sentence that occurs
    more than once in its file, compared stripped, are dropped, while its gold pairs stay in the recall's denominator
    (`bucc.py`). Columns: split, row1 and row2 (rows of the two files), score, gold (whether it is a gold pair).
    """
    import numpy as np

    from harness.mining import mine

    (texts1, first1), (texts2, first2) = distinct(split.sentences1), distinct(split.sentences2)
    mined, scores = mine(encode(texts1, langs[0]), encode(texts2, langs[1]), k=K, margin="ratio", retrieval="max")
    pairs = np.column_stack([first1[mined[:, 0]], first2[mined[:, 1]]])
    is_kept = ~(repeated(split.sentences1)[pairs[:, 0]] | repeated(split.sentences2)[pairs[:, 1]])
    pairs, scores = pairs[is_kept], scores[is_kept]

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
    import numpy as np

    first: dict[str, int] = {}
    for row, sentence in enumerate(sentences):
        first.setdefault(sentence, row)
    return list(first), np.fromiter(first.values(), dtype=np.int64, count=len(first))


def repeated(sentences: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each sentence, stripped, occurs more than once."""
    import numpy as np

    counts = Counter(sentence.strip() for sentence in sentences)
    return np.fromiter((counts[s.strip()] > 1 for s in sentences), dtype=bool, count=len(sentences))


def rows(pair: BUCCPair, encode: Encode) -> Rows:
    """The rows of the training split and, where its gold is there, of the test split."""
    import numpy as np

    langs = (pair.lang1, pair.lang2)
    parts = [mine_split(pair.training, langs, encode, "training")]
    if pair.test is not None:
        parts.append(mine_split(pair.test, langs, encode, "test"))
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def aggregate(rows: Rows) -> dict[str, float]:
    """`threshold` and, for each of three readings, precision, recall and F1 x 100.

    train: the threshold tuned and scored on the training split, as published figures are; test: that threshold on the
    test split; heldout: two folds of the training split by the parity of the source row, tuned on one, scored on the
    other, the folds' counts added.
    """
    from harness.mining import precision_recall_f1

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
    import numpy as np

    from harness.mining import best_threshold

    mined = ~np.isnan(rows["score"])
    return best_threshold(rows["score"][mined], rows["gold"][mined], int(rows["gold"].sum()))


def count_pairs(rows: Rows, threshold: float) -> NDArray[np.int64]:
    """Correct pairs, extracted pairs and gold pairs; NaN (not mined) is below every threshold."""
    import numpy as np

    extracted = rows["score"] >= threshold
    return np.array([(extracted & rows["gold"]).sum(), extracted.sum(), rows["gold"].sum()])


def sample(rows: Sequence[Rows], metric: str) -> Sample:
    """`f1`, `precision` or `recall` of a reading, from several encoders' rows.

    What is drawn is a sentence of the first file, with what each encoder extracts for it: pairs differ between
    encoders, sentences do not. Sentences without a gold pair for which no encoder extracts anything change no count;
    they are left out. Thresholds are kept (see `harness.statistics.f1`).

    Raises:
        InputError: the encoders have other gold pairs, or there is nothing to draw.
    """
    import numpy as np

    from harness.resampling.metrics import Ratio, Sample, f1
    from harness.resampling.resamples import independent

    measure, _, reading = metric.partition("_")
    chosen = [_reading(of_encoder, reading) for of_encoder in rows]
    sources = np.unique(np.concatenate([row1[extracted | gold] for row1, extracted, gold in chosen]))
    if not len(sources):
        raise InputError(f"bucc: no pairs to resample for {metric}; measure again")
    counts = np.zeros((3, len(rows), len(sources)))
    for k, (row1, extracted, gold) in enumerate(chosen):
        for what, which in enumerate((extracted & gold, extracted, gold)):
            counts[what, k] = np.bincount(np.searchsorted(sources, row1[which]), minlength=len(sources))
    correct, retrieved, relevant = counts
    if (relevant != relevant[0]).any():
        raise InputError("the encoders' rows are not of the same gold pairs; measure them again")
    statistics = {
        "f1": f1(correct, retrieved, relevant),
        "precision": Ratio(correct, retrieved),
        "recall": Ratio(correct, relevant),
    }
    return Sample(statistics[measure], independent(len(sources)))


def _reading(rows: Rows, reading: str) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Of the rows that a reading scores: source sentence, whether extracted, whether gold."""
    training = rows["split"] == "training"
    if reading == "test":
        scored = rows["split"] == "test"
        extracted = rows["score"] >= _tuned(_select(rows, training))
    elif reading == "train":
        scored, extracted = training, rows["score"] >= _tuned(_select(rows, training))
    else:
        scored, extracted = training, _extracted_held_out(rows, training)
    return rows["row1"][scored], extracted[scored], rows["gold"][scored]


def _extracted_held_out(rows: Rows, training: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Each half of the training split by the threshold that was tuned on the other."""
    odd = rows["row1"] % 2 == 1
    by_odd, by_even = _tuned(_select(rows, training & odd)), _tuned(_select(rows, training & ~odd))
    extracted: NDArray[np.bool_] = (odd & (rows["score"] >= by_even)) | (~odd & (rows["score"] >= by_odd))
    return extracted


_POINTS = 40


def detail(rows: Rows) -> dict[str, object]:
    """Precision and recall x 100 of the training split at 40 thresholds.

    They are evenly spaced, from the score above which there are 2 per cent as many pairs as gold pairs, to that above
    which there are three times as many: beyond it, nothing happens but that precision falls.
    """
    import numpy as np

    training = _select(rows, rows["split"] == "training")
    scores, n_gold = training["score"][~np.isnan(training["score"])], int(training["gold"].sum())
    curve: dict[str, list[float]] = {"threshold": [], "precision": [], "recall": []}
    if not len(scores) or not n_gold:
        return {"thresholds": curve}
    descending = np.sort(scores)[::-1]
    high, low = descending[min(n_gold // 50, len(scores) - 1)], descending[min(3 * n_gold, len(scores)) - 1]
    for threshold in np.unique(np.linspace(low, high, _POINTS)):
        correct, extracted, _ = count_pairs(training, threshold).tolist()
        curve["threshold"].append(round(float(threshold), 4))
        curve["precision"].append(round(100 * correct / max(extracted, 1), 2))
        curve["recall"].append(round(100 * correct / n_gold, 2))
    return {"thresholds": curve}


def page(results: Sequence[Result], statistics: Statistics) -> Page:
    """Precision and recall against the threshold."""
    from harness.tasks.thresholds_page import threshold_page

    return threshold_page(results, statistics)


def averages(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`avg`, the unweighted mean over the four pairs, where all are there; `avg@ntrex` over those of a stand-in."""
    present = set(subsets)
    complete = {f"avg{tag}": tuple(pair + tag for pair in PAIRS) for tag in tags_of(present)}
    return {name: parts for name, parts in complete.items() if present.issuperset(parts)}


def resolve(name: str) -> tuple[str, ...]:
    """`avg` (or `avg@ntrex`) stands for its four pairs; any other name for itself."""
    base, tag = Subset.parse(name)
    return tuple(pair + tag for pair in PAIRS) if base == "avg" else (name,)


def sentences(data: DataDir) -> Iterator[str]:
    """All text in `data`, test sets without gold included."""
    for path in bucc_texts(data):
        for line in iter_lines(path):
            yield line.partition("\t")[2]


_MEASURES = ("f1", "precision", "recall")

bucc = Task(
    name="bucc",
    version="1",
    description="BUCC: F1 of margin-based bitext mining with a threshold tuned on the training split",
    metrics=(
        *(Metric(f"{m}_{reading}", is_main=m == "f1") for m in _MEASURES for reading in READINGS),
        Metric("threshold", kind="threshold", tolerance=0.001),
    ),
    signature=f"k:{K}|margin:ratio|retrieval:max|threshold:train|dedup:laser|backend:exact",
    published=PAIRS,
    sources=bucc_sources,
    load=load_bucc,
    rows=rows,
    aggregate=aggregate,
    count=lambda pair: len(pair.training.gold),
    averages=averages,
    sentences=sentences,
    resolve=resolve,
    data_sets=lambda subset: ("bucc2018",),
    languages=languages_of_pair,
    resample=sample,
    cite=cited("artetxe-schwenk-2019-margin"),
    display=Display(
        title="BUCC bitext mining",
        protocol="Pairs are mined by margin score and extracted above a threshold. f1_train: threshold tuned and "
        "scored on the training split (the figure that papers publish); f1_test: that threshold on the test split; "
        "f1_heldout: two folds of the training split, tuned on one and scored on the other; threshold: that of "
        "f1_train. The average is the unweighted mean over the four pairs.",
        subsets=(*PAIRS, "avg"),
        ranking=("avg",),
        overview=(OverviewColumn("f1_train", "BUCC f1_train", ("avg",), "BUCC"),),
    ),
    detail=detail,
    page=page,
)

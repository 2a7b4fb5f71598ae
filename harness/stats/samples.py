"""From the per-item rows of several encoders to a statistic, and to the units that are drawn."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError
from harness.mining import best_threshold
from harness.stats.resamples import Floats, Units, independent, join
from harness.stats.statistics import (
    Aggregated,
    Combination,
    Ratio,
    Statistic,
    f1,
    mean,
    pearson,
    spearman,
)
from harness.tasks import Rows, Task
from harness.tasks import bucc as bucc_task
from harness.tasks import language_bias as language_bias_task
from harness.tasks import sts17 as sts17_task
from harness.tasks import tatoeba as tatoeba_task


@dataclass(frozen=True, eq=False)
class Sample:
    """A metric of m encoders on the same items, and what is drawn when they are resampled.

    Attributes:
        is_proportion: each unit is a row that is right or wrong, and the metric 100 x the share that is right.
    """

    statistic: Statistic
    units: Units
    is_proportion: bool = False

    @property
    def values(self) -> Floats:
        """(m,), the metric on the rows as they are."""
        values: Floats = self.statistic(np.ones((len(self.units.of_row), 1)))[:, 0]
        return values


def sample_of(task: Task, metric: str, rows: Sequence[Rows]) -> Sample:
    """The sample of one metric of a task, from each encoder's rows of one subset.

    The harness's own metrics are vectorised; any other task's `aggregate` is called for every resample.

    Raises:
        InputError: the encoders' rows are not of the same items, hold NaN where there is none to be, or the metric
            is no score (a threshold).
    """
    if metric not in task.metrics:
        raise InputError(f"{task.name} has no metric {metric!r}; it has {', '.join(task.metrics)}")
    if is_vectorised(task):
        return _OWN[task.aggregate](rows, metric)
    n = len(next(iter(rows[0].values())))
    if any(len(column) != n for own in rows for column in own.values()):
        raise InputError(f"{task.name}: the encoders' rows are not of the same items; measure them again")
    return Sample(
        Aggregated(lambda columns: task.aggregate(columns)[metric], [dict(own) for own in rows]), independent(n)
    )


def is_vectorised(task: Task) -> bool:
    """Whether the task's metrics are resampled without a call of its `aggregate` for every resample."""
    return task.aggregate in _OWN


def average(samples: Sequence[Sample]) -> Sample:
    """The unweighted mean over sets; sets that share their source pairs are drawn as one, in clusters."""
    stops = np.cumsum([len(sample.units.of_row) for sample in samples]).tolist()
    slices = [slice(stop - len(s.units.of_row), stop) for s, stop in zip(samples, stops, strict=True)]
    terms = [(1 / len(samples), rows, sample.statistic) for rows, sample in zip(slices, samples, strict=True)]
    return Sample(Combination(terms), join([sample.units for sample in samples]))


def correlation(rows: Sequence[Rows], metric: str = "spearman") -> Sample:
    """`spearman` or `pearson` of STS rows."""
    gold, cosine = _gold_and_cosine(rows)
    statistic: Statistic = spearman(gold, cosine) if metric == "spearman" else pearson(gold, cosine)
    return Sample(statistic, _source_pairs(gold))


def language_bias(rows: Sequence[Rows], metric: str = "difference") -> Sample:
    """`expected`, `actual` or `difference` of rows that carry their `set`; for two sets alone, give only their rows."""
    names = rows[0]["set"].tolist()
    first = {name: place for place, name in reversed(list(enumerate(names)))}
    order = np.argsort([first[name] for name in names], kind="stable")
    gold, cosine = _gold_and_cosine(rows)
    gold, cosine = gold[order], cosine[:, order]
    stops = np.cumsum(list(Counter(names).values())).tolist()  # in the order of first occurrence, as `order`
    sets = [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]
    joined = (1.0, slice(None), spearman(gold, cosine))
    separate = [(1 / len(sets), part, spearman(gold[part], cosine[:, part])) for part in sets]
    terms = {
        "expected": separate,
        "actual": [joined],
        "difference": [joined, *((-weight, part, statistic) for weight, part, statistic in separate)],
    }
    return Sample(Combination(terms[metric]), join([_source_pairs(gold[part]) for part in sets]))


def accuracy(rows: Sequence[Rows], metric: str = "accuracy_xx_en") -> Sample:
    """The metrics of Tatoeba rows. A row keeps its 0 or 1 (or its F1): the sentences that are searched stay."""
    n = len(rows[0]["item"])
    if any(len(own["item"]) != n for own in rows):
        raise InputError("the encoders' rows are not of the same sentences; measure them again")
    values = np.stack([_tatoeba_values(own, metric) for own in rows])
    return Sample(mean(values), independent(n), is_proportion=metric.startswith("accuracy"))


def _tatoeba_values(rows: Rows, metric: str) -> Floats:
    found = rows["found_en_xx" if metric == "accuracy_en_xx" else "found_xx_en"]
    right: Floats = (found == rows["item"]).astype(np.float64)
    if metric == "f1_weighted_xx_en":
        return 2 * right / (1 + np.bincount(found, minlength=len(found)))
    return right


def mining(rows: Sequence[Rows], metric: str = "f1_train") -> Sample:
    """`f1`, `precision` or `recall` of `train`, `test` or `heldout`, from BUCC rows.

    What is drawn is a sentence of the first file, with what each encoder extracts for it: pairs differ between
    encoders, sentences do not. Sentences without a gold pair for which no encoder extracts anything change no
    count; they are left out. Thresholds are kept (see `f1`).

    Raises:
        InputError: the encoders have other gold pairs, or the metric is the threshold.
    """
    measure, _, reading = metric.partition("_")
    if measure == "threshold":
        raise InputError("bucc: a threshold is no score, there is no interval for it; ask for f1, precision or recall")
    chosen = [_reading(own, reading) for own in rows]
    sentences = np.unique(np.concatenate([row1[extracted | gold] for row1, extracted, gold in chosen]))
    n = len(sentences)
    if not n:
        raise InputError(f"bucc: no pairs to resample for {metric}; measure again")
    counts = np.zeros((3, len(rows), n))
    for k, (row1, extracted, gold) in enumerate(chosen):
        for what, which in enumerate((extracted & gold, extracted, gold)):
            counts[what, k] = np.bincount(np.searchsorted(sentences, row1[which]), minlength=n)
    correct, found, wanted = counts
    if (wanted != wanted[0]).any():
        raise InputError("the encoders' rows are not of the same gold pairs; measure them again")
    statistics = {
        "f1": f1(correct, found, wanted),
        "precision": Ratio(correct, found),
        "recall": Ratio(correct, wanted),
    }
    return Sample(statistics[measure], independent(n))


_Chosen = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]


def _reading(rows: Rows, reading: str) -> _Chosen:
    """Of the rows that a reading scores: source sentence, whether extracted, whether gold (see `tasks.bucc`)."""
    training = rows["split"] == "training"
    if reading == "test":
        scored = rows["split"] == "test"
        extracted = rows["score"] >= _threshold(rows, training)
    elif reading == "train":
        scored, extracted = training, rows["score"] >= _threshold(rows, training)
    else:
        scored, odd = training, rows["row1"] % 2 == 1
        thresholds = np.where(odd, _threshold(rows, training & ~odd), _threshold(rows, training & odd))
        extracted = rows["score"] >= thresholds
    return rows["row1"][scored], extracted[scored], rows["gold"][scored]


def _threshold(rows: Rows, chosen: NDArray[np.bool_]) -> float:
    mined = chosen & ~np.isnan(rows["score"])
    return best_threshold(rows["score"][mined], rows["gold"][mined], int(rows["gold"][chosen].sum()))


def _gold_and_cosine(rows: Sequence[Rows]) -> tuple[Floats, Floats]:
    gold: Floats = rows[0]["gold"]
    if not all(np.array_equal(own["gold"], gold, equal_nan=True) for own in rows):
        raise InputError("the encoders' rows are not of the same pairs (other gold scores); measure them again")
    return gold, np.stack([own["cosine"] for own in rows])


def _source_pairs(gold: Floats) -> Units:
    """The pairs of one set. Sets with the same gold scores, line by line, are translations of the same source pairs."""
    return independent(len(gold), hashlib.sha256(np.ascontiguousarray(gold, dtype="<f8").tobytes()).hexdigest())


_OWN: dict[Callable[[Rows], dict[str, float]], Callable[[Sequence[Rows], str], Sample]] = {
    sts17_task.correlations: correlation,
    language_bias_task.aggregate: language_bias,
    tatoeba_task.aggregate: accuracy,
    bucc_task.aggregate: mining,
}

"""From the per-item rows of several encoders to a statistic, and to the units that are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.errors import InputError
from harness.protocol.task import Rows, Task
from harness.statistics.metrics import Aggregated, Combination, Statistic
from harness.statistics.resamples import Floats, Units, independent, join


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

    Of a task without `resample`, `aggregate` is called for every resample.

    Raises:
        InputError: the encoders' rows are not of the same items, hold NaN where there is none to be, or the metric
            is no score (a threshold).
    """
    known = {m.name: m for m in task.metrics}
    if metric not in known:
        raise InputError(f"{task.name} has no metric {metric!r}; it has {', '.join(known)}")
    if not known[metric].has_interval:
        scores = ", ".join(m.name for m in task.metrics if m.has_interval and m.is_main)
        raise InputError(f"{task.name}: a {metric} is no score, there is no interval for it; ask for {scores}")
    if task.resample:
        return task.resample(rows, metric)
    n = len(next(iter(rows[0].values())))
    if any(len(column) != n for of_encoder in rows for column in of_encoder.values()):
        raise InputError(f"{task.name}: the encoders' rows are not of the same items; measure them again")
    columns = [dict(of_encoder) for of_encoder in rows]
    return Sample(Aggregated(lambda drawn: task.aggregate(drawn)[metric], columns), independent(n))


def average(samples: Sequence[Sample]) -> Sample:
    """The unweighted mean over sets; sets that share their source pairs are drawn as one, in clusters."""
    stops = np.cumsum([len(sample.units.of_row) for sample in samples]).tolist()
    slices = [slice(stop - len(s.units.of_row), stop) for s, stop in zip(samples, stops, strict=True)]
    terms = [(1 / len(samples), rows, sample.statistic) for rows, sample in zip(slices, samples, strict=True)]
    return Sample(Combination(terms), join([sample.units for sample in samples]))


def gold_and_cosine(rows: Sequence[Rows]) -> tuple[Floats, Floats]:
    """The gold scores (n,) and each encoder's cosines (m, n) of STS rows. Raises InputError if their pairs differ."""
    gold: Floats = rows[0]["gold"]
    if not all(np.array_equal(of_encoder["gold"], gold, equal_nan=True) for of_encoder in rows):
        raise InputError("the encoders' rows are not of the same pairs (other gold scores); measure them again")
    return gold, np.stack([of_encoder["cosine"] for of_encoder in rows])


def source_pairs(gold: Floats) -> Units:
    """The pairs of one set. Sets with the same gold scores, line by line, are translations of the same source pairs."""
    return independent(len(gold), hashlib.sha256(np.ascontiguousarray(gold, dtype="<f8").tobytes()).hexdigest())

"""From the per-item rows of several encoders to a statistic, and to the units that are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.resampling.metrics import Combination, Statistic
from harness.resampling.resamples import Floats, Units, independent, join


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


def average(samples: Sequence[Sample]) -> Sample:
    """The unweighted mean over sets; sets that share their source pairs are drawn as one, in clusters."""
    stops = np.cumsum([len(sample.units.of_row) for sample in samples]).tolist()
    slices = [slice(stop - len(s.units.of_row), stop) for s, stop in zip(samples, stops, strict=True)]
    terms = [(1 / len(samples), rows, sample.statistic) for rows, sample in zip(slices, samples, strict=True)]
    return Sample(Combination(terms), join([sample.units for sample in samples]))


def gold_and_cosine(rows: Sequence[Mapping[str, NDArray[Any]]]) -> tuple[Floats, Floats]:
    """The gold scores (n,) and each encoder's cosines (m, n) of STS rows. Raises InputError if their pairs differ."""
    gold: Floats = rows[0]["gold"]
    if not all(np.array_equal(of_encoder["gold"], gold, equal_nan=True) for of_encoder in rows):
        raise InputError("the encoders' rows are not of the same pairs (other gold scores); measure them again")
    return gold, np.stack([of_encoder["cosine"] for of_encoder in rows])


def source_pairs(gold: Floats) -> Units:
    """The pairs of one set. Sets with the same gold scores, line by line, are translations of the same source pairs."""
    return independent(len(gold), hashlib.sha256(np.ascontiguousarray(gold, dtype="<f8").tobytes()).hexdigest())

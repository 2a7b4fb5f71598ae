"""Samples of the harness's own tasks, from rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.resampling.metrics import Sample
from harness.resampling.resamples import Resampling
from harness.resampling.tests import randomisation_p
from harness.statistics.board import holm
from harness.statistics.evidence import sample_of
from harness.tasks import Rows, get_task


def correlation(rows: Sequence[Rows], metric: str = "spearman") -> Sample:
    return sample_of(get_task("sts17"), metric, rows)


def language_bias(rows: Sequence[Rows], metric: str = "difference") -> Sample:
    return sample_of(get_task("language-bias"), metric, rows)


def accuracy(rows: Sequence[Rows], metric: str = "accuracy_xx_en") -> Sample:
    return sample_of(get_task("tatoeba"), metric, rows)


def mining(rows: Sequence[Rows], metric: str = "f1_train") -> Sample:
    return sample_of(get_task("bucc"), metric, rows)


def best_group(sample: Sample, plan: Resampling | None = None, alpha: float = 0.05) -> NDArray[np.bool_]:
    """(m,), the best encoder and all that are not significantly worse than it.

    m - 1 tests by approximate randomisation against the best, corrected by Holm. What cannot be tested is not
    significantly worse.
    """
    values = sample.values
    best = int(np.argmax(values))
    others = [k for k in range(len(values)) if k != best]
    adjusted = holm(randomisation_p(sample, [(best, k) for k in others], plan))
    group = np.ones(len(values), dtype=bool)
    group[others] = [not p < alpha for p in adjusted]
    return group

"""Samples of the harness's own tasks, from rows."""

from __future__ import annotations

from collections.abc import Sequence

from harness.stats import Sample, sample_of
from harness.tasks import Rows, get_task


def correlation(rows: Sequence[Rows], metric: str = "spearman") -> Sample:
    return sample_of(get_task("sts17"), metric, rows)


def language_bias(rows: Sequence[Rows], metric: str = "difference") -> Sample:
    return sample_of(get_task("language-bias"), metric, rows)


def accuracy(rows: Sequence[Rows], metric: str = "accuracy_xx_en") -> Sample:
    return sample_of(get_task("tatoeba"), metric, rows)


def mining(rows: Sequence[Rows], metric: str = "f1_train") -> Sample:
    return sample_of(get_task("bucc"), metric, rows)

"""Computes intervals and tests of several encoders on one subset, for storing, comparing and checking."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from harness.core.errors import InputError
from harness.protocol.task import Metric, Rows, Task
from harness.resampling.bootstrap import Replicates, bootstrap, bootstrap_each
from harness.resampling.metrics import Aggregated, Sample, average
from harness.resampling.resamples import Resampling, independent
from harness.resampling.tests import PairedTest, paired_tests, randomisation_p

Pair = tuple[str, str]

_ROUNDING = 1e-6  # of scores x 100


def sample_of(task: Task, metric: str, rows: Sequence[Rows]) -> Sample:
    """The sample of one metric of a task, from each encoder's rows of one subset.

    If the task has no `resample`, `aggregate` is called for every resample.

    Raises:
        InputError: the encoders' rows are not of the same items or hold NaN where a number is needed, or the metric
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


class Evidence:
    """The per-item rows of several encoders on one subset, or on each part of an average."""

    def __init__(self, task: Task, rows: Mapping[str, Sequence[Rows]], plan: Resampling | None = None):
        """rows: by encoder, the rows of every part; a set is a single part."""
        self._task, self._rows, self._plan = task, rows, plan or Resampling()
        self._metrics = {metric.name: metric for metric in task.metrics}
        self._scores: dict[str, list[dict[str, float]]] = {}

    def sample(self, metric: str, encoders: Sequence[str]) -> Sample:
        """The sample of one metric of these encoders. Raises InputError as `sample_of`."""
        parts = zip(*(self._rows[encoder] for encoder in encoders), strict=True)
        samples = [sample_of(self._task, metric, rows) for rows in parts]
        sample = samples[0] if len(samples) == 1 else average(samples)
        for encoder, value in zip(encoders, sample.values.tolist(), strict=True):
            expected = self._score(encoder, metric)
            if expected is not None and not abs(value - expected) <= _ROUNDING:
                texts = f"`resample` gives {metric} {value:.4f}, `aggregate` {expected:.4f}"
                raise InputError(f"{self._task.name}: {texts}; correct the task")
        return sample

    def _score(self, encoder: str, metric: str) -> float | None:
        """The metric of an encoder as the task aggregates it; None if its rows do not give it."""
        if encoder not in self._scores:
            self._scores[encoder] = [self._task.aggregate(rows) for rows in self._rows[encoder]]
        parts = [scores.get(metric) for scores in self._scores[encoder]]
        values = [part for part in parts if part is not None]
        return sum(values) / len(values) if values and len(values) == len(parts) else None

    def replicates(self, wanted: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str], Replicates]]:
        """Bootstraps metrics (name -> encoders). Yields a metric, encoders resampled together, and their replicates."""
        metrics_of: dict[tuple[str, ...], list[str]] = {}
        for metric, names in wanted.items():
            for group in self._groups(metric, names):
                metrics_of.setdefault(tuple(group), []).append(metric)
        for encoders, metrics in metrics_of.items():
            # A difference of two metrics that are resampled anyway needs no resampling.
            derived = [metric for metric in metrics if _is_derived(self._metrics[metric], metrics)]
            direct = [metric for metric in metrics if metric not in derived]
            samples = [self.sample(metric, encoders) for metric in direct]
            drawn = dict(zip(direct, bootstrap_each(samples, self._plan), strict=True))
            for metric in derived:
                first, second = self._metrics[metric].terms
                drawn[metric] = drawn[first].minus(drawn[second])
            for metric in metrics:
                yield metric, list(encoders), drawn[metric]

    def p_values(self, metric: str, pairs: Sequence[Pair]) -> dict[Pair, float]:
        """The paired test of each pair of encoders; NaN with too few items."""
        p: dict[Pair, float] = {}
        for sample, group, places in self._paired(metric, pairs):
            p |= dict(zip(group, randomisation_p(sample, places, self._plan), strict=True))
        return p

    def paired_tests(self, metric: str, pairs: Sequence[Pair]) -> dict[Pair, PairedTest]:
        """Difference, interval, test and effect size of each pair of encoders, first minus second."""
        tests: dict[Pair, PairedTest] = {}
        for sample, group, places in self._paired(metric, pairs):
            results = paired_tests(sample, places, replicates=bootstrap(sample, self._plan))
            tests |= dict(zip(group, results, strict=True))
        return tests

    def _paired(
        self, metric: str, pairs: Sequence[Pair]
    ) -> Iterator[tuple[Sample, Sequence[Pair], list[tuple[int, int]]]]:
        """Yields a sample, the pairs of encoders that are drawn together in it, and the places of both encoders."""
        encoders = sorted({encoder for pair in pairs for encoder in pair})
        for group in [pairs] if len(self._groups(metric, encoders)) == 1 else [[pair] for pair in pairs]:
            names = sorted({encoder for pair in group for encoder in pair})
            places = [(names.index(first), names.index(second)) for first, second in group]
            yield self.sample(metric, names), group, places

    def _groups(self, metric: str, encoders: Sequence[str]) -> list[list[str]]:
        """Groups of encoders that are resampled together: all, unless what is drawn depends on the encoder (BUCC).

        There each encoder is a group, so that its interval does not depend on the others of the board.
        """
        if not encoders:
            return []
        are_drawn_alike = len({self.sample(metric, [encoder]).units.identity for encoder in encoders}) == 1
        return [list(encoders)] if are_drawn_alike else [[encoder] for encoder in encoders]


def _is_derived(metric: Metric, metrics: Collection[str]) -> bool:
    return bool(metric.terms) and set(metrics).issuperset(metric.terms)

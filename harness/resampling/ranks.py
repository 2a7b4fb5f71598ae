"""Which ranks on a board are compatible with the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.resampling.bootstrap import Replicates


@dataclass(frozen=True)
class RankInterval:
    """An encoder's rank (1 is best; equal values share the better rank) and the interval of it."""

    rank: int
    low: int
    high: int


def rank_intervals(replicates: Replicates) -> list[RankInterval]:
    """Rank intervals of all m encoders, which hold together at the plan's level.

    Mogstad, Romano, Shaikh and Wilhelm (2024), section 3: a rank is at least 1 + the number of encoders that are
    significantly ahead, and at most m - the number of those that are significantly behind, where all differences are
    judged at once by the bootstrap distribution of the largest |t|. Percentiles of the ranks in resamples,
    which are simpler, cover too rarely where encoders are close (Xie, Singh and Zhang 2009).
    With fewer than three units in a stratum every interval is 1 to m.
    """
    values, draws = replicates.values, replicates.draws
    m = len(values)
    first, second = np.triu_indices(m, 1)
    ahead = np.zeros((m, m), dtype=bool)
    if replicates.units.can_be_resampled and m > 1:
        largest = np.zeros(draws.shape[1])
        errors = np.zeros(len(first))
        for k, (i, j) in enumerate(zip(first, second, strict=True)):
            difference = draws[i] - draws[j]
            errors[k] = difference.std()
            if errors[k] > 1e-12:
                np.maximum(largest, np.abs(difference - difference.mean()) / errors[k], out=largest)
        limit = np.quantile(largest, replicates.plan.level) * errors
        ahead[first, second] = values[first] - values[second] > np.maximum(limit, 1e-12)
        ahead[second, first] = values[second] - values[first] > np.maximum(limit, 1e-12)
    return [
        RankInterval(1 + int((values > value).sum()), 1 + int(ahead[:, k].sum()), m - int(ahead[k].sum()))
        for k, value in enumerate(values)
    ]

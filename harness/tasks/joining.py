"""The finer view of language bias: which two sets do not go together, and which set is over- or under-scored.

The task's difference says that some of the joined sets' similarities are on another scale than the others' (Reimers
and Gurevych 2020, section 5.2); it does not say whose. Two descriptions do: the same difference for every two sets
alone, and how far each set's pairs stand above or below their place in the joined list.

Neither is tested here, and of 45 pairs of sets some always look bad: for the interval of one pair's cost, give the rows
of its two sets to `language_bias`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.protocol.task import Rows
from harness.statistics.resamples import Floats
from harness.tasks.language_bias import aggregate

_DIGITS = 2


@dataclass(frozen=True, eq=False)
class Joining:
    """What joining sets does to an encoder's ranking of their sentence pairs. Descriptive: without intervals.

    Attributes:
        sets: names of the s sets.
        cost: (s, s), symmetric, 0 on the diagonal: Spearman's rho x 100 of the two sets joined into one list minus the
            mean of the two separate ones; negative where joining costs.
        shift: (s,), mean rank shift of each set's pairs in the list of all sets, as a percentage of the list's length:
            rank of the cosine minus rank of the gold score, average ranks on ties. Positive: over-scored. It cancels
            over all pairs, so one set can only be over-scored relative to the others. Where encoder and gold scores
            agree little, ranks of the cosine go to the middle, and a set of low gold scores seems over-scored: of use
            where the sets' gold scores are distributed alike.
    """

    sets: tuple[str, ...]
    cost: Floats
    shift: Floats

    def as_dict(self) -> dict[str, Any]:
        """For JSON: lists, with two decimals."""
        cost, shift = (values.round(_DIGITS) + 0.0 for values in (self.cost, self.shift))  # no -0.0
        return {"sets": list(self.sets), "cost": cost.tolist(), "shift": shift.tolist()}


def joining(rows: Rows) -> Joining:
    """Costs and shifts of one encoder, from its rows of the language-bias task (`set`, `gold`, `cosine`).

    The cost of two sets is the task's `difference` of these two (Reimers and Gurevych 2020, section 5.2). The sets are
    in the order in which they occur.
    """
    from scipy.stats import rankdata

    sets = tuple(dict.fromkeys(rows["set"].tolist()))
    of_set = [rows["set"] == name for name in sets]
    cost = np.zeros((len(sets), len(sets)))
    for i in range(len(sets)):
        for j in range(i):
            both = {key: column[of_set[i] | of_set[j]] for key, column in rows.items()}
            cost[i, j] = cost[j, i] = aggregate(both)["difference"]
    moved = rankdata(rows["cosine"]) - rankdata(rows["gold"])
    shift = np.array([100 * moved[own].mean() / len(moved) for own in of_set])
    return Joining(sets, cost, shift)

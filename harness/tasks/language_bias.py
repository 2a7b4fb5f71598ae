"""Language bias: the score of the joined set against the average of the separate ones.

An encoder that places some languages or language pairs closer together than others scores worse when their sentence
pairs are ranked in one list (Reimers and Gurevych 2020, section 5.2 and Table 8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.core.names import Subset
from harness.data import DataDir, Source
from harness.data.citations import cited
from harness.data.sts import EXTENDED, STS_SUBSETS, STSPairs, sts_sources
from harness.protocol.task import Display, Encode, Metric, OverviewColumn, Page, Rows, Task, languages_of_pair
from harness.tasks.sts17 import complete_groups, correlations, load_set, sts_rows
from harness.tasks.sts17 import data_sets as sts_data_sets

if TYPE_CHECKING:
    from harness.resampling.metrics import Sample
    from harness.resampling.resamples import Floats
    from harness.results.records import Result
    from harness.results.statistics import Statistics

GROUPS = {"official6": tuple(name for name in STS_SUBSETS if name not in EXTENDED), "ten": STS_SUBSETS}


def sources(data: DataDir) -> dict[str, Source]:
    """`official6` and `ten`, each with a stand-in's tag where one enters, as far as all their sets are there."""
    sets = sts_sources(data)
    complete = complete_groups(GROUPS, sets)
    return {group: _joined(group, [sets[name] for name in names]) for group, names in complete.items()}


def _joined(group: str, parts: list[Source]) -> Source:
    datasets = dict.fromkeys(part.dataset for part in parts)
    return Source(group, "+".join(datasets), tuple(file for part in parts for file in part.files), tuple(parts))


def load(source: Source) -> list[STSPairs]:
    """The sets of one group, in the order of the tables."""
    return [load_set(part) for part in source.parts]


def rows(sets: list[STSPairs], encode: Encode) -> Rows:
    """One row a sentence pair, all sets joined; `set` names the one that it comes from."""
    import numpy as np

    parts = [sts_rows(pairs, encode) for pairs in sets]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return {"set": np.repeat([pairs.subset for pairs in sets], [len(pairs.gold) for pairs in sets]), **joined}


def aggregate(rows: Rows) -> dict[str, float]:
    """expected: mean Spearman of the separate sets; actual: that of the joined list; difference: actual - expected."""
    import numpy as np

    separate = [
        correlations({key: column[rows["set"] == name] for key, column in rows.items()})["spearman"]
        for name in dict.fromkeys(rows["set"].tolist())
    ]
    expected, actual = float(np.mean(separate)), correlations(rows)["spearman"]
    return {"expected": expected, "actual": actual, "difference": actual - expected}


def sample(rows: Sequence[Rows], metric: str) -> Sample:
    """`expected`, `actual` or `difference` of several encoders' rows, resampled by source pairs."""
    import numpy as np

    from harness.resampling.metrics import Combination, Sample, gold_and_cosine, source_pairs, spearman
    from harness.resampling.resamples import join

    names = rows[0]["set"].tolist()
    first = {name: place for place, name in reversed(list(enumerate(names)))}
    order = np.argsort([first[name] for name in names], kind="stable")
    gold, cosine = gold_and_cosine(rows)
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
    return Sample(Combination(terms[metric]), join([source_pairs(gold[part]) for part in sets]))


def data_sets(group: str) -> tuple[str, ...]:
    """The sets to fetch for a group."""
    return tuple(dict.fromkeys(name for subset in GROUPS[group] for name in sts_data_sets(subset)))


def subset_languages(subset: str) -> tuple[str, ...]:
    """Those of all sets of a group."""
    pairs = GROUPS.get(Subset.parse(subset).base, ())
    return tuple(dict.fromkeys(code for pair in pairs for code in languages_of_pair(pair)))


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

    def as_dict(self) -> dict[str, object]:
        """For JSON: lists, with two decimals."""
        cost, shift = (values.round(_DIGITS) + 0.0 for values in (self.cost, self.shift))  # no -0.0
        return {"sets": list(self.sets), "cost": cost.tolist(), "shift": shift.tolist()}


def joining(rows: Rows) -> Joining:
    """Costs and shifts of one encoder, from its rows of the language-bias task (`set`, `gold`, `cosine`).

    The cost of two sets is the task's `difference` of these two (Reimers and Gurevych 2020, section 5.2). The sets are
    in the order in which they occur.
    """
    import numpy as np
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


def detail(rows: Rows) -> dict[str, object]:
    """What joining every two sets costs, and how far each set is over- or under-scored."""
    return {"joining": joining(rows).as_dict()}


def page(results: Sequence[Result], statistics: Statistics) -> Page:
    """What joining two sets costs, and which set is over- or under-scored."""
    from harness.tasks.joining_page import finer_view

    parts, files = finer_view(results, statistics)
    return Page(tuple(parts), files)


language_bias = Task(
    name="language-bias",
    version="1",
    description="Spearman's rho over all STS 2017 sets joined, against the mean over the separate sets",
    metrics=(
        Metric("expected"),
        Metric("actual"),
        Metric("difference", title="actual - expected score", kind="difference", terms=("actual", "expected")),
    ),
    main="difference",
    signature="similarity:cosine|ties:average-rank|expected:unweighted-mean|actual:joined",
    published=tuple(GROUPS),
    sources=sources,
    load=load,
    rows=rows,
    aggregate=aggregate,
    count=lambda sets: sum(len(pairs.gold) for pairs in sets),
    sentences=None,  # those of sts17
    data_sets=data_sets,
    languages=subset_languages,
    resample=sample,
    cite=cited("reimers-gurevych-2020-making"),
    display=Display(
        title="Language bias",
        protocol="Expected score: unweighted mean of Spearman's rho over the separate sets; actual score: Spearman's "
        "rho over all their pairs joined into one list; difference: actual - expected.",
        subsets=tuple(GROUPS),
        ranking=("ten", "official6"),
        rank_by="actual",
        overview=(OverviewColumn("difference", "language bias", ("ten", "official6"), "bias"),),
    ),
    detail=detail,
    page=page,
)

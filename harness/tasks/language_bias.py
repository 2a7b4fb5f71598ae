"""Language bias: the score of the joined set against the average of the separate ones.

An encoder that places some languages or language pairs closer together than others scores worse when their sentence
pairs are ranked in one list (Reimers and Gurevych 2020, section 5.2 and Table 8).
"""

from __future__ import annotations

import numpy as np

from harness.data import DataDir, Source
from harness.data.sts17 import EXTENDED, STS_SUBSETS, STSPairs, sts_sources
from harness.tasks.sts17 import complete_groups, correlations, load_set, sts_rows
from harness.tasks.task import Encode, Rows, Task

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
    parts = [sts_rows(pairs, encode) for pairs in sets]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return {"set": np.repeat([pairs.subset for pairs in sets], [len(pairs.gold) for pairs in sets]), **joined}


def aggregate(rows: Rows) -> dict[str, float]:
    """expected: mean Spearman of the separate sets; actual: that of the joined list; difference: actual - expected."""
    separate = [
        correlations({key: column[rows["set"] == name] for key, column in rows.items()})["spearman"]
        for name in dict.fromkeys(rows["set"].tolist())
    ]
    expected, actual = float(np.mean(separate)), correlations(rows)["spearman"]
    return {"expected": expected, "actual": actual, "difference": actual - expected}


language_bias = Task(
    name="language-bias",
    version="1",
    description="Spearman's rho over all STS 2017 sets joined, against the mean over the separate sets",
    metrics=("expected", "actual", "difference"),
    main="difference",
    signature="similarity:cosine|ties:average-rank|expected:unweighted-mean|actual:joined",
    published=tuple(GROUPS),
    sources=sources,
    load=load,
    rows=rows,
    aggregate=aggregate,
    count=lambda sets: sum(len(pairs.gold) for pairs in sets),
)

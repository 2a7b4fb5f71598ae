"""Korean STS: the test split of KorSTS, Spearman's rho of cosine similarity against gold scores.

Ham et al., "KorNLI and KorSTS: New Benchmark Datasets for Korean Natural Language Understanding" (2020); Table 7 of
Reimers and Gurevych (2020).
"""

from __future__ import annotations

from harness.data import Source
from harness.data.sts17 import STSPairs
from harness.data.stsb import KORSTS_SUBSETS, korsts_sources, load_korsts
from harness.tasks.sts17 import at_least_two, correlations, sts17, sts_rows
from harness.tasks.task import Task


def load(source: Source) -> STSPairs:
    """The test split. Raises InputError as `load_korsts`, and if it has a single pair."""
    return at_least_two(load_korsts(source), source)


korsts = Task(
    name="korsts",
    version="1",
    description="KorSTS, test split: Spearman's rho of cosine similarity with gold scores",
    metrics=("spearman", "pearson"),
    signature=sts17.signature,
    published=KORSTS_SUBSETS,
    sources=korsts_sources,
    load=load,
    rows=sts_rows,
    aggregate=correlations,
    count=lambda pairs: len(pairs.gold),
)

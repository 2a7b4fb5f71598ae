"""Korean STS: the test split of KorSTS, Spearman's rho of cosine similarity against gold scores.

Ham et al., "KorNLI and KorSTS: New Benchmark Datasets for Korean Natural Language Understanding" (2020); Table 7 of
Reimers and Gurevych (2020).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.data import DataDir, Source
from harness.data.citations import cited
from harness.data.sts import KORSTS_SUBSETS, STSPairs, korsts_sources, load_korsts
from harness.protocol.task import Display, Task, languages_of_pair
from harness.tasks.sts17 import METRICS, at_least_two, correlations, sample, sts17, sts_rows


def load(source: Source) -> STSPairs:
    """The test split. Raises InputError as `load_korsts`, and if it has a single pair."""
    return at_least_two(load_korsts(source), source)


def sentences(data: DataDir) -> Iterator[str]:
    """Both columns of every set in `data`. Raises InputError if one is damaged."""
    for source in korsts_sources(data).values():
        pairs = load_korsts(source)
        yield from pairs.sentences1
        yield from pairs.sentences2


korsts = Task(
    name="korsts",
    version="1",
    description="KorSTS, test split: Spearman's rho of cosine similarity with gold scores",
    metrics=METRICS,
    signature=sts17.signature,
    published=KORSTS_SUBSETS,
    sources=korsts_sources,
    load=load,
    rows=sts_rows,
    aggregate=correlations,
    count=lambda pairs: len(pairs.gold),
    sentences=sentences,
    data_sets=lambda subset: ("korsts",),
    languages=languages_of_pair,
    resample=sample,
    cite=cited("ham-etal-2020-kornli"),
    display=Display(
        title="Korean STS",
        protocol="As STS 2017, on the test split of KorSTS.",
        subsets=KORSTS_SUBSETS,
        ranking=KORSTS_SUBSETS,
        overview=(),
    ),
)

"""The user's own sentence pairs with scores: Spearman's rho and Pearson's r of cosine similarity with the scores."""

from __future__ import annotations

from harness.data.own import load_scored, own_sources
from harness.protocol.task import Display, OverviewColumn, Task
from harness.tasks.pairs import average_of_all
from harness.tasks.sts17 import METRICS, correlations, sample, sts17, sts_rows

scored = Task(
    name="scored",
    version="1",
    description="your own scored sentence pairs: Spearman's rho of cosine similarity with the scores",
    metrics=METRICS,
    signature=sts17.signature,
    published=(),
    is_own=True,
    sources=own_sources("scored"),
    load=load_scored,
    rows=sts_rows,
    aggregate=correlations,
    count=lambda pairs: len(pairs.gold),
    averages=average_of_all,
    sentences=None,
    resample=sample,
    display=Display(
        title="Own scored pairs",
        protocol="Cosine similarity of the two sentences' vectors is ranked against the scores (Spearman's rho, "
        "average ranks on ties).",
        subsets=("avg",),
        ranking=("avg",),
        overview=(OverviewColumn("spearman", "Own scored pairs", ("avg",), "own scored"),),
    ),
)

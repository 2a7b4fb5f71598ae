"""The user's own retrieval: which documents answer a query, found by exact search; the metrics of trec_eval.

nDCG: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002), with the grade as gain and the
logarithm of base 2, as trec_eval's `ndcg_cut`. MAP, MRR and recall take every grade of 1 or more as an answer, as
`map_cut`, `recip_rank` and `recall` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.data.beir import Retrieval, load_retrieval
from harness.data.citations import cited
from harness.data.own import own_sources
from harness.protocol.task import Display, Encode, Metric, OverviewColumn, Rows, Task
from harness.tasks.pairs import average_of_all, sample_of_means

if TYPE_CHECKING:
    from harness.resampling.metrics import Sample

DEPTH = 100


def rows(items: Retrieval, encode: Encode) -> Rows:
    """One row a query: its metrics, from 0 to 1."""
    import numpy as np

    from harness.mining import nearest_forward

    x = encode(items.queries, items.languages[0], side="query")
    y = encode(items.documents, items.languages[1], side="document")
    found = nearest_forward(x, y, DEPTH + 1).rows  # one more, in place of the document with the query's own id
    values = [
        query_metrics([row for row in of_query.tolist() if row != own][:DEPTH], answers)
        for of_query, own, answers in zip(found, items.own, items.answers, strict=True)
    ]
    columns = {metric.name: np.array([of_query[metric.name] for of_query in values]) for metric in METRICS}
    return {"item": np.arange(len(values)), **columns}


def query_metrics(ranking: Sequence[int], answers: dict[int, int]) -> dict[str, float]:
    """The metrics of one query.

    Args:
        ranking: the documents that were found, best first, at most 100.
        answers: by document, its grade, 1 or more; at least one.
    """
    from math import log2

    grades = [answers.get(document, 0) for document in ranking]
    ideal = sorted(answers.values(), reverse=True)
    gain, best = (sum(g / log2(rank + 1) for rank, g in enumerate(of[:10], 1)) for of in (grades, ideal))
    hits = [rank for rank, grade in enumerate(grades, 1) if grade]
    return {
        "ndcg_at_10": gain / best,
        **{f"recall_at_{k}": sum(rank <= k for rank in hits) / len(answers) for k in (1, 10, 100)},
        "mrr_at_10": 1 / hits[0] if hits and hits[0] <= 10 else 0.0,
        "map_at_100": sum(place / rank for place, rank in enumerate(hits, 1)) / len(answers),
    }


def aggregate(rows: Rows) -> dict[str, float]:
    """Means over the queries, x 100."""
    import numpy as np

    return {metric.name: 100 * float(np.mean(rows[metric.name])) for metric in METRICS}


def sample(rows: Sequence[Rows], metric: str) -> Sample:
    """A metric of several encoders' rows; the documents stay. Raises InputError if their queries are not the same."""
    return sample_of_means([of_encoder[metric] for of_encoder in rows])


METRICS = (
    Metric("ndcg_at_10", label="nDCG@10"),
    Metric("recall_at_1", label="recall@1", is_main=False),
    Metric("recall_at_10", label="recall@10", is_main=False),
    Metric("recall_at_100", label="recall@100", is_main=False),
    Metric("mrr_at_10", label="MRR@10", is_main=False),
    Metric("map_at_100", label="MAP@100", is_main=False),
)

retrieval = Task(
    name="retrieval",
    version="1",
    description="your own queries and documents: nDCG, recall, MRR and MAP of exact search by cosine",
    metrics=METRICS,
    signature=f"similarity:cosine|search:exact|ties:lowest-row|depth:{DEPTH}|gain:grade|unanswered:left-out",
    published=(),
    is_own=True,
    sources=own_sources("retrieval"),
    load=load_retrieval,
    rows=rows,
    aggregate=aggregate,
    count=lambda items: len(items.queries),
    left_out=lambda items: {"queries without an answer": items.n_left_out} if items.n_left_out else {},
    has_sides=True,
    averages=average_of_all,
    sentences=None,
    resample=sample,
    cite=cited("thakur-etal-2021-beir", "jarvelin-kekalainen-2002-cumulated"),
    display=Display(
        title="Own retrieval",
        protocol="For every query the 100 nearest documents by cosine similarity are found by exact search (of "
        "equal ones the first in the corpus). nDCG@10 takes the grades as gains; the other metrics take every document "
        "with a grade of 1 or more as an answer. Queries without an answer are left out, and counted in the record. "
        "An encoder may have one prompt for queries and another one for documents.",
        subsets=("avg",),
        ranking=("avg",),
        overview=(OverviewColumn("ndcg_at_10", "Own retrieval nDCG@10", ("avg",), "own retrieval"),),
    ),
)

"""The user's own sentence pairs: is a sentence's translation found among all sentences of the other side?

Accuracy and mean reciprocal rank by cosine; xsim, the error of margin-based search, as in LASER: Artetxe and Schwenk,
"Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings" (2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.data.citations import cited
from harness.data.own import AVERAGE, OwnPairs, load_pairs, own_sources
from harness.data.remarks import pair_remarks
from harness.protocol.task import Display, Encode, Metric, OverviewColumn, Rows, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.resampling.metrics import Sample

K = 4
_DIRECTIONS = ("src_trg", "trg_src")


def rows(pairs: OwnPairs, encode: Encode) -> Rows:
    """One row a pair: the rank of its translation among all (ties: the lowest row first), and whether xsim errs."""
    import numpy as np

    from harness.mining import best_candidates, counterpart_ranks, nearest

    x, y = encode(pairs.sources, pairs.languages[0]), encode(pairs.targets, pairs.languages[1])
    item = np.arange(len(x))
    best = best_candidates(*nearest(x, y, k=K))
    columns = {"item": item}
    for direction, ranks, (found, _) in zip(_DIRECTIONS, counterpart_ranks(x, y), best, strict=True):
        columns[f"rank_{direction}"] = ranks
        columns[f"xsim_{direction}"] = found != item
    return columns


def values(rows: Rows, metric: str) -> NDArray[np.float64]:
    """A metric of each pair, (n,): 1 or 0; of the reciprocal rank 1 / rank."""
    import numpy as np

    kind, direction = metric.split("_", 1)
    ranks = rows[f"rank_{direction}"]
    of_pairs = rows[metric] if kind == "xsim" else ranks == 1 if kind == "accuracy" else 1 / ranks
    return np.asarray(of_pairs, dtype=np.float64)


def aggregate(rows: Rows) -> dict[str, float]:
    """Means over the pairs, x 100."""
    import numpy as np

    return {metric.name: 100 * float(np.mean(values(rows, metric.name))) for metric in METRICS}


def sample(rows: Sequence[Rows], metric: str) -> Sample:
    """A metric of several encoders' rows; the sentences that are searched stay.

    Raises:
        InputError: the encoders were not measured on the same number of pairs.
    """
    return sample_of_means([values(of_encoder, metric) for of_encoder in rows], is_proportion=metric[:3] != "mrr")


def sample_of_means(values: Sequence[NDArray[np.float64]], *, is_proportion: bool = False) -> Sample:
    """The means over independent items: of each encoder (n,) values. Raises InputError where they are not as many."""
    import numpy as np

    from harness.core.errors import InputError
    from harness.resampling.metrics import Sample, mean
    from harness.resampling.resamples import independent

    if len({len(of_encoder) for of_encoder in values}) > 1:
        raise InputError("the encoders' rows are not of the same items; measure them again")
    return Sample(mean(np.stack(values)), independent(len(values[0])), is_proportion=is_proportion)


def average_of_all(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`avg`: the unweighted mean over all sets, if there are several."""
    parts = tuple(sorted(subsets))
    return {AVERAGE: parts} if len(parts) > 1 else {}


METRICS = (
    Metric("accuracy_src_trg", label="src->trg"),
    Metric("accuracy_trg_src", label="trg->src"),
    Metric("mrr_src_trg", label="MRR src->trg", is_main=False),
    Metric("mrr_trg_src", label="MRR trg->src", is_main=False),
    Metric("xsim_src_trg", label="xsim src->trg", kind="error", is_main=False),
    Metric("xsim_trg_src", label="xsim trg->src", kind="error", is_main=False),
)

pairs = Task(
    name="pairs",
    version="1",
    description="your own sentence pairs: share of sentences whose nearest sentence of the other side translates them",
    metrics=METRICS,
    signature=f"similarity:cosine|ties:lowest-row|xsim:k{K}-ratio",
    published=(),
    is_own=True,
    sources=own_sources("pairs"),
    load=load_pairs,
    rows=rows,
    aggregate=aggregate,
    count=lambda pairs: len(pairs.sources),
    remarks=pair_remarks,
    averages=average_of_all,
    sentences=None,
    resample=sample,
    cite=cited("artetxe-schwenk-2019-margin"),
    display=Display(
        title="Own pairs",
        protocol="For every sentence the nearest sentence of the other side by cosine similarity is looked up; "
        "accuracy is the share of sentences whose translation is found, from the first language to the second "
        "(src->trg) and back. MRR is the mean of 1 / rank of the translation. xsim is the error rate with the margin "
        "score instead of the cosine.",
        subsets=("avg",),
        ranking=("avg",),
        overview=(OverviewColumn("accuracy_src_trg", "Own pairs src->trg", ("avg",), "own pairs"),),
    ),
)

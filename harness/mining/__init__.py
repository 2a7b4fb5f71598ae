"""Margin-based bitext mining: exact nearest neighbours in both directions, margin scores, retrieval, threshold.

Follows Artetxe and Schwenk, "Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings"
(ACL 2019), and LASER's `mine_bitexts.py` and `bucc.py`. All functions work on arrays and return arrays.

The reference similarity of two vectors is the dot product of their float32 components accumulated in float64.
Matrix products of less precision only find candidates; selection, means and scores follow the reference, so the result
depends neither on the backend nor on the block size or the number of threads.
"""

from harness.encoders.encoder import normalise, row_norms
from harness.mining.margin import (
    Margin,
    Retrieval,
    best_candidates,
    best_threshold,
    margin_scores,
    mine,
    precision_recall_f1,
)
from harness.mining.neighbours import (
    Backend,
    Progress,
    available_backends,
    counterpart_ranks,
    nearest,
    nearest_forward,
)
from harness.mining.search import Neighbours

__all__ = [
    "Backend",
    "Margin",
    "Neighbours",
    "Progress",
    "Retrieval",
    "available_backends",
    "best_candidates",
    "best_threshold",
    "counterpart_ranks",
    "margin_scores",
    "mine",
    "nearest",
    "nearest_forward",
    "normalise",
    "precision_recall_f1",
    "row_norms",
]

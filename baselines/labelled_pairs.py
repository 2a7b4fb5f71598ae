"""Sentence pairs with scores of their semantic textual similarity (STS)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.data.stsb import read_scored


@dataclass(frozen=True)
class ScoredPairs:
    """n sentence pairs with their STS scores.

    Attributes:
        sentences1, sentences2: the sentences.
        scores: from 0 (unrelated) to 5 (same meaning).
        origins: the STS task's file that each pair was taken from (`track5.en-en`); empty where the file tells none.
    """

    sentences1: list[str]
    sentences2: list[str]
    scores: list[float]
    origins: list[str]

    def without(self, rows: Collection[int]) -> ScoredPairs:
        """The pairs without those in `rows` (counted from 0)."""
        kept = [row for row in range(len(self.scores)) if row not in rows]
        return ScoredPairs(
            [self.sentences1[row] for row in kept],
            [self.sentences2[row] for row in kept],
            [self.scores[row] for row in kept],
            [self.origins[row] for row in kept] if self.origins else [],
        )


def joined(parts: Iterable[ScoredPairs]) -> ScoredPairs:
    """All the pairs in one, without their origins."""
    parts = list(parts)
    return ScoredPairs(
        [sentence for part in parts for sentence in part.sentences1],
        [sentence for part in parts for sentence in part.sentences2],
        [score for part in parts for score in part.scores],
        [],
    )


def read_sts(path: Path) -> ScoredPairs:
    """Read STS pairs: the STS Benchmark, KorSTS or STSb Multi MT as they are published.

    Raises:
        InputError: as `harness.data.stsb.read_scored`.
    """
    rows = list(read_scored(path))
    return ScoredPairs(
        [row.sentence1 for row in rows],
        [row.sentence2 for row in rows],
        [row.score for row in rows],
        [row.origin for row in rows if row.origin is not None],
    )

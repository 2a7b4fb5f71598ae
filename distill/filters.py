"""Which pairs are not trained on, and why: filters that look at one pair, and the leakage guard."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.errors import InputError
from harness.tasks.leakage import EvaluationSentences

REASONS = ("empty", "long", "ratio", "identical", "leakage", "duplicate")
"""Why a pair is dropped; the first that holds counts. `duplicate` is found by the store, which sees all pairs."""

_SLACK = 15  # characters by which short sentences may differ whatever their ratio: "Hi." is "Guten Tag!"
# Characters that take two columns on a screen (East Asian Width W and F, Unicode Annex 11): they say about as much as
# two or three letters.
_WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60"
    "\uffe0-\uffe6\U00020000-\U0003fffd]"
)


@dataclass(frozen=True)
class Filters:
    """What a pair must be like.

    Attributes:
        max_characters: of each sentence; 250 as in sentence-transformers' script for the paper.
        max_ratio: how many times as wide (wide characters count twice) the longer sentence may be as the shorter one,
            15 characters more being free.
        drop_identical: whether source and target must differ in more than case.
        drop_duplicates: whether a pair counts once in all the corpora of one language pair.
    """

    max_characters: int = 250
    max_ratio: float = 3.0
    drop_identical: bool = True
    drop_duplicates: bool = True

    def __post_init__(self) -> None:
        if self.max_characters < 1 or not self.max_ratio >= 1:
            raise InputError(
                f"max_characters {self.max_characters} and max_ratio {self.max_ratio:g}: both must be at least 1"
            )

    def reason_to_drop(self, source: str, target: str, guard: EvaluationSentences) -> str | None:
        """Why a pair is dropped (see `REASONS`), or None; `guard` holds the sentences that are evaluated on."""
        if not source or not target:
            return "empty"
        if len(source) > self.max_characters or len(target) > self.max_characters:
            return "long"
        one, two = sorted((_width(source), _width(target)))
        if two > self.max_ratio * one + _SLACK:
            return "ratio"
        if self.drop_identical and source.casefold() == target.casefold():
            return "identical"
        if source in guard or target in guard:
            return "leakage"
        return None


def _width(text: str) -> int:
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))

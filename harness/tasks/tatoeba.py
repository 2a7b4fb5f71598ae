"""Tatoeba similarity search: the nearest sentence of the other side, in both directions.

Artetxe and Schwenk, "Massively Multilingual Sentence Embeddings for Zero-Shot Cross-Lingual Transfer and Beyond"
(2019), section 4.3; both directions as in Reimers and Gurevych (2020), Table 4.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from harness.data.tatoeba import GROUPS, TatoebaPairs, load_tatoeba, resolve_language, tatoeba_sources
from harness.mining import nearest
from harness.names import Subset
from harness.tasks.task import Encode, Rows, Task, tags_of


def rows(pairs: TatoebaPairs, encode: Encode) -> Rows:
    """One row a sentence pair: the line that each side's sentence finds on the other side (ties: the lowest)."""
    foreign, english = encode(pairs.foreign, pairs.lang), encode(pairs.english, "en")
    of_english, of_foreign = nearest(english, foreign, k=1)
    return {
        "item": np.arange(len(pairs.foreign)),
        "found_en_xx": of_english.rows[:, 0],
        "found_xx_en": of_foreign.rows[:, 0],
    }


def aggregate(rows: Rows) -> dict[str, float]:
    """Accuracy in both directions, and the weighted F1 of xx -> en that mteb reports, x 100.

    The weighted F1 takes every English line as a class with one true member. A line that was found c times, among them
    for its own translation, has precision 1 / c and recall 1, hence F1 = 2 / (1 + c).
    """
    item, found = rows["item"], rows["found_xx_en"]
    right = found == item
    times_found = np.bincount(found, minlength=len(item))
    return {
        "accuracy_en_xx": 100 * float(np.mean(rows["found_en_xx"] == item)),
        "accuracy_xx_en": 100 * float(np.mean(right)),
        "f1_weighted_xx_en": 100 * float(np.mean(np.where(right, 2 / (1 + times_found), 0))),
    }


def averages(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The averages over the groups of languages that are complete."""
    present = set(subsets)
    return {
        f"avg-{group}{tag}": parts
        for tag in tags_of(present)
        for group, codes in GROUPS.items()
        if present.issuperset(parts := tuple(code + tag for code in codes))
    }


def resolve(name: str) -> tuple[str, ...]:
    """LASER's codes for a code, an ISO 639-1 code, a group of languages (`paper`), or its average (`avg-paper`)."""
    base, tag = Subset.parse(name)
    return tuple(code + tag for code in resolve_language(base.removeprefix("avg-")))


tatoeba = Task(
    name="tatoeba",
    version="1",
    description="Tatoeba: share of sentences whose nearest sentence of the other side is their translation",
    metrics=("accuracy_en_xx", "accuracy_xx_en", "f1_weighted_xx_en"),
    signature="similarity:cosine|k:1|ties:lowest-row",
    published=GROUPS["all"],
    sources=tatoeba_sources,
    load=load_tatoeba,
    rows=rows,
    aggregate=aggregate,
    count=lambda pairs: len(pairs.foreign),
    averages=averages,
    resolve=resolve,
)

"""Tatoeba similarity search: the nearest sentence of the other side, in both directions.

Artetxe and Schwenk, "Massively Multilingual Sentence Embeddings for Zero-Shot Cross-Lingual Transfer and Beyond"
(2019), section 4.3; both directions as in Reimers and Gurevych (2020), Table 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from harness.core.errors import InputError
from harness.core.names import Subset
from harness.data import DataDir
from harness.data.citations import cited
from harness.data.tatoeba import GROUPS, TatoebaPairs, languages, load_tatoeba, resolve_language, tatoeba_sources
from harness.protocol.task import Display, Encode, Metric, OverviewColumn, Rows, Task, tags_of

if TYPE_CHECKING:
    from harness.resampling.metrics import Sample


def rows(pairs: TatoebaPairs, encode: Encode) -> Rows:
    """One row a sentence pair: the line that each side's sentence finds on the other side (ties: the lowest)."""
    import numpy as np

    from harness.mining import nearest

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
    import numpy as np

    item, found = rows["item"], rows["found_xx_en"]
    right = found == item
    times_found = np.bincount(found, minlength=len(item))
    return {
        "accuracy_en_xx": 100 * float(np.mean(rows["found_en_xx"] == item)),
        "accuracy_xx_en": 100 * float(np.mean(right)),
        "f1_weighted_xx_en": 100 * float(np.mean(np.where(right, 2 / (1 + times_found), 0))),
    }


def sample(rows: Sequence[Rows], metric: str) -> Sample:
    """A metric of several encoders' rows. A row keeps its 0 or 1 (or its F1): the sentences that are searched stay.

    Raises:
        InputError: the encoders were not measured on the same number of sentences.
    """
    import numpy as np

    from harness.resampling.metrics import Sample, mean
    from harness.resampling.resamples import independent

    n = len(rows[0]["item"])
    if any(len(of_encoder["item"]) != n for of_encoder in rows):
        raise InputError("the encoders' rows are not of the same sentences; measure them again")
    values = []
    for of_encoder in rows:
        found = of_encoder["found_en_xx" if metric == "accuracy_en_xx" else "found_xx_en"]
        right = (found == of_encoder["item"]).astype(np.float64)
        is_f1 = metric == "f1_weighted_xx_en"
        values.append(2 * right / (1 + np.bincount(found, minlength=len(found))) if is_f1 else right)
    return Sample(mean(np.stack(values)), independent(n), is_proportion=metric.startswith("accuracy"))


def sentences(data: DataDir) -> Iterator[str]:
    """Both sides of every language in `data`. Raises InputError if one is damaged."""
    for source in tatoeba_sources(data).values():
        pairs = load_tatoeba(source)
        yield from pairs.foreign
        yield from pairs.english


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


def subset_languages(subset: str) -> tuple[str, ...]:
    """The language of a code, and English."""
    code = Subset.parse(subset).base
    known = languages().get(code)
    return (known.lang if known else code, "en")


tatoeba = Task(
    name="tatoeba",
    version="1",
    description="Tatoeba: share of sentences whose nearest sentence of the other side is their translation",
    metrics=(
        Metric("accuracy_en_xx", label="en->xx"),
        Metric("accuracy_xx_en", label="xx->en"),
        Metric("f1_weighted_xx_en", label="F1 xx->en", is_main=False),
    ),
    signature="similarity:cosine|k:1|ties:lowest-row",
    published=GROUPS["all"],
    sources=tatoeba_sources,
    load=load_tatoeba,
    rows=rows,
    aggregate=aggregate,
    count=lambda pairs: len(pairs.foreign),
    averages=averages,
    sentences=sentences,
    resolve=resolve,
    data_sets=lambda subset: ("tatoeba",),
    languages=subset_languages,
    resample=sample,
    cite=cited("artetxe-schwenk-2019-massively"),
    display=Display(
        title="Tatoeba similarity search",
        protocol="For every sentence the nearest sentence of the other side by cosine similarity is looked up; "
        "accuracy is the share of sentences whose translation is found, from English to the language (en->xx) and "
        "back (xx->en).",
        subsets=("avg-paper", "avg-xtreme", "avg-student", "avg-all"),
        ranking=("avg-student", "avg-all", "avg-xtreme", "avg-paper"),
        overview=(OverviewColumn("accuracy_xx_en", "Tatoeba xx->en", ("avg-*",), "Tatoeba"),),
        turn_above=8,
        names={code: language.name for code, language in languages().items()},
    ),
)

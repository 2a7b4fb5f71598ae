"""The texts on which speed is measured, the same for every encoder: made from the bundled sample by fixed rules.

The sample's Tatoeba sets are 120 sentences in ten languages and four scripts, written for this project (CC0 1.0; see
`harness/sample/README.md`). A short text is one of them, a medium one two, a long one ten, joined by blanks: 55, 110
and 560 characters in the mean. In every language a text says as much as in the others, and takes about as many tokens.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from typing import NamedTuple

from harness.data.sources import SAMPLE_DIR
from harness.speed.store import Length

SENTENCES: dict[Length, int] = {"short": 1, "medium": 2, "long": 10}
"""Sentences in a text of each class."""

_FILES = {  # by language, the sample's file
    "en": "deu-eng.eng",
    "ar": "ara-eng.ara",
    "de": "deu-eng.deu",
    "es": "spa-eng.spa",
    "fr": "fra-eng.fra",
    "it": "ita-eng.ita",
    "nl": "nld-eng.nld",
    "ru": "rus-eng.rus",
    "tr": "tur-eng.tur",
    "zh": "cmn-eng.cmn",
}


class Text(NamedTuple):
    """A text and its language (ISO 639-1)."""

    text: str
    lang: str


@cache
def texts(length: Length) -> tuple[Text, ...]:
    """The 1,200 texts of a class, all different.

    Ten in a row are of ten languages and begin with ten different sentences, so that the first few are like all.
    """
    languages = _sentences()
    n = len(languages["en"])
    made = []
    for row in range(n * len(languages)):
        place, of_language = divmod(row, len(languages))
        lang = list(languages)[of_language]
        first = place + of_language * n // len(languages)
        joined = " ".join(languages[lang][(first + step) % n] for step in range(SENTENCES[length]))
        made.append(Text(joined, lang))
    return tuple(made)


def taken(length: Length, n: int) -> list[Text]:
    """The first `n` texts of a class; they begin again where there are not as many."""
    everything = texts(length)
    return [everything[row % len(everything)] for row in range(n)]


@cache
def digest() -> str:
    """SHA-256, in 16 hexadecimal digits, of all texts: figures on other texts are not comparable."""
    content = json.dumps({length: texts(length) for length in SENTENCES})
    return sha256(content.encode()).hexdigest()[:16]


@cache
def _sentences() -> dict[str, list[str]]:
    folder = SAMPLE_DIR / "tatoeba" / "v1"
    return {
        lang: (folder / f"tatoeba.{name}").read_text(encoding="utf-8").splitlines() for lang, name in _FILES.items()
    }

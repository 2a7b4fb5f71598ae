"""Filters of mined pairs: each tells of a pair whether it is kept, and how many it has left out is counted.

They know nothing of meaning, and catch what scores do not see: copies, fragments, other numbers, another language.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError, MissingExtraError
from harness.mining.search import Ints

Keep = Callable[[str, str], bool]

_WORD = re.compile(r"[^\W\d_]+")
# In any script. With blanks between groups of three digits (1 000,50), or with what else stands between groups of them
# or before decimals (1,000.50 - 1.000,50).
_NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3}(?!\d))+(?:[.,٫]\d+)?|\d+(?:[.,'’٫٬]\d+)*")
_DECIMALS = re.compile(r"[.,٫](\d+)$")
_CLOSING = "\"'”’»›)]}」』）】*_"
# Ideographic, Arabic, Greek, Armenian and Ethiopic marks by what they say.
_MARKS = {
    **dict.fromkeys("?？؟⸮\u037e՞፧", "question"),
    **dict.fromkeys("!！՜", "exclamation"),
    **dict.fromkeys(":：", "colon"),
}
_CERTAIN = 0.5  # of another language


@dataclass(frozen=True)
class Filter:
    """A filter by the name under which it is counted."""

    name: str
    keep: Keep


@dataclass(frozen=True)
class Filters:
    """Which filters there are; None or False: not this one.

    Attributes:
        max_length_ratio: characters of the longer sentence over those of the shorter.
        max_overlap: share of the words of the shorter sentence that the other has too, from 0 to 1.
        numbers: both sentences have the same numbers, in whatever order and notation.
        punctuation: both are questions, exclamations or neither, by the mark at their end.
        languages: both are in their languages, as far as is told.
    """

    max_length_ratio: float | None = None
    max_overlap: float | None = None
    numbers: bool = False
    punctuation: bool = False
    languages: bool = False

    @property
    def protocol(self) -> tuple[str, ...]:
        """What says which pairs these filters leave."""
        limits = (("max_length_ratio", self.max_length_ratio), ("max_overlap", self.max_overlap))
        switches = ("numbers", "punctuation", "languages")
        return (
            *(f"{name}:{value:g}" for name, value in limits if value is not None),
            *(f"same_{name}" for name in switches if getattr(self, name)),
        )

    def open(self, langs: Sequence[str | None]) -> list[Filter]:
        """The filters, the cheap ones first.

        langs: of both sides.

        Raises:
            InputError: a ratio below 1, an overlap outside 0 to 1, or a language that is not known or not identified.
            MissingExtraError: the package that identifies languages is missing, or too old.
        """
        filters = []
        if (ratio := self.max_length_ratio) is not None:
            if not ratio >= 1:
                raise InputError(f"--max-length-ratio is 1 or more, not {ratio:g}")
            filters.append(Filter("length ratio", lambda x, y: length_ratio(x, y) <= ratio))
        if self.punctuation:
            filters.append(Filter("punctuation", partial(_is_marked_alike, langs)))
        if self.numbers:
            filters.append(Filter("numbers", lambda x, y: numbers(x) == numbers(y)))
        if (overlap := self.max_overlap) is not None:
            if not 0 <= overlap <= 1:
                raise InputError(f"--max-overlap is a share from 0 to 1, not {overlap:g}")
            filters.append(Filter("overlap", lambda x, y: word_overlap(x, y) <= overlap))
        if self.languages:
            filters.append(Filter("language", language_filter(langs)))
        return filters


def length_ratio(x: str, y: str) -> float:
    """Characters of the longer sentence over those of the shorter, white space around them left out."""
    lengths = sorted((len(x.strip()), len(y.strip())))
    return lengths[1] / lengths[0] if lengths[0] else float("inf")


def word_overlap(x: str, y: str) -> float:
    """The share of the words (runs of letters, case folded) of the sentence with fewer that the other has too.

    1 where the sentences are equal, also without words; else 0 without words. Scripts without blanks have long words,
    which are shared where a sentence was copied.
    """
    if x.strip() == y.strip():
        return 1.0
    words = [Counter(word.casefold() for word in _WORD.findall(text)) for text in (x, y)]
    fewest = min(counts.total() for counts in words)
    return (words[0] & words[1]).total() / fewest if fewest else 0.0


def numbers(text: str) -> Counter[str]:
    """The numbers of a sentence, in ASCII digits without separators and leading zeros; how often each stands there.

    What comes last behind a point or comma are decimals, but for three digits: those are thousands (`1.500`).
    """
    return Counter(_canonical(match[0]) for match in _NUMBER.finditer(text))


def _canonical(number: str) -> str:
    decimals = _DECIMALS.search(number)
    whole, rest = number, ""
    if decimals is not None and len(decimals[1]) != 3:
        whole, rest = number[: decimals.start()], f".{_ascii(decimals[1])}"
    return (_ascii(whole).lstrip("0") or "0") + rest


def _ascii(digits: str) -> str:
    return "".join(str(unicodedata.decimal(digit)) for digit in re.sub(r"\D", "", digits))


def closing_mark(text: str, lang: str | None = None) -> str:
    """What the mark at the end of a sentence says: question, exclamation, colon, or empty for a full stop and for none.

    Closing quotes and brackets behind it are passed over; of several marks (`?!`) a question mark decides. A semicolon
    is a question mark in Greek (`el`) alone.
    """
    text = text.rstrip().rstrip(_CLOSING).rstrip()
    if lang == "el":
        text = text.replace(";", "\u037e")
    marks = {_MARKS.get(mark, "") for mark in text[len(text.rstrip("".join(_MARKS))) :]}
    return next((mark for mark in ("question", "exclamation", "colon") if mark in marks), "")


def _is_marked_alike(langs: Sequence[str | None], x: str, y: str) -> bool:
    return closing_mark(x, langs[0]) == closing_mark(y, langs[1])


def language_filter(langs: Sequence[str | None]) -> Keep:
    """Keeps pairs of which neither side is identified as another language. Raises as `Filters.open`."""
    try:
        from py3langid import langid, modelio  # noqa: F401 (`modelio`: earlier versions unpickle their model)
    except ImportError:
        raise MissingExtraError("--check-languages", "langid") from None
    identifier: Any = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    known = set(identifier.labels)
    for lang, option in zip(langs, ("--src-lang", "--trg-lang"), strict=True):
        if lang is None:
            raise InputError(f"--check-languages needs the languages of both sides; give {option} CODE")
        if lang not in known:
            raise InputError(f"{lang} is no language that is identified; leave out --check-languages")

    def keep(x: str, y: str) -> bool:
        for text, lang in zip((x, y), langs, strict=True):
            found, certainty = identifier.classify(text)
            if found != lang and certainty >= _CERTAIN:
                return False
        return True

    return keep


def filtered(
    rows: Ints, source: Sequence[str], target: Sequence[str], filters: Sequence[Filter], top: int | None = None
) -> tuple[NDArray[np.int64], Counter[str]]:
    """Positions of the pairs that all filters keep, the first `top` of them, and how many each filter has left out.

    A pair counts for the first filter that leaves it out.

    rows: (p, 2), of `source` and `target`.
    """
    kept = array("q")
    left_out: Counter[str] = Counter({each.name: 0 for each in filters})
    for position, (i, j) in enumerate(rows):
        if top is not None and len(kept) == top:
            break
        x, y = source[int(i)], target[int(j)]
        reason = next((each.name for each in filters if not each.keep(x, y)), None)
        if reason is None:
            kept.append(position)
        else:
            left_out[reason] += 1
    return np.frombuffer(kept, np.int64), left_out

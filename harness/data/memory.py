"""Data sets of the user's own that are in memory: pairs, scored pairs, or dictionaries as BEIR has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from harness.core.errors import InputError
from harness.data.beir import retrieval_of
from harness.data.languages import standard_language
from harness.data.own import Kind, OwnPairs, OwnSet, check_set_name, scored_pairs

_SHAPES = (
    "(sentence, translation) pairs, (sentence, sentence, score) triples, or a dictionary with corpus, queries and qrels"
)


@dataclass(frozen=True)
class MemorySet(OwnSet):
    """A set in memory; its checksum is that of what it holds."""

    text: str = ""

    @property
    def names(self) -> list[str]:
        """One name, in place of files."""
        return [f"{self.subset} (in memory)"]

    @cached_property
    def checksums(self) -> dict[str, str]:
        """sha256 of the content as JSON."""
        return {self.names[0]: sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()}


def memory_sets(data: Any, languages: Sequence[str] = ()) -> list[MemorySet]:
    """Sets from Python objects.

    Args:
        data: one set, called `data`, or a dictionary of sets by name. A set is a list of (sentence, translation)
            pairs, a list of (sentence, sentence, score) triples, or a dictionary with `corpus` (texts by id, or
            dictionaries with `title` and `text`), `queries` (texts by id) and `qrels` (by query, grades by document;
            a set or list of documents stands for grades of 1).
        languages: ISO 639 codes of the two sides of all of them; unknown by default.

    Raises:
        InputError: it is something else, or nothing.
    """
    if isinstance(data, Mapping) and not {"corpus", "queries", "qrels"} <= data.keys():
        named = {str(name): content for name, content in data.items()}
    else:
        named = {"data": data}
    if languages and len(languages) != 2:
        raise InputError(f"languages are those of the two sides, not {list(languages)}")
    sides = (languages[0], languages[1]) if languages else ("", "")
    for code in languages:
        standard_language(code)
    if not named:
        raise InputError(f"no data: expected {_SHAPES}")
    return [_memory_set(name, content, sides) for name, content in named.items()]


def _memory_set(name: str, data: Any, languages: tuple[str, str]) -> MemorySet:
    check_set_name(name)
    try:
        kind, content, plain = _read(name, data, languages)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise InputError(f"data set {name!r}: expected {_SHAPES} ({type(error).__name__}: {error})") from None
    return MemorySet(
        name, name, (), kind=kind, languages=languages, content=content, text=json.dumps(plain, ensure_ascii=False)
    )


def _read(name: str, data: Any, languages: tuple[str, str]) -> tuple[Kind, Any, Any]:
    """The kind of a set, what its loader would give, and the same as JSON values."""
    own = OwnSet(name, name, (), languages=languages)
    if isinstance(data, Mapping):
        corpus = {str(key): _document(value) for key, value in data["corpus"].items()}
        queries = {str(key): _text(value) for key, value in data["queries"].items()}
        qrels = [
            (str(query), str(document), int(grade))
            for query, answers in data["qrels"].items()
            for document, grade in (answers.items() if isinstance(answers, Mapping) else ((a, 1) for a in answers))
        ]
        for query, document, _ in qrels:
            if query not in queries or document not in corpus:
                raise ValueError(f"qrels name {query!r} and {document!r}, which are not both there")
        return "retrieval", retrieval_of(own, queries, corpus, qrels), [corpus, queries, qrels]
    rows = [tuple(row) for row in data]
    widths = {len(row) for row in rows}
    if widths == {2}:
        sources, targets = ([_text(row[side]) for row in rows] for side in (0, 1))
        return "pairs", OwnPairs(sources, targets, languages), rows
    if widths == {3} and len(rows) > 1:
        scored = [(_text(first), _text(second), _score(score)) for first, second, score in rows]
        return "scored", scored_pairs(own, scored), scored
    raise ValueError(f"{len(rows)} rows of {sorted(widths)} columns")


def _document(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(_text(value[key]) for key in ("title", "text") if value.get(key)).strip()
    return _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _score(value: Any) -> float:
    score = float(value)
    if not abs(score) <= 1e6:
        raise ValueError(f"the score {score} is outside -1000000 to 1000000")
    return score

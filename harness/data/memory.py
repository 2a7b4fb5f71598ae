"""Data sets of the user's own that are in memory: pairs, scored pairs, or dictionaries as BEIR has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from harness.core.errors import InputError
from harness.data.beir import Graded, joined_text, retrieval_of
from harness.data.languages import standard_language
from harness.data.own import (
    LARGEST_SCORE,
    OwnPairs,
    OwnSet,
    check_set_name,
    retrieval_protocol,
    scored_pairs,
)

_SHAPES = (
    "(sentence, translation) pairs, (sentence, sentence, score) triples, or a dictionary with corpus, queries and qrels"
)


@dataclass(frozen=True)
class MemorySet(OwnSet):
    """A set in memory; its checksum is that of what it holds.

    Attributes:
        digest: sha256 of the content as JSON.
    """

    digest: str = ""

    @property
    def names(self) -> list[str]:
        """One name, in place of files."""
        return [f"{self.subset} (in memory)"]

    @cached_property
    def checksums(self) -> dict[str, str]:
        """The digest."""
        return {self.names[0]: self.digest}


def memory_sets(data: Any, languages: Sequence[str] = ()) -> list[MemorySet]:
    """Sets from Python objects.

    Args:
        data: one set, called `data`, or a dictionary of sets by name. A set is a list of (sentence, translation)
            pairs, a list of (sentence, sentence, score) triples, or a dictionary with `corpus` (texts by id, or
            dictionaries with `title` and `text`), `queries` (texts by id) and `qrels` (by query, grades by document;
            a set or list of documents stands for grades of 1). There, too, `keep_own_id` may be true: a document with
            the query's own id may be its answer.
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
    own = MemorySet(check_set_name(name), name, (), languages=languages)
    try:
        return _retrieval(own, data) if isinstance(data, Mapping) else _table(own, data)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        raise InputError(f"data set {name!r}: expected {_SHAPES} ({type(error).__name__}: {error})") from None


def _retrieval(own: MemorySet, data: Mapping[str, Any]) -> MemorySet:
    corpus = {str(key): _document(value) for key, value in data["corpus"].items()}
    queries = {str(key): _text(value) for key, value in data["queries"].items()}
    # Sorted: a set has another order in every process, and the checksum must not.
    grades = sorted(
        (str(query), str(document), _grade(grade))
        for query, answers in data["qrels"].items()
        for document, grade in (answers.items() if isinstance(answers, Mapping) else ((a, 1) for a in answers))
    )
    keep_own_id = bool(data.get("keep_own_id", False))
    own = replace(own, kind="retrieval", keep_own_id=keep_own_id, protocol=retrieval_protocol(keep_own_id))
    graded = (Graded(f"data set {own.subset!r}: qrels", *each) for each in grades)
    return _with_content(own, retrieval_of(own, queries, corpus, graded), [corpus, queries, grades])


def _table(own: MemorySet, data: Any) -> MemorySet:
    rows = [_row(row) for row in data]
    widths = {len(row) for row in rows}
    if widths == {2}:
        pairs = [(_text(first), _text(second)) for first, second in rows]
        sources, targets = zip(*pairs, strict=True)
        return _with_content(replace(own, kind="pairs"), OwnPairs([*sources], [*targets], own.spoken), pairs)
    if widths == {3} and len(rows) > 1:
        scored = [(_text(first), _text(second), _score(score)) for first, second, score in rows]
        return _with_content(replace(own, kind="scored"), scored_pairs(own, scored), scored)
    raise ValueError(f"{len(rows)} rows of {sorted(widths)} columns")


def _with_content(own: MemorySet, content: Any, plain: Any) -> MemorySet:
    """The set with what its loader would give; `plain` is the same as JSON values."""
    text = json.dumps(plain, ensure_ascii=False)
    return replace(own, content=content, digest=sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def _row(row: Any) -> tuple[Any, ...]:
    if isinstance(row, str | Mapping):  # letters, or names of columns, would be taken for sentences
        raise TypeError(f"{row!r} is no tuple")
    return tuple(row)


def _document(value: Any) -> str:
    if isinstance(value, Mapping):
        return joined_text(_text(each) for each in (value.get("title") or "", value["text"]))
    return _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _grade(value: Any) -> int:
    grade = int(value)
    if grade != float(value):
        raise ValueError(f"the grade {value!r} is no whole number")
    return grade


def _score(value: Any) -> float:
    score = float(value)
    if not abs(score) <= LARGEST_SCORE:
        raise ValueError(f"the score {score} is outside -{LARGEST_SCORE:g} to {LARGEST_SCORE:g}")
    return score

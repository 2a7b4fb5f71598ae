"""Retrieval in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, and in `qrels/` which document answers which query.

Thakur et al. 2021, "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from harness.core.errors import InputError
from harness.core.text import FileError, of_the_user, tab_rows
from harness.data.own import Languages, OwnSet, own_set
from harness.data.pair_formats import json_rows
from harness.data.sources import Source


@dataclass(frozen=True)
class Retrieval:
    """Queries, documents, and which document answers which query.

    Attributes:
        queries: n texts; those that no document answers are left out.
        documents: m texts, a title before the text.
        answers: for each query the rows of its documents with their grades, 1 or more.
        own: for each query the row of the document that has its id and may not be found; -1 where there is none.
        languages: of queries and documents; None: not known.
        n_left_out: queries that no document answers.
    """

    queries: list[str]
    documents: list[str]
    answers: list[dict[int, int]]
    own: list[int]
    languages: Languages
    n_left_out: int


@of_the_user()
def load_retrieval(source: Source) -> Retrieval:
    """Read a folder in BEIR's layout.

    Raises:
        InputError: an id twice, or that nothing has; a grade that is no whole number; an answer that may not be found;
            no query with an answer; names file and line.
    """
    own = own_set(source)
    if own.content is not None:
        return cast(Retrieval, own.content)
    corpus, queries, qrels = own.files
    return retrieval_of(own, _texts(queries, ("text",)), _texts(corpus, ("title", "text")), _qrels(qrels))


class Graded(NamedTuple):
    """A document's grade as an answer of a query, 1 or more if it is one; `place` is where it says so, for errors."""

    place: str
    query: str
    document: str
    grade: int


def retrieval_of(
    own: OwnSet, queries: Mapping[str, str], documents: Mapping[str, str], graded: Iterable[Graded]
) -> Retrieval:
    """Texts by id and grades as a set.

    Raises:
        InputError: an id that nothing has, a query's answer that has its own id and so may not be found, or no query
            has an answer.
    """
    row_of = {name: row for row, name in enumerate(documents)}
    in_documents, in_queries = [path.name for path in own.files[:2]] or ("corpus", "queries")
    answers: dict[str, dict[int, int]] = {}
    for place, query, document, grade in graded:
        if query not in queries:
            raise FileError(f"{place}: no query {query!r} in {in_queries}")
        if document not in row_of:
            raise FileError(f"{place}: no document {document!r} in {in_documents}")
        if grade < 1:
            continue
        if query == document and not own.keep_own_id:
            raise InputError(
                f"{place}: document {document!r} answers the query with the same id, and such documents are left out; "
                "keep them (--keep-own-id, or keep_own_id = true in a file of sets), or give other ids"
            )
        answers.setdefault(query, {})[row_of[document]] = grade
    answered = [name for name in queries if name in answers]
    if not answered:
        where = own.files[-1] if own.files else own.subset
        raise InputError(f"{where}: no query has an answer with a grade above 0: all {len(queries)} would be left out")
    return Retrieval(
        queries=[queries[name] for name in answered],
        documents=list(documents.values()),
        answers=[answers[name] for name in answered],
        own=[-1 if own.keep_own_id else row_of.get(name, -1) for name in answered],
        languages=own.spoken,
        n_left_out=len(queries) - len(answered),
    )


def joined_text(parts: Iterable[str | None]) -> str:
    """The text of a document: its title, if it has one, a space, and its text."""
    return " ".join(part for part in parts if part).strip()


def _texts(path: Path, fields: Sequence[str]) -> dict[str, str]:
    """The texts of a JSONL file by `_id`: the values of these fields, those that are there, with a space between."""
    texts: dict[str, str] = {}
    for number, row in json_rows(path):
        name, values = row.get("_id"), [row.get(field) for field in fields]
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise FileError(f"{path}:{number}: no text in the field _id")
        if not isinstance(values[-1], str) or not all(isinstance(value, str | None) for value in values):
            raise FileError(f"{path}:{number}: no text in the field {fields[-1]}")
        if str(name) in texts:
            raise FileError(f"{path}:{number}: the id {str(name)!r} is there twice")
        texts[str(name)] = joined_text(values)
    if not texts:
        raise FileError(f"{path}: nothing in it")
    return texts


def _qrels(path: Path) -> Iterator[Graded]:
    seen: set[tuple[str, str]] = set()
    for number, (query, document, grade) in tab_rows(
        path, 3, 3, "query-id TAB corpus-id TAB score", is_blank_no_row=True
    ):
        if number == 1 and not _is_grade(grade):  # the header
            continue
        if not _is_grade(grade):
            raise FileError(f"{path}:{number}: the score {grade!r} is no whole number")
        if (query, document) in seen:
            raise FileError(f"{path}:{number}: {query!r} and {document!r} are there twice")
        seen.add((query, document))
        yield Graded(f"{path}:{number}", query, document, int(grade))
    if not seen:
        raise FileError(f"{path}: no answers in it")


def _is_grade(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 10

"""Retrieval in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, and in `qrels/` which document answers which query.

Thakur et al. 2021, "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from harness.core.errors import InputError
from harness.core.text import REMEDY, tab_rows
from harness.data.own import OwnSet, own_set
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
        languages: of queries and documents.
        n_left_out: queries that no document answers.
    """

    queries: list[str]
    documents: list[str]
    answers: list[dict[int, int]]
    own: list[int]
    languages: tuple[str, str]
    n_left_out: int


def load_retrieval(source: Source) -> Retrieval:
    """Read a folder in BEIR's layout.

    Raises:
        InputError: an id twice, or that nothing has; a grade that is no whole number; no query with an answer; names
            file and line.
    """
    own = own_set(source)
    if own.content is not None:
        return cast(Retrieval, own.content)
    corpus, queries, qrels = own.files
    documents = _texts(corpus, ("title", "text"))
    graded = _qrels(qrels)
    asked = _texts(queries, ("text",))
    for number, query, document, _ in graded:
        for label, name, file, known in (("query", query, queries, asked), ("document", document, corpus, documents)):
            if name not in known:
                raise InputError(f"{qrels}:{number}: no {label} {name!r} in {file.name}; {REMEDY}")
    return retrieval_of(own, asked, documents, [(query, document, grade) for _, query, document, grade in graded])


def retrieval_of(
    own: OwnSet, queries: Mapping[str, str], documents: Mapping[str, str], qrels: Iterable[tuple[str, str, int]]
) -> Retrieval:
    """Texts by id and graded answers (query, document, grade) as a set. Raises InputError if nothing is answered."""
    row_of = {name: row for row, name in enumerate(documents)}
    answers: dict[str, dict[int, int]] = {}
    for query, document, grade in qrels:
        if grade > 0:
            answers.setdefault(query, {})[row_of[document]] = grade
    answered = [name for name in queries if name in answers]
    if not answered:
        place = own.files[-1] if own.files else own.subset
        raise InputError(f"{place}: no query has an answer with a grade above 0: all {len(queries)} would be left out")
    return Retrieval(
        queries=[queries[name] for name in answered],
        documents=list(documents.values()),
        answers=[answers[name] for name in answered],
        own=[-1 if own.keep_own_id else row_of.get(name, -1) for name in answered],
        languages=own.languages,
        n_left_out=len(queries) - len(answered),
    )


def _texts(path: Path, fields: Sequence[str]) -> dict[str, str]:
    """The texts of a JSONL file by `_id`: the values of these fields, those that are there, with a space between."""
    texts: dict[str, str] = {}
    for number, row in json_rows(path):
        name, values = row.get("_id"), [row.get(field) for field in fields]
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise InputError(f"{path}:{number}: no text in the field _id; {REMEDY}")
        if not isinstance(values[-1], str) or not all(isinstance(value, str | None) for value in values):
            raise InputError(f"{path}:{number}: no text in the field {fields[-1]}; {REMEDY}")
        if str(name) in texts:
            raise InputError(f"{path}:{number}: the id {str(name)!r} is there twice; {REMEDY}")
        texts[str(name)] = " ".join(value for value in values if value).strip()
    if not texts:
        raise InputError(f"{path}: nothing in it; {REMEDY}")
    return texts


class _Graded(NamedTuple):
    line: int
    query: str
    document: str
    grade: int


def _qrels(path: Path) -> list[_Graded]:
    graded: list[_Graded] = []
    seen: set[tuple[str, str]] = set()
    for number, (query, document, grade) in tab_rows(
        path, 3, 3, "query-id TAB corpus-id TAB score", is_blank_no_row=True
    ):
        if number == 1 and not _is_grade(grade):  # the header
            continue
        if not _is_grade(grade):
            raise InputError(f"{path}:{number}: the score {grade!r} is no whole number; {REMEDY}")
        if (query, document) in seen:
            raise InputError(f"{path}:{number}: {query!r} and {document!r} are there twice; {REMEDY}")
        seen.add((query, document))
        graded.append(_Graded(number, query, document, int(grade)))
    if not graded:
        raise InputError(f"{path}: no answers in it; {REMEDY}")
    return graded


def _is_grade(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 10

"""The languages of what is measured, and choosing by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from harness.core.errors import InputError
from harness.data import Source
from harness.data.languages import standard_language
from harness.protocol.described import described
from harness.protocol.task import Task
from harness.results.records import Result

PIVOT = "en"
"""Chosen with every language: most sets set a language beside it."""


def languages_of(result: Result) -> frozenset[str]:
    """The languages that a record is on (see `standard_language`); empty: not known."""
    of_subset = described(result.task).languages
    return _standard(result.languages or [code for part in result.parts or [result.subset] for code in of_subset(part)])


def languages_of_source(task: Task, source: Source) -> frozenset[str]:
    """The languages of a set that is to be measured; empty: not known."""
    return _standard(source.languages or task.languages(source.subset))


def chosen_languages(codes: Sequence[str]) -> frozenset[str] | None:
    """The languages that the user asks for, with English; None: all.

    Raises:
        InputError: no language has this code.
    """
    return frozenset({PIVOT, *map(standard_language, codes)}) if codes else None


def is_on(languages: Collection[str], chosen: Collection[str]) -> bool:
    """Whether all languages of a set are among the chosen ones; never if they are not known."""
    return bool(languages) and set(languages) <= set(chosen)


def on_languages(results: Sequence[Result], codes: Sequence[str]) -> list[Result]:
    """The records on these languages and English, and on no other.

    Raises:
        InputError: a code that no language has, or there are no such records (with the languages that there are).
    """
    chosen = chosen_languages(codes)
    left = [result for result in results if chosen is None or is_on(languages_of(result), chosen)]
    if results and not left:
        known = sorted(frozenset().union(*map(languages_of, results)))
        listed = " ".join(known[:30]) + (" ..." if len(known) > 30 else "")
        raise InputError(f"no results on {' and '.join(codes)} alone are stored; there are some on {listed or 'none'}")
    return left


def _standard(codes: Iterable[str]) -> frozenset[str]:
    return frozenset(_standard_or_same(code) for code in codes if code)


def _standard_or_same(code: str) -> str:
    """A code that another package made up stays as it is."""
    try:
        return standard_language(code)
    except InputError:
        return code

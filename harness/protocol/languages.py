"""The languages of what is measured, and choosing by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from harness.core.errors import InputError
from harness.data import Source
from harness.data.languages import standard_language
from harness.encoders.made_for import made_for
from harness.protocol.described import described
from harness.protocol.task import Task
from harness.results.records import Result

PIVOT = "en"
"""Chosen with every language: most sets set a language beside it."""


class Scored(Protocol):
    """A measured result, or a published figure."""

    @property
    def task(self) -> str: ...  # noqa: D102
    @property
    def subset(self) -> str: ...  # noqa: D102
    @property
    def parts(self) -> Sequence[str]: ...  # noqa: D102


Chosen = TypeVar("Chosen", bound=Scored)


def languages_of(scored: Scored) -> frozenset[str]:
    """The languages that a result or a published figure is on (see `standard_language`); empty: not known."""
    of_subset = described(scored.task).languages
    said = scored.languages if isinstance(scored, Result) else ()
    codes = said or [code for part in scored.parts or [scored.subset] for code in of_subset(part)]
    return _standard(tuple(dict.fromkeys(codes)))


def is_made_for(result: Result) -> bool | None:
    """Whether an encoder was made for all languages of a record; None: not known, of the one or the other.

    An average is over the languages of all its sets.
    """
    languages, known = languages_of(result), made_for(result.spec)
    return languages <= _standard(known) if languages and known is not None else None


def languages_of_source(task: Task, source: Source) -> frozenset[str]:
    """The languages of a set that is to be measured; empty: not known."""
    return _standard(tuple(source.languages or task.languages(source.subset)))


def chosen_languages(codes: Sequence[str]) -> frozenset[str] | None:
    """The languages that the user asks for, with English; None: all.

    Raises:
        InputError: no language has this code.
    """
    return frozenset({PIVOT, *(_norwegian(standard_language(code)) for code in codes)}) if codes else None


def is_on(languages: Collection[str], chosen: Collection[str]) -> bool:
    """Whether all languages of a set are among the chosen ones; never if they are not known."""
    return bool(languages) and set(languages) <= set(chosen)


def on_languages(results: Sequence[Chosen], codes: Sequence[str]) -> list[Chosen]:
    """The results on these languages and English, and on no other.

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


def of_unknown_languages(results: Iterable[Scored]) -> str:
    """One line on what a choice of languages leaves out since its languages are not known; empty: nothing."""
    sets = sorted({f"{result.task} {result.subset}" for result in results if not languages_of(result)})
    listed = ", ".join(sets[:5]) + (", ..." if len(sets) > 5 else "")
    return f"left out, since their languages are not known: {listed}" if sets else ""


@lru_cache(maxsize=1024)
def _standard(codes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_standard_or_same(code) for code in codes if code)


def _norwegian(code: str) -> str:
    """Data are Bokmål (`nb`), and lists of a model's languages say Norwegian (`no`)."""
    return "no" if code == "nb" else code


def _standard_or_same(code: str) -> str:
    """A code that another package made up stays as it is."""
    try:
        return _norwegian(standard_language(code))
    except InputError:
        return code

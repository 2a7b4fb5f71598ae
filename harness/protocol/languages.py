"""The languages of what is measured, and choosing by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from harness.core.errors import HarnessError, InputError
from harness.data import Source
from harness.data.languages import standard_language
from harness.encoders.made_for import declared_languages
from harness.encoders.spec import parse_spec
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
    return comparable(codes)


def is_made_for(result: Result) -> bool | None:
    """Whether an encoder was made for all languages of a record; None: not known, of the one or the other.

    An average is over the languages of all its sets.
    """
    languages, known = languages_of(result), made_for(result.spec)
    return languages <= comparable(known) if languages and known is not None else None


def made_for(spec: str) -> tuple[str, ...] | None:
    """The languages that the encoder of a record's spec string was made for, ISO 639 codes; None: not known, or any.

    Of a model that the spec string gives the location of, nothing is known. Cut or quantised vectors are for the
    languages of the full ones.
    """
    try:
        parsed = parse_spec(spec)
        if parsed.location is not None:
            return None
        declared = declared_languages(parsed.head)
        if declared is None:  # another package, which has no such file: what it says itself counts
            from harness.encoders.registry import encoder_info

            return encoder_info(parsed.head).languages
        return declared.get(parsed.head)
    except HarnessError:  # measured through the Python API, or by a package that is not here
        return None


def languages_of_source(task: Task, source: Source) -> frozenset[str]:
    """The languages of a set that is to be measured; empty: not known."""
    return comparable(source.languages or task.languages(source.subset))


def chosen_languages(codes: Sequence[str]) -> frozenset[str] | None:
    """The languages that the user asks for, with English; None: all.

    Raises:
        InputError: no language has this code.
    """
    for code in codes:
        standard_language(code)
    return comparable([PIVOT, *codes]) if codes else None


def is_on(languages: Collection[str], chosen: Collection[str]) -> bool:
    """Whether all languages of a set are among the chosen ones; never if they are not known."""
    return bool(languages) and set(languages) <= set(chosen)


def on_languages(results: Sequence[Chosen], codes: Sequence[str]) -> list[Chosen]:
    """The results on these languages and English, and on no other.

    Raises:
        InputError: a code that no language has, or nothing is on one of the languages (with those that there are).
    """
    chosen = chosen_languages(codes)
    if chosen is None:
        return list(results)
    left = [result for result in results if is_on(languages_of(result), chosen)]
    asked = comparable(codes)
    if results and not any(languages_of(result) & asked for result in left):
        known = sorted(frozenset().union(*map(languages_of, results)))
        listed = " ".join(known[:30]) + (" ..." if len(known) > 30 else "")
        shared = any(languages_of(result) & asked for result in results)
        hint = "; name each language of a set (--language de --language tr)" if shared else ""
        there = f"there are some on {listed or 'none'}{hint}"
        raise InputError(f"no results on {' and '.join(codes)} alone are stored; {there}")
    return left


def of_unknown_languages(results: Iterable[Scored]) -> str:
    """One line on what a choice of languages leaves out since its languages are not known; empty: nothing."""
    sets = sorted({f"{result.task} {result.subset}" for result in results if not languages_of(result)})
    listed = ", ".join(sets[:5]) + (", ..." if len(sets) > 5 else "")
    return f"left out, since their languages are not known: {listed}" if sets else ""


def comparable(codes: Iterable[str]) -> frozenset[str]:
    """Codes of languages as they are compared, of sets, of encoders and of what is asked for.

    That is the shortest code (see `standard_language`), but `no` for `nb`: data are Bokmål, and lists of a model's
    languages say Norwegian. A code that another package made up stays as it is.
    """
    return frozenset(_comparable(code) for code in codes if code)


@lru_cache(maxsize=1024)
def _comparable(code: str) -> str:
    try:
        shortest = standard_language(code)
    except InputError:
        return code
    return "no" if shortest == "nb" else shortest

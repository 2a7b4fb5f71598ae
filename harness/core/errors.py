"""Errors that a user can act on: each message is one line that says what was wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class HarnessError(Exception):
    """Base of every error the harness raises on purpose; the command line prints it as one line and exits with 2."""


class InputError(HarnessError):
    """Bad input or usage: a data file (named with its line), an option, vectors an encoder returned."""


class EncoderError(InputError):
    """An encoder cannot go on, whatever it is given next: a fault of this encoder alone."""


class VectorError(EncoderError):
    """What an encoder returned is no vectors."""


class LanguageError(InputError):
    """An encoder cannot take a language: a fault of the subsets in this language alone."""


class NameTakenError(InputError):
    """Results of other weights or options are stored under an encoder's name: a fault of this encoder alone."""


class MissingExtraError(HarnessError):
    """A package that an encoder or command needs is not installed; `then`: what is to be done after that."""

    def __init__(self, what: str, extra: str, then: str = ""):
        super().__init__(f'{what} needs: pip install "multilingual-embedding-harness[{extra}]"' + then)
        self.extra = extra


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not among `known`, with the nearest matches."""
    known = sorted(set(known))
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return InputError(f"unknown {what} {name!r}; did you mean {' or '.join(map(repr, near))}?")
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return InputError(f"unknown {what} {name!r}; known: {listed or 'none'}")


def one_line(error: BaseException) -> str:
    """An error of somebody else's code in one line: its type and the first line of its message."""
    if isinstance(error, HarnessError):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

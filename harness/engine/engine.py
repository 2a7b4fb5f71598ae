"""The one verb of an engine: do a function on many independent pieces, and say of each what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from harness.core.errors import EncoderError, InputError

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 3
"""As many workers may die of a piece; then it is given up."""


class LostError(Exception):
    """A piece was given up: workers died of it again and again."""


class LoadError(EncoderError):
    """An encoder cannot be loaded where its pieces are done: no piece of it can be."""


class ClusterError(InputError):
    """The cluster does not answer, or has no room for a worker."""


@dataclass(frozen=True)
class Done(Generic[T, R]):
    """A piece that is done.

    Attributes:
        piece: what was given.
        value: what the function returned.
        attempts: how often it was begun.
    """

    piece: T
    value: R
    attempts: int = 1


@dataclass(frozen=True)
class Failed(Generic[T]):
    """A piece on which the function raised; it is not tried again.

    Attributes:
        piece: what was given.
        error: what was raised. From another process it has the type where that is one of Python's or the harness's.
        attempts: how often it was begun.
    """

    piece: T
    error: Exception
    attempts: int = 1


@dataclass(frozen=True)
class Lost(Generic[T]):
    """A piece that is given up since its workers died; the function raised nothing.

    Attributes:
        piece: what was given.
        error: says how they died.
        attempts: how often it was begun.
    """

    piece: T
    error: LostError
    attempts: int = ATTEMPTS


Outcome = Done[T, R] | Failed[T] | Lost[T]


class Engine(Protocol):
    """Where pieces are done.

    Attributes:
        places: how many pieces it does at a time, as far as is known now.
    """

    @property
    def places(self) -> int:
        """How many pieces it does at a time."""
        ...

    def map(
        self, function: Callable[[T], R], pieces: Iterable[T], on_redone: Callable[[T, str], None] | None = None
    ) -> Iterator[Outcome[T, R]]:
        """Do a function on each piece, and give what became of them, as it comes, in whatever order.

        Pieces are taken from the iterable when there is room for them, never more than twice as many as there are
        places before their outcomes are asked for. What is left undone when the iterator is closed is given up.

        Args:
            function: of a module that can be imported wherever pieces are done.
            pieces: that can be sent there (pickled).
            on_redone: told of a piece that has to be done once more, and why.

        Raises:
            ClusterError: there is no place left where a piece could be done.
        """
        ...

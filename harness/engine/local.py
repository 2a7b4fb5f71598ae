"""The engine of one machine: this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from harness.engine.engine import Done, Failed, Outcome, R, T


class LocalEngine:
    """Does one piece after another in this process."""

    places = 1

    def map(
        self, function: Callable[[T], R], pieces: Iterable[T], on_redone: Callable[[T, str], None] | None = None
    ) -> Iterator[Outcome[T, R]]:
        """See `Engine.map`; a piece is taken when the outcome of the one before it has been."""
        for piece in pieces:
            try:
                value = function(piece)
            except Exception as error:
                yield Failed(piece, error)
            else:
                yield Done(piece, value)

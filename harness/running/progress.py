"""Who wants to know how far a run is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.results.records import Result


class Progress(Protocol):
    """Who wants to know how far a run is."""

    def note(self, message: str) -> None:
        """Something worth saying that is neither a result nor a failure."""

    def start(self, encoder: str, n_subsets: int) -> None:
        """An encoder is loaded and has so many subsets to do."""

    def encoding(self, task: str, subset: str, done: int, total: int) -> None:
        """So many of a subset's new sentences are encoded."""

    def finish(self, result: Result, metric: str, was_stored: bool) -> None:
        """A subset is done, or was by an earlier run; `metric` names its main score."""

    def fail(self, encoder: str, task: str, subset: str, error: Exception) -> None:
        """A subset failed."""


class Silent:
    """Progress that nobody watches."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None

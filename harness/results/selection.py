"""Choosing among the stored records, by patterns such as `e5*`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from harness.core.errors import InputError, unknown_name
from harness.results.records import Result
from harness.results.store import ResultStore


def fold(results: Iterable[Result]) -> tuple[list[Result], list[Result]]:
    """Divides results into those that tables show, and those of cut or quantised vectors, which they leave out.

    Those stay whose full vectors, of the same weights and options, were not measured on the task.
    """
    listed = list(results)
    full: dict[tuple[str | None, str], set[str]] = {}
    for result in listed:
        if result.base is None:
            full.setdefault((result.encoder, result.task), set()).add(result.fingerprint)
    is_folded = [
        result.reduced is not None
        and any(result.reduced.is_made(of, result.fingerprint) for of in full.get((result.base, result.task), ()))
        for result in listed
    ]
    pairs = list(zip(listed, is_folded, strict=True))
    return [result for result, folded in pairs if not folded], [result for result, folded in pairs if folded]


class Selectable(Protocol):
    """What has the names to choose by: a measured result, or a published figure."""

    @property
    def encoder(self) -> str: ...  # noqa: D102
    @property
    def task(self) -> str: ...  # noqa: D102
    @property
    def subset(self) -> str: ...  # noqa: D102
    @property
    def metrics(self) -> Mapping[str, float]: ...  # noqa: D102


Chosen = TypeVar("Chosen", bound=Selectable)


def stored(store: ResultStore) -> list[Result]:
    """All records of a store, sorted by encoder, task, subset.

    Raises:
        InputError: there are none, or a file holds no records.
    """
    results = store.load()
    if not results:
        raise InputError(
            f"no stored results in the folder {store.root}; run `leaderboard run` first, or name a folder (--results)"
        )
    return results


def select(
    results: Sequence[Chosen],
    *,
    encoder: Sequence[str] = (),
    task: Sequence[str] = (),
    subset: Sequence[str] = (),
    metric: Sequence[str] = (),
) -> tuple[list[Chosen], set[str] | None]:
    """The records that match, and the metrics that do (None: no metric was asked for). Patterns are those of fnmatch.

    Raises:
        InputError: a pattern that matches nothing of what is stored, or nothing that the other filters leave (with the
            nearest matches).
    """
    chosen = list(results)
    chosen = _narrow("encoder", encoder, chosen, results, lambda result: [result.encoder])
    chosen = _narrow("task", task, chosen, results, lambda result: [result.task])
    chosen = _narrow("subset", subset, chosen, results, lambda result: [result.subset])
    chosen = _narrow("metric", metric, chosen, results, lambda result: result.metrics)
    metrics = {name for result in chosen for name in result.metrics if matches(name, metric)}
    return chosen, metrics if metric else None


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of the patterns; case matters."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _narrow(
    what: str,
    patterns: Sequence[str],
    chosen: list[Chosen],
    everything: Sequence[Chosen],
    names_of: Callable[[Chosen], Iterable[str]],
) -> list[Chosen]:
    if not patterns:
        return chosen
    left = {name for result in chosen for name in names_of(result)}
    known = {name for result in everything for name in names_of(result)}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise unknown_name(what, pattern, known)
        if not any(fnmatchcase(name, pattern) for name in left):
            listed = ", ".join(sorted(left)[:20]) + (", ..." if len(left) > 20 else "")
            raise InputError(f"no {what} {pattern!r} is stored for the other filters; they leave: {listed}")
    return [result for result in chosen if any(matches(name, patterns) for name in names_of(result))]

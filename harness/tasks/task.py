"""What a task is: it loads items, asks for vectors, produces per-item rows, and aggregates rows into metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data import DataDir, Source
from harness.names import Subset

Encode = Callable[[Sequence[str], str | None], NDArray[np.float32]]
"""encode(sentences, lang) -> float32 (n, dim): what a task is given instead of an encoder."""

Rows = Mapping[str, NDArray[Any]]
"""Columns of equal length, one row an item (a sentence pair, a query, a candidate)."""


def no_averages(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For a task whose subsets are not averaged."""
    return {}


def same_name(name: str) -> tuple[str, ...]:
    """For a task whose subsets have no other names than their own."""
    return (name,)


@dataclass(frozen=True)
class Task:
    """One protocol. A subset (a language pair) is data: a key of what `sources` finds, not a class.

    Attributes:
        name, version: the version changes whenever the same vectors would give other scores.
        description: one line.
        metrics: names in the order of the tables; scores are x 100.
        main: the metric that says most; by default the first.
        signature: spells the protocol, `key:value|key:value`.
        published: the subsets that the published data has.
        sources: the subsets that are in a data directory, in the order of the tables; opens no file.
        load: reads one of them. Raises InputError (file and line) on bad data.
        rows: the per-item rows of the items that `load` returned.
        aggregate: rows -> metrics; needs nothing but the rows.
        count: the number that a record gives as n.
        averages: which averages the given subsets make complete: name of the average -> its subsets.
        resolve: the subsets that a name on the command line stands for (a group, a language), whether present or not.
    """

    name: str
    version: str
    description: str
    metrics: tuple[str, ...]
    signature: str
    published: tuple[str, ...]
    sources: Callable[[DataDir], dict[str, Source]]
    load: Callable[[Source], Any]
    rows: Callable[[Any, Encode], Rows]
    aggregate: Callable[[Rows], dict[str, float]]
    count: Callable[[Any], int]
    averages: Callable[[Iterable[str]], dict[str, tuple[str, ...]]] = no_averages
    resolve: Callable[[str], tuple[str, ...]] = same_name
    main: str = ""

    @property
    def main_metric(self) -> str:
        """The metric that says most."""
        return self.main or self.metrics[0]

    @property
    def full_signature(self) -> str:
        """The signature with the task's name and version in front, as records carry it."""
        return f"task:{self.name}|version:{self.version}|{self.signature}"


def tags_of(subsets: Iterable[str]) -> list[str]:
    """The stand-in tags among subset names, published data ("") first."""
    return sorted({Subset.parse(subset).tag for subset in subsets})

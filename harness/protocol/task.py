"""What a task is: how its items are found, read, turned into rows and scored, and how its results are shown.

Nothing here needs NumPy before something is measured: `leaderboard show` reads tasks, and has to answer at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, Protocol

from harness.core.names import Subset
from harness.data import DataDir, Source
from harness.encoders.sides import Side

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.resampling.metrics import Sample
    from harness.results.records import Result
    from harness.results.statistics import Statistics

    Rows = Mapping[str, NDArray[Any]]
else:
    Rows = Mapping
    """Columns of equal length, one row an item (a sentence pair, a query, a candidate)."""


class Encode(Protocol):
    """What a task is given instead of an encoder."""

    def __call__(self, sentences: Sequence[str], lang: str | None, *, side: Side | None = None) -> NDArray[np.float32]:
        """The vectors of sentences, float32 (n, dim).

        Args:
            sentences: n texts.
            lang: their language, ISO 639; None if it is not known.
            side: of a task that has two (`Task.has_sides`): whether they are queries or documents.
        """
        ...


@dataclass(frozen=True)
class Metric:
    """A number that a task measures.

    Attributes:
        name: as in records.
        label: the heading of its column; by default the name.
        title: what a table of this metric alone is called; by default the label.
        kind: "score" (x 100, higher is better: encoders are ranked by it), "error" (x 100, lower is better),
            "difference" (of two scores: signed, no better for being higher, tested against zero) or "threshold" (no
            score: printed with four decimals, has no interval).
        is_main: whether the task's table has a column of it.
        tolerance: by how much a repeated measurement with the same vectors may differ.
        terms: of a difference of two other metrics, their names: it is the first minus the second.
    """

    name: str
    label: str = ""
    title: str = ""
    kind: Literal["score", "error", "difference", "threshold"] = "score"
    is_main: bool = True
    tolerance: float = 0.05
    terms: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The label, or the name."""
        return self.label or self.name

    @property
    def is_ranked(self) -> bool:
        """Whether an encoder with a higher value is better."""
        return self.kind == "score"

    @property
    def has_interval(self) -> bool:
        """Whether it can be resampled."""
        return self.kind != "threshold"


@dataclass(frozen=True)
class OverviewColumn:
    """A column of the table over all tasks.

    Attributes:
        metric: its name.
        heading: above the subset's name.
        subsets: names without tags, of which the first that was measured is shown; `avg-*` stands for all averages. Of
            several averages or stand-ins that one is shown that the task ranks by. Empty: every subset has a column.
        short: the heading where there is little room; by default the heading. A note below the table says the metric.
    """

    metric: str
    heading: str
    subsets: tuple[str, ...] = ()
    short: str = ""


@dataclass(frozen=True)
class Display:
    """How a task's results are shown.

    Attributes:
        title: heading of its tables; by default the task's name.
        protocol: one or two sentences that say how it is measured.
        subsets: names without tags in the order of the tables, averages at their place; others follow by name.
        ranking: averages (or subsets) that encoders are ordered by; the first that was measured counts.
        rank_by: the metric of those averages; by default the first main one.
        overview: the columns of the table over all tasks; by default the main metric on the first of `ranking`.
        turn_above: with more subsets than this, a table has a row for each subset instead of each encoder.
        names: what a subset's code stands for.
    """

    title: str = ""
    protocol: str = ""
    subsets: tuple[str, ...] = ()
    ranking: tuple[str, ...] = ()
    rank_by: str = ""
    overview: tuple[OverviewColumn, ...] | None = None
    turn_above: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """A picture on a page.

    Attributes:
        file: its name below the results folder, an SVG.
        says: what it shows, for who does not see it.
        spec: makes its Vega-Lite specification (see `harness.charts`); called only where pictures can be drawn.
    """

    file: str
    says: str
    spec: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Page:
    """What a task adds to its page.

    Attributes:
        parts: in Markdown.
        files: that these show, by their name below the results.
        pictures: that follow them.
    """

    parts: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()


def no_averages(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For a task whose subsets are not averaged."""
    return {}


def same_name(name: str) -> tuple[str, ...]:
    """For a task whose subsets have no other names than their own."""
    return (name,)


def no_languages(subset: str) -> tuple[str, ...]:
    """For a task that does not say which languages its subsets are in."""
    return ()


def languages_of_pair(subset: str) -> tuple[str, ...]:
    """For a task whose subsets are named by their languages: `de` and `en` of `de-en@ntrex`."""
    return tuple(dict.fromkeys(Subset.parse(subset).base.split("-")))


def nothing_to_fetch(subset: str) -> tuple[str, ...]:
    """For a task whose data `leaderboard data fetch` does not have."""
    return ()


def nothing_left_out(items: Any) -> dict[str, int]:
    """For a task that measures all items of a set."""
    return {}


def no_remarks(items: Any) -> tuple[str, ...]:
    """For a task that has nothing to say of the items of a set."""
    return ()


@dataclass(frozen=True)
class Task:
    """One protocol. A subset (a language pair) is data: a key of what `sources` finds, not a class.

    Attributes:
        name, version: the version changes whenever the same vectors would give other scores.
        description: one line.
        metrics: in the order of the tables; scores are x 100.
        main: name of the metric that says most; by default the first.
        signature: spells the protocol, `key:value|key:value`.
        published: the subsets that the published data has.
        is_own: whether its sets are the user's own, named by `--pairs` and the like (see `harness.data.own`), and of no
            data directory.
        sources: the subsets that are in a data directory, in the order of the tables; opens no file.
        load: reads one of them. Raises InputError (file and line) on bad data.
        rows: the per-item rows of the items that `load` returned.
        aggregate: rows -> metrics; needs nothing but the rows.
        count: the number that a record gives as n.
        left_out: how many of what a set holds are not measured, by what they are (`queries without an answer`).
        remarks: what whoever reads the scores of a set should know of its items, a clause each; said when it is read,
            kept in the record, and printed below tables.
        sentences: all sentences that are evaluated on in a data directory, so that no student is trained on them; None
            if they are those of another task, or of no data directory.
        averages: which averages the given subsets make complete: name of the average -> its subsets.
        resolve: the subsets that a name on the command line stands for (a group, a language), whether present or not.
        data_sets: the names in `leaderboard data fetch` of the sets that a published subset is in.
        languages: those of a published subset or a stand-in, by its name: ISO 639 codes; empty: not known.
        resample: the sample of one metric (its name) from each encoder's rows of one subset, for intervals and tests;
            by default `aggregate` is called for every resample, which is slower.
        has_sides: whether it compares queries with documents, and `rows` says by `side` which of them it has encoded.
            Other tasks refuse an encoder that encodes the two differently.
        display: how results are shown.
        cite: BibTeX entries of what is to be cited for the protocol; those of the data sets stand in their catalogue.
        detail: what is kept of a set's rows beside intervals and tests, as JSON values by name, for `page`.
        page: what the task's page has beside its tables, from its results and their statistics.
    """

    name: str
    version: str
    description: str
    metrics: tuple[Metric, ...]
    signature: str
    published: tuple[str, ...]
    sources: Callable[[DataDir], dict[str, Source]]
    load: Callable[[Source], Any]
    rows: Callable[[Any, Encode], Rows]
    aggregate: Callable[[Rows], dict[str, float]]
    count: Callable[[Any], int]
    sentences: Callable[[DataDir], Iterable[str]] | None
    averages: Callable[[Iterable[str]], dict[str, tuple[str, ...]]] = no_averages
    resolve: Callable[[str], tuple[str, ...]] = same_name
    data_sets: Callable[[str], tuple[str, ...]] = nothing_to_fetch
    languages: Callable[[str], tuple[str, ...]] = no_languages
    resample: Callable[[Sequence[Rows], str], Sample] | None = None
    left_out: Callable[[Any], Mapping[str, int]] = nothing_left_out
    remarks: Callable[[Any], Sequence[str]] = no_remarks
    has_sides: bool = False
    is_own: bool = False
    display: Display = Display()
    cite: tuple[str, ...] = ()
    detail: Callable[[Rows], Mapping[str, Any]] | None = None
    page: Callable[[Sequence[Result], Statistics], Page] | None = None
    main: str = ""

    @property
    def main_metric(self) -> str:
        """The name of the metric that says most."""
        return self.main or self.metrics[0].name

    @property
    def metric_names(self) -> tuple[str, ...]:
        """In the order of the tables."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def full_signature(self) -> str:
        """The signature with the task's name and version in front, as records carry it."""
        return f"task:{self.name}|version:{self.version}|{self.signature}"

    def signature_on(self, source: Source) -> str:
        """The signature of a record on this set."""
        return "|".join(filter(None, (self.full_signature, source.protocol)))

    def is_current(self, signature: str) -> bool:
        """Whether a record with this signature was measured as the task measures now."""
        return f"{signature}|".startswith(f"{self.full_signature}|")


def common_signature(signatures: Iterable[str]) -> str:
    """What signatures of one task, on several sets, begin with alike."""
    columns = zip(*(signature.split("|") for signature in signatures), strict=False)  # they may end at any length
    return "|".join(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))


@dataclass(frozen=True)
class Planned:
    """One task and the subsets of it that a run will do."""

    task: Task
    sources: list[Source]


def tags_of(subsets: Iterable[str]) -> list[str]:
    """The stand-in tags among subset names, published data ("") first."""
    return sorted({Subset.parse(subset).tag for subset in subsets})

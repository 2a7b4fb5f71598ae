"""What a results folder holds, as all that is made from the whole of it needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.protocol.languages import chosen_languages, is_on, languages_of, on_languages
from harness.published import PublishedScore, published_scores
from harness.published.mteb_import import imported_scores
from harness.report.overview import Overview, overviews
from harness.results.records import Result
from harness.results.selection import fold, stored
from harness.results.statistics import Statistics, StatisticsStore
from harness.results.store import ResultStore
from harness.speed.store import Measurement, SpeedStore
from harness.statistics.candidates import Facts, facts_of


@dataclass(frozen=True)
class Content:
    """The content of a folder, or its part on some languages. What takes long to find is found once.

    Attributes:
        results: there are some; of cut and quantised vectors too.
        folder: its name, for commands.
        statistics: by task, those of these results.
        measured: what encoders cost.
        scores: published figures, and those imported here.
    """

    results: Sequence[Result]
    folder: str = "results"
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    measured: Sequence[Measurement] = ()
    scores: Sequence[PublishedScore] = ()

    @property
    def full(self) -> list[Result]:
        """Those that tables show: of full vectors, and of others where the full ones were not measured."""
        return self._parts[0]

    @property
    def folded(self) -> list[Result]:
        """Those of cut and quantised vectors that tables leave out."""
        return self._parts[1]

    @cached_property
    def _parts(self) -> tuple[list[Result], list[Result]]:
        return fold(self.results)

    @cached_property
    def overviews(self) -> list[Overview]:
        """The tables over all tasks: of real data, of the bundled sample, each if it has a column."""
        return overviews(self.full, self.statistics, self.folded, self.measured)

    @cached_property
    def facts(self) -> dict[str, Facts]:
        """What is known of the encoders of `full`."""
        return facts_of(self.full, self.measured)


def content_of(store: ResultStore, languages: Sequence[str] = ()) -> Content:
    """All that is in a folder.

    languages: if given, the results in these and English alone (see `harness.protocol.languages`).

    Raises:
        InputError: no records, a file that holds something else, a code that no language has.
    """
    results = on_languages(stored(store), languages)
    scores = [*published_scores(), *imported_scores(store.root)]
    if (codes := chosen_languages(languages)) is not None:
        scores = [score for score in scores if is_on(languages_of(score), codes)]
    # The name as it was given, even if that is a link; `.` and `..` have no name.
    folder = store.root.name if store.root.name not in ("", "..") else store.root.resolve().name
    statistics = StatisticsStore(store.root).of(results)
    return Content(results, folder, statistics, SpeedStore(store.root).load(), scores)

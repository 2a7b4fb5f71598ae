"""What a results folder holds, as all that is made from the whole of it needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.protocol.languages import chosen_languages, is_on, languages_of, on_languages
from harness.published import PublishedScore, published_scores
from harness.published.mteb_import import imported_scores
from harness.results.records import Result
from harness.results.selection import stored
from harness.results.statistics import Statistics, StatisticsStore
from harness.results.store import ResultStore
from harness.speed.store import Measurement, SpeedStore


@dataclass(frozen=True)
class Content:
    """The content of a folder, or its part on some languages.

    Attributes:
        folder: its name, for commands.
        results: there are some.
        statistics: by task, those of these results.
        measured: what encoders cost.
        scores: published figures, and those imported here.
    """

    folder: str
    results: Sequence[Result]
    statistics: Mapping[str, Statistics]
    measured: Sequence[Measurement]
    scores: Sequence[PublishedScore]


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
    return Content(folder, results, statistics, SpeedStore(store.root).load(), scores)

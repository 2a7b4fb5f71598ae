"""The pictures of the pages: the charts of `charted`, as files; which there are, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from harness import charts
from harness.core import escaping
from harness.core.names import Subset, is_name
from harness.protocol.described import described, metric_of, title_of
from harness.protocol.task import Picture
from harness.report.charted import CostChart, LanguageChart, cost_charts, language_charts
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.statistics.board import Board
from harness.statistics.candidates import Facts

FOLDER = "pictures"
_BY_LANGUAGE = "by-language"
_OWN = re.compile(rf"quality-({'|'.join(charts.COSTS)})|.+-({_BY_LANGUAGE}|thresholds)")
_SAID = {"speed": "speed", "bytes": "bytes of a vector", "disk": "size on disk"}


def picture_file(task: str, kind: str) -> str:
    """The name, below the results folder, of a task's picture of one kind: `by-language` or `thresholds`."""
    return f"{FOLDER}/{task}-{kind}.svg"


def is_own_picture(stem: str) -> bool:
    """Whether `report` gives such names to pictures (without their ending)."""
    return _OWN.fullmatch(stem) is not None


def shown(pictures: Iterable[Picture], there: Collection[str]) -> list[Picture]:
    """The pictures to show: where none can be drawn, those that are there already.

    there: the files of pictures that are in the results folder.
    """
    return [picture for picture in pictures if charts.is_available() or picture.file in there]


def drawn(pictures: Iterable[Picture]) -> dict[str, str]:
    """By file, the pictures; none where they cannot be drawn, so that those that are there stay as they are."""
    return {picture.file: charts.svg(picture.spec()) for picture in pictures} if charts.is_available() else {}


def markdown_picture(picture: Picture, folder: str = "") -> str:
    """A line of Markdown; `folder`: of the results from that of the page, with a `/` at its end."""
    return f"![{escaping.markdown(picture.says)}]({escaping.link_target(folder + picture.file)})"


def cost_pictures(
    results: Sequence[Result], statistics: Mapping[str, Statistics], facts: Mapping[str, Facts]
) -> list[Picture]:
    """Quality against speed, bytes of a vector and size on disk, on real data; each that two encoders or more have.

    Args:
        results: of cut and quantised vectors too, which have their bytes.
        statistics: by task, those of these results.
        facts: of the encoders of full vectors.
    """
    real = _real(results)
    board = Board(real, statistics)
    found = cost_charts(real, board, facts)[:1]
    return [_cost_picture(chart, kind, board) for chart in found for kind in chart.rows]


def _cost_picture(chart: CostChart, kind: str, board: Board) -> Picture:
    (task, subset, metric), rows = chart.key, chart.rows[kind]
    quality = f"{title_of(task)}, {subset}: {metric_of(task, metric).heading} x 100"
    machine = f"; {chart.setup}" if kind == "speed" else ""
    line = "the line joins those that no other one beats in both"
    subtitle = f"intervals: {100 * board.statistics(task).level:g} %; {line}{machine}"
    title = f"Quality and {_SAID[kind]}"
    return Picture(
        f"{FOLDER}/quality-{kind}.svg",
        f"Quality against {_SAID[kind]}: {quality}, of {', '.join(row['encoder'] for row in rows[:20])}",
        lambda: charts.quality_and_cost(rows, charts.COSTS[kind], quality=quality, title=title, subtitle=subtitle),
    )


def language_pictures(results: Sequence[Result], statistics: Mapping[str, Statistics]) -> dict[str, Picture]:
    """By task the scores by language, on real data, where its table has a row for each, since they are many."""
    real = _real(results)
    board = Board(real, statistics)
    return {
        task: _language_picture(chart, board)
        for chart in language_charts(real, board)
        for task in [chart.keys[0][0]]
        if is_name(task) and (turn_above := described(task).display.turn_above) is not None
        if len(chart.keys) > turn_above
    }


def _language_picture(chart: LanguageChart, board: Board) -> Picture:
    task = chart.keys[0][0]
    title = f"{title_of(task)} by language{f', {chart.tag}' if chart.tag else ''}"
    subtitle = f"intervals: {100 * board.statistics(task).level:g} %; families by Unicode CLDR{chart.left_out}"
    score = f"{chart.heading} x 100"
    return Picture(
        picture_file(task, _BY_LANGUAGE),
        f"{title}: {score} of {', '.join(chart.encoders)}",
        lambda: charts.by_language(chart.rows, score=score, title=title, subtitle=subtitle, domain=chart.domain),
    )


def _real(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if not Subset.parse(result.subset).is_sample]

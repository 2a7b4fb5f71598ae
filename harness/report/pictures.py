"""The pictures of the pages: which there are, and the rows that they are drawn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from harness import charts
from harness.core import escaping
from harness.core.names import Subset, is_name
from harness.data.families import family
from harness.protocol.described import described, is_average, metric_of, overview_columns, subset_order, title_of
from harness.protocol.languages import PIVOT
from harness.protocol.task import Picture
from harness.report.headlines import one_each
from harness.report.speed import setup_text
from harness.report.tables import rank_encoders
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.speed.store import Measurement, choose
from harness.statistics.board import Board, Key
from harness.statistics.candidates import Facts, facts_of

FOLDER = "pictures"


def draw(pictures: Iterable[Picture], there: Collection[str]) -> tuple[list[Picture], dict[str, str]]:
    """The pictures to show, and the files to write.

    Where pictures cannot be drawn, those that are there already are shown, and stay as they are.

    there: the files of pictures that are in the results folder.
    """
    listed = list(pictures)
    if charts.is_available():
        return listed, {picture.file: charts.svg(picture.spec()) for picture in listed}
    return [picture for picture in listed if picture.file in there], {}


def markdown_picture(picture: Picture, folder: str = "") -> str:
    """A line of Markdown; `folder`: of the results from that of the page, with a `/` at its end."""
    return f"![{escaping.markdown(picture.says)}]({escaping.link_target(folder + picture.file)})"


def cost_pictures(
    results: Sequence[Result], statistics: Mapping[str, Statistics], measured: Sequence[Measurement]
) -> list[Picture]:
    """Quality against speed, bytes of a vector and size on disk; each if at least two encoders are known to have both.

    Quality is that of `quality_key`. Speeds are those of the machine, device and threads that most have; cut and
    quantised vectors have their bytes.
    """
    full = [result for result in results if result.base is None]
    key = quality_key(full)
    if key is None or Subset.parse(key[1]).is_sample:
        return []
    task, subset, metric = key
    board = Board(results, statistics)
    rows = cost_rows(board, key, facts_of(full, measured))
    found = board.results(task, subset)
    _, usual = choose((one for one in measured if one.encoder in found), {(r.encoder, r.fingerprint) for r in full})
    quality = f"{title_of(task)}, {subset}: {metric_of(task, metric).heading} x 100"
    interval = f"intervals: {100 * board.statistics(task).level:g} %; "
    pictures = []
    for name, of_cost in rows.items():
        cost_axis = charts.COSTS[name]
        if len(of_cost) < 2:
            continue
        what = {"speed": "speed", "bytes": "bytes of a vector", "disk": "size on disk"}[name]
        line = "the line joins those that no other one beats in both"
        machine = f"; {setup_text(usual)}" if usual and name == "speed" else ""
        pictures.append(
            Picture(
                f"{FOLDER}/quality-{name}.svg",
                f"Quality against {what}: {quality}, of {', '.join(row['encoder'] for row in of_cost[:20])}",
                lambda rows=of_cost, axis=cost_axis, title=f"Quality and {what}", sub=interval + line + machine: (  # type: ignore[misc]
                    charts.quality_and_cost(rows, axis, quality=quality, title=title, subtitle=sub)
                ),
            )
        )
    return pictures


def cost_rows(board: Board, key: Key, facts: Mapping[str, Facts]) -> dict[str, list[dict[str, Any]]]:
    """By kind of cost, the rows of `harness.charts.quality_and_cost` for one number.

    Speeds are those of `facts`, of one setup; cut and quantised vectors have their bytes.
    """
    task, subset, metric = key
    found = {e: r for e, r in board.results(task, subset).items() if metric in r.metrics}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in charts.COSTS}
    for encoder, result in sorted(found.items()):
        known = facts.get(encoder)
        costs: dict[str, float | None] = {"bytes": result.reduced.vector_bytes} if result.reduced else {}
        if known and not result.reduced:
            size = None if known.size_bytes is None else known.size_bytes / 1e6
            costs = {"speed": known.sentences_per_s, "bytes": known.vector_bytes, "disk": size}
        low, high = board.interval(result, metric) or (None, None)
        for name, cost in costs.items():
            if cost is not None:
                row = {"encoder": encoder, "value": result.metrics[metric], "low": low, "high": high, "cost": cost}
                rows[name].append({**row, "is_small": result.reduced is not None})
    return rows


def quality_key(results: Sequence[Result]) -> Key | None:
    """The number by which encoders are compared with their costs: the ranked one of the front page that most have.

    Of several, that by which the task orders encoders.
    """
    ranked = [key for _, key in one_each(results) if metric_of(key[0], key[2]).is_ranked]
    n_of = Counter((r.task, r.subset, metric) for r in results for metric in r.metrics)

    def preference(key: Key) -> tuple[int, int]:
        order, base = described(key[0]).display.ranking, Subset.parse(key[1]).base
        return (-n_of[key], order.index(base) if base in order else len(order))

    return min(ranked, key=preference, default=None)


def language_picture(task: str, results: Sequence[Result], statistics: Mapping[str, Statistics]) -> Picture | None:
    """The scores of a task by language, where its table has a row for each, since they are many."""
    display, columns = described(task).display, overview_columns(task)
    singles = [
        r for r in results if r.task == task and not is_average(r.subset) and not Subset.parse(r.subset).is_sample
    ]
    if not columns or display.turn_above is None or not is_name(task):
        return None
    # Of several stand-ins, which are other data, the one that most have.
    tags = Counter(Subset.parse(r.subset).tag for r in singles)
    tag = min(tags, key=lambda tag: (-tags[tag], tag), default="")
    metric = columns[0].metric
    chosen = [r for r in singles if Subset.parse(r.subset).tag == tag and metric in r.metrics]
    subsets = subset_order(task, (r.subset for r in chosen))
    if len(subsets) <= display.turn_above:
        return None
    encoders = rank_encoders(task, chosen, metric)[0]
    shown = encoders[: charts.MOST_ENCODERS]
    board = Board(results, statistics)
    rows = language_rows(board, [(task, subset, metric) for subset in subsets], shown)
    left_out = f"; without {len(encoders) - len(shown)} more encoders" if len(encoders) > len(shown) else ""
    title = f"{title_of(task)} by language{f', {tag}' if tag else ''}"
    subtitle = f"intervals: {100 * board.statistics(task).level:g} %; families by Unicode CLDR{left_out}"
    heading = f"{metric_of(task, metric).heading} x 100"
    return Picture(
        f"{FOLDER}/{task}-by-language.svg",
        f"{title}: {heading} of {', '.join(shown)}",
        lambda: charts.by_language(rows, score=heading, title=title, subtitle=subtitle),
    )


def language_rows(board: Board, keys: Sequence[Key], encoders: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of `harness.charts.by_language` for one metric on several sets, of encoders in their order."""
    rows = []
    for encoder in encoders:
        for task, subset, metric in keys:
            result = board.results(task, subset).get(encoder)
            if result is None or metric not in result.metrics:
                continue
            base = Subset.parse(subset).base
            codes = [code for code in described(task).languages(subset) if code != PIVOT]
            low, high = board.interval(result, metric) or (None, None)
            rows.append(
                {
                    "encoder": encoder,
                    "language": described(task).display.names.get(base, base),
                    "family": family(codes[0]) if len(codes) == 1 else "",
                    "value": result.metrics[metric],
                    "low": low,
                    "high": high,
                }
            )
    return rows

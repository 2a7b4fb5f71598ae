"""What charts show: of which numbers there is one, of which encoders, and who is left out.

Pictures of the pages and charts of the page for a browser are made from the same rows, chosen here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import charts
from harness.core.names import Subset
from harness.data.families import family
from harness.protocol.described import (
    described,
    is_average,
    is_own,
    metric_of,
    metric_order,
    overview_columns,
    subset_order,
    task_order,
    title_of,
)
from harness.protocol.languages import PIVOT
from harness.report.headlines import one_each
from harness.report.speed import setup_text
from harness.results.records import Result
from harness.statistics.board import Board, Key
from harness.statistics.candidates import Facts

_FEWEST_ENCODERS, _FEWEST_SETS, _MOST_SETS = 2, 3, 130
_MOST_OWN = 12
"""Sets of the user's own that have a chart each; published ones are drawn by their averages."""
_MANY = 25
"""Sets of a task that does not say itself from how many on they are many; then languages stand in families."""

Row = dict[str, Any]


@dataclass(frozen=True)
class CostChart:
    """Quality by one number against what encoders cost.

    Attributes:
        key: the number.
        rows: by kind of cost, those of `harness.charts.quality_and_cost`; only kinds that two encoders or more have.
        setup: the machine, device and threads of the speeds; empty without speeds.
    """

    key: Key
    rows: Mapping[str, Sequence[Row]]
    setup: str


@dataclass(frozen=True)
class LanguageChart:
    """The scores of a task by language.

    Attributes:
        keys: the numbers; all are of one metric, and all of published data, or all of the same stand-in.
        tag: of the stand-in (`@deepl`); empty of published data.
        encoders: the first eight by how many of these numbers they have, then by their mean.
        rows: those of `harness.charts.by_language`.
        domain: of the axis.
        left_out: who and what is not shown, in words that follow a sentence; empty if nothing is.
    """

    keys: Sequence[Key]
    tag: str
    encoders: Sequence[str]
    rows: Sequence[Row]
    domain: tuple[float, float]
    left_out: str

    @property
    def title(self) -> str:
        """Of which task, and which stand-in."""
        return title_of(self.keys[0][0]) + (f", {self.tag}" if self.tag else "")

    @property
    def heading(self) -> str:
        """Of the metric."""
        return metric_of(self.keys[0][0], self.keys[0][2]).heading


def cost_charts(results: Sequence[Result], board: Board, facts: Mapping[str, Facts]) -> list[CostChart]:
    """Charts of the ranked numbers of the front page, and of averages and the user's own sets by main metrics.

    The first is of the number that most encoders have; of several, of that by which the task orders encoders.

    Args:
        results: all on real data, or all on the bundled sample; of cut and quantised vectors too.
        board: of these.
        facts: of the encoders of full vectors.
    """
    full = [result for result in results if result.base is None]
    keys = [key for _, key in one_each(full)]
    keys += [
        (result.task, result.subset, metric)
        for result in full
        for metric in result.metrics
        if is_average(result.subset) and metric_of(result.task, metric).is_main
    ]
    for task in filter(is_own, task_order(result.task for result in full)):
        of_task = [result for result in full if result.task == task]
        sets = subset_order(task, (result.subset for result in of_task if not is_average(result.subset)))[:_MOST_OWN]
        measured = metric_order(task, (metric for result in of_task for metric in result.metrics))
        keys += [(task, subset, metric) for subset in sets for metric in measured if metric_of(task, metric).is_main]
    ranked = [key for key in dict.fromkeys(keys) if metric_of(key[0], key[2]).is_ranked]
    n_of = Counter((r.task, r.subset, metric) for r in full for metric in r.metrics)
    headlines = {key for _, key in one_each(full)}

    def preference(key: Key) -> tuple[bool, int, int]:
        order, base = described(key[0]).display.ranking, Subset.parse(key[1]).base
        return (key not in headlines, -n_of[key], order.index(base) if base in order else len(order))

    found = (_cost_chart(board, key, facts) for key in sorted(ranked, key=preference))
    return [chart for chart in found if chart.rows]


def _cost_chart(board: Board, key: Key, facts: Mapping[str, Facts]) -> CostChart:
    """Speeds are those of `facts`, of one setup; cut and quantised vectors have their bytes."""
    task, subset, metric = key
    found = {e: r for e, r in board.results(task, subset).items() if metric in r.metrics}
    rows: dict[str, list[Row]] = {name: [] for name in charts.COSTS}
    setup = ""
    for encoder, result in sorted(found.items()):
        known = None if result.reduced else facts.get(encoder)
        costs: dict[str, float | None] = {"bytes": result.reduced.vector_bytes} if result.reduced else {}
        if known:
            size = None if known.size_bytes is None else known.size_bytes / 1e6
            costs = {"speed": known.sentences_per_s, "bytes": known.vector_bytes, "disk": size}
            if known.measured and known.sentences_per_s is not None:
                setup = setup_text(known.measured)
        low, high = board.interval(result, metric) or (None, None)
        for name, cost in costs.items():
            if cost is not None:
                row = {"encoder": encoder, "value": result.metrics[metric], "low": low, "high": high, "cost": cost}
                rows[name].append({**row, "is_small": result.reduced is not None})
    enough = {
        name: of_cost
        for name, of_cost in rows.items()
        if sum(not row["is_small"] for row in of_cost) >= _FEWEST_ENCODERS
    }
    return CostChart(key, enough, setup)


def language_charts(results: Sequence[Result], board: Board) -> list[LanguageChart]:
    """A chart for each task that ranks encoders on three sets or more; arguments as of `cost_charts`.

    Its metric is that of the front page, or the task's first main one. Of published data and stand-ins, which are
    other data, it shows those that most scores are on.
    """
    found = []
    for task in task_order(result.task for result in results):
        of_task = [r for r in results if r.task == task and r.base is None and not is_average(r.subset)]
        measured = {metric for result in of_task for metric in result.metrics}
        main = [name for name in metric_order(task, measured) if metric_of(task, name).is_main]
        fitting = [column.metric for column in overview_columns(task) if column.metric in measured] or main
        if fitting and metric_of(task, fitting[0]).is_ranked:
            chart = _language_chart(task, fitting[0], [r for r in of_task if fitting[0] in r.metrics], board)
            found += [chart] if chart else []
    return found


def _language_chart(task: str, metric: str, results: Sequence[Result], board: Board) -> LanguageChart | None:
    tags = Counter(Subset.parse(result.subset).tag for result in results)
    tag = min(tags, key=lambda tag: (-tags[tag], tag), default="")
    everything = subset_order(task, (r.subset for r in results if Subset.parse(r.subset).tag == tag))
    subsets, others = everything[:_MOST_SETS], {r.subset for r in results if Subset.parse(r.subset).tag != tag}
    if len(subsets) < _FEWEST_SETS:
        return None
    values: dict[str, list[float]] = {}
    for result in results:
        if result.subset in subsets:
            values.setdefault(result.encoder, []).append(result.metrics[metric])
    order = sorted(values, key=lambda e: (-len(values[e]), -sum(values[e]) / len(values[e]), e))
    encoders = order[: charts.MOST_ENCODERS]
    turn_above = described(task).display.turn_above
    in_families = len(subsets) > (_MANY if turn_above is None else turn_above)
    keys = [(task, subset, metric) for subset in subsets]
    rows = [row for encoder in encoders for key in keys if (row := _language_row(board, key, encoder, in_families))]
    lowest = min(min(row["value"], row["low"] or 0.0) for row in rows)
    words = left_out(order[len(encoders) :]) + left_out(everything[len(subsets) :], "set") + _other_data(others)
    return LanguageChart(keys, tag, encoders, rows, (min(-2.0, lowest - 2), 102.0), words)


def _language_row(board: Board, key: Key, encoder: str, in_families: bool) -> Row | None:
    task, subset, metric = key
    result = board.results(task, subset).get(encoder)
    if result is None or metric not in result.metrics:
        return None
    base = Subset.parse(subset).base
    codes = [code for code in described(task).languages(subset) if code != PIVOT]
    low, high = board.interval(result, metric) or (None, None)
    return {
        "encoder": encoder,
        "language": described(task).display.names.get(base, base),
        "family": family(codes[0]) if in_families and len(codes) == 1 else "",
        "value": result.metrics[metric],
        "low": low,
        "high": high,
    }


def left_out(names: Collection[str], what: str = "encoder") -> str:
    """`; without 3 more encoders`; empty if there are none."""
    return f"; without {len(names)} more {what}{'s' if len(names) > 1 else ''}" if names else ""


def _other_data(subsets: Collection[str]) -> str:
    tags = sorted({Subset.parse(subset).tag for subset in subsets})
    named = " and ".join(tag or "the published data" for tag in tags)
    return f"; without {len(subsets)} set{'s' if len(subsets) > 1 else ''} of {named}" if subsets else ""

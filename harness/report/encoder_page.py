"""A page for each encoder: what it is and costs, where it is strong and weak by the tests, and all its scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan

from harness.core import escaping
from harness.core.names import Subset, is_name
from harness.protocol.described import (
    is_average,
    metric_of,
    metric_order,
    overview_columns,
    subset_order,
    task_order,
    title_of,
)
from harness.report.cells import Cell, Column, Note, Row, Table, p_text
from harness.report.figures import Figures, shortened
from harness.report.headlines import one_each
from harness.report.markdown import markdown
from harness.report.provenance import provenance
from harness.report.speed import disk_cell, figure_cell, ms_cell, setup_text
from harness.report.tables import split_sample, tag_notes
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.speed.store import Figure, figure
from harness.statistics.board import Board, Key
from harness.statistics.candidates import Facts

FOLDER = "encoders"
_LISTED = 12


def encoder_pages(
    results: Sequence[Result], statistics: Mapping[str, Statistics], facts: Mapping[str, Facts], head: str
) -> dict[str, str]:
    """By file name below the results folder, the pages of all encoders whose names can name a file.

    Args:
        results: those that tables show.
        statistics: by task, those of these results.
        facts: of these encoders.
        head: first line of a page.
    """
    parts = [(part, Board(part, statistics)) for part in split_sample(results)]
    of_encoder: dict[str, list[list[Result]]] = {}
    for place, (part, _) in enumerate(parts):
        for result in part:
            of_encoder.setdefault(result.encoder, [[] for _ in parts])[place].append(result)
    boards = [board for _, board in parts]
    keys = [[key for _, key in one_each(part)] for part, _ in parts]
    return {
        f"{FOLDER}/{encoder}.md": _page(encoder, own, boards, keys, facts[encoder], head)
        for encoder, own in sorted(of_encoder.items())
        if is_name(encoder)
    }


def _page(
    encoder: str,
    own: Sequence[Sequence[Result]],
    boards: Sequence[Board],
    keys: Sequence[Sequence[Key]],
    facts: Facts,
    head: str,
) -> str:
    """own, boards, keys: of real data, of the bundled sample, each if there is some; own: perhaps empty."""
    everything = [result for part in own for result in part]
    # The sample says nothing of an encoder that was measured on more.
    place = next(place for place, part in enumerate(own) if part)
    tables = [
        _card(facts, sorted({result.spec for result in everything} - {""})),
        _standings(encoder, boards[place], keys[place]),
        _strengths(encoder, own[place], boards[place]),
        *(
            _scores(task, part, board)
            for part, board in zip(own, boards, strict=True)
            for task in task_order(result.task for result in part)
        ),
    ]
    parts = [
        head,
        f"# {escaping.markdown(encoder)}",
        "[All encoders and tasks](../README.md)",
        *(markdown(table, level=2) for table in tables if table),
        "## Provenance",
        *provenance(everything),
    ]
    return "\n\n".join(parts) + "\n"


def _card(facts: Facts, specs: Sequence[str]) -> Table:
    """What is known of it beside its scores."""
    one = facts.measured
    memory = figure(one.memory_mb) if one else None
    alone, many = (one.cell("alone"), one.cell("own")) if one else (None, None)
    lines = [
        *([("spec", _code(spec)) for spec in specs] or [("spec", Cell("measured through the Python API"))]),
        ("languages", Cell(" ".join(sorted(facts.languages)) if facts.languages else None)),
        ("licence", Cell(facts.licence)),
        ("MB on disk", disk_cell(facts.size_bytes)),
        ("parameters", Cell(one.n_parameters if one else None, "count")),
        ("dimensions", Cell(one.dim if one else None, "count")),
        ("bytes of a vector", Cell(facts.vector_bytes, "count")),
        ("most tokens", Cell(one.max_length if one else None, "count")),
        ("sentences/s", _without_range(many.sentences_per_s if many else None)),
        ("ms for one text alone", ms_cell(alone.ms if alone else None)),
        ("MB of memory, peak", _without_range(memory)),
        ("measured on", Cell(setup_text(one) if one else None)),
    ]
    rows = [Row((Cell(name), cell)) for name, cell in lines]
    columns = (Column("", is_number=False), Column("", is_number=False, is_prose=True))
    notes = (
        Note("languages: that it was made for (ISO 639); licence: of the weights; –: not known"),
        Note("sentences/s: of two sentences each, many at a time"),
    )
    return Table("Card", columns, tuple(rows), notes)


def _without_range(known: Figure | None) -> Cell:
    return replace(figure_cell(known), interval=None)


def _code(text: str) -> Cell:
    return Cell(text, "code")


def _standings(encoder: str, board: Board, keys: Iterable[Key]) -> Table | None:
    """Its numbers of the front page: the value, the place among all encoders, and the test against the highest."""
    figures = Figures(board)
    rows = []
    for key in keys:
        task, subset, metric = key
        found = {e: r for e, r in board.results(task, subset).items() if metric in r.metrics}
        if encoder not in found:
            continue
        standing = board.standing(key)
        # Cut and quantised vectors are not ranked, and no encoder is ranked among them.
        values = {e: r.metrics[metric] for e, r in found.items() if r.base is None}
        place = leader = p = None
        if metric_of(task, metric).is_ranked and encoder in values and len(values) > 1:
            place = f"{1 + sum(v > values[encoder] for v in values.values())} of {len(values)}"
            leader = standing.leader if encoder not in standing.equals else None
            p = p_text(standing.p[encoder]) if encoder in standing.p and not isnan(standing.p[encoder]) else None
        what = f"{title_of(task)}, {subset}: {metric_of(task, metric).heading}"
        rows.append(Row((Cell(what), figures.cell(encoder, key), Cell(place), Cell(leader), Cell(p))))
    heads = (
        Column("", is_number=False),
        Column("x 100"),
        Column("place"),
        Column("highest", is_number=False),
        Column("p against it"),
    )
    return Table("Where it stands", heads, tuple(rows), tuple(figures.legend())) if rows else None


def _strengths(encoder: str, own: Sequence[Result], board: Board) -> Table | None:
    """By task: the sets on which it is among the best, and those on which it is significantly worse than the best."""
    rows = []
    for task in task_order(result.task for result in own):
        metric = _telling(task, own)
        if metric is None:
            continue
        strong, weak = [], []
        for subset in subset_order(task, (r.subset for r in own if r.task == task and not is_average(r.subset))):
            standing = board.standing((task, subset, metric))
            if encoder in standing.best:
                strong.append(subset)
            elif encoder in standing.p:
                weak.append(subset)
        if strong or weak:
            label = f"{title_of(task)}, {metric_of(task, metric).heading}"
            rows.append(Row((Cell(label), _listed(strong), _listed(weak))))
    heads = (
        Column("", is_number=False),
        Column("among the best", is_number=False, is_prose=True),
        Column("worse than the best", is_number=False, is_prose=True),
    )
    notes = (
        Note("among the best: the highest score, or not significantly worse than it"),
        Note("worse: by the paired test on the same items, corrected by Holm over the encoders of a set"),
    )
    return Table("Strong and weak", heads, tuple(rows), notes) if rows else None


def _telling(task: str, own: Sequence[Result]) -> str | None:
    """The metric that says most of a set, if encoders are ranked by it: that of the front page, else the main one."""
    metrics = metric_order(task, {metric for r in own if r.task == task for metric in r.metrics})
    metric = next((c.metric for c in overview_columns(task)), next(iter(metrics), ""))
    return metric if metric in metrics and metric_of(task, metric).is_ranked else None


def _listed(subsets: Sequence[str]) -> Cell:
    if not subsets:
        return Cell(None, shown="on none")
    return Cell(f"{len(subsets)}: {shortened(subsets, _LISTED)}")


def _scores(task: str, own: Sequence[Result], board: Board) -> Table:
    """All of its numbers of a task: a row a subset, columns are metrics."""
    of_task = {result.subset: result for result in own if result.task == task}
    subsets = subset_order(task, of_task)
    metrics = metric_order(task, {metric for result in of_task.values() for metric in result.metrics})
    figures = Figures(board)
    encoder = own[0].encoder
    rows = [
        Row(
            (
                Cell(subset),
                Cell(of_task[subset].n, "count"),
                *(figures.cell(encoder, (task, subset, metric)) for metric in metrics),
            ),
            is_average(subset),
        )
        for subset in subsets
    ]
    columns = (
        Column("subset", is_number=False),
        Column("n"),
        *(Column(metric_of(task, metric).heading) for metric in metrics),
    )
    notes = [*tag_notes(subsets), *figures.legend("row")]
    sample = " (bundled sample)" if Subset.parse(subsets[0]).is_sample else ""
    return Table(f"{title_of(task)}{sample}, all scores", columns, tuple(rows), tuple(notes))

"""Compares published figures with measured ones: tables, and entries of the long form.

Only subsets without a tag have columns here: a score on a stand-in is never compared with a published figure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core.names import Subset
from harness.protocol.described import (
    board_title,
    described,
    is_average,
    metric_of,
    metric_order,
    subset_order,
    tag_meaning,
    task_order,
)
from harness.published import Measured, Measurements, PublishedScore
from harness.published.mteb_import import IMPORTED
from harness.report.cells import MISSING, Cell, Column, Note, Row, Table
from harness.report.figures import interval_note
from harness.report.tables import encoder_labels, rank_encoders
from harness.results.records import Result
from harness.results.selection import stored
from harness.results.statistics import Statistics
from harness.results.store import ResultStore
from harness.statistics.board import Board

_HERE = "measured"
_Key = tuple[str, str]
"""Subset and metric."""


def stored_if_any(folder: Path) -> list[Result]:
    """All records of a results folder; none if the folder does not exist.

    Raises:
        InputError: `folder` is no folder, or a file in there holds no records.
    """
    store = ResultStore(folder)
    return stored(store) if folder.is_file() else store.load()


def published_boards(
    results: Sequence[Result],
    scores: Sequence[PublishedScore],
    *,
    metrics: Collection[str] | None = None,
    statistics: Mapping[str, Statistics] | None = None,
    says_why: bool = False,
) -> list[Table]:
    """For each task with published figures, two tables (the second only if there is something to compare).

    The first has a row for each measured encoder and a row for each source of published figures; its columns are those
    with published figures. It leaves out training experiments, unless only these are asked for. The second has a row
    with the difference for every figure that was measured too.

    says_why: add notes on cells of measured encoders that stay empty because they cannot be compared.
    """
    tables = []
    for task in task_order(score.task for score in scores):
        of_task = [s for s in scores if s.task == task and (metrics is None or s.metric in metrics)]
        measured = [r for r in results if r.task == task and not Subset.parse(r.subset).tag]
        if of_task:
            board = _board(task, measured, of_task, statistics or {})
            reasons = not_comparable([r for r in results if r.task == task], of_task) if says_why else []
            tables += [
                replace(board, notes=(*board.notes, *map(Note, reasons)), task=task),
                *(replace(table, task=task) for table in _differences(task, measured, of_task)),
            ]
    return [table for table in tables if table.rows]


def not_comparable(results: Sequence[Result], scores: Iterable[PublishedScore]) -> list[str]:
    """Why cells of measured encoders stay empty beside published figures: they have the score of a stand-in alone.

    results: of one task.
    """
    of_encoder: dict[str, dict[str, list[str]]] = {}
    measured = {(result.encoder, result.subset) for result in results}
    wanted = {score.subset for score in scores}
    for result in results:
        base, tag = Subset.parse(result.subset)
        if tag and base in wanted and (result.encoder, base) not in measured:
            of_encoder.setdefault(result.encoder, {}).setdefault(tag, []).append(base)
    task = next((result.task for result in results), "")
    by_reason: dict[str, list[str]] = {}
    for encoder, by_tag in sorted(of_encoder.items()):
        for tag, bases in sorted(by_tag.items()):
            sets = ", ".join(subset_order(task, bases)[:8]) + (", ..." if len(set(bases)) > 8 else "")
            reason = f"on {sets}: not comparable because measured on {tag}: {tag_meaning(tag)}"
            by_reason.setdefault(reason, []).append(encoder)
    return [f"{', '.join(encoders)} {reason}" for reason, encoders in by_reason.items()]


@dataclass
class _Line:
    """The figures of one model from one source; those of a later version replace those of an earlier one."""

    name: str
    source: str
    models: tuple[str, ...]
    scores: dict[_Key, PublishedScore] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The source, with the edition if all figures share it."""
        editions = {score.edition for score in self.scores.values()}
        return f"{self.source} {editions.pop()}".strip() if len(editions) == 1 else self.source


def _lines(scores: Iterable[PublishedScore]) -> list[_Line]:
    lines: dict[tuple[str, ...], _Line] = {}
    for score in scores:
        revision = "" if score.versions else score.edition
        line = lines.setdefault((score.name, score.source, revision), _Line(score.name, score.source, score.models))
        if score.edition or (score.subset, score.metric) not in line.scores:  # Tables 5 and 6 repeat Table 2
            line.scores[(score.subset, score.metric)] = score
    return list(lines.values())


def _board(
    task: str, results: Sequence[Result], chosen: Sequence[PublishedScore], statistics: Mapping[str, Statistics]
) -> Table:
    scores = [score for score in chosen if not score.is_experiment] or chosen
    keys, all_keys = _keys(task, _with_columns(task, scores)), _keys(task, scores)
    lines = [line for line in _lines(scores) if not line.scores.keys().isdisjoint(keys)]
    metrics = metric_order(task, (metric for _, metric in keys))
    measurements = Measurements(results)
    values: dict[str, dict[_Key, float]] = {}  # by encoder; of keys that have a published figure of any model
    for score in scores:
        for measured in measurements.of_any_model(score):
            values.setdefault(measured.encoder, {})[(score.subset, score.metric)] = measured.value
    encoder_of = {s.models: m.encoder for s in scores if (m := measurements.measured(s))}
    encoders = [encoder for encoder in rank_encoders(task, results, metrics[0])[0] if encoder in values]
    labels, marks = encoder_labels(results, encoders)

    board = Board(results, statistics)
    intervals = {(r.encoder, (r.subset, metric)): board.interval(r, metric) for r in results for metric in r.metrics}
    rows = []
    for encoder in encoders:
        cells = (
            Cell(values[encoder].get(key), metric_of(task, key[1]).kind, interval=intervals.get((encoder, key)))
            for key in keys
        )
        rows.append(Row((Cell(labels[encoder]), Cell(_HERE), *cells)))
        rows += [_published_row(line, keys) for line in lines if encoder_of.get(line.models) == encoder]
    others = [line for line in lines if line.models not in encoder_of]
    names = list(dict.fromkeys(line.name for line in others))  # keeps the sources of a model together
    rows += [_published_row(line, keys) for name in names for line in others if line.name == name]

    columns = [
        Column(subset, metric_of(task, metric).heading if len(metrics) > 1 else "", is_average=is_average(subset))
        for subset, metric in keys
    ]
    title = f"{board_title(task, metrics, False)}, {'measured and ' if encoders else ''}published"
    headings = (Column("encoder", is_number=False), Column("source", is_number=False))
    has_intervals = any(cell.interval for row in rows for cell in row.cells)
    legend = [interval_note(statistics[task])] if has_intervals else []
    notes = [*marks, *_notes(rows, lines), *legend]
    if len(keys) < len(all_keys):
        notes.append(Note(f"{IMPORTED}: --format csv and json have the other metrics and subsets"))
    if experiments := dict.fromkeys(score.full_table for score in chosen if score not in scores):
        notes.append(Note(f"{', '.join(experiments)}: training experiments, listed by ", "leaderboard reproduce"))
    return Table(title, (*headings, *columns), tuple(rows), tuple(notes), n_keys=len(headings))


def _published_row(line: _Line, keys: Sequence[_Key]) -> Row:
    """The figures with the digits that they were published with."""
    scores = (line.scores.get(key) for key in keys)
    cells = (Cell(score.value, shown=score.printed) if score else Cell(None) for score in scores)
    return Row((Cell(line.name), Cell(line.label), *cells), is_published=True)


def _with_columns(task: str, scores: Sequence[PublishedScore]) -> Sequence[PublishedScore]:
    """The figures that get columns: of imported ones the main metrics, and of many subsets the averages."""
    known = described(task)
    main = {metric.name for metric in known.metrics if metric.is_main}
    too_many = (limit := known.display.turn_above) is not None and len({score.subset for score in scores}) > limit

    def is_shown(score: PublishedScore) -> bool:
        is_main = not main or score.metric in main
        return score.source != IMPORTED or (is_main and (is_average(score.subset) or not too_many))

    return [score for score in scores if is_shown(score)] or scores


def _keys(task: str, scores: Iterable[PublishedScore]) -> list[_Key]:
    """The columns: subsets in the order of the task, each with its published metrics."""
    present = {(s.subset, s.metric) for s in scores}
    metrics = metric_order(task, (metric for _, metric in present))
    subsets = subset_order(task, (subset for subset, _ in present))
    return [(subset, metric) for subset in subsets for metric in metrics if (subset, metric) in present]


def _differences(task: str, results: Sequence[Result], scores: Sequence[PublishedScore]) -> list[Table]:
    measurements = Measurements(results)
    pairs = [(score, measured) for score in scores for measured in measurements.of_each_model(score)]
    if not pairs:
        return []
    subsets = subset_order(task, (score.subset for score in scores))
    pairs.sort(key=lambda pair: (pair[1].encoder, pair[0].short_source, subsets.index(pair[0].subset)))
    metrics = metric_order(task, (score.metric for score, _ in pairs))
    heads = ["encoder", "source", "subset", *(["metric"] if len(metrics) > 1 else [])]
    rows = []
    for score, measured in pairs:
        texts = (measured.encoder, score.short_source, score.subset, metric_of(task, score.metric).heading)
        values = (measured.value, score.value, measured.value - score.value)
        numbers = (Cell(value, shown=text) for value, text in zip(values, comparison(score, measured), strict=True))
        rows.append(Row((*map(Cell, texts[: len(heads)]), *numbers)))
    columns = (
        *(Column(head, is_number=False) for head in heads),
        *map(Column, ("measured", "published", "difference")),
    )
    title = f"{board_title(task, metrics, False)}, measured against published"
    reservations = comparison_notes(pairs)
    legend = f"difference: measured - published; same model, same data{', but:' if reservations else ''}"
    notes = (Note(legend), *map(Note, reservations), *_sources(score for score, _ in pairs))
    return [Table(title, columns, tuple(rows), notes, n_keys=len(heads))]


def comparison_notes(compared: Iterable[tuple[PublishedScore, Measured]]) -> list[str]:
    """What limits the comparison for single encoders, one line each."""
    pairs = (f"{measured.encoder} ({score.source}): {measured.note}" for score, measured in compared if measured.note)
    return list(dict.fromkeys(pairs))


def comparison(score: PublishedScore, measured: Measured) -> tuple[str, str, str]:
    """Measured, published and difference as printed: two decimals (a threshold: six), or more if published so."""
    at_least = 6 if metric_of(score.task, score.metric).kind == "threshold" else 2
    digits = max(at_least, len(score.printed.partition(".")[2]))
    value, difference = (round(number, digits) + 0.0 for number in (measured.value, measured.value - score.value))
    return f"{value:.{digits}f}", score.printed, f"{difference:+.{digits}f}"


def comparison_values(score: PublishedScore, measured: Measured | None) -> dict[str, float | str | None]:
    """The same for entries: `measured`, `difference` and `note`, each None if there is none."""
    if measured is None:
        return dict.fromkeys(("measured", "difference", "note"))
    difference = round(measured.value - score.value, 6)
    return {"measured": measured.value, "difference": difference, "note": measured.note or None}


def _notes(rows: Sequence[Row], lines: Iterable[_Line]) -> list[Note]:
    notes = [Note(f"source: {_HERE} here, or where the figure is published (these rows in italics)")]
    if any(cell.value is None for row in rows for cell in row.cells):
        notes.append(Note(f"{MISSING} not measured here, or not published"))
    return [*notes, *_sources(score for line in lines for score in line.scores.values())]


def _sources(scores: Iterable[PublishedScore]) -> list[Note]:
    """Explains the short names of sources."""
    by_source: dict[str, list[PublishedScore]] = {}
    for score in scores:
        by_source.setdefault(score.source, []).append(score)
    notes = []
    for source, of_source in by_source.items():
        tables = ", ".join(dict.fromkeys(score.full_table for score in of_source))
        meaning = "v1, v2: in this version of it only" if of_source[0].versions else "then the model's revision"
        edition = f"; {meaning}" if any(score.edition for score in of_source) else ""
        # The citation of an imported file begins with the source.
        citations = "; ".join(dict.fromkeys(score.citation.removeprefix(f"{source}, ") for score in of_source))
        notes.append(Note(f"{source}: {citations}, {tables}{edition}"))
    return notes


def with_published(
    entries: Sequence[dict[str, Any]], results: Sequence[Result], scores: Iterable[PublishedScore]
) -> list[dict[str, Any]]:
    """The entries of `long_form` and an entry for each published figure, in the order of the tables.

    A published figure's `source` is its citation (with table and version or revision). Its entry has four more keys:
    `row` (the printed name), `measured`, `difference` (measured - published) and `note` (what limits the comparison).
    The last three have a value if the very same model was measured on the same data. Missing values are None.
    """
    measurements = Measurements(results)
    blank = dict.fromkeys(("row", "measured", "difference", "note"))
    merged = [{**entry, **blank} for entry in entries]
    for score in scores:
        entry = {
            "encoder": score.name,
            "task": score.task,
            "subset": score.subset,
            "metric": score.metric,
            "value": score.value,
            **dict.fromkeys(("low", "high", "interval", "is_best", "p_best", "p_zero", "n")),
            "made_for_language": None,
            "signature": None,
            "source": score.full_source,
            **dict.fromkeys(("fingerprint", "dataset", "dataset_sha256", "created")),
            "row": score.row,
            **comparison_values(score, measurements.measured(score)),
        }
        merged.append(entry)
    ordered = []
    for task in task_order(entry["task"] for entry in merged):
        of_task = [entry for entry in merged if entry["task"] == task]
        subsets = {name: i for i, name in enumerate(subset_order(task, (entry["subset"] for entry in of_task)))}
        metrics = {name: i for i, name in enumerate(metric_order(task, (entry["metric"] for entry in of_task)))}
        ordered += sorted(of_task, key=lambda e: (subsets[e["subset"]], e["encoder"], metrics[e["metric"]]))
    return ordered

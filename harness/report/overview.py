"""The overview: one row an encoder over all tasks; and where the records come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.names import Subset
from harness.protocol.described import overview_columns, subset_order, task_order
from harness.protocol.registry import get_task
from harness.report.cells import Cell, Column, Note, Row, Table
from harness.report.figures import Figures
from harness.report.footnotes import shorten
from harness.report.tables import encoder_labels, encoder_rows, missing_note, rank_encoders, split_sample, tag_notes
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.statistics.board import Board, Key


def overview(results: Sequence[Result], statistics: Mapping[str, Statistics] | None = None) -> list[Table]:
    """The overview of real data and that of the bundled sample, each if there is anything to show in it."""
    tables = [_overview(part, statistics or {}) for part in split_sample(results)]
    return [table for table in tables if table is not None]


def _overview(results: Sequence[Result], statistics: Mapping[str, Statistics]) -> Table | None:
    columns: list[Column] = []
    keys: list[Key] = []
    for task in task_order(result.task for result in results):
        for column in overview_columns(task):
            measured = [r.subset for r in results if r.task == task and column.metric in r.metrics]
            for subset in subset_order(task, _fitting(measured, column.subsets)):
                columns.append(Column(column.heading, subset))
                keys.append((task, subset, column.metric))
    if not keys:
        return None
    first_task = keys[0][0]
    encoders, order_note = rank_encoders(first_task, results, get_task(first_task).main_metric)
    labels, marks = encoder_labels(results, encoders)
    figures = Figures(Board(results, statistics))
    rows = encoder_rows(figures, encoders, labels, keys)
    of_sample = Subset.parse(results[0].subset).is_sample
    table = Table(
        f"All tasks{' (bundled sample)' if of_sample else ''}, scores x 100",
        (Column("encoder", is_number=False), *columns),
        rows,
    )
    notes = [*marks, *missing_note(table), *tag_notes(subset for _, subset, _ in keys)]
    if order_note and len(encoders) > 1:
        notes.append(Note(order_note))
    notes += figures.legend()
    return Table(table.title, table.columns, table.rows, tuple(notes))


def _fitting(subsets: Iterable[str], bases: Sequence[str]) -> list[str]:
    """The subsets of the first base that any of them has, with all its stand-ins."""
    listed = list(subsets)
    for base in bases:
        fitting = [s for s in listed if Subset.parse(s).base == base or (base == "avg-*" and s.startswith("avg-"))]
        if fitting:
            return fitting
    return [] if bases else listed


@dataclass(frozen=True)
class Provenance:
    """A table with a row for each encoder and way of measuring it; hardware and versions as `H1`, `V1`, spelt below."""

    table: Table
    hardware: list[str]
    versions: list[str]


def provenance(results: Sequence[Result]) -> Provenance:
    """Which weights, at which commit, on which machine, when and how fast: a row for each that differs."""
    groups: dict[tuple[str, str, str, str, str, str], list[Result]] = {}
    for result in results:
        key = (result.encoder, result.fingerprint, result.spec, _commit(result), _hardware(result), _versions(result))
        groups.setdefault(key, []).append(result)
    hardware = sorted({_hardware(result) for result in results} - {""})
    versions = sorted({_versions(result) for result in results} - {""})
    heads = ("encoder", "fingerprint", "spec", "tasks", "commit", "created", "sentences/s", "hardware", "versions")
    rows = []
    for key in sorted(groups):
        encoder, fingerprint, spec, commit, machine, packages = key
        group = groups[key]
        speeds = sorted(r.sentences_per_s for r in group if r.sentences_per_s is not None)
        cells = (
            Cell(encoder),
            Cell(shorten(fingerprint)),
            Cell(spec or None),
            Cell(", ".join(task_order(r.task for r in group))),
            Cell(commit or None),
            Cell(_days(r.created for r in group)),
            Cell(speeds[len(speeds) // 2] if speeds else None, "count"),
            Cell(f"H{hardware.index(machine) + 1}" if machine else None),
            Cell(f"V{versions.index(packages) + 1}" if packages else None),
        )
        rows.append(Row(cells))
    columns = tuple(Column(head, is_number=head == "sentences/s") for head in heads)
    return Provenance(Table("Provenance", columns, tuple(rows)), hardware, versions)


def _commit(result: Result) -> str:
    if not result.git:
        return ""
    return result.git.commit[:7] + (" (changed)" if result.git.dirty else "")


def _hardware(result: Result) -> str:
    form = {"processor": "{}", "cores": "{} cores", "memory_gib": "{} GiB", "device": "device {}"}
    known = [text.format(result.hardware[key]) for key, text in form.items() if key in result.hardware]
    other = [f"{key} {result.hardware[key]}" for key in sorted(result.hardware.keys() - form.keys())]
    return ", ".join(known + other)


def _versions(result: Result) -> str:
    names = sorted(result.versions, key=lambda name: (name != "python", name))
    return ", ".join(f"{name} {result.versions[name]}" for name in names)


def _days(created: Iterable[str]) -> str | None:
    days = sorted({moment[:10] for moment in created} - {""})
    if not days:
        return None
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"

"""The page of a grid of distillations: a table, a plot and remarks for each experiment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baselines.training.model_folder import markdown_table
from distill.experiments.grid import Column, Grid, Score, Settings, Table
from harness import charts
from harness.core.escaping import code, link_target, markdown
from harness.core.files import write_atomically
from harness.core.names import Subset, check_name
from harness.core.provenance import GitState, Hardware
from harness.core.schema import Amount, Number

PAGE_FILE, REMARKS = "README.md", "remarks"

Scores = Mapping[Settings, Mapping[Score, Score]]


@dataclass(frozen=True)
class Run:
    """The record of one distillation of a grid.

    Attributes:
        settings, seed: what was asked for.
        teacher: its fingerprint.
        data: digest of the store that the pairs were selected from.
        pairs: how many were trained on.
        steps: how many were taken.
        best_step: the step whose weights were scored.
        scores: by TASK/SUBSET/METRIC.
        seconds: of training and evaluation.
        hardware, versions, git: as in the records of results.
    """

    settings: Settings
    seed: int
    teacher: str
    data: str
    pairs: int
    steps: int
    best_step: int
    scores: dict[str, Number]
    seconds: Amount
    hardware: Hardware
    versions: dict[str, str]
    git: GitState | None


@dataclass(frozen=True)
class _Cell:
    """A score over the seeds: `n` of them, mean and standard deviation, and the number of pairs (mean)."""

    n: int
    mean: float
    deviation: float
    pairs: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f}" if self.n > 1 else f"{self.mean:.1f}"


def write_page(folder: Path, grid: Grid, scores: Scores, runs: Sequence[Run], corpora: Collection[str]) -> None:
    """Write page and plots of the tables that have a score. Raises OSError.

    Args:
        folder: to write to; `remarks/TABLE.md` in it goes below a table.
        grid: with all tables.
        scores: on which data each score of each distillation is measured.
        runs: the records that there are.
        corpora: the names of all corpora that could be chosen.
    """
    lines = _head(folder, grid, runs, corpora)
    for table in grid.tables:
        cells = _cells(table, scores, runs)
        if not any(cells.values()):
            continue
        plot, title = f"{check_name(table.name, 'table')}.svg", markdown(table.title)
        write_atomically(folder / plot, _picture(table, scores, cells).encode())
        lines += ["", f"## {title}", "", _markdown(table, scores, cells), "", f"![{title}]({link_target(plot)})"]
        remark = folder / REMARKS / f"{table.name}.md"
        if remark.is_file():
            lines += ["", remark.read_text(encoding="utf-8").strip()]
    write_atomically(folder / PAGE_FILE, ("\n".join(lines) + "\n").encode())


def _head(folder: Path, grid: Grid, runs: Sequence[Run], corpora: Collection[str]) -> list[str]:
    where = folder.name if folder.is_absolute() else folder.as_posix()
    minutes = sum(run.seconds for run in runs) / 60
    machine = ", ".join(sorted({f"{r.hardware.get('processor')}, {r.hardware.get('cores')} cores" for r in runs}))
    shapes = sorted({f"{r.settings.steps:,} steps of {r.settings.batch_size:,} pairs" for r in runs})
    students = sorted({f"{code(r.settings.student)}, {r.settings.dim or 'all'} dimensions" for r in runs})
    names = sorted({name.rpartition(".")[0] for name in corpora})
    return [
        f"# Distillation: the grid {code(grid.name)}",
        "",
        f"Students ({'; '.join(students)}) that imitate {code(grid.teacher)}; {'; '.join(shapes)}, the weights of the "
        "best development score. "
        + (
            f"Scores are x 100: mean ± standard deviation (n - 1) over the seeds {', '.join(map(str, grid.seeds))}."
            if len(grid.seeds) > 1
            else "Scores are x 100."
        )
        + " The development score (MSE for `mse`) is that of sentences held out of the student's own corpora. Pairs "
        "with a sentence of an evaluation set are left out. An empty cell: the data has no such pairs, or fewer than a "
        "batch or than the row asks for. `@`: another data set stands in for the published one, and the score is not "
        "to be set beside published ones.",
        "",
        f"{len(runs)} distillations, {minutes:,.0f} minutes with their evaluations, in one process "
        f"({markdown(machine)}). Corpora: {markdown(', '.join(names))}. Again: "
        f"{code(f'leaderboard distill ablate {grid.name} --results {where}')}; "
        "the scores of each distillation are in `records/`.",
    ]


def _cells(table: Table, scores: Scores, runs: Sequence[Run]) -> dict[tuple[str, str], _Cell | None]:
    """The cells by names of row and column; None where there is no score."""
    by_settings: dict[Settings, list[Run]] = {}
    for run in runs:
        by_settings.setdefault(run.settings, []).append(run)
    cells: dict[tuple[str, str], _Cell | None] = {}
    for row in table.rows:
        for column in table.columns:
            settings = table.cell(row, column)
            of_cell = by_settings.get(settings, [])
            name = str(scores[settings][Score.parse(column.score)])
            values = [run.scores[name] for run in of_cell]
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            cells[row.name, column.title] = (
                _Cell(len(values), float(np.mean(values)), deviation, float(np.mean([run.pairs for run in of_cell])))
                if values
                else None
            )
    return cells


def _markdown(table: Table, scores: Scores, cells: Mapping[tuple[str, str], _Cell | None]) -> str:
    header = [""] if table.has_data_by_column else ["", "pairs"]
    for column in table.columns:
        header += [*(["pairs"] if table.has_data_by_column else []), _title(table, column, scores)]
    rows = []
    for row in table.rows:
        of_row = [cells[row.name, column.title] for column in table.columns]
        sizes = [f"{cell.pairs:,.0f}" if cell else "" for cell in of_row]
        values = [str(cell) if cell else "" for cell in of_row]
        if table.has_data_by_column:
            line = [text for pair in zip(sizes, values, strict=True) for text in pair]
        else:
            line = [next(filter(None, sizes), ""), *values]
        rows.append([row.name, *line])
    return markdown_table(header, rows)


def _title(table: Table, column: Column, scores: Scores) -> str:
    """The column's title, with the tag of a stand-in."""
    return column.title + Subset.parse(scores[table.cell(table.rows[0], column)][Score.parse(column.score)].subset).tag


def _picture(table: Table, scores: Scores, cells: Mapping[tuple[str, str], _Cell | None]) -> str:
    """Means and standard deviations as an SVG: over the number of pairs, or as one panel for each column."""
    metrics = {Score.parse(column.score).metric for column in table.columns}
    score = f"{metrics.pop() if len(metrics) == 1 else 'score'} x 100"
    rows: list[dict[str, Any]] = [
        {
            "setting": row.name,
            "column": _title(table, column, scores),
            "series": _title(table, column, scores),
            "x": cell.pairs,
            "value": cell.mean,
            "low": cell.mean - cell.deviation if cell.n > 1 else None,
            "high": cell.mean + cell.deviation if cell.n > 1 else None,
        }
        for column in table.columns
        for row in table.rows
        if (cell := cells[row.name, column.title])
    ]
    if table.is_curve:
        return charts.svg(charts.curves({score: rows}, x="pairs", is_log=True, title=table.title))
    # In the order of the table, though a column may lack some of them.
    order = [row.name for row in table.rows]
    return charts.svg(charts.dots(rows, settings=order, score=score, title=table.title))

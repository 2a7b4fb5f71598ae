"""`leaderboard reproduce`: every score of the paper's tables, measured here or with what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import say
from harness.cli.options import CacheDirOption, DataDirOption, ResultsOption, results_folder

if TYPE_CHECKING:
    from harness.data import DataDir, Source
    from harness.published import PublishedScore
    from harness.published.matching import Measured
    from harness.tasks import Task


class Format(str, Enum):
    """How to print: a line a score (table), a table (md), or an entry a score (csv, json)."""

    table = "table"
    md = "md"
    csv = "csv"
    json = "json"


@dataclass(frozen=True)
class Line:
    """A published score with what was measured, or else what measuring it takes.

    `runs`: the spec string of the encoder that measures it, where nothing is missing but the run.
    """

    score: PublishedScore
    measured: Measured | None
    needs: str = ""
    runs: str = ""


def reproduce(
    table: Annotated[
        list[int] | None,
        typer.Option(metavar="N", show_default=False, help="Only this table of the paper (1 to 8). Repeatable."),
    ] = None,
    results: ResultsOption = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    run: Annotated[bool, typer.Option("--run", help="First measure what can be measured here.")] = False,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="With --run: as of `leaderboard run`.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=False, help="With --run: as of `leaderboard run`.")
    ] = None,
    format: Annotated[
        Format, typer.Option(help="table: a line a score; md: a table; csv, json: an entry a score.")
    ] = Format.table,
) -> None:
    """List every score of Tables 1 to 8 of Reimers and Gurevych (2020) beside what was measured here.

    Where nothing was: what that needs first (a package, a download, a model to train, a data set), or the command that
    measures it. Exit with 3 if a run failed.
    """
    results = results_folder(results)
    if not run and (device is not None or batch_size is not None):
        from harness.errors import InputError

        raise InputError("--device and --batch-size are for runs: give --run too, or leave them out")
    scores = _choose(table or [])
    sets = _PublishedSets(_data(data_dir))
    lines = _lines(scores, results, sets)
    has_failed = False
    if run:
        options = {"results": results, "data_dir": data_dir, "cache_dir": cache_dir}
        has_failed = _run(lines, **options, device=device, batch_size=batch_size)
        lines = _lines(scores, results, sets)
    typer.echo(_render(lines, format))
    for note in _notes(lines):
        say(note)
    n_measured, n_ready = sum(line.measured is not None for line in lines), sum(bool(line.runs) for line in lines)
    typer.echo(
        f"{len(lines)} published scores: {n_measured} measured, {n_ready} can be measured now (--run), "
        f"{len(lines) - n_measured - n_ready} need something first",
        err=True,
    )
    if has_failed:
        raise typer.Exit(3)


def _choose(tables: Sequence[int]) -> list[PublishedScore]:
    from harness.errors import InputError
    from harness.published import paper_scores

    names = [f"Table {number}" for number in tables]
    known = {score.table for score in paper_scores()}
    for name in names:
        if name not in known:
            raise InputError(f"there is no {name} of scores in the paper; give a number from 1 to {len(known)}")
    return [score for score in paper_scores() if not names or score.table in names]


def _data(data_dir: Path | None) -> DataDir | None:
    from harness.data import open_data_dir

    return open_data_dir(data_dir) if data_dir else None


def _lines(scores: Sequence[PublishedScore], results: Path, sets: _PublishedSets) -> list[Line]:
    from harness.published.matching import Measurements
    from harness.report.published import stored_if_any

    measurements = Measurements(stored_if_any(results))
    # One score stands for all of a model: what it needs means a look at the disk.
    choices = {score.models: _choose_model(score) for score in reversed(scores) if score.models}
    lines = []
    for score in scores:
        if measured := measurements.of(score):
            lines.append(Line(score, measured))
            continue
        model, needs = choices[score.models] if score.models else ("", score.needs)
        missing = [needs] if needs else []
        missing += sets.missing(score)
        if not missing:  # only then: it takes reading the files
            missing = sets.altered(score)
        if missing:
            lines.append(Line(score, None, "; ".join(missing)))
        else:
            lines.append(Line(score, None, _command(score, model), runs=model))
    return lines


def _choose_model(score: PublishedScore) -> tuple[str, str]:
    """The first of a score's models that is ready, or else the first, with what must be had or made before it is."""
    choices = [(model, _missing_model(score, model)) for model in score.models]
    return next((choice for choice in choices if not choice[1]), choices[0])


def _missing_model(score: PublishedScore, model: str) -> str:
    """What must be had or made before there is such a model here; empty if it is ready."""
    from harness.errors import HarnessError
    from harness.registry import encoder_info
    from harness.spec import parse_spec

    spec = parse_spec(model)
    try:
        needs = encoder_info(spec.head).needs(spec.head)
    except HarnessError as error:
        return str(error)
    if needs is None and spec.location is not None:  # nothing tells whether a location is here already
        return f"the model's download, in {_command(score, model)}"
    return needs or ""


class _PublishedSets:
    """Which published sets a score takes, and what is wrong with them in the data directory."""

    def __init__(self, data: DataDir | None):
        self._data = data
        self._tasks: dict[str, tuple[Task, dict[str, Source]]] = {}

    def missing(self, score: PublishedScore) -> list[str]:
        """The command that fetches those that are not there, if there are any."""
        from harness.data.sts17 import EXTENDED

        task, present, names = self._needed(score)
        missing = [name for name in names if name not in present]
        if task.name == "sts17":
            sets = ["sts17-extended" if name in EXTENDED else "sts17" for name in missing]
        else:
            sets = ["bucc2018" if task.name == "bucc" else task.name for _ in missing]
        return [f"leaderboard data fetch {' '.join(dict.fromkeys(sets))}"] if sets else []

    def altered(self, score: PublishedScore) -> list[str]:
        """The command that tells which files are not the published ones, if there are any. Reads the files, once."""
        from harness.errors import InputError

        _, present, names = self._needed(score)
        try:
            sets = [present[name].dataset for name in names if present[name].is_published is False]
        except InputError as error:
            return [str(error)]
        return [f"the published files: leaderboard data verify {' '.join(dict.fromkeys(sets))}"] if sets else []

    def _needed(self, score: PublishedScore) -> tuple[Task, dict[str, Source], Sequence[str]]:
        """The task that has the sets of a score, those of its sets that are in the data directory, and their names."""
        from harness.tasks.language_bias import GROUPS

        if score.task == "language-bias":  # of the joined set, the parts may be missing
            return *self._task("sts17"), GROUPS[score.subset]
        task, present = self._task(score.task)
        return task, present, score.parts or task.resolve(score.subset)

    def _task(self, name: str) -> tuple[Task, dict[str, Source]]:
        from harness.tasks import get_task

        if name not in self._tasks:
            task = get_task(name)
            self._tasks[name] = task, task.sources(self._data) if self._data else {}
        return self._tasks[name]


def _command(score: PublishedScore, model: str) -> str:
    import shlex

    subsets = " ".join(f"--subset {name}" for name in score.parts or [score.subset])
    return f"leaderboard run --encoder {shlex.quote(model)} --task {score.task} {subsets}"


def _run(lines: Sequence[Line], **options: Any) -> bool:
    """Measure what can be measured, the encoders that lack the same together; whether something failed."""
    from harness.cli.progress import watch
    from harness.evaluation import run_suite

    wanted: dict[str, dict[tuple[str, str], None]] = {}
    for line in lines:
        for subset in (line.score.parts or [line.score.subset]) if line.runs else ():
            wanted.setdefault(line.runs, {})[(line.score.task, subset)] = None
    together: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for model, sets in wanted.items():
        together.setdefault(tuple(sets), []).append(model)
    has_failed = False
    for pairs, models in together.items():
        tasks, subsets = (list(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
        with watch() as progress:
            has_failed |= bool(run_suite(models, tasks, subsets, progress=progress, **options).failures)
    return has_failed


def _notes(lines: Sequence[Line]) -> list[str]:
    from harness.report.published import comparison_notes

    return comparison_notes((line.score, line.measured) for line in lines if line.measured)


def _render(lines: Sequence[Line], format: Format) -> str:
    from harness.report.cells import Cell, Column, Row, Table
    from harness.report.published import comparison
    from harness.report.render import markdown_grid, render_long

    if format in (Format.csv, Format.json):
        return render_long([_entry(line) for line in lines], format.value)
    compared = [comparison(line.score, line.measured) if line.measured else None for line in lines]
    if format is Format.md:
        heads = ("table", "row", "column", "version", "published", "measured", "difference", "needs")
        columns = tuple(Column(head, is_number=head in ("published", "measured", "difference")) for head in heads)
        rows = []
        for line, texts in zip(lines, compared, strict=True):
            score, (measured, _, difference) = line.score, texts or (None, None, None)
            named = (score.full_table, score.row, score.column, score.edition, score.printed)
            rows.append(Row(tuple(map(Cell, (*named, measured, difference, line.needs)))))
        return markdown_grid(Table("", columns, tuple(rows)))
    table_width = max(len(line.score.full_table) for line in lines)
    row_width = max(len(line.score.row) for line in lines)
    column_width = max(len(line.score.column) for line in lines)
    printed = []
    for line, texts in zip(lines, compared, strict=True):
        score = line.score
        where = f"{score.full_table:<{table_width}}  {score.row:<{row_width}}  {score.column:<{column_width}}"
        what = f"measured {texts[0]:>5}  difference {texts[2]}" if texts else f"needs: {line.needs}"
        printed.append(f"{where}  {score.edition:<2}  published {score.printed:>5}  {what}")
    return "\n".join(printed)


def _entry(line: Line) -> dict[str, Any]:
    score, measured = line.score, line.measured
    return {
        "table": score.table,
        "row": score.row,
        "column": score.column,
        "version": score.edition,
        "task": score.task,
        "subset": score.subset,
        "metric": score.metric,
        "published": score.value,
        "encoder": measured.encoder if measured else score.name if score.models else None,
        "measured": measured.value if measured else None,
        "difference": round(measured.value - score.value, 6) if measured else None,
        "note": (measured.note or None) if measured else None,
        "needs": line.needs or None,
    }

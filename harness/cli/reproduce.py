"""`leaderboard reproduce`: every score of the paper's tables, measured here or with what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.options import CacheDirOption, DataDirOption, ResultsOption, format_option, results_folder
from harness.report.render import ENTRY_FORMATS, render, render_long

if TYPE_CHECKING:
    from harness.published import PublishedScore
    from harness.published.reproduction import Line, OwnScore
    from harness.report.cells import Table


def reproduce(
    table: Annotated[
        list[int] | None,
        typer.Option(metavar="N", show_default=False, help="Only this table of the paper (1 to 8). Repeatable."),
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", show_default=False, help="Put this stored encoder into the tables as a row. Repeatable."
        ),
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
    format: Annotated[str, format_option("an entry a score")] = "table",
) -> None:
    """Set measurements beside the paper's scores. Every score of Tables 1 to 8 of Reimers and Gurevych (2020) is
    listed.

    Where nothing was: what that needs first (a package, a download, a model to train, a data set), or the command that
    measures it. Exit with 3 if a run failed.

    With --encoder a stored encoder of your own has a row in each of these tables, with its score where it was measured
    on the same data by the same metric, and the reason where it cannot be compared.

    Example: leaderboard reproduce --table 2
    """
    from harness.cli.progress import watch
    from harness.core.errors import InputError
    from harness.data import open_data_dir
    from harness.published.reproduction import Reproduction, batches, own_rows
    from harness.report.published import comparison_notes, stored_if_any
    from harness.running.suite import Request, run_suite

    results = results_folder(results)
    if not run and (device is not None or batch_size is not None):
        raise InputError("--device and --batch-size are for runs: give --run too, or leave them out")
    scores = _choose(table or [])
    reproduction = Reproduction(open_data_dir(data_dir) if data_dir else None)
    own_rows(scores, stored_if_any(results), encoder or ())  # names that are not stored are said before anything runs
    lines = reproduction.lines(scores, stored_if_any(results))
    has_failed = False
    for models, tasks, subsets in batches(lines) if run else ():
        request = Request(
            encoders=models,
            tasks=tasks,
            subsets=subsets,
            data_dir=data_dir,
            results=results,
            cache_dir=cache_dir,
            defaults={"device": device, "batch_size": batch_size},
        )
        with watch() as progress:
            outcome = run_suite(request, progress)
        has_failed |= bool(outcome.failures)
    if run:
        lines = reproduction.lines(scores, stored_if_any(results))
    rows = own_rows(scores, stored_if_any(results), encoder or ())
    if format in ENTRY_FORMATS:
        typer.echo(render_long([*map(_entry, lines), *map(_own_entry, rows)], format))
    else:
        typer.echo(render(_as_table(lines, rows), format))
    for note in comparison_notes((line.score, line.measured) for line in lines if line.measured):
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
    from harness.core.errors import InputError
    from harness.published import paper_scores

    names = [f"Table {number}" for number in tables]
    known = {score.table for score in paper_scores()}
    for name in names:
        if name not in known:
            raise InputError(f"there is no {name} of scores in the paper; give a number from 1 to {len(known)}")
    return [score for score in paper_scores() if not names or score.table in names]


def _as_table(lines: Sequence[Line], own: Sequence[OwnScore]) -> Table:
    from harness.report.cells import Cell, Column, Row, Table
    from harness.report.published import comparison

    rows = []
    for line in lines:
        score = line.score
        here, _, difference = comparison(score, line.measured) if line.measured else (None, None, None)
        texts = (score.full_table, score.row, score.column, score.edition, score.printed, here, difference, line.needs)
        rows.append(Row(tuple(map(Cell, texts))))
    for one in own:
        here = None if one.value is None else f"{one.value:.2f}"
        cells = (one.score.full_table, one.encoder, one.score.column, "", None, here, None, one.why)
        rows.append(Row(tuple(map(Cell, cells))))
    places = {table: place for place, table in enumerate(dict.fromkeys(line.score.full_table for line in lines))}
    rows.sort(key=lambda row: places.get(str(row.cells[0].value), len(places)))
    columns = (
        *(Column(head, is_number=False) for head in ("table", "row", "column", "version")),
        *map(Column, ("published", "measured", "difference")),
        Column("needs", is_number=False, is_prose=True),
    )
    return Table("", columns, tuple(rows), n_keys=4)


def _entry(line: Line) -> dict[str, object]:
    from harness.report.published import comparison_values

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
        **comparison_values(score, measured),
        "needs": line.needs or None,
    }


def _own_entry(one: OwnScore) -> dict[str, object]:
    score = one.score
    return {
        "table": score.table,
        "row": one.encoder,
        "column": score.column,
        "version": None,
        "task": score.task,
        "subset": score.subset,
        "metric": score.metric,
        "published": None,
        "encoder": one.encoder,
        "measured": one.value,
        "difference": None,
        "note": None,
        "needs": one.why or None,
    }

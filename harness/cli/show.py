"""`leaderboard show` and `leaderboard report`: the stored results as tables, in the long form, and as pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import ResultsOption, filter_option, format_option, results_folder
from harness.report.render import ENTRY_FORMATS


def show(
    results: ResultsOption = None,
    encoder: Annotated[list[str] | None, filter_option("encoder")] = None,
    task: Annotated[list[str] | None, filter_option("task")] = None,
    subset: Annotated[list[str] | None, filter_option("subset")] = None,
    metric: Annotated[list[str] | None, filter_option("metric")] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            show_default=False,
            help="Column to sort by: a table's heading (avg-cross, encoder), or with csv and json a key (value).",
        ),
    ] = None,
    format: Annotated[str, format_option("an entry a number")] = "table",
    published: Annotated[
        bool, typer.Option("--published", help="Set published figures beside what was measured, with the difference.")
    ] = False,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            show_default=False,
            help="Only the record ENCODER/TASK/SUBSET, with all that it takes to repeat it; as a table or json.",
        ),
    ] = None,
) -> None:
    """Print what is stored: a table a task, or an entry a number.

    A value stands with its interval; the best ones, and those not significantly worse, are bold (marked * in plain
    text). Both were made by `run` and are kept in RESULTS/statistics/; without them nothing is bold.
    What `speed` has measured of the encoders follows in a table.

    Cut and quantised vectors stand in tables only where --encoder names them, and are not ranked there; csv and json
    have them all. `leaderboard sweep` and the page sweep.md hold them against the full vectors.

    Keys of csv and json: encoder, task, subset, metric, value, low, high, interval (how it and the tests were made),
    is_best (true, false, empty if not tested), p_best (against the best, corrected by Holm over the encoders that are
    shown), p_zero (a difference such as language bias, against zero, corrected so too), n, signature, source
    ("measured", or a citation), fingerprint, dataset, dataset_sha256, created; with --published also row, measured,
    difference, note.
    """
    from harness.core.errors import unknown_name
    from harness.report.render import render, render_long
    from harness.report.speed import cost_table
    from harness.report.tables import boards, long_form, sort_entries, sort_rows
    from harness.results.records import Result
    from harness.results.selection import fold, select, stored
    from harness.results.statistics import StatisticsStore
    from harness.results.store import ResultStore
    from harness.speed.store import SpeedStore

    results = results_folder(results)
    if record is not None:
        from harness.report.record import show_record

        typer.echo(show_record(stored(ResultStore(results)), record, format, results))
        return
    everything: list[Any]
    if published:
        from harness.published import published_scores
        from harness.published.mteb_import import imported_scores
        from harness.report.published import stored_if_any

        everything = [*stored_if_any(results), *published_scores(), *imported_scores(results)]
    else:
        everything = stored(ResultStore(results))
    selected, metrics = select(
        everything, encoder=encoder or (), task=task or (), subset=subset or (), metric=metric or ()
    )
    chosen = [item for item in selected if isinstance(item, Result)]
    scores = [item for item in selected if not isinstance(item, Result)]
    statistics = StatisticsStore(results).of(chosen)
    if format in ENTRY_FORMATS:
        entries = long_form(chosen, metrics, statistics)
        if published:
            from harness.report.published import with_published

            entries = with_published(entries, chosen, scores)
        if sort is not None:
            entries = sort_entries(entries, sort)
        typer.echo(render_long(entries, format))
        return
    shown, folded = (chosen, []) if encoder else fold(chosen)
    tables = boards(shown, metrics=metrics, statistics=statistics, folded=folded)
    if costs := cost_table(shown, SpeedStore(results).load()):
        tables.append(costs)
    if published:
        from harness.report.published import published_boards

        tables += published_boards(shown, scores, metrics=metrics, statistics=statistics)
    if sort is not None:
        by_column = [sort_rows(table, sort) for table in tables]
        if not any(by_column):
            raise unknown_name("column", sort, (column.label for table in tables for column in table.columns))
        # A column of one task's table says nothing of another's.
        tables = [new or old for new, old in zip(by_column, tables, strict=True)]
    typer.echo(render(tables, format))


def report(
    results: ResultsOption = None,
    readme: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="README.md, if it has the markers, with --results results",
            help="File with <!-- leaderboard:begin --> and <!-- leaderboard:end -->, between which the table goes.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if something would change.")
    ] = False,
) -> None:
    """Write the pages of the results folder from the records, and print the files that changed."""
    from harness.core.errors import InputError
    from harness.core.escaping import terminal_line
    from harness.report import pages
    from harness.results.store import ResultStore

    results = results_folder(results)
    store = ResultStore(results)
    if readme is None:
        # Other results (a demo's, an experiment's) never enter the README unless it is named.
        default = Path("README.md")
        is_own = results == Path("results") and default.is_file() and pages.has_markers(default)
        readme = default if is_own else None
    elif not pages.has_markers(readme):
        raise InputError(f"{readme}: has no {pages.BEGIN} and {pages.END}; put them where the table should be")
    if check:
        changed = list(pages.outdated(store, readme))
        for path in changed:
            typer.echo(terminal_line(f"would change: {path.as_posix()}"))
        raise typer.Exit(1 if changed else 0)
    for path in pages.report(store, readme):
        typer.echo(terminal_line(path.as_posix()))

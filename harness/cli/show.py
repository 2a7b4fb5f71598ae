"""`leaderboard show` and `leaderboard report`: the stored results as tables, in the long form, and as pages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import say
from harness.cli.options import LanguageOption, ResultsOption, filter_option, format_option, results_folder
from harness.report.render import ENTRY_FORMATS

if TYPE_CHECKING:
    from harness.results.records import Result
    from harness.results.statistics import Statistics


def show(
    results: ResultsOption = None,
    encoder: Annotated[list[str] | None, filter_option("encoder")] = None,
    task: Annotated[list[str] | None, filter_option("task")] = None,
    subset: Annotated[list[str] | None, filter_option("subset")] = None,
    metric: Annotated[list[str] | None, filter_option("metric")] = None,
    language: LanguageOption = None,
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
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="NAME",
            show_default=False,
            help="Only this column of the tables, by its heading or a part of it (en-de, f1_test). Repeatable.",
        ),
    ] = None,
    no_intervals: Annotated[bool, typer.Option("--no-intervals", help="Tables without intervals.")] = False,
    transpose: Annotated[bool, typer.Option("--transpose", help="Tables with rows and columns exchanged.")] = False,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False, help="Mark what is significantly better or worse than this encoder."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="A table a task, without a choice too.")] = False,
) -> None:
    """Print the stored scores. One table over all tasks; with a choice or --full a table a task, or an entry a number.

    The table over all tasks has a row an encoder, the best overall rank first, and fits 100 columns. The overall rank
    is the mean of an encoder's ranks in the columns, among the encoders that have them all; its interval comes from
    the tests of all pairs. Every other --format is complete.

    A value stands with its interval; the best ones, and those not significantly worse, are bold (marked * in plain
    text). Both were made by `run` and are kept in RESULTS/statistics/; without them nothing is bold.
    What `speed` has measured of the encoders follows in a table. A score on a language that the encoder was not made
    for has the mark †.

    For a paper: --format latex with --columns, --no-intervals, --transpose, and marks against --reference, which the
    caption explains; `leaderboard cite` prints the entries that the table cites.

    Cut and quantised vectors stand in tables only where --encoder names them, and are not ranked there; csv and json
    have them all. `leaderboard sweep` and the page sweep.md hold them against the full vectors.

    Keys of csv and json: encoder, task, subset, metric, value, low, high, interval (how it and the tests were made),
    is_best (true, false, empty if not tested), p_best (against the best, corrected by Holm over the encoders that are
    shown), p_zero (a difference such as language bias, against zero, corrected so too), n, made_for_language (whether
    the encoder was made for the languages of the subset; empty if that is not known), signature, source ("measured",
    or a citation), fingerprint, dataset, dataset_sha256, created; with --published also row, measured, difference,
    note.

    Example: leaderboard show --task sts17 --format csv
    """
    from harness.core.errors import InputError, unknown_name
    from harness.protocol.languages import of_unknown_languages, on_languages
    from harness.report.entries import long_form, sort_entries
    from harness.report.render import render, render_long
    from harness.report.shaping import citing, transposed, with_columns, without_intervals
    from harness.report.speed import cost_table
    from harness.report.tables import boards, sort_rows
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
    if language:
        if unknown := of_unknown_languages(selected):
            say(unknown)
        selected = on_languages(selected, language)
    chosen = [item for item in selected if isinstance(item, Result)]
    scores = [item for item in selected if not isinstance(item, Result)]
    statistics = StatisticsStore(results).of(chosen)
    if reference is not None and reference not in (names := {result.encoder for result in chosen}):
        raise unknown_name("encoder among those that are shown", reference, names)
    if format in ENTRY_FORMATS:
        if columns or no_intervals or transpose or reference:
            raise InputError(f"--columns, --no-intervals, --transpose and --reference are of tables, not of {format}")
        entries = long_form(chosen, metrics, statistics)
        if published:
            from harness.report.published import with_published

            entries = with_published(entries, chosen, scores)
        if sort is not None:
            entries = sort_entries(entries, sort)
        typer.echo(render_long(entries, format))
        return
    shown, folded = (chosen, []) if encoder else fold(chosen)
    is_choice = full or published or any((encoder, task, subset, metric, language, sort))
    is_choice = is_choice or any((columns, no_intervals, transpose, reference))
    if format == "table" and not is_choice and (short := _overview(shown, folded, statistics, results)):
        typer.echo(short)
        return
    tables = boards(shown, metrics=metrics, statistics=statistics, folded=folded, reference=reference or "")
    if columns is None and (costs := cost_table(shown, SpeedStore(results).load())):
        tables.append(costs)
    if published:
        from harness.report.published import published_boards

        tables += published_boards(shown, scores, metrics=metrics, statistics=statistics, says_why=True)
    if sort is not None:
        by_column = [sort_rows(table, sort) for table in tables]
        if not any(by_column):
            raise unknown_name("column", sort, (column.label for table in tables for column in table.columns))
        # A column of one task's table says nothing of another's.
        tables = [new or old for new, old in zip(by_column, tables, strict=True)]
    if columns:
        tables = with_columns(tables, columns)
    if no_intervals:
        tables = [without_intervals(table) for table in tables]
    if transpose:
        tables = [transposed(table) for table in tables]
    if format == "latex":
        tables = [citing(table, chosen) for table in tables]
    typer.echo(render(tables, format))


def _overview(
    shown: Sequence[Result], folded: Sequence[Result], statistics: Mapping[str, Statistics], results: Path
) -> str:
    """The table over all tasks, of the bundled sample if there is nothing else; empty if it has no column."""
    from harness.report.overview import WIDTH, overviews
    from harness.speed.store import SpeedStore

    found = overviews(shown, statistics, folded, SpeedStore(results).load())
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    others = ["not shown: results on the bundled sample; --full has them"] if len(found) > 1 else []
    return "\n".join([found[0].short(width), *others]) if found else ""


def report(
    results: ResultsOption = None,
    language: LanguageOption = None,
    readme: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="README.md, if it has the markers, with --results results",
            help="File with <!-- leaderboard:begin --> and <!-- leaderboard:end -->, between which the table goes.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Also write all of it as one page for a browser, which needs no server and no network.",
        ),
    ] = None,
    title: Annotated[str, typer.Option(show_default=False, help="Of the page for a browser.")] = "",
    source_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            show_default="the folder itself, beside or below FILE",
            help="Where the results folder can be read: numbers of the page for a browser lead to their records there.",
        ),
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if something would change.")
    ] = False,
) -> None:
    """Write pages, pictures and the board. They are made from the records of the results folder; the files that changed
    are printed.

    Pages and pictures that this command made of what is no longer there are removed, which it says, too.

    With --language the pages are of the results on these languages alone, and say so. Give the same to --check, and
    the same --html, --title and --source-url. Without the extra `board` pictures stay as they are, and so do the charts
    of a page for a browser, if nothing else of it would change; a new page has none.

    Example: leaderboard report --html board.html
    """
    from harness.core.errors import InputError
    from harness.core.escaping import terminal_line
    from harness.core.files import user_path
    from harness.protocol.languages import of_unknown_languages
    from harness.report.changes import apply
    from harness.report.content import content_of
    from harness.report.pages import BEGIN, END, has_markers, outdated
    from harness.results.store import ResultStore

    results = results_folder(results)
    store = ResultStore(results)
    if language and (unknown := of_unknown_languages(store.load())):
        say(unknown)
    if readme is None:
        # Other results (a demo's, an experiment's) and a choice never enter the README unless it is named.
        default = Path("README.md")
        is_own = results == Path("results") and not language and default.is_file() and has_markers(default)
        readme = default if is_own else None
    elif not has_markers(readme):
        raise InputError(f"{readme}: has no {BEGIN} and {END}; put them where the table should be")
    if html is None and (title or source_url):
        raise InputError("--title and --source-url are of the page that --html writes; give --html FILE too")
    content = content_of(store, language or ())
    changes = outdated(results, content, readme, language or ())
    if html is not None:
        from harness.board.file import outdated_board

        file = user_path(html, "--html")
        changes += outdated_board(store, content, file, title=title, source_url=source_url, languages=language or ())
    for note in changes.notes:
        say(note)
    lines = [f"would change: {path.as_posix()}" if check else path.as_posix() for path in changes.written]
    lines += [f"{'would remove' if check else 'removed'}: {path.as_posix()}" for path in changes.removed]
    if not check:
        apply(changes)
    for line in lines:
        typer.echo(terminal_line(line))
    raise typer.Exit(1 if check and lines else 0)

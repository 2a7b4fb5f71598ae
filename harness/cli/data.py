"""`leaderboard data`: which data sets are there, fetching them, and checking their files."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Sequence
from dataclasses import asdict
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import DataDirOption
from harness.data.catalogue import DataSet, catalogue, find_set
from harness.data.sources import DataDir, open_data_dir
from harness.errors import InputError, unknown_name
from harness.escaping import json_text, terminal
from harness.files import user_path

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from harness.data.inventory import SetStatus

_WIDTH = 100  # characters a line of the tables
_SHORT = 12  # of a sha256 in a table; JSON has all of it

app = typer.Typer(help="Show, fetch and verify the data sets.", no_args_is_help=True)


class Format(str, Enum):
    """How to print."""

    table = "table"
    json = "json"


SetsArgument = Annotated[list[str] | None, typer.Argument(metavar="[SET]...", help="Data sets; all if none is named.")]
FetchArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SET]...",
        help="Data sets, or corpora of parallel sentences such as TED2020 (with --languages); all downloadable sets "
        "that a task reads if none is named.",
    ),
]


def _root(data_dir: Path | None) -> Path:
    if data_dir is None:
        raise InputError("no data directory: give --data-dir or set HARNESS_DATA")
    return user_path(data_dir)


@app.command()
def status(
    data_dir: DataDirOption = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
) -> None:
    """Show every data set the harness knows: how much of it is in the data directory, its sha256, its licence."""
    from harness.data.inventory import set_status

    data = open_data_dir(_root(data_dir))
    rows = [set_status(dataset, data) for dataset in catalogue().values()]
    if format is Format.json:
        typer.echo(json_text([asdict(row) for row in rows], indent=2, sort_keys=True))
        return
    _echo_table([("set", "state", "files", "bytes", "sha256", "found in"), *map(_cells, rows)], numbers=(2, 3))
    typer.echo()
    # On lines of their own: the longest would take the whole width of the table above.
    name_width = max(len(row.name) for row in rows) + 2
    for name, licence in [("set", "licence"), *((row.name, row.licence) for row in rows)]:
        for line in textwrap.wrap(licence, _WIDTH - name_width):
            typer.echo(f"{name:<{name_width}}{line}")
            name = ""


def _cells(row: SetStatus) -> tuple[str, ...]:
    is_absent = row.state == "absent"
    digest = "-" if is_absent else row.sha256[:_SHORT] if row.sha256 else "unreadable"
    where = "-" if is_absent else f"{row.folder}/"
    return row.name, row.state, f"{row.files}/{row.expected}", f"{row.bytes:,}", digest, where


def _echo_table(table: Sequence[Sequence[str]], numbers: Container[int]) -> None:
    """Print rows of cells in columns; those in `numbers` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        typer.echo("  ".join(cells).rstrip())


def _show(bars: Progress, bar: TaskID, name: str, done: int, total: int | None) -> None:
    bars.update(bar, description=name, completed=done, total=total)


def _chosen(sets: Sequence[str], languages: str | None = None) -> list[DataSet]:
    """The data sets, and the corpora of parallel sentences in these languages (separated by commas), of some names."""
    from harness.data.parallel import parallel_corpora

    corpora = parallel_corpora()
    codes = [code.strip() for code in languages.split(",") if code.strip()] if languages else []
    if codes and not any(name in corpora for name in sets):
        raise InputError(f"--languages is for corpora of parallel sentences: {', '.join(corpora)}; name one of them")
    for name in sets:
        if name not in corpora and name not in catalogue():
            raise unknown_name("data set", name, [*catalogue(), *corpora])
    return [corpora[name].data_set(codes) if name in corpora else find_set(name) for name in sets or catalogue()]


def _why_left_out(dataset: DataSet) -> str:
    """Why a set is not fetched unless it is named; empty if it is."""
    if not dataset.downloads:
        return f"not downloadable: {dataset.obtain}"
    if dataset.on_request:
        return f"left out, as no task reads it; `leaderboard data fetch {dataset.name}` gets it"
    return ""


@app.command()
def fetch(
    sets: FetchArgument = None,
    data_dir: DataDirOption = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            envvar="HARNESS_MIRROR",
            metavar="URL",
            help="Address that takes the place of scheme and host of every download (http://mirror.example.org).",
        ),
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option(metavar="CODES", help="Of parallel corpora: the languages beside English, as in de,ar."),
    ] = None,
) -> None:
    """Download data sets into the data directory (made if it is not there); files that are there are kept.

    Exit with 3 if only some of the sets could be fetched.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from harness.data.fetch import Network, fetch_set

    root = _root(data_dir)
    chosen = _chosen(sets or [], languages)
    for dataset in chosen:
        if not dataset.files:
            raise InputError(f"{dataset.name} has many languages: say which, as in --languages de,ar")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"data directory {root} cannot be made ({error.strerror}); choose another") from None
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    failures: list[InputError] = []
    n_fetched = 0
    if not sets:
        for dataset in filter(_why_left_out, chosen):
            console.print(f"{dataset.name}: {_why_left_out(dataset)}", markup=False)
        chosen = [dataset for dataset in chosen if not _why_left_out(dataset)]
    for dataset in chosen:
        console.print(f"{dataset.name}: {dataset.title}; licence: {dataset.licence}; {dataset.home}", markup=False)
        if dataset.note:
            console.print(f"{dataset.name}: {dataset.note}", markup=False)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
            bar = bars.add_task(dataset.name, total=None)

            try:
                result = fetch_set(dataset, DataDir(root), Network(mirror=mirror), partial(_show, bars, bar))
            except InputError as error:
                failures.append(error)
                continue
        n_fetched += 1
        console.print(f"{dataset.name}: {len(result.new)} files fetched, {len(result.kept)} were there", markup=False)
        if result.pinned:
            console.print(
                f"{dataset.name}: no checksum is published for {len(result.pinned)} files; those of the files now "
                "there are kept in checksums.sha256 of the data directory, and later ones are held against them",
                markup=False,
            )
    if not failures:
        return
    if not n_fetched and len(failures) == 1:
        raise failures[0]
    for failure in failures:
        console.print(terminal(str(failure)), markup=False)
    summary = f"{len(failures)} of {len(chosen)} data sets were not fetched; the lines above say why"
    if not n_fetched:
        raise InputError(summary)
    console.print(summary, markup=False)
    raise typer.Exit(3)


@app.command()
def verify(sets: SetsArgument = None, data_dir: DataDirOption = None) -> None:
    """Compare the files with their known checksums; exit with 1 if one differs, or if a named set lacks one."""
    from harness.data.inventory import verify_set

    data = open_data_dir(_root(data_dir))
    differing = missing = 0
    absent: list[str] = []
    for dataset in _chosen(sets or []):
        rows = verify_set(dataset, data)
        if not rows:
            absent.append(dataset.name)
            if not sets:
                typer.echo(f"{dataset.name}: not in the data directory", err=True)
        for row in rows:
            typer.echo(terminal(f"{row.state:<8} {row.sha256 or '-':<64} {row.path}"))
            differing += row.state == "differs"
            missing += row.state == "missing" and bool(sets)
    if differing:
        typer.echo(f"{differing} files differ from the published ones; move them away and fetch again", err=True)
    if missing:
        typer.echo(f"{missing} files are missing; fetch them with `leaderboard data fetch`", err=True)
    if sets and absent:
        raise InputError(f"not in {data.root}: {', '.join(absent)}; get it with `leaderboard data fetch {absent[0]}`")
    if differing or missing:
        raise typer.Exit(1)

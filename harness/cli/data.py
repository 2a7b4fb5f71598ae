"""`leaderboard data`: which data sets are there, fetching them, and checking their files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.options import DataDirOption, format_option
from harness.core.errors import InputError
from harness.core.escaping import terminal
from harness.report.render import TABLE_FORMATS, render, render_long

if TYPE_CHECKING:
    from harness.data import DataDir
    from harness.data.inventory import SetStatus
    from harness.data.own import OwnSet
    from harness.report.cells import Row

_WIDTH = 100  # characters a line of the table
_SHORT = 12  # of a sha256 in a table; JSON has all of it

app = typer.Typer(help="Show, fetch and verify the data sets.", no_args_is_help=True)


SetsArgument = Annotated[list[str] | None, typer.Argument(metavar="[SET]...", help="Data sets; all if none is named.")]
FetchArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SET]...",
        help="Data sets, or corpora of parallel sentences such as TED2020 (with --languages); all downloadable sets "
        "that a task reads if none is named.",
    ),
]


SetsFileOption = Annotated[
    list[Path] | None,
    typer.Option("--sets", metavar="TOML", show_default=False, help="A file that lists your own sets. Repeatable."),
]


def _data(data_dir: Path | None, *, is_made: bool = False, is_needed: bool = True) -> DataDir:
    """The data directory; made if need be where `is_made`; an empty one if none is given, and not `is_needed`."""
    from harness.core.files import user_path
    from harness.data import DataDir, open_data_dir

    if data_dir is None:
        if is_needed:
            raise InputError("no data directory: give --data-dir or set HARNESS_DATA")
        say("no data directory is given (--data-dir, HARNESS_DATA); these sets are to be had: leaderboard data fetch")
        return DataDir(Path(os.devnull))
    if not is_made:
        return open_data_dir(data_dir)
    root = user_path(data_dir, "data directory")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"data directory {root} cannot be made ({error.strerror}); choose another") from None
    return DataDir(root)


def _own(files: Sequence[Path]) -> list[OwnSet]:
    from harness.data.own import own_data
    from harness.data.set_files import read_sets

    own = [each for file in files for each in read_sets(file)]
    own_data(own)  # refuses two of one name
    return own


@app.command()
def status(
    data_dir: DataDirOption = None,
    sets_file: SetsFileOption = None,
    format: Annotated[
        str, format_option("an entry a data set, with all checksums", (*TABLE_FORMATS, "json"))
    ] = "table",
) -> None:
    """Show which data sets are there. Of every data set the harness knows: how much of it is in the data directory, its
    sha256, its licence.

    With --sets your own instead.

    Example: leaderboard data status
    """
    from harness.data.catalogue import catalogue
    from harness.data.inventory import own_status, set_status
    from harness.report.cells import Column, Table

    if sets_file:
        rows = [own_status(own) for own in _own(sets_file)]
    else:
        data = _data(data_dir, is_needed=False)
        rows = [set_status(dataset, data) for dataset in catalogue().values()]
    if format == "json":
        typer.echo(render_long([asdict(row) for row in rows], format))
        return
    heads = {"set": False, "state": False, "files": True, "bytes": True, "sha256": False, "found in": False}
    columns = (
        *(Column(head, is_number=is_number) for head, is_number in heads.items()),
        Column("licence", is_number=False, is_prose=True),
    )
    typer.echo(render(Table("", columns, tuple(map(_row, rows))), format, width=_WIDTH))


def _row(status: SetStatus) -> Row:
    from harness.report.cells import Cell, Row

    digest, folder = None, None
    if status.state != "absent":
        digest, folder = status.sha256[:_SHORT] if status.sha256 else "unreadable", f"{status.folder}/"
    counts = (f"{status.files}/{status.expected}", f"{status.bytes:,}")
    return Row(tuple(map(Cell, (status.name, status.state, *counts, digest, folder, status.licence))))


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
    """Download data sets. They go into the data directory (made if it is not there); files that are there are kept.

    Exit with 3 if only some of the sets could be fetched.

    Example: leaderboard data fetch sts17 tatoeba
    """
    from harness.cli.progress import download_bar
    from harness.data.fetch import fetch_set
    from harness.data.parallel import chosen_sets
    from harness.data.transfer import Network

    chosen = chosen_sets(sets or [], [code.strip() for code in (languages or "").split(",") if code.strip()])
    for dataset in chosen:
        if not dataset.files:
            raise InputError(f"{dataset.name} has many languages: say which, as in --languages de,ar")
    data = _data(data_dir, is_made=True)
    if not sets:
        for dataset in chosen:
            if dataset.why_left_out:
                say(f"{dataset.name}: {dataset.why_left_out}")
        chosen = [dataset for dataset in chosen if not dataset.why_left_out]
    failures: list[InputError] = []
    for dataset in chosen:
        say(f"{dataset.name}: {dataset.title}; licence: {dataset.licence}; {dataset.home}")
        if dataset.note:
            say(f"{dataset.name}: {dataset.note}")
        try:
            with download_bar(dataset.name) as bar:
                result = fetch_set(dataset, data, Network(mirror=mirror), bar)
        except InputError as error:
            failures.append(error)
            continue
        say(f"{dataset.name}: {len(result.new)} files fetched, {len(result.kept)} were there")
        if result.pinned:
            say(
                f"{dataset.name}: no checksum is published for {len(result.pinned)} files; those of the files now "
                "there are kept in checksums.sha256 of the data directory, and later ones are held against them"
            )
    if not failures:
        return
    if len(failures) == len(chosen) == 1:
        raise failures[0]
    for failure in failures:
        say(str(failure))
    summary = f"{len(failures)} of {len(chosen)} data sets were not fetched; the lines above say why"
    if len(failures) == len(chosen):
        raise InputError(summary)
    say(summary)
    raise typer.Exit(3)


@app.command()
def verify(sets: SetsArgument = None, data_dir: DataDirOption = None, sets_file: SetsFileOption = None) -> None:
    """Check the files' checksums. Exit code 1 if one differs, or if a named set lacks one.

    With --sets your own instead, which are read too: what is wrong in them is said.

    Example: leaderboard data verify sts17
    """
    from harness.data.inventory import verify_own, verify_set
    from harness.data.parallel import chosen_sets
    from harness.protocol import get_task

    if sets_file and sets:
        raise InputError("--sets verifies your own sets; leave the names of others out")
    if sets_file:
        checked = []
        for own in _own(sets_file):
            get_task(own.kind).load(own)
            checked += verify_own(own)
        for row in checked:
            typer.echo(terminal(f"{row.state:<8} {row.sha256 or '-':<64} {row.path}"))
        if any(row.state == "differs" for row in checked):
            raise typer.Exit(1)
        return
    data = _data(data_dir)
    differing = missing = 0
    absent: list[str] = []
    for dataset in chosen_sets(sets or []):
        rows = verify_set(dataset, data)
        if not rows:
            absent.append(dataset.name)
            if not sets:
                say(f"{dataset.name}: not in the data directory")
        for row in rows:
            typer.echo(terminal(f"{row.state:<8} {row.sha256 or '-':<64} {row.path}"))
            differing += row.state == "differs"
            missing += row.state == "missing" and bool(sets)
    if differing:
        say(f"{differing} files differ from the published ones; move them away and fetch again")
    if missing:
        say(f"{missing} files are missing; fetch them with `leaderboard data fetch`")
    if sets and absent:
        raise InputError(f"not in {data.root}: {', '.join(absent)}; get it with `leaderboard data fetch {absent[0]}`")
    if differing or missing:
        raise typer.Exit(1)

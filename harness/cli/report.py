"""`leaderboard report`: the generated pages, and the table in a README."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import ResultsOption, results_folder


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
    from harness.results.records import ResultStore

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

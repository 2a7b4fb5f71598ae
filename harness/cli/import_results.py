"""`leaderboard import`: another tool's results as published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import ResultsOption, results_folder


def import_results(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", show_default=False, help="Result files of mteb, or folders with some."),
    ],
    results: ResultsOption = None,
) -> None:
    """Store results of mteb, to be shown as published figures with their source, and print the files.

    Takes MODEL/REVISION/TASK.json as mteb's ResultCache and its repository of results have them, and files from before
    mteb 1.11; of the tasks STS17, Tatoeba, BUCC and BUCC.v2. `show --published` and `report` set them beside what was
    measured. A second import of the same model, revision and task replaces the first. What `export` wrote is left out.
    """
    from harness.core.escaping import terminal_line
    from harness.published.mteb_import import read_results, store

    results = results_folder(results)
    read = read_results(paths)
    for line in read.left_out:
        typer.echo(terminal_line(f"left out: {line}"), err=True)
    for path in store(results, read.results):
        typer.echo(terminal_line(path.as_posix()))

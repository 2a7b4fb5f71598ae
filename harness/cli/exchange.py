"""`leaderboard export` and `leaderboard import`: results to and from another tool."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import ResultsFoldersOption, ResultsOption, filter_option, results_folder


class Format(str, Enum):
    """Whose files to write."""

    mteb = "mteb"


def export(
    encoders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENCODER]...",
            show_default=False,
            help="Only these: names of stored encoders, results folders, FOLDER/NAME, or specs of stored encoders.",
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", show_default=False, help="Folder for the files.")],
    format: Annotated[Format, typer.Option(help="mteb: a folder that its ResultCache reads.")] = Format.mteb,
    results: ResultsFoldersOption = None,
    encoder: Annotated[list[str] | None, filter_option("encoder")] = None,
    task: Annotated[list[str] | None, filter_option("task")] = None,
) -> None:
    """Write results as another tool's files. Only what means the same there is written; the files are printed.

    mteb: DIR/results/MODEL/REVISION/TASK.json, scores divided by 100. STS17 (cosine Spearman and Pearson) and Tatoeba
    (xx -> en: accuracy and weighted F1), on the published data only; stderr says what is left out. Several results
    folders are joined: an encoder that two of them have is exported as FOLDER__NAME.

    Example: leaderboard export --format mteb --out mteb-results
    """
    from harness.core.errors import InputError
    from harness.core.escaping import terminal_line
    from harness.core.files import refuse_way_out, write_atomically
    from harness.published.mteb import mteb_files
    from harness.results.joined import named_results, renamed_for_paths
    from harness.results.selection import select

    joined, names = named_results(encoders or [], results, lambda: results_folder(None))
    meant = [record for record in joined.records if record.encoder in names]
    chosen, _ = select(meant, encoder=encoder or (), task=task or ())
    exported = mteb_files(renamed_for_paths(chosen))
    for line in exported.left_out:
        typer.echo(terminal_line(f"left out: {line}"), err=True)
    if not exported.files:
        raise InputError(
            f"{joined.folders[0]}: nothing in there means the same in {format.value}; run sts17 or tatoeba"
        )
    for name, content in exported.files.items():
        path = refuse_way_out(out / name, out)
        write_atomically(path, content)
        typer.echo(terminal_line(path.as_posix()))


def import_results(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", show_default=False, help="Result files of mteb, or folders with some."),
    ],
    results: ResultsOption = None,
) -> None:
    """Store mteb's results as published figures. Each is shown with its source; the files are printed.

    Takes MODEL/REVISION/TASK.json as mteb's ResultCache and its repository of results have them, and files from before
    mteb 1.11; of the tasks STS17, Tatoeba, BUCC and BUCC.v2. `show --published` and `report` set them beside what was
    measured. A second import of the same model, revision and task replaces the first. What `export` wrote is left out.

    Example: leaderboard import mteb-results
    """
    from harness.core.escaping import terminal_line
    from harness.published.mteb_import import read_results, store

    results = results_folder(results)
    read = read_results(paths)
    for line in read.left_out:
        typer.echo(terminal_line(f"left out: {line}"), err=True)
    for path in store(results, read.results):
        typer.echo(terminal_line(path.as_posix()))

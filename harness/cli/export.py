"""`leaderboard export`: stored results as files of another tool."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import ResultsOption, results_folder


class Format(str, Enum):
    """Whose files to write."""

    mteb = "mteb"


def export(
    out: Annotated[Path, typer.Option(metavar="DIR", show_default=False, help="Folder for the files.")],
    format: Annotated[Format, typer.Option(help="mteb: a folder that its ResultCache reads.")] = Format.mteb,
    results: ResultsOption = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Only this encoder, or those that fit 'a*'. Repeatable."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Only this task, or those that fit 's*'. Repeatable."),
    ] = None,
) -> None:
    """Write what means the same in another tool as its result files, and print the files.

    mteb: DIR/results/MODEL/REVISION/TASK.json, scores divided by 100. STS17 (cosine Spearman and Pearson) and Tatoeba
    (xx -> en: accuracy and weighted F1), on the published data only; stderr says what is left out.
    """
    from harness.core.errors import InputError
    from harness.core.escaping import terminal_line
    from harness.core.files import refuse_way_out, write_atomically
    from harness.published.mteb import mteb_files
    from harness.results.records import ResultStore
    from harness.results.selection import select, stored

    results = results_folder(results)
    chosen, _ = select(stored(ResultStore(results)), encoder=encoder or (), task=task or ())
    exported = mteb_files(chosen)
    for line in exported.left_out:
        typer.echo(terminal_line(f"left out: {line}"), err=True)
    if not exported.files:
        raise InputError(f"{results}: nothing in there means the same in {format.value}; run sts17 or tatoeba")
    for name, content in exported.files.items():
        path = refuse_way_out(out / name, out)
        write_atomically(path, content)
        typer.echo(terminal_line(path.as_posix()))

"""The options by which commands take data sets of the user's own, the same for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.data import DataDir

if TYPE_CHECKING:
    from harness.data.own import Kind, OwnSet


def _of_sets(
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE[,FILE]",
            show_default=False,
            help="Your sentence pairs: NAME.de-tr.tsv (.csv, .jsonl, .tmx), or two aligned files NAME.de,NAME.tr. "
            "Repeatable.",
        ),
    ] = None,
    scored: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Your scored pairs: NAME.de-tr.tsv with sentence, sentence, score (.csv, .jsonl). Repeatable.",
        ),
    ] = None,
    beir: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="Your retrieval set in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/. Repeatable.",
        ),
    ] = None,
    sets: Annotated[
        list[Path] | None,
        typer.Option(metavar="TOML", show_default=False, help="A file that lists your sets. Repeatable."),
    ] = None,
    src_lang: Annotated[
        str | None,
        typer.Option(metavar="CODE", show_default=False, help="Language of first sides, where no name tells it."),
    ] = None,
    trg_lang: Annotated[
        str | None,
        typer.Option(metavar="CODE", show_default=False, help="Language of second sides, where no name tells it."),
    ] = None,
    set_name: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Name of your set. Default: its file's.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B[,SCORE]", show_default=False, help="Names of the columns of .csv and .jsonl files."),
    ] = None,
    split: Annotated[str, typer.Option(metavar="NAME", help="Of --beir: the file in qrels/.")] = "test",
    keep_own_id: Annotated[
        bool, typer.Option("--keep-own-id", help="Of --beir: a document with the query's own id may be its answer.")
    ] = False,
) -> DataDir | None:
    """The given sets as a data directory; None if there are none. Raises InputError as `harness.data.own.open_set`."""
    from harness.core.errors import InputError
    from harness.data.own import Options, check_set_name, has_named_columns, open_set, own_data
    from harness.data.set_files import read_sets

    named: list[tuple[Kind, str]] = [
        *(("pairs", location) for location in pairs or ()),
        *(("scored", location) for location in scored or ()),
        *(("retrieval", location) for location in beir or ()),
    ]
    given = [name for name, locations in (("pairs", pairs), ("scored", scored), ("beir", beir)) if locations]
    if (src_lang is None) != (trg_lang is None):
        raise InputError("give both --src-lang and --trg-lang, or none of them")
    for option, is_given, kinds in (
        ("--src-lang", src_lang, ("--pairs", "--scored", "--beir")),
        ("--set-name", set_name is not None, ("--pairs", "--scored", "--beir")),
        ("--columns", columns, ("--pairs", "--scored")),
        ("--split", split != "test", ("--beir",)),
        ("--keep-own-id", keep_own_id, ("--beir",)),
    ):
        if is_given and not any(f"--{name}" in kinds for name in given):
            raise InputError(f"{option} goes with {' or '.join(kinds)}; give one, or leave {option} out")
    if set_name is not None:
        check_set_name(set_name)
    if set_name is not None and len(named) != 1:
        raise InputError(f"--set-name names one set, but {len(named)} are given; list them in a file (--sets)")
    options = Options(
        name=set_name or "",
        languages=(src_lang, trg_lang) if src_lang and trg_lang else (),
        columns=tuple(columns.split(",")) if columns else (),
        split=split,
        keep_own_id=keep_own_id,
    )
    # Of several sets, only some may be files with columns; of none of them, --columns is a mistake that is told.
    with_columns = [has_named_columns(location) for _, location in named]
    own: list[OwnSet] = [
        open_set(kind, location, options if has_columns or not any(with_columns) else replace(options, columns=()))
        for (kind, location), has_columns in zip(named, with_columns, strict=True)
    ]
    own += [each for file in sets or () for each in read_sets(file)]
    return own_data(own) if own else None


def takes_own_sets(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options of own sets; it gets them as `own`, a data directory or None."""
    options = inspect.signature(_of_sets, eval_str=True).parameters
    given = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [*(p for p in given if p.name != "own"), *options.values()]

    @wraps(command)
    def with_options(**arguments: Any) -> Any:
        chosen = {name: arguments.pop(name) for name in options}
        return command(**arguments, own=_of_sets(**chosen))

    # What Typer reads.
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options

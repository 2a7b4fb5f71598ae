"""Options that several commands share."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import say
from harness.core.files import user_path
from harness.report.render import FORMATS, TABLE_FORMATS

_RESULTS = "leaderboard-results"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
RESULTS_DEFAULT = f"$HARNESS_RESULTS or {_RESULTS}"
"""In help texts: what `results_folder` takes where none is given."""


def results_folder(given: Path | None) -> Path:
    """The results folder of any command: the one given, else `$HARNESS_RESULTS`, else `leaderboard-results`.

    Where none was given, stderr says which it is.
    """
    if given is not None:
        return given
    folder = user_path(os.environ.get("HARNESS_RESULTS") or _RESULTS)
    say(f"results folder: {folder}")
    return folder


def results_folders(given: Sequence[Path] | None) -> list[Path]:
    """The results folders that are joined: those given, else the one of `results_folder`."""
    return list(given) if given else [results_folder(None)]


def size_in_bytes(text: str | None) -> float | None:
    """A size such as `500MB`. Raises BadParameter for what is none."""
    if text is None:
        return None
    size = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]{0,3})", text)
    if size is None or size[2].upper() not in _UNITS:
        raise typer.BadParameter(f"{text!r} is no size; give one such as 500MB or 1.5GB.")
    return float(size[1]) * _UNITS[size[2].upper()]


def _set_cache(cache_dir: Path | None) -> Path | None:
    """Make it the cache folder of this process: what an encoder fetches goes there too, without being told.

    Raises:
        InputError: there can be no such folder.
    """
    if cache_dir is None:
        return None
    from harness.encoders.cache import cache_folder

    folder = cache_folder(cache_dir)  # `~` expanded, for the option is the variable too
    os.environ["HARNESS_CACHE"] = str(folder)
    return folder


def _use_threads(context: typer.Context, threads: int | None) -> int | None:
    """Let the command have this number of threads, to its end: what encodes asks `n_threads`, without being told."""
    if threads is not None:
        from harness.core.threads import using_threads

        context.with_resource(using_threads(threads))
    return threads


def format_option(entries: str, formats: Sequence[str] = FORMATS) -> Any:
    """`--format`, one of these names. `entries`: what a format that prints no tables prints (`an entry a number`)."""

    def check(name: str) -> str:
        if name not in formats:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, formats))}.")
        return name

    long = [name for name in formats if name not in TABLE_FORMATS]
    text = f"{', '.join(TABLE_FORMATS)}: tables; {', '.join(long)}: {entries}."
    return typer.Option("--format", metavar=f"<{'|'.join(formats)}>", callback=check, help=text)


def filter_option(name: str) -> Any:
    """An option of this name that chooses among what is stored; repeatable."""
    text = f"Only this {name}, or those that fit a pattern such as 'a*'. Repeatable."
    return typer.Option(f"--{name}", metavar="NAME", show_default=False, help=text)


class Suite(str, Enum):
    """Which data to measure on."""

    paper = "paper"
    sample = "sample"


DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", envvar="HARNESS_DATA", show_default=False, help="Folder with the data sets."
    ),
]
CacheDirOption = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        metavar="DIR",
        envvar="HARNESS_CACHE",
        callback=_set_cache,
        show_default="user cache",
        help="Folder for vectors and models.",
    ),
]
ResultsOption = Annotated[
    Path | None,
    typer.Option("--results", metavar="DIR", show_default=RESULTS_DEFAULT, help="Folder with the result records."),
]
ResultsFoldersOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        metavar="DIR",
        show_default=RESULTS_DEFAULT,
        help="Folder with the result records. Repeatable: they are joined, equal names become FOLDER/NAME.",
    ),
]
EncoderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        metavar="SPEC",
        show_default=False,
        help="Encoder: an alias, or KIND:LOCATION?option=value. Repeatable.",
    ),
]
TaskOption = Annotated[
    list[str] | None, typer.Option("--task", metavar="NAME", show_default=False, help="Task. Repeatable.")
]
SubsetOption = Annotated[
    list[str] | None,
    typer.Option("--subset", metavar="NAME", show_default=False, help="Subset, language or group. Repeatable."),
]
LanguageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--language",
        metavar="CODE",
        show_default=False,
        help="Only sets on the languages named, and English: ISO 639 codes. Repeatable.",
    ),
]
OneEncoderOption = Annotated[
    str, typer.Option("--encoder", metavar="SPEC", show_default=False, help="An alias, or KIND:LOCATION?option=value.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        show_default=False,
        help="Device of encoders that have one: cpu, cuda, cuda:1, mps.",
    ),
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size", metavar="N", min=1, show_default=False, help="Sentences a batch, for encoders that have it."
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        callback=_use_threads,
        show_default="all cores",
        help="Threads for encoding on a CPU, and for BLAS, OpenMP and PyTorch.",
    ),
]
SuiteOption = Annotated[
    Suite | None,
    typer.Option(
        "--suite",
        show_default=False,
        help="paper: the data directory; sample: the bundled sample. Default: what is there.",
    ),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Measure again what is stored.")]
ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--replace", help="Remove all stored results of an encoder's name that are of other weights or options."
    ),
]
CachedOption = Annotated[
    bool,
    typer.Option("--cached", help="Use cached vectors, and encode only a random sample of those again."),
]

"""What the commands that train have in common: their options, and the command line that the model card shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

_PLACES = {"out", "data_dir", "cache_dir", "cpu", "fresh"}  # and machines: not in the model card


class PrecisionChoice(str, Enum):
    """Of the matrix products."""

    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


OutOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", show_default=False, help="Folder to write. Default: models/NAME in the cache folder."),
]
KeepLayersOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, show_default=False, help="Use a transformer's lowest N layers only.")
]
FreezeLayersOption = Annotated[
    int, typer.Option(metavar="N", min=0, help="Do not train a transformer's lowest N layers and its embeddings.")
]
PromptOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        show_default="the start's own",
        help="What every sentence begins with (`query: ` for e5), stored with the model.",
    ),
]
PrecisionOption = Annotated[PrecisionChoice, typer.Option(help="Mixed precision; weights are fp32.")]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, help="Of dropout, batches and new weights.")]
CpuOption = Annotated[bool, typer.Option("--cpu", help="Do not use a GPU that is there.")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Begin anew, and replace a model that was trained before.")]


def given_command(context: typer.Context, name: str, show: Callable[[str, Any], str]) -> str:
    """The command that was given, as one can repeat it elsewhere: without options that name places or machines.

    `show` writes a value, given the name of its parameter, without the place of a file.
    """
    words = ["leaderboard", name]
    for parameter in context.command.params:
        key = parameter.name or ""
        source = context.get_parameter_source(key)
        if source is None or source.name != "COMMANDLINE" or key in _PLACES:
            continue
        value = context.params[key]
        for one in value if isinstance(value, list | tuple) else [value]:
            if parameter.param_type_name == "option":
                words.append(parameter.opts[0])
            if not isinstance(one, bool):
                words.append(one.value if isinstance(one, Enum) else show(key, one))
    return shlex.join(words)

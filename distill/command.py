"""`leaderboard distill`: make a multilingual student from a teacher and parallel sentences."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baselines.training_options import (
    CpuOption,
    FreezeLayersOption,
    FreshOption,
    KeepLayersOption,
    OutOption,
    PrecisionChoice,
    PrecisionOption,
    PromptOption,
    SeedOption,
    given_command,
)
from harness.cli.options import CacheDirOption, DataDirOption, results_folder

if TYPE_CHECKING:
    from distill.training import Recipe

app = typer.Typer()

_SPECS = {"teacher", "init"}


class TeacherType(str, Enum):
    """Of stored vectors."""

    float16 = "float16"
    float32 = "float32"


@app.callback(invoke_without_command=True)
def distill(
    context: typer.Context,
    teacher: Annotated[
        str | None,
        typer.Option(metavar="SPEC", show_default=False, help="Encoder whose vectors the student is to have."),
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(
            metavar="STUDENT",
            show_default=False,
            help="What it begins as. A transformer: folder, hub id or alias. A new static student: static:unigram-N, "
            "static:bpe-N, static:pruned-N (N tokens). A folder with a static student is trained on.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Of the student. Default: STUDENT-distilled.")
    ] = None,
    out: OutOption = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Parallel sentences: NAME.en-de.tsv (.tmx, .txt.zip; also .gz), or two aligned files NAME.en,NAME.de. "
            "Repeatable. Default: parallel/ of the data directory.",
        ),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Corpus of the data directory. Repeatable."),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(metavar="LANG", show_default=False, help="Target language in the data directory. Repeatable."),
    ] = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    dim: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default="the teacher's",
            help="Length of the student's vectors; the teacher's are reduced to their principal axes.",
        ),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            show_default=False,
            help="A new static student begins with this multilingual encoder's vectors of its pieces.",
        ),
    ] = None,
    tokenizer: Annotated[
        str, typer.Option(metavar="MODEL", help="Whose vocabulary static:pruned-N reduces: folder, hub id or alias.")
    ] = "FacebookAI/xlm-roberta-base",
    keep_layers: KeepLayersOption = None,
    freeze_layers: FreezeLayersOption = 0,
    vocabulary: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default=False, help="Keep the N tokens that the pairs use most."),
    ] = None,
    fit_projection: Annotated[
        bool,
        typer.Option("--fit-projection", help="A transformer gets a linear layer that is fitted before training."),
    ] = False,
    prompt: PromptOption = None,
    loss: Annotated[
        str, typer.Option(metavar="LOSS", help="mse, cosine, ranking, or a sum: cosine+0.2*ranking.")
    ] = "mse",
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default="64; static 2048", help="Pairs a step.")
    ] = None,
    accumulate: Annotated[
        int, typer.Option(metavar="N", min=1, help="Compute a batch in N parts, one after the other.")
    ] = 1,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="X", min=0, show_default="2e-5; static 0.02", help="After the warm-up.")
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, show_default="10000; static 100", help="Steps of warm-up, at most a tenth of all."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default="20; static 3", help="Passes over as many pairs as there are."),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=False, help="Steps at most.")
    ] = None,
    eval_steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default="about 20 times, in under 5 % of the time",
            help="Development scores and a checkpoint every N steps.",
        ),
    ] = None,
    best_by: Annotated[
        str | None,
        typer.Option(
            metavar="SCORE",
            show_default="the MSE",
            help="Development score by which the best step is chosen: mse, mse_unit, accuracy_en_xx, accuracy_xx_en, "
            "sts_same, sts_cross.",
        ),
    ] = None,
    patience: Annotated[
        int, typer.Option(metavar="N", min=1, help="Stop after N evaluations without a better development score.")
    ] = 10,
    temperature: Annotated[
        float, typer.Option(metavar="X", min=0, help="A corpus's share in a batch: its size to the power of X.")
    ] = 0.0,
    max_repeats: Annotated[
        int, typer.Option(metavar="N", min=1, help="A pair of a small corpus is seen at most N times an epoch.")
    ] = 5,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=X", show_default=False, help="Factor on a corpus's share (all its languages). Repeatable."
        ),
    ] = None,
    matryoshka: Annotated[
        str, typer.Option(metavar="N,N,...", show_default=False, help="Train these first dimensions, too.")
    ] = "",
    max_length: Annotated[
        int, typer.Option(metavar="N", help="Tokens after which a transformer cuts a sentence.")
    ] = 128,
    teacher_dtype: Annotated[
        TeacherType, typer.Option(help="As what the teacher's vectors are stored.")
    ] = TeacherType.float16,
    dropout: Annotated[
        float | None,
        typer.Option(
            metavar="X", min=0, max=1, show_default="the start's own", help="Of a transformer, while it is trained."
        ),
    ] = None,
    precision: PrecisionOption = PrecisionChoice.fp32,
    seed: SeedOption = 42,
    cpu: CpuOption = False,
    fresh: FreshOption = False,
) -> None:
    """Train a multilingual student to have a teacher's vectors, on parallel sentences (knowledge distillation).

    Writes a sentence-transformers model with a report. Killed at any point and run again, it goes on from its last
    checkpoint. Pairs with a sentence of an evaluation set of the data directory are left out. On several GPUs:
    accelerate launch $(which leaderboard) distill ...
    """
    if context.invoked_subcommand is not None:
        return
    from harness.errors import InputError
    from harness.names import check_name

    if teacher is None or student is None:
        raise InputError("give --teacher and --student; `leaderboard distill --help` says which there are")
    if "LOCAL_RANK" not in os.environ:  # without a launcher, the library would split each batch over all GPUs
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    from dataclasses import replace

    from distill.distillation import distill
    from distill.progress import watch
    from distill.start import Start
    from distill.training import STATIC, Recipe
    from harness.cache import default_cache_dir

    start = Start(student, dim, init, tokenizer, keep_layers, freeze_layers, vocabulary, fit_projection, prompt)
    given: dict[str, Any] = {
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "warm_up": warm_up,
        "epochs": epochs,
    }
    recipe: Recipe = replace(
        STATIC if start.is_static else Recipe(),
        loss=loss,
        accumulate=accumulate,
        max_steps=max_steps,
        eval_steps=eval_steps,
        best_by=best_by,
        patience=patience,
        temperature=temperature,
        max_repeats=max_repeats,
        weights=tuple(map(_weight, weight or [])),
        matryoshka=_numbers(matryoshka),
        max_length=max_length,
        teacher_dtype=teacher_dtype.value,
        dropout=dropout,
        precision=precision.value,
        seed=seed,
        **{key: value for key, value in given.items() if value is not None},
    )
    name = check_name(name or f"{Path(student).name.replace(':', '-')}-distilled", "model")
    folder = (out or default_cache_dir() / "models" / name).expanduser().absolute()
    with watch() as progress:
        distill(
            teacher,
            start,
            folder,
            pairs=pairs or [],
            corpora=corpus or [],
            languages=language or [],
            data_dir=data_dir,
            recipe=recipe,
            on_cpu=cpu,
            fresh=fresh,
            command=given_command(context, "distill", _shown),
            progress=progress,
        )
    if os.environ.get("RANK", "0") == "0":
        typer.echo(folder)


@app.command()
def compact(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A student.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
) -> None:
    """Write a student in a quarter of its size: one byte a number, a short tokenizer file.

    `static:DIR` and sentence-transformers load a static one, `compact:DIR` a transformer. The vectors are those of the
    student to about 1e-3 in cosine.
    """
    from distill.compact import save_compact

    typer.echo(f"{save_compact(folder, out) / 2**20:.2f} MiB", err=True)
    typer.echo(out)


@app.command()
def interpolate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A transformer student.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    start: Annotated[
        str,
        typer.Option(metavar="MODEL", help="What it was trained from: folder, hub id or alias.", show_default=False),
    ],
    share: Annotated[float, typer.Option(metavar="X", help="0 is the start, 1 the student.")] = 0.5,
) -> None:
    """Write the student that is part of the way back to its start: it forgets less, and has learnt a little less.

    The weights are (1 - share) * start + share * student (Wortsman et al. 2022).
    """
    from distill.interpolate import interpolate

    interpolate(folder, start, share, out)
    typer.echo(out)


@app.command()
def ablate(
    grid: Annotated[str, typer.Argument(metavar="GRID", help="A TOML file, or the one that comes with this: paper.")],
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default="distillation/ of the results folder", help="Folder to write."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", show_default=False, help="Table of the grid. Repeatable.")
    ] = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    cpu: CpuOption = False,
) -> None:
    """Compare distillations that differ in data, size, languages or loss: a page with tables and plots.

    distill/grid.py says what a grid looks like. Killed and run again, it does those that are not done yet.
    """
    from harness.errors import InputError

    if data_dir is None:
        raise InputError("distill ablate needs corpora and evaluation sets: give --data-dir, or set HARNESS_DATA")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    from distill.ablate import ablate
    from distill.ablation_page import PAGE_FILE
    from distill.progress import watch

    folder = results or results_folder(None) / "distillation"
    with watch() as progress:
        ablate(grid, folder, data_dir=data_dir, only=only or [], on_cpu=cpu, progress=progress)
    typer.echo(folder / PAGE_FILE)


def _weight(text: str) -> tuple[str, float]:
    from harness.errors import InputError

    name, _, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    if not name or not 0 <= value < float("inf"):
        raise InputError(f"--weight {text!r}: expected NAME=X with a number of at least 0, as in multi30k=2")
    return name, value


def _numbers(text: str) -> tuple[int, ...]:
    from harness.errors import InputError

    try:
        return tuple(int(number) for number in text.split(",") if text)
    except ValueError:
        raise InputError(f"--matryoshka {text!r}: expected whole numbers as in 64,128") from None


def _shown(key: str, value: Any) -> str:
    """A value as the model card has it: without places, files by their names alone."""
    from harness.spec import parse_spec

    if key in _SPECS:
        return str(parse_spec(value))
    if key == "pairs":
        return ",".join(Path(part).name for part in value.split(","))
    return Path(str(value)).name if Path(str(value)).is_dir() else str(value)

"""`leaderboard distill`: make a multilingual student from a teacher and parallel sentences."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from baselines.training.train_baseline import (
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
    given_fields,
)
from harness.cli.options import CacheDirOption, DataDirOption, results_folder
from harness.core.files import user_path

app = typer.Typer()

_SPECS = {"teacher", "init"}
_TEACHER_HELP = "Encoder whose vectors the student is to have. Several are put side by side: repeat the option."
_STUDENT_HELP = (
    "What it begins as. A transformer: folder, hub id or alias. A new static student: static:unigram-N, static:bpe-N, "
    "static:pruned-N (N tokens). A folder with a static student is trained on."
)
_PAIRS_HELP = (
    "Parallel sentences: NAME.en-de.tsv (.tmx, .txt.zip; also .gz), or two aligned files NAME.en,NAME.de. Repeatable. "
    "Default: parallel/ of the data directory."
)
_DIM_HELP = "Length of the student's vectors; the teacher's are reduced to their principal axes."
_INIT_HELP = "A new static student begins with this multilingual encoder's vectors of its pieces. Repeatable."
_DROPOUT_HELP = "Of a transformer, while it is trained."
_EVAL_DEFAULT = "about 20 times, in under 5 % of the time"
_EVAL_HELP = "Development scores and a checkpoint every N steps."
_BEST_BY_HELP = (
    "Development score by which the best step is chosen: mse, mse_unit, accuracy_en_xx, accuracy_xx_en, sts_same, "
    "sts_cross."
)


class TeacherType(str, Enum):
    """The number format of stored vectors."""

    float16 = "float16"
    float32 = "float32"


class Bits(str, Enum):
    """The number format of a compact student."""

    int4 = "int4"
    int8 = "int8"
    float16 = "float16"


@app.callback(invoke_without_command=True)
def distill(
    context: typer.Context,
    teacher: Annotated[list[str] | None, Option(metavar="SPEC", help=_TEACHER_HELP)] = None,
    student: Annotated[str | None, Option(metavar="STUDENT", help=_STUDENT_HELP)] = None,
    name: Annotated[str | None, Option(metavar="NAME", help="Of the student. Default: STUDENT-distilled.")] = None,
    out: OutOption = None,
    pairs: Annotated[list[str] | None, Option(metavar="FILE", help=_PAIRS_HELP)] = None,
    corpus: Annotated[
        list[str] | None, Option(metavar="NAME", help="Corpus of the data directory. Repeatable.")
    ] = None,
    language: Annotated[
        list[str] | None, Option(metavar="LANG", help="Target language in the data directory. Repeatable.")
    ] = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    dim: Annotated[int | None, Option(metavar="N", min=1, show_default="the teacher's", help=_DIM_HELP)] = None,
    init: Annotated[list[str] | None, Option(metavar="SPEC", help=_INIT_HELP)] = None,
    tokenizer: Annotated[
        str, Option(metavar="MODEL", help="Whose vocabulary static:pruned-N reduces: folder, hub id or alias.")
    ] = "FacebookAI/xlm-roberta-base",
    unseen_pieces: Annotated[
        int,
        Option(metavar="N", min=0, help="static:pruned-N gets N more pieces, which the pairs lack; takes two --init."),
    ] = 0,
    keep_layers: KeepLayersOption = None,
    freeze_layers: FreezeLayersOption = 0,
    vocabulary: Annotated[
        int | None, Option(metavar="N", min=1, help="Keep the N tokens that the pairs use most.")
    ] = None,
    fit_projection: Annotated[
        bool, Option("--fit-projection", help="A transformer gets a linear layer that is fitted before training.")
    ] = False,
    prompt: PromptOption = None,
    loss: Annotated[str, Option(metavar="LOSS", help="mse, cosine, ranking, or a sum: cosine+0.2*ranking.")] = "mse",
    batch_size: Annotated[
        int | None, Option(metavar="N", min=1, show_default="64; static 2048", help="Pairs a step.")
    ] = None,
    accumulate: Annotated[int, Option(metavar="N", min=1, help="Compute a batch in N parts, one after the other.")] = 1,
    learning_rate: Annotated[
        float | None, Option(metavar="X", min=0, show_default="2e-5; static 0.02", help="After the warm-up.")
    ] = None,
    warm_up: Annotated[
        int | None,
        Option(metavar="N", min=0, show_default="10000; static 100", help="Steps of warm-up, at most a tenth of all."),
    ] = None,
    epochs: Annotated[
        int | None,
        Option(metavar="N", min=1, show_default="20; static 3", help="Passes over as many pairs as there are."),
    ] = None,
    max_steps: Annotated[int | None, Option(metavar="N", min=1, help="Steps at most.")] = None,
    eval_steps: Annotated[int | None, Option(metavar="N", min=1, show_default=_EVAL_DEFAULT, help=_EVAL_HELP)] = None,
    best_by: Annotated[str | None, Option(metavar="SCORE", show_default="the MSE", help=_BEST_BY_HELP)] = None,
    patience: Annotated[
        int, Option(metavar="N", min=1, help="Stop after N evaluations without a better development score.")
    ] = 10,
    temperature: Annotated[
        float, Option(metavar="X", min=0, help="A corpus's share in a batch: its size to the power of X.")
    ] = 0.0,
    max_repeats: Annotated[
        int, Option(metavar="N", min=1, help="A pair of a small corpus is seen at most N times an epoch.")
    ] = 5,
    weight: Annotated[
        list[str] | None,
        Option(metavar="NAME=X", help="Factor on a corpus's share (all its languages). Repeatable."),
    ] = None,
    pivots: Annotated[
        float,
        Option(metavar="X", min=0, max=1, help="Share of pairs xx-yy, of two translations of one source sentence."),
    ] = 0.0,
    matryoshka: Annotated[
        str, Option(metavar="N,N,...", show_default=False, help="Train these first dimensions, too.")
    ] = "",
    max_length: Annotated[int, Option(metavar="N", help="Tokens after which a transformer cuts a sentence.")] = 128,
    teacher_dtype: Annotated[
        TeacherType, Option(help="As what the teacher's vectors are stored.")
    ] = TeacherType.float16,
    dropout: Annotated[
        float | None, Option(metavar="X", min=0, max=1, show_default="the start's own", help=_DROPOUT_HELP)
    ] = None,
    precision: PrecisionOption = PrecisionChoice.fp32,
    seed: SeedOption = 42,
    cpu: CpuOption = False,
    fresh: FreshOption = False,
) -> None:
    """Train a multilingual student. It learns to have a teacher's vectors, on parallel sentences (knowledge
    distillation).

    Writes a sentence-transformers model with a report. Killed at any point and run again, it goes on from its last
    checkpoint. Pairs with a sentence of an evaluation set of the data directory are left out. On several GPUs:
    accelerate launch $(which leaderboard) distill ...

    Example: leaderboard distill --teacher minilm --student static:unigram-30000 --dim 256 --out small
    """
    if context.invoked_subcommand is not None:
        return
    from harness.core.errors import InputError
    from harness.core.names import check_name

    if not teacher or student is None:
        raise InputError("give --teacher and --student; `leaderboard distill --help` says which there are")
    if "LOCAL_RANK" not in os.environ:  # without a launcher, the library would split each batch over all GPUs
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    from dataclasses import replace

    from distill.distillation import Options, distill
    from distill.recipe import STATIC, Recipe
    from distill.report import watch
    from distill.start import Start
    from harness.encoders.cache import default_cache_dir

    # Other options are fields of `Start` and `Recipe`, and named as these.
    start = Start(**given_fields(context, Start) | {"init": tuple(init or ())})
    values = given_fields(context, Recipe)
    values |= {"weights": tuple(map(_weight, weight or [])), "matryoshka": _numbers(matryoshka)}
    recipe = replace(STATIC if start.is_static else Recipe(), **values)
    name = check_name(name or f"{Path(student).name.replace(':', '-')}-distilled", "model")
    folder = user_path(out or default_cache_dir() / "models" / name).absolute()
    options = Options(
        pairs=pairs or [],
        corpora=corpus or [],
        languages=language or [],
        data_dir=data_dir,
        recipe=recipe,
        on_cpu=cpu,
        fresh=fresh,
        command=given_command(context, "distill", _shown),
    )
    with watch() as progress:
        distill(teacher, start, folder, options, progress)
    if os.environ.get("RANK", "0") == "0":
        typer.echo(folder)


@app.command()
def compact(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A student.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    bits: Annotated[Bits, Option(help="Of a number; int4 is for static students.")] = Bits.int8,
) -> None:
    """Make a student smaller. A quarter of its size (int4: an eighth), with a short tokenizer file.

    `static:DIR` loads a static one, sentence-transformers too unless it is int4, `compact:DIR` a transformer. In int8
    the vectors are those of the student to about 1e-3 in cosine. A student in int4 is written in int8, too.

    Example: leaderboard distill compact small small-int8
    """
    from distill.compact import save_compact

    typer.echo(f"{save_compact(folder, out, bits=bits.value) / 2**20:.2f} MiB", err=True)
    typer.echo(out)


@app.command()
def interpolate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A transformer student.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    start: Annotated[
        str,
        Option(metavar="MODEL", help="What it was trained from: folder, hub id or alias.", show_default=False),
    ],
    share: Annotated[float, Option(metavar="X", help="0 is the start, 1 the student.")] = 0.5,
) -> None:
    """Move a student back towards its start. It forgets less, and has learnt a little less.

    The weights are (1 - share) * start + share * student (Wortsman et al. 2022).

    Example: leaderboard distill interpolate xlmr-de-tr half-way --start FacebookAI/xlm-roberta-base
    """
    from distill.students import interpolate

    interpolate(folder, start, share, out)
    typer.echo(out)


@app.command()
def ablate(
    grid: Annotated[str, typer.Argument(metavar="GRID", help="A TOML file, or the one that comes with this: paper.")],
    results: Annotated[
        Path | None,
        Option(metavar="DIR", show_default="distillation/ of the results folder", help="Folder to write."),
    ] = None,
    only: Annotated[list[str] | None, Option(metavar="NAME", help="Table of the grid. Repeatable.")] = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    cpu: CpuOption = False,
) -> None:
    """Compare ways to distil. They differ in data, size, languages or loss; the outcome is a page with tables and
    plots.

    distill/experiments/grid.py says what a grid looks like. Killed and run again, it does those that are not done yet.

    Example: leaderboard distill ablate paper
    """
    from harness.core.errors import InputError

    if data_dir is None:
        raise InputError("distill ablate needs corpora and evaluation sets: give --data-dir, or set HARNESS_DATA")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    from distill.experiments.ablate import ablate
    from distill.experiments.ablation_page import PAGE_FILE
    from distill.report import watch

    folder = results or results_folder(None) / "distillation"
    with watch() as progress:
        ablate(grid, folder, data_dir=data_dir, only=only or [], on_cpu=cpu, progress=progress)
    typer.echo(folder / PAGE_FILE)


def _weight(text: str) -> tuple[str, float]:
    from harness.core.errors import InputError

    name, _, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    if not name or not 0 <= value < float("inf"):
        raise InputError(f"--weight {text!r}: expected NAME=X with a number of at least 0, as in multi30k=2")
    return name, value


def _numbers(text: str) -> tuple[int, ...]:
    from harness.core.errors import InputError

    try:
        return tuple(int(number) for number in text.split(",") if text)
    except ValueError:
        raise InputError(f"--matryoshka {text!r}: expected whole numbers as in 64,128") from None


def _shown(key: str, value: Any) -> str:
    """A value as the model card shows it: files without their folders."""
    from harness.encoders.spec import parse_spec

    if key in _SPECS:
        return str(parse_spec(value))
    if key == "pairs":
        return ",".join(Path(part).name for part in value.split(","))
    return Path(str(value)).name if Path(str(value)).is_dir() else str(value)

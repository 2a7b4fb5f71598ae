"""`leaderboard train-baseline`: train an NLI-tuned baseline, SBERT's recipe on any transformer."""

from __future__ import annotations

import importlib.util
import os
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

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
from harness.cli import say
from harness.cli.options import CacheDirOption, DataDirOption


class StageChoice(str, Enum):
    """The stages of the recipe."""

    nli = "nli"
    sts = "sts"


_MODULES = ("sentence_transformers", "accelerate", "datasets")


def train_baseline(
    context: typer.Context,
    start: Annotated[
        str,
        typer.Argument(
            help="What to begin with: a folder, a hub id (xlm-roberta-base), or the alias of such an encoder. A bare "
            "transformer gets mean pooling.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Of the model. Default: START-nli-stsb.")
    ] = None,
    nli: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="NLI pairs: AllNLI, SNLI, MultiNLI or KorNLI as they are published. Repeatable. Default: allnli/ (for "
            "ko kornli/) of the data directory.",
        ),
    ] = None,
    sts: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="STS pairs to train on: the STS Benchmark, STSb Multi MT or KorSTS as they are published. "
            "Repeatable. Default: stsb/ (for ko korsts/) of the data directory.",
        ),
    ] = None,
    sts_dev: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", show_default=False, help="STS pairs to choose the checkpoint on. Repeatable."),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LANG", show_default="en", help="Language of the pairs in the data directory. Repeatable."
        ),
    ] = None,
    skip: Annotated[
        StageChoice | None,
        typer.Option(show_default=False, help="Leave a stage out: nli (softmax classifier) or sts (regression)."),
    ] = None,
    out: OutOption = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    batch_size: Annotated[int, typer.Option(metavar="N", min=1, help="Pairs a step.")] = 16,
    learning_rate: Annotated[float, typer.Option(metavar="X", min=0, help="After 10 % of warm-up.")] = 2e-5,
    nli_epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Epochs of stage nli.")] = 1,
    sts_epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Epochs of stage sts.")] = 4,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, show_default=False, help="Steps of a stage at most.")
    ] = None,
    eval_steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Dev score and checkpoint every N steps, and each epoch.")
    ] = 1000,
    max_length: Annotated[int, typer.Option(metavar="N", help="Tokens after which a sentence is cut.")] = 128,
    freeze_layers: FreezeLayersOption = 0,
    keep_layers: KeepLayersOption = None,
    prompt: PromptOption = None,
    precision: PrecisionOption = PrecisionChoice.fp32,
    seed: SeedOption = 42,
    cpu: CpuOption = False,
    fresh: FreshOption = False,
) -> None:
    """Train an NLI-tuned baseline, as SBERT was trained: NLI pairs, then the STS Benchmark.

    Writes a sentence-transformers model for `leaderboard run --encoder sentence-transformers:DIR`. Killed at any point
    and run again, it goes on from its last checkpoint. Rows of the STS Benchmark that are in STS 2017 are left out.
    """
    from harness.errors import InputError, MissingExtraError, unknown_name

    if any(importlib.util.find_spec(module) is None for module in _MODULES):
        raise MissingExtraError("train-baseline", "train")
    from baselines.labelled_pairs import ScoredPairs, joined
    from baselines.model_card import model_card
    from baselines.nli import Recipe, Stage, resolve_start, train
    from baselines.training_data import STSB_LANGUAGES, UsedFile, load_nli, load_sts
    from harness.cache import default_cache_dir
    from harness.data.sources import open_data_dir
    from harness.names import check_name

    # With several GPUs the library would split each batch, and multiply it.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    languages = language or ["en"]
    for chosen in languages:
        if chosen not in STSB_LANGUAGES:
            raise unknown_name("language", chosen, STSB_LANGUAGES)
    if skip is StageChoice.nli and nli:
        raise InputError("--nli and --skip nli contradict each other")
    if skip is StageChoice.sts and sts:
        raise InputError("--sts and --skip sts contradict each other")
    if bool(sts) != bool(sts_dev) and skip is not StageChoice.sts:
        raise InputError("give both --sts and --sts-dev, or neither (then they come from the data directory)")
    what = {None: "nli-stsb", StageChoice.nli: "stsb", StageChoice.sts: "nli"}[skip]
    name = check_name(name or f"{Path(start).name}-{what}", "model")
    data = open_data_dir(data_dir) if data_dir else None

    stages: list[Stage] = []
    used: list[UsedFile] = []
    if skip is not StageChoice.nli:
        nli_pairs, used = load_nli(nli or [], languages, data)
        stages.append(Stage("nli", nli_pairs, nli_epochs))
    if skip is not StageChoice.sts:
        scored, sts_files = load_sts("train", sts or [], languages, data)
        stages.append(Stage("sts", joined(scored.values()), sts_epochs))
        used = used + sts_files
    dev: dict[str, ScoredPairs] = {}
    dev_files: list[UsedFile] = []
    # Stage nli can do without dev pairs: they serve to report its scores.
    if skip is not StageChoice.sts or sts_dev or (data and data.find("stsb/original-en/sts-dev.csv")):
        dev, dev_files = load_sts("dev", sts_dev or [], languages, data)
    for file in (*used, *dev_files):
        say(f"{file.name}: {file.pairs:,} pairs{''.join(f'; {note}' for note in file.notes)}")

    location, own_prompt = resolve_start(start)
    recipe = Recipe(
        batch_size=batch_size,
        learning_rate=learning_rate,
        nli_epochs=nli_epochs,
        sts_epochs=sts_epochs,
        max_steps=max_steps,
        eval_steps=eval_steps,
        max_length=max_length,
        freeze_layers=freeze_layers,
        keep_layers=keep_layers,
        prompt=own_prompt if prompt is None else prompt,
        precision=precision.value,
        seed=seed,
    )
    command = given_command(context, "train-baseline", _shown)
    folder = (out or default_cache_dir() / "models" / name).expanduser().absolute()
    train(
        location,
        recipe,
        stages,
        dev,
        folder,
        settings={
            "stages": [stage.name for stage in stages],
            "train_files": [f"{file.name} {file.sha256}" for file in used],
            "dev_files": [f"{file.name} {file.sha256}" for file in dev_files],
        },
        card=lambda trained: model_card(name, _place_free(start), command, trained, used, dev_files),
        on_cpu=cpu,
        fresh=fresh,
    )
    typer.echo(folder)


def _shown(key: str, value: Any) -> str:
    if key == "start":
        return _place_free(value)
    return value.name if isinstance(value, Path) else str(value)


def _place_free(start: str) -> str:
    """A folder's name alone; a hub id or alias as it is."""
    return Path(start).absolute().name if Path(start).is_dir() else start

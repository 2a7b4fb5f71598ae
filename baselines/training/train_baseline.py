"""`leaderboard train-baseline`: train an NLI-tuned baseline, SBERT's recipe on any transformer.

The options that `leaderboard distill` has too are defined here.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from harness.cli import say
from harness.cli.options import CacheDirOption, DataDirOption
from harness.core.escaping import code, code_block, markdown
from harness.core.files import user_path

if TYPE_CHECKING:
    from baselines.training.nli import Trained
    from baselines.training.training_data import UsedFile

_PLACES = {"out", "data_dir", "cache_dir", "cpu", "fresh"}  # and machines: not in the model card


class PrecisionChoice(str, Enum):
    """The number format of matrix products."""

    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


OutOption = Annotated[
    Path | None,
    Option(metavar="DIR", help="Folder to write. Default: models/NAME in the cache folder."),
]
KeepLayersOption = Annotated[int | None, Option(metavar="N", min=1, help="Use a transformer's lowest N layers only.")]
FreezeLayersOption = Annotated[
    int, Option(metavar="N", min=0, help="Do not train a transformer's lowest N layers and its embeddings.")
]
PromptOption = Annotated[
    str | None,
    Option(
        metavar="TEXT",
        show_default="the start's own",
        help="What every sentence begins with (`query: ` for e5), stored with the model.",
    ),
]
PrecisionOption = Annotated[PrecisionChoice, Option(help="Mixed precision; weights are fp32.")]
SeedOption = Annotated[int, Option(metavar="N", min=0, help="Of dropout, batches and new weights.")]
CpuOption = Annotated[bool, Option("--cpu", help="Do not use a GPU that is there.")]
FreshOption = Annotated[bool, Option("--fresh", help="Begin anew, and replace a model that was trained before.")]


class StageChoice(str, Enum):
    """The stages of the recipe."""

    nli = "nli"
    sts = "sts"


_START_HELP = (
    "What to begin with: a folder, a hub id (xlm-roberta-base), or the alias of such an encoder. A bare transformer "
    "gets mean pooling."
)
_NLI_HELP = (
    "NLI pairs: AllNLI, SNLI, MultiNLI or KorNLI as they are published. Repeatable. Default: allnli/ (for ko kornli/) "
    "of the data directory."
)
_STS_HELP = (
    "STS pairs to train on: the STS Benchmark, STSb Multi MT or KorSTS as they are published. Repeatable. Default: "
    "stsb/ (for ko korsts/) of the data directory."
)
_MODULES = ("sentence_transformers", "accelerate", "datasets")


def train_baseline(
    context: typer.Context,
    start: Annotated[str, typer.Argument(help=_START_HELP)],
    name: Annotated[str | None, Option(metavar="NAME", help="Of the model. Default: START-nli-stsb.")] = None,
    nli: Annotated[list[Path] | None, Option(metavar="FILE", help=_NLI_HELP)] = None,
    sts: Annotated[list[Path] | None, Option(metavar="FILE", help=_STS_HELP)] = None,
    sts_dev: Annotated[
        list[Path] | None, Option(metavar="FILE", help="STS pairs to choose the checkpoint on. Repeatable.")
    ] = None,
    language: Annotated[
        list[str] | None,
        Option(metavar="LANG", show_default="en", help="Language of the pairs in the data directory. Repeatable."),
    ] = None,
    skip: Annotated[
        StageChoice | None, Option(help="Leave a stage out: nli (softmax classifier) or sts (regression).")
    ] = None,
    out: OutOption = None,
    data_dir: DataDirOption = None,
    cache_dir: CacheDirOption = None,
    batch_size: Annotated[int, Option(metavar="N", min=1, help="Pairs a step.")] = 16,
    learning_rate: Annotated[float, Option(metavar="X", min=0, help="After 10 % of warm-up.")] = 2e-5,
    nli_epochs: Annotated[int, Option(metavar="N", min=1, help="Epochs of stage nli.")] = 1,
    sts_epochs: Annotated[int, Option(metavar="N", min=1, help="Epochs of stage sts.")] = 4,
    max_steps: Annotated[int | None, Option(metavar="N", min=1, help="Steps of a stage at most.")] = None,
    eval_steps: Annotated[
        int, Option(metavar="N", min=1, help="Dev score and checkpoint every N steps, and each epoch.")
    ] = 1000,
    max_length: Annotated[int, Option(metavar="N", help="Tokens after which a sentence is cut.")] = 128,
    freeze_layers: FreezeLayersOption = 0,
    keep_layers: KeepLayersOption = None,
    prompt: PromptOption = None,
    precision: PrecisionOption = PrecisionChoice.fp32,
    seed: SeedOption = 42,
    cpu: CpuOption = False,
    fresh: FreshOption = False,
) -> None:
    """Train an NLI-tuned baseline. As SBERT was trained: on NLI pairs, then on the STS Benchmark.

    Writes a sentence-transformers model for `leaderboard run --encoder sentence-transformers:DIR`. Killed at any point
    and run again, it goes on from its last checkpoint. Rows of the STS Benchmark that are in STS 2017 are left out.

    Example: leaderboard train-baseline FacebookAI/xlm-roberta-base --name xlmr-nli-stsb
    """
    from harness.core.errors import InputError, MissingExtraError, unknown_name

    if any(importlib.util.find_spec(module) is None for module in _MODULES):
        raise MissingExtraError("train-baseline", "train")
    from baselines.training.nli import Recipe, Stage, TrainingData, resolve_start, train
    from baselines.training.training_data import STSB_LANGUAGES, ScoredPairs, joined, load_nli, load_sts
    from harness.core.names import check_name
    from harness.data.sources import open_data_dir
    from harness.encoders.cache import default_cache_dir

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
    recipe = Recipe(**{**given_fields(context, Recipe), "prompt": own_prompt if prompt is None else prompt})
    command = given_command(context, "train-baseline", _shown)
    folder = user_path(out or default_cache_dir() / "models" / name).absolute()
    settings = {
        "stages": [stage.name for stage in stages],
        "train_files": [f"{file.name} {file.sha256}" for file in used],
        "dev_files": [f"{file.name} {file.sha256}" for file in dev_files],
    }
    train(
        location,
        recipe,
        TrainingData(stages, dev, settings),
        folder,
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
    """The name of a folder without its place; a hub id or alias as it is."""
    return Path(start).absolute().name if Path(start).is_dir() else start


def given_command(context: typer.Context, name: str, show: Callable[[str, Any], str]) -> str:
    """The command line of this process without options that name places or machines, to be repeated elsewhere.

    `show` writes a value, given the name of its parameter, without the place of a file.
    """
    words = ["leaderboard", name]
    for parameter in context.command.params:
        key = parameter.name or ""
        source = context.get_parameter_source(key)
        if source is None or source.name != "COMMANDLINE" or key in _PLACES:
            continue
        value = context.params[key]
        for item in value if isinstance(value, list | tuple) else [value]:
            if parameter.param_type_name == "option":
                words.append(parameter.opts[0])
            if not isinstance(item, bool):
                words.append(item.value if isinstance(item, Enum) else show(key, item))
    return shlex.join(words)


def given_fields(context: typer.Context, kind: type) -> dict[str, Any]:
    """The options that have the names of fields of the dataclass `kind`, without those that are None."""
    values = {field.name: context.params.get(field.name) for field in fields(kind)}
    return {
        name: value.value if isinstance(value, Enum) else value for name, value in values.items() if value is not None
    }


_STAGES = {
    "nli": "softmax classifier over (u, v, |u - v|) on NLI pairs",
    "sts": "regression of cosine similarity on STS scores; the checkpoint with the best dev score",
}


def model_card(
    name: str, start: str, command: str, trained: Trained, train: Sequence[UsedFile], dev: Sequence[UsedFile]
) -> str:
    """The model card in Markdown, with the hub's metadata at its head. `command` is what made the model."""
    from baselines.training.model_folder import hub_metadata, markdown_table, settings_table
    from harness.core.provenance import versions

    stages = [f"- {stage}: {steps:,} steps, {_STAGES[stage]}" for stage, steps in trained.steps.items()]
    if trained.best_step is not None:
        stages[-1] += f" (of step {trained.best_step:,})"
    scores = [
        [dev_set, f"{before:.2f}", f"{trained.dev_after[dev_set]:.2f}"]
        for dev_set, before in trained.dev_before.items()
    ]
    files = [*(_row(file, "training") for file in train), *(_row(file, "dev") for file in dev)]
    settings = {
        key: str(value)
        for key, value in trained.settings.items()
        if not isinstance(value, dict | list) and value is not None
    }
    parts = [
        hub_metadata(),
        f"# {markdown(name)}",
        f"{code(start)} tuned by the recipe of [Sentence-BERT](https://arxiv.org/abs/1908.10084), with",
        code_block(command),
        "Stages:",
        "\n".join(stages),
        "## Data",
        markdown_table(["file", "used for", "pairs", "licence", "SHA-256", "notes"], files),
        f"The weights that it began with, {code(start)}, have their own licence.",
        "## Dev scores",
        "Spearman's rho x 100 of cosine similarity, without the rows that are in STS 2017. The checkpoint was chosen\n"
        "on the same pairs.",
        markdown_table(["dev set", "before", "after"], scores or [["none", "", ""]]),
        "## Settings",
        settings_table(settings, versions(["sentence_transformers"])),
    ]
    return "\n\n".join(parts) + "\n"


def _row(file: UsedFile, use: str) -> list[str]:
    licence = file.licence or "not known (a file of the user's own)"
    return [file.name, use, f"{file.pairs:,}", licence, file.sha256[:16], "; ".join(file.notes)]

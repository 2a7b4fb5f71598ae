"""The README.md of a trained model: what it is, from which data and settings, with which dev scores."""

from __future__ import annotations

from collections.abc import Sequence

from baselines.nli import Trained
from baselines.training_data import UsedFile
from harness.escaping import code, code_block, markdown
from harness.provenance import versions

_STAGES = {
    "nli": "softmax classifier over (u, v, |u - v|) on NLI pairs",
    "sts": "regression of cosine similarity on STS scores; the checkpoint with the best dev score",
}


def model_card(
    name: str, start: str, command: str, trained: Trained, train: Sequence[UsedFile], dev: Sequence[UsedFile]
) -> str:
    """The model card in Markdown, with the hub's metadata at its head. `command` is what made the model."""
    settings = trained.settings
    stages = [f"{stage}: {steps:,} steps, {_STAGES[stage]}" for stage, steps in trained.steps.items()]
    if trained.best_step is not None:
        stages[-1] += f" (of step {trained.best_step:,})"
    scores = [
        f"| {markdown(dev_set)} | {before:.2f} | {trained.dev_after[dev_set]:.2f} |"
        for dev_set, before in trained.dev_before.items()
    ]
    shown = {key: value for key, value in settings.items() if not isinstance(value, dict | list) and value is not None}
    packages = versions(["sentence_transformers"])
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags: [sentence-transformers, feature-extraction, sentence-similarity]",
        "---",
        "",
        f"# {markdown(name)}",
        "",
        f"{code(start)} tuned by the recipe of [Sentence-BERT](https://arxiv.org/abs/1908.10084), with",
        "",
        code_block(command),
        "",
        "Stages:",
        "",
        *(f"- {stage}" for stage in stages),
        "",
        "## Data",
        "",
        "| file | used for | pairs | licence | SHA-256 | notes |",
        "|---|---|---|---|---|---|",
        *(_row(file, "training") for file in train),
        *(_row(file, "dev") for file in dev),
        "",
        f"The weights that it began with, {code(start)}, have their own licence.",
        "",
        "## Dev scores",
        "",
        "Spearman's rho x 100 of cosine similarity, without the rows that are in STS 2017. The checkpoint was chosen",
        "on the same pairs.",
        "",
        "| dev set | before | after |",
        "|---|---|---|",
        *(scores or ["| none | | |"]),
        "",
        "## Settings",
        "",
        "| setting | value |",
        "|---|---|",
        *(f"| {markdown(key)} | {code(str(value), in_table=True)} |" for key, value in shown.items()),
        *(f"| {markdown(package)} | {markdown(number)} |" for package, number in packages.items()),
    ]
    return "\n".join(lines) + "\n"


def _row(file: UsedFile, use: str) -> str:
    licence = file.licence or "not known (a file of the user's own)"
    cells = (file.name, use, f"{file.pairs:,}", licence, file.sha256[:16], "; ".join(file.notes))
    return f"| {' | '.join(map(markdown, cells))} |"

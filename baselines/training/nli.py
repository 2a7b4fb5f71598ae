"""The NLI-tuned baselines: SBERT's recipe on any transformer, with sentence-transformers' own trainer.

Reimers & Gurevych 2019, "Sentence-BERT" (https://arxiv.org/abs/1908.10084), sections 3 and 4. Stage `nli`: a siamese
network with a softmax classifier over (u, v, |u - v|) on NLI pairs, one epoch. Stage `sts`: regression of the cosine
similarity of u and v on the STS Benchmark's scores (0 to 5, scaled to 0 to 1), four epochs, of which the checkpoint
with the best dev score is taken. AdamW, 10 % linear warm-up, then linearly to zero.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from baselines.adapters.huggingface import Precision, Source, open_model, quiet
from baselines.adapters.sentence_transformer import set_max_length
from baselines.training.model_folder import (
    SETTINGS_FILE,
    TRAINING_FILE,
    Settings,
    as_json,
    check_equal,
    check_folders,
    last_checkpoint,
    new_folder,
    only_training,
    read_if_whole,
    remove_work,
    replace_folder,
    save_model,
)
from baselines.training.training_data import ScoredPairs
from baselines.wheels import E5_SMALL_Q4, MINILM
from harness.cli import say
from harness.core.errors import InputError, one_line
from harness.core.files import write_atomically
from harness.data.nli import NLI_LABELS, NLIPairs
from harness.encoders.registry import encoder_info, encoder_names

_WARM_UP = 0.1
_WEIGHT_DECAY = 0.01
_HIGHEST_SCORE = 5.0
_BEFORE = "before.json"  # dev scores of the start, beside the checkpoints
_REPORTS = 20  # lines of progress a stage
_EVALUATION_BATCH = 64

_FROM_WHEELS = {"minilm": MINILM, "e5-small-q4": E5_SMALL_Q4}

StageName = Literal["nli", "sts"]


@dataclass(frozen=True)
class Recipe:
    """The settings of a training; the defaults are SBERT's.

    Attributes:
        batch_size: pairs a step.
        learning_rate: the highest one, after the warm-up.
        nli_epochs, sts_epochs: passes over the pairs of each stage.
        max_steps: steps of a stage at most.
        eval_steps: steps between dev scores, each with a checkpoint; there is one an epoch at least.
        max_length: tokens after which a sentence is cut, in training and afterwards.
        freeze_layers: number of the lowest layers that keep their weights; unless it is 0, the embeddings do too.
        keep_layers: number of the lowest layers that are used; None: all.
        prompt: what every sentence begins with, in training and afterwards; None: the start's own.
        precision: of the matrix products (autocast); the weights are float32 in any case.
        seed: for dropout, the order of pairs and new weights.
    """

    batch_size: int = 16
    learning_rate: float = 2e-5
    nli_epochs: int = 1
    sts_epochs: int = 4
    max_steps: int | None = None
    eval_steps: int = 1000
    max_length: int = 128
    freeze_layers: int = 0
    keep_layers: int | None = None
    prompt: str | None = None
    precision: Precision = "fp32"
    seed: int = 42


@dataclass(frozen=True)
class Stage:
    """One stage of a training: its pairs and its number of epochs."""

    name: StageName
    pairs: NLIPairs | ScoredPairs
    epochs: int

    def columns(self) -> dict[str, list[Any]]:
        """The pairs as sentence-transformers takes them: two texts, then the label."""
        if isinstance(self.pairs, NLIPairs):
            labels: list[Any] = self.pairs.labels
        else:
            labels = [score / _HIGHEST_SCORE for score in self.pairs.scores]
        return {"sentence1": self.pairs.sentences1, "sentence2": self.pairs.sentences2, "label": labels}


@dataclass(frozen=True)
class TrainingData:
    """What a training reads.

    Attributes:
        stages: in their order.
        dev: sets of pairs by name; the mean of their Spearman values decides which checkpoint is the best.
        settings: what distinguishes these data from others (stages, files); they are part of the training's settings.
    """

    stages: list[Stage]
    dev: Mapping[str, ScoredPairs]
    settings: Settings


def resolve_start(start: str) -> tuple[str, str | None]:
    """The folder or hub id of the model that `start` names, and the prompt that it needs, if that is known.

    `start` is a folder, a hub id, or the alias of an encoder that is a transformer in Hugging Face's formats.

    Raises:
        InputError: the alias of another encoder, or one that cannot be fetched.
    """
    if Path(start).is_dir() or start not in encoder_names():
        return start, None
    info = encoder_info(start)
    prompt = info.options.get("prompt")
    if start in _FROM_WHEELS:
        return str(_FROM_WHEELS[start].fetch()), prompt
    if info.location and info.backend in ("sentence-transformers", "transformers"):
        return info.location, prompt
    raise InputError(f"encoder {start!r} cannot be trained here; give a hub id, a model folder, or an alias of such")


@dataclass(frozen=True)
class Trained:
    """The record of a training, kept as `training.json` in the model folder.

    Attributes:
        settings: all arguments, data files included.
        steps: how many were taken in each stage.
        best_step: the step of stage `sts` whose weights the model has.
        dev_before, dev_after: Spearman's rho x 100 by dev set, of the start and of the model.
    """

    settings: Settings
    steps: dict[str, int]
    best_step: int | None
    dev_before: dict[str, float]
    dev_after: dict[str, float]


def train(
    start: str,
    recipe: Recipe,
    data: TrainingData,
    out: Path,
    *,
    card: Callable[[Trained], str],
    on_cpu: bool = False,
    fresh: bool = False,
) -> Trained:
    """Train a model and write it to the folder `out`, in sentence-transformers' format.

    Checkpoints are kept in `OUT.training` until the model is complete. A training that was killed goes on from the
    last one, if the settings are equal, with the same numbers as if it had not been killed. `fresh` begins anew, and
    replaces a model that was trained here. Any other folder is left alone.

    Args:
        start: a folder or hub id of a sentence-transformers model, or of a bare transformer (which gets mean pooling).
        recipe: how to train.
        data: what to train on.
        out: the folder to write.
        card: makes the model card.
        on_cpu: do not use a GPU that is there.
        fresh: see above.

    Raises:
        InputError: the start cannot be loaded or does not fit the recipe, a stage has fewer pairs than a batch, `out`
            or its checkpoints are those of another training, or not of a training at all, or hold the start, the loss
            is not finite any more, or a folder cannot be written.
    """
    from transformers import set_seed

    work = out.with_name(f"{out.name}.training")
    try:
        with only_training(out):
            check_folders(out, work, [start])
            _check_sizes(data.stages, recipe)
            set_seed(recipe.seed)  # weights that a start lacks are drawn when it is loaded
            model, source = open_model(start, None, lambda source: open_start(source, on_cpu))
            recipe = _prepare(model, recipe)
            all_settings = json.loads(json.dumps({"start": source.identity, **asdict(recipe), **data.settings}))
            if fresh:
                remove_work(work)
            elif out.exists():
                done = _finished(out, all_settings)
                remove_work(work)
                say(f"{out.name}: complete, nothing to do")
                return done
            check_equal(all_settings, read_if_whole(work / SETTINGS_FILE, Settings) or all_settings, work)
            write_atomically(work / SETTINGS_FILE, as_json(all_settings))
            model, trained = _train(model, recipe, data, work, all_settings)
            with new_folder(work / "model", replace=True) as folder:
                save_model(model, folder)
                (folder / "README.md").write_text(card(trained), encoding="utf-8")
                (folder / TRAINING_FILE).write_bytes(as_json(asdict(trained)))
            replace_folder(work / "model", out)
            remove_work(work)
            return trained
    except OSError as error:
        raise InputError(
            f"{error.filename or out}: {error.strerror or one_line(error)}; choose another --out"
        ) from None


def _check_sizes(stages: list[Stage], recipe: Recipe) -> None:
    for stage in stages:
        if len(stage.pairs.sentences1) < recipe.batch_size:
            raise InputError(
                f"stage {stage.name} has {len(stage.pairs.sentences1)} pairs, fewer than a batch of "
                f"{recipe.batch_size}; give more, or a smaller --batch-size"
            )


def _finished(out: Path, settings: Settings) -> Trained:
    """The record of the model in `out`. Raises InputError if it is of another training, or no record."""
    record = read_if_whole(out / TRAINING_FILE, Trained)
    if record is None:
        raise InputError(
            f"{out / TRAINING_FILE} is damaged or of another command; give another --name or --out, or --fresh to "
            "replace the folder"
        )
    check_equal(settings, record.settings, out)
    return record


def _train(model: Any, recipe: Recipe, data: TrainingData, work: Path, settings: Settings) -> tuple[Any, Trained]:
    """The model after all stages, and its record. It goes on after the checkpoints in `work`."""
    from baselines.training.trainer import freeze_layers

    before = read_if_whole(work / _BEFORE, dict[str, float])
    if before is None:
        before = dev_scores(model, data.dev)
        write_atomically(work / _BEFORE, as_json(before))
    say(f"dev before: {_in_words(before)}")
    steps: dict[str, int] = {}
    best = None
    for stage in data.stages:
        steps[stage.name], best = _train_stage(model, stage, recipe, data.dev, work / stage.name)
        checkpoint = work / stage.name / f"checkpoint-{best or steps[stage.name]}"
        model = open_start(Source(str(checkpoint), ""), model.device.type == "cpu")
        freeze_layers(model, recipe.freeze_layers)
    after = dev_scores(model, data.dev)
    say(f"dev after: {_in_words(after)}")
    return model, Trained(settings, steps, best, before, after)


def dev_scores(model: Any, dev: Mapping[str, ScoredPairs]) -> dict[str, float]:
    """Spearman's rho x 100 of cosine similarity against the scores, by dev set."""
    scores = {}
    for evaluator in _evaluators(dev):
        values = evaluator(model)
        scores[evaluator.name] = round(100 * float(values[evaluator.primary_metric]), 4)
    return scores


def _evaluators(dev: Mapping[str, ScoredPairs]) -> list[Any]:
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    return [
        EmbeddingSimilarityEvaluator(
            pairs.sentences1,
            pairs.sentences2,
            pairs.scores,
            batch_size=_EVALUATION_BATCH,
            main_similarity="cosine",
            name=name,
            write_csv=False,
        )
        for name, pairs in dev.items()
    ]


def open_start(source: Source, on_cpu: bool) -> Any:
    """A model to train on, in float32; a bare transformer gets mean pooling."""
    import torch
    from sentence_transformers import SentenceTransformer

    with quiet():
        return SentenceTransformer(
            source.path,
            revision=source.revision,
            device="cpu" if on_cpu else None,
            local_files_only=source.is_local,
            model_kwargs={"dtype": torch.float32},
        )


def _prepare(model: Any, recipe: Recipe) -> Recipe:
    """Set up the model as the recipe says; returns the recipe with the prompt that it has then.

    The prompt is stored with the model and is its default, so that an evaluation uses it too.
    """
    from baselines.training.trainer import freeze_layers, keep_layers

    set_max_length("start", model, recipe.max_length)
    if recipe.keep_layers is not None:
        keep_layers(model, recipe.keep_layers)
    freeze_layers(model, recipe.freeze_layers)
    prompt = recipe.prompt
    if prompt is None:
        prompt = model.prompts.get(model.default_prompt_name or "") or ""
    model.prompts = {"query": prompt, "document": prompt}
    model.default_prompt_name = "query" if prompt else None
    return replace(recipe, prompt=prompt)


def _train_stage(
    model: Any, stage: Stage, recipe: Recipe, dev: Mapping[str, ScoredPairs], folder: Path
) -> tuple[int, int | None]:
    """Train one stage, or go on with it; returns its number of steps, and of stage `sts` the best of them."""
    n_pairs = len(stage.pairs.sentences1)
    steps_per_epoch = math.ceil(n_pairs / recipe.batch_size)
    total = min(stage.epochs * steps_per_epoch, recipe.max_steps or sys.maxsize)
    last = last_checkpoint(folder)
    if last is None or last.step < total:
        trainer = _make_trainer(model, stage, recipe, dev, folder, total)
        say(f"stage {stage.name}: {n_pairs:,} pairs, {total:,} steps of {recipe.batch_size}")
        if last is not None:
            say(f"stage {stage.name}: goes on after step {last.step:,}")
        trainer.run(last)
    if stage.name == "nli":
        return total, None
    last = last_checkpoint(folder)
    if not last or not last.state.best_global_step:
        raise InputError("no checkpoint has a dev score: the vectors of the dev pairs are all equal")
    return total, last.state.best_global_step


def _make_trainer(
    model: Any, stage: Stage, recipe: Recipe, dev: Mapping[str, ScoredPairs], folder: Path, total: int
) -> Any:
    """The trainer of a stage of `total` steps."""
    import numpy as np
    from datasets import Dataset  # type: ignore[import-untyped]
    from sentence_transformers.base.evaluation import SequentialEvaluator
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss, SoftmaxLoss
    from transformers import set_seed

    from baselines.training.trainer import Schedule, Trainer, check_precision

    def report(step: int, logs: Mapping[str, float]) -> None:
        if "loss" in logs:
            say(f"stage {stage.name}: step {step:,} of {total:,}: loss {logs['loss']:.4f}")
        elif "eval_sequential_score" in logs:
            score = 100 * logs["eval_sequential_score"]
            say(f"stage {stage.name}: step {step:,} of {total:,}: dev Spearman {score:.2f}")

    check_precision(recipe.precision, model.device.type == "cpu")
    set_seed(recipe.seed)
    if stage.name == "nli":
        loss = SoftmaxLoss(model, model.get_embedding_dimension(), len(NLI_LABELS))
    else:
        loss = CosineSimilarityLoss(model)
    return Trainer(
        Schedule(
            name=f"stage {stage.name}",
            folder=folder,
            steps=total,
            every=min(recipe.eval_steps, math.ceil(len(stage.pairs.sentences1) / recipe.batch_size)),
            log_every=max(1, total // _REPORTS),
            warm_up=math.ceil(_WARM_UP * total),
            best_by="sequential_score" if dev else None,
        ),
        model,
        recipe.precision,
        head=getattr(loss, "classifier", None),
        on_log=report,
        parts={
            "train_dataset": Dataset.from_dict(stage.columns()),
            "loss": loss,
            "evaluator": SequentialEvaluator(_evaluators(dev), lambda scores: float(np.mean(scores))) if dev else None,
        },
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        weight_decay=_WEIGHT_DECAY,
        prompts=recipe.prompt or None,
        seed=recipe.seed,
    )


def _in_words(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {score:.2f}" for name, score in scores.items()) or "no dev pairs"

"""The NLI-tuned baselines: SBERT's recipe on any transformer, with sentence-transformers' own trainer.

Reimers & Gurevych 2019, "Sentence-BERT" (https://arxiv.org/abs/1908.10084), sections 3 and 4. Stage `nli`: a siamese
network with a softmax classifier over (u, v, |u - v|) on NLI pairs, one epoch. Stage `sts`: regression of the cosine
similarity of u and v on the STS Benchmark's scores (0 to 5, scaled to 0 to 1), four epochs, of which the checkpoint
with the best dev score is taken. AdamW, 10 % linear warm-up, then linearly to zero.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from baselines.huggingface import Precision, Source, open_model, quiet
from baselines.labelled_pairs import ScoredPairs
from baselines.model_folder import (
    SETTINGS_FILE,
    TRAINING_FILE,
    as_json,
    check_equal,
    check_folders,
    last_checkpoint,
    only_training,
    read_json,
    remove_work,
    replace_folder,
    step_of,
)
from baselines.sentence_transformer import set_max_length
from baselines.wheels import E5_SMALL_Q4, MINILM
from harness.cli import say
from harness.data.nli import NLI_LABELS, NLIPairs
from harness.errors import InputError
from harness.files import write_atomically
from harness.registry import encoder_info, encoder_names, one_line

_WARM_UP = 0.1
_WEIGHT_DECAY = 0.01
_HIGHEST_SCORE = 5.0
_CLASSIFIER = "classifier.safetensors"
_REPORTS = 20  # lines of progress a stage
_EVALUATION_BATCH = 64

_FROM_WHEELS = {"minilm": MINILM, "e5-small-q4": E5_SMALL_Q4}

StageName = Literal["nli", "sts"]


@dataclass(frozen=True)
class Recipe:
    """The settings of a training; the defaults are SBERT's.

    Attributes:
        batch_size: pairs a step.
        learning_rate: at its highest, after the warm-up.
        nli_epochs, sts_epochs: passes over the pairs of each stage.
        max_steps: a stage ends after so many steps at the latest.
        eval_steps: dev score and checkpoint every so many steps, and at least once an epoch.
        max_length: tokens after which a sentence is cut, in training and afterwards.
        freeze_layers: so many of the lowest layers keep their weights, and the embeddings too, unless it is 0.
        keep_layers: only so many of the lowest layers are used at all.
        prompt: what every sentence begins with, in training and afterwards; None: as the start has it.
        precision: of the matrix products (autocast); the weights are float32 in any case.
        seed: of dropout, of the order of pairs and of new weights.
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
    """One stage of a training: its pairs, and for how many epochs."""

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


def resolve_start(start: str) -> tuple[str, str | None]:
    """Folder or hub id of the model that `start` names, and the prompt that it wants, where that is known.

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
    """What a training says of itself; kept as `training.json` in the model folder.

    Attributes:
        settings: what was asked for, data files included.
        steps: taken in each stage. Of stage `sts`, `best_step` is the one whose weights the model has.
        dev_before, dev_after: Spearman's rho x 100 by dev set, of the start and of the model.
    """

    settings: dict[str, Any]
    steps: dict[str, int]
    best_step: int | None
    dev_before: dict[str, float]
    dev_after: dict[str, float]


def train(
    start: str,
    recipe: Recipe,
    stages: list[Stage],
    dev: Mapping[str, ScoredPairs],
    out: Path,
    *,
    settings: Mapping[str, Any],
    card: Callable[[Trained], str],
    on_cpu: bool = False,
    fresh: bool = False,
) -> Trained:
    """Train a model and write it to the folder `out`, in sentence-transformers' format.

    Checkpoints are kept in `OUT.training` until the model is complete. A training that was killed goes on from the
    last one, with the same numbers as if it had not been; `fresh` begins anew, and replaces a model that was trained
    here. Any other folder is left alone.

    Args:
        start: a folder or hub id of a sentence-transformers model, or of a bare transformer (which gets mean pooling).
        recipe: how to train.
        stages: in this order.
        dev: sets of pairs by name; the mean of their Spearman values counts.
        out: the folder to write.
        settings: whatever else tells this training from others, as JSON values (data files); it goes on only from
            checkpoints of equal settings.
        card: makes the model card.
        on_cpu: do not use a GPU that is there.
        fresh: see above.

    Raises:
        InputError: the start cannot be loaded or does not fit the recipe, a stage has fewer pairs than a batch, `out`
            or its checkpoints are those of another training, or not of a training at all, or hold the start, the loss
            is no number any more, or a folder cannot be written.
    """
    work = out.with_name(f"{out.name}.training")
    try:
        with only_training(out):
            return _train(start, recipe, stages, dev, out, work, settings, card, on_cpu, fresh)
    except OSError as error:
        raise InputError(
            f"{error.filename or out}: {error.strerror or one_line(error)}; choose another --out"
        ) from None


def _train(
    start: str,
    recipe: Recipe,
    stages: list[Stage],
    dev: Mapping[str, ScoredPairs],
    out: Path,
    work: Path,
    settings: Mapping[str, Any],
    card: Callable[[Trained], str],
    on_cpu: bool,
    fresh: bool,
) -> Trained:
    from transformers import set_seed

    check_folders(out, work, [start])
    for stage in stages:
        if len(stage.pairs.sentences1) < recipe.batch_size:
            raise InputError(
                f"stage {stage.name} has {len(stage.pairs.sentences1)} pairs, fewer than a batch of "
                f"{recipe.batch_size}; give more, or a smaller --batch-size"
            )
    set_seed(recipe.seed)  # a start may lack weights that are made up when it is loaded
    model, source = open_model(start, None, lambda source: open_start(source, on_cpu))
    recipe = _prepare(model, recipe)
    all_settings = json.loads(json.dumps({"start": source.identity, **asdict(recipe), **settings}))
    if fresh:
        remove_work(work)
    elif out.exists():
        done = _finished(out, all_settings)
        remove_work(work)
        say(f"{out.name}: complete, nothing to do")
        return done
    check_equal(all_settings, read_json(work / SETTINGS_FILE) or all_settings, work)
    write_atomically(work / SETTINGS_FILE, as_json(all_settings))

    before = read_json(work / "before.json")
    if before is None:
        before = dev_scores(model, dev)
        write_atomically(work / "before.json", as_json(before))
    say(f"dev before: {_listed(before)}")

    steps: dict[str, int] = {}
    best = None
    for stage in stages:
        checkpoint, steps[stage.name] = _train_stage(model, stage, recipe, dev, work / stage.name, on_cpu)
        best = step_of(checkpoint) if stage.name == "sts" else None
        model = open_start(Source(str(checkpoint), ""), on_cpu)
        freeze_layers(model, recipe.freeze_layers)
    trained = Trained(all_settings, steps, best, before, dev_scores(model, dev))
    say(f"dev after: {_listed(trained.dev_after)}")

    made = work / "model"
    shutil.rmtree(made, ignore_errors=True)
    with quiet():
        model.save_pretrained(str(made), create_model_card=False)
    (made / "README.md").write_text(card(trained), encoding="utf-8")
    (made / TRAINING_FILE).write_bytes(as_json(asdict(trained)))
    if fresh:
        replace_folder(made, out)
    else:
        made.rename(out)
    remove_work(work)
    return trained


def _finished(out: Path, settings: Mapping[str, Any]) -> Trained:
    """The record of the model in `out`. Raises InputError if it is of another training, or no record."""
    record = read_json(out / TRAINING_FILE) or {}
    try:
        check_equal(settings, record["settings"], out)
        return Trained(**record)
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"{out / TRAINING_FILE} is damaged or of another command; give another --name or --out, or --fresh to "
            "replace the folder"
        ) from None


def dev_scores(model: Any, dev: Mapping[str, ScoredPairs]) -> dict[str, float]:
    """Spearman's rho x 100 of cosine similarity against the scores, by dev set."""
    scores = {}
    for evaluator in _evaluators(dev):
        found = evaluator(model)
        scores[evaluator.name] = round(100 * float(found[evaluator.primary_metric]), 4)
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


def keep_layers(model: Any, number: int) -> None:
    """Use a transformer's lowest `number` layers only. Raises InputError if it has fewer."""
    layers = _layers_of(model)
    _check_layers("keep", number, 1, len(layers))
    del layers[number:]
    model.transformers_model.config.num_hidden_layers = number


def freeze_layers(model: Any, number: int) -> None:
    """Keep the weights of the embeddings and of the lowest `number` layers as they are; all others are trained.

    0 freezes nothing, the embeddings neither. Raises InputError if the transformer has fewer layers.
    """
    layers = _layers_of(model)
    _check_layers("freeze", number, 0, len(layers))
    model.requires_grad_(True)
    if number:
        frozen = [model.transformers_model.get_input_embeddings(), *layers[:number]]
        embeddings = getattr(model.transformers_model, "embeddings", None)
        for module in (*frozen, *([embeddings] if embeddings is not None else [])):
            module.requires_grad_(False)


def _check_layers(what: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise InputError(f"--{what}-layers must be {least} to {most}, the layers of the start, not {number}")


def _layers_of(model: Any) -> Any:
    """The list of a transformer's layers, the lowest first."""
    from torch.nn import ModuleList

    transformer = getattr(model, "transformers_model", None)
    number = getattr(getattr(transformer, "config", None), "num_hidden_layers", None)
    lists = [module for module in transformer.modules() if isinstance(module, ModuleList)] if transformer else []
    found = next((module for module in lists if len(module) == number), None)
    if found is None:
        raise InputError("the start is not a transformer with a list of layers; choose another")
    return found


def _train_stage(
    model: Any, stage: Stage, recipe: Recipe, dev: Mapping[str, ScoredPairs], folder: Path, on_cpu: bool
) -> tuple[Path, int]:
    """Train one stage, or go on with it; returns the checkpoint that it ends with, and its number of steps."""
    steps_per_epoch = math.ceil(len(stage.pairs.sentences1) / recipe.batch_size)
    total = min(stage.epochs * steps_per_epoch, recipe.max_steps or sys.maxsize)
    last = last_checkpoint(folder)
    if last is None or step_of(last) < total:
        every = min(recipe.eval_steps, steps_per_epoch)
        trainer = _make_trainer(model, stage, recipe, dev, folder, total, every, on_cpu)
        say(f"stage {stage.name}: {len(stage.pairs.sentences1):,} pairs, {total:,} steps of {recipe.batch_size}")
        if last is not None:
            say(f"stage {stage.name}: goes on after step {step_of(last):,}")
        with quiet():
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        last = folder / f"checkpoint-{total}"
    if stage.name == "nli":
        return last, total
    best = read_json(last / "trainer_state.json")
    if not best or not best["best_global_step"]:
        raise InputError("no checkpoint has a dev score: the vectors of the dev pairs are all alike")
    return folder / f"checkpoint-{best['best_global_step']}", total


def _make_trainer(
    model: Any,
    stage: Stage,
    recipe: Recipe,
    dev: Mapping[str, ScoredPairs],
    folder: Path,
    total: int,
    every: int,
    on_cpu: bool,
) -> Any:
    """The trainer of a stage of `total` steps, with a dev score and a checkpoint `every` so many."""
    import numpy as np
    import torch
    from datasets import Dataset  # type: ignore[import-untyped]
    from safetensors.torch import load_file, save_file
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.base.evaluation import SequentialEvaluator
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss, SoftmaxLoss
    from transformers import PrinterCallback, set_seed

    class Trainer(SentenceTransformerTrainer):  # type: ignore[misc]
        """The library's trainer, which also keeps the classifier with a checkpoint, and refuses numbers that are none.

        It writes no pickled arguments and no model card of its own, and reports on stderr.
        """

        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            pass

        def compute_loss(self, *args: Any, **options: Any) -> Any:
            loss = super().compute_loss(*args, **options)
            if not torch.isfinite(loss):
                raise _diverged(stage, f"the loss of step {self.state.global_step + 1:,} is {loss.item()}", folder)
            return loss

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            if not all(torch.isfinite(weights).all() for weights in self.model.parameters()):
                raise _diverged(stage, f"weights after step {self.state.global_step:,} are no numbers", folder)
            self.model.save_pretrained(output_dir, create_model_card=False)
            if classifier is not None:
                save_file(classifier.state_dict(), Path(str(output_dir), _CLASSIFIER))

        def _load_from_checkpoint(self, checkpoint_path: str) -> None:
            super()._load_from_checkpoint(checkpoint_path)
            if classifier is not None:
                classifier.load_state_dict(load_file(Path(checkpoint_path, _CLASSIFIER)))

        def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
            super().log(logs, start_time)
            if "loss" in logs:
                say(f"stage {stage.name}: step {self.state.global_step:,} of {total:,}: loss {logs['loss']:.4f}")
            elif "eval_sequential_score" in logs:
                score = 100 * logs["eval_sequential_score"]
                say(f"stage {stage.name}: step {self.state.global_step:,} of {total:,}: dev Spearman {score:.2f}")

    if recipe.precision == "fp16" and (on_cpu or not torch.cuda.is_available()):
        raise InputError("--precision fp16 needs a GPU; take bf16 or fp32")
    set_seed(recipe.seed)
    if stage.name == "nli":
        loss = SoftmaxLoss(model, model.get_embedding_dimension(), len(NLI_LABELS))
        classifier = loss.classifier
    else:
        loss, classifier = CosineSimilarityLoss(model), None
    try:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(folder),
            max_steps=total,
            per_device_train_batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate,
            warmup_steps=math.ceil(_WARM_UP * total),
            weight_decay=_WEIGHT_DECAY,
            bf16=recipe.precision == "bf16",
            fp16=recipe.precision == "fp16",
            use_cpu=on_cpu,
            seed=recipe.seed,
            prompts=recipe.prompt or None,
            eval_strategy="steps" if dev else "no",
            eval_steps=every,
            save_strategy="steps",
            save_steps=every,
            save_total_limit=2,  # the last and the best; with 1, the last would go at the end
            metric_for_best_model="sequential_score" if dev else None,
            greater_is_better=True if dev else None,
            logging_steps=max(1, total // _REPORTS),
            logging_nan_inf_filter=False,
            disable_tqdm=True,
            report_to="none",
            dataloader_pin_memory=not on_cpu and torch.cuda.is_available(),
        )
    except ValueError as error:  # a precision that this machine does not have
        raise InputError(f"this machine cannot train so: {one_line(error)}") from error
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict(stage.columns()),
        loss=loss,
        evaluator=SequentialEvaluator(_evaluators(dev), lambda scores: float(np.mean(scores))) if dev else None,
    )
    trainer.remove_callback(PrinterCallback)  # it prints to stdout
    return trainer


def _diverged(stage: Stage, what: str, folder: Path) -> InputError:
    return InputError(
        f"stage {stage.name} has diverged: {what}; the checkpoints are kept in {folder}; begin anew (--fresh) with a "
        "lower --learning-rate, or with --precision fp32"
    )


def _listed(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {score:.2f}" for name, score in scores.items()) or "no dev pairs"

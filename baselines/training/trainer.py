"""What all trainings share: sentence-transformers' trainer, set up for exact resumption, and frozen layers.

A checkpoint holds all state. A training that diverges ends with an error of one line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback

from baselines.adapters.huggingface import Precision, quiet
from baselines.training.model_folder import Checkpoint, save_model
from harness.core.errors import InputError, one_line

_HEAD = "classifier.safetensors"


@dataclass(frozen=True)
class Schedule:
    """What a training does at which step.

    Attributes:
        name: what error messages call the training.
        folder: of the checkpoints.
        steps: of the whole training.
        every: steps from one evaluation and checkpoint to the next.
        log_every: steps from one logged mean loss to the next.
        warm_up: steps until the learning rate is at its highest; from there it falls linearly to zero.
        best_by: the score that decides which checkpoint is the best; None: the training is not evaluated.
        is_greater_better: whether more of this score is better.
    """

    name: str
    folder: Path
    steps: int
    every: int
    log_every: int
    warm_up: int
    best_by: str | None
    is_greater_better: bool = True


def check_precision(precision: Precision, on_cpu: bool) -> None:
    """Raise InputError if this machine cannot train in a precision."""
    if precision == "fp16" and (on_cpu or not torch.cuda.is_available()):
        raise InputError("--precision fp16 needs a GPU; take bf16 or fp32")


class Trainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """The library's trainer, which refuses numbers that are not finite and writes neither pickles nor a model card.

    Args:
        schedule: see there.
        model: the `SentenceTransformer` to train, in place.
        precision: of the matrix products.
        head: a module of the loss that is trained too; it is kept with the checkpoints.
        on_log: is called with the step and what the trainer logs.
        parts: what the library's trainer takes: `train_dataset`, `loss`, `evaluator`, `callbacks`.
        arguments: further training arguments of the library (`learning_rate`, `seed`).

    Raises:
        InputError: this machine does not have the precision.
    """

    def __init__(
        self,
        schedule: Schedule,
        model: Any,
        precision: Precision,
        *,
        head: torch.nn.Module | None = None,
        on_log: Callable[[int, dict[str, float]], None] | None = None,
        parts: dict[str, object],
        **arguments: Any,
    ):
        self.schedule, self.last_loss = schedule, 0.0
        self._head, self._on_log = head, on_log
        try:
            settings = SentenceTransformerTrainingArguments(
                output_dir=str(schedule.folder),
                max_steps=schedule.steps,
                warmup_steps=schedule.warm_up,
                bf16=precision == "bf16",
                fp16=precision == "fp16",
                use_cpu=model.device.type == "cpu",  # where there is no GPU, too: else bf16 is refused
                eval_strategy="steps" if schedule.best_by else "no",
                eval_steps=schedule.every,
                save_strategy="steps",
                save_steps=schedule.every,
                save_total_limit=2,  # the last and the best; with 1, the last would go at the end
                metric_for_best_model=schedule.best_by,
                greater_is_better=schedule.is_greater_better if schedule.best_by else None,
                logging_steps=schedule.log_every,
                logging_nan_inf_filter=False,
                disable_tqdm=True,
                report_to="none",
                dataloader_pin_memory=model.device.type == "cuda",
                **arguments,
            )
        except ValueError as error:  # a precision that this machine does not have
            raise InputError(f"this machine cannot train so: {one_line(error)}") from error
        # DataParallel, which the library takes where no launcher is, would cut a static student's bags in two.
        settings._n_gpu = min(settings.n_gpu, 1)
        super().__init__(model=model, args=settings, **parts)
        self.remove_callback(PrinterCallback)  # it prints to stdout

    def run(self, last: Checkpoint | None) -> None:
        """Train, or go on after the last checkpoint."""
        with quiet():
            self.train(resume_from_checkpoint=str(last.folder) if last else None)

    def add_model_card_callback(self, default_args_dict: Any) -> None:
        """The trainings write their own model card."""

    def compute_loss(self, *args: Any, **options: Any) -> Any:
        """The loss of a batch. Raises InputError if it is not finite."""
        loss = super().compute_loss(*args, **options)
        self.last_loss = loss.item()
        if not math.isfinite(self.last_loss):
            raise self._diverged(f"the loss of step {self.state.global_step + 1:,} is {self.last_loss}")
        return loss

    def evaluate(self, *args: Any, **options: Any) -> dict[str, float]:
        """The scores of the model. Raises InputError if its weights are not finite."""
        self._check_weights()
        scores: dict[str, float] = super().evaluate(*args, **options)
        return scores

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Note the loss or the scores of a step."""
        super().log(logs, start_time)
        if self._on_log:
            self._on_log(self.state.global_step, logs)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        self._check_weights()
        folder = Path(str(output_dir))
        save_model(self.model, folder)
        if self._head is not None:
            save_file(self._head.state_dict(), folder / _HEAD)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        super()._load_from_checkpoint(checkpoint_path)
        if self._head is not None:
            self._head.load_state_dict(load_file(Path(checkpoint_path, _HEAD)))

    def _check_weights(self) -> None:
        if not all(bool(weights.isfinite().all()) for weights in self.model.parameters()):
            raise self._diverged(f"weights after step {self.state.global_step:,} are not finite")

    def _diverged(self, reason: str) -> InputError:
        return InputError(
            f"{self.schedule.name} has diverged: {reason}; the checkpoints are kept in {self.schedule.folder}; begin "
            "anew (--fresh) with a lower --learning-rate, or with --precision fp32"
        )


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
    transformer = getattr(model, "transformers_model", None)
    number = getattr(getattr(transformer, "config", None), "num_hidden_layers", None)
    lists = (
        [module for module in transformer.modules() if isinstance(module, torch.nn.ModuleList)] if transformer else []
    )
    layers = next((module for module in lists if len(module) == number), None)
    if layers is None:
        raise InputError("the start is not a transformer with a list of layers; choose another")
    return layers

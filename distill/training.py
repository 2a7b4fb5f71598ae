"""Training a student on the teacher's vectors, with sentence-transformers' trainer.

Reimers and Gurevych 2020 (https://arxiv.org/abs/2004.09813), section 3 and appendix A. AdamW, linear warm-up, then
linearly to zero. The s-th batch is a function of the seed and of s alone, and the trainer keeps all other state with
its checkpoints: a training that was killed goes on with the numbers that it would have had.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.huggingface import quiet
from baselines.training.model_folder import TrainerState, last_checkpoint, read_if_whole
from distill.development import SCORES, Development
from distill.recipe import Recipe
from distill.report import Watcher
from distill.sampler import MixedBatches, TrainingPairs, mixed_batches, student_features
from distill.students import encode, set_up
from harness.core.errors import InputError, unknown_name
from harness.core.files import write_atomically

if TYPE_CHECKING:
    from baselines.training.trainer import Schedule, Trainer
    from distill.pairs import Pairs
    from distill.teacher import TeacherVectors

_Log = list[dict[str, int | float]]

_POINTS = 100  # of the loss curve
_EVALUATIONS = 20  # about as many a training
# A sentence of the development set costs at most what a training sentence costs. What it took is measured and reported.
_DEV_SHARE = 0.04
_START = "start.json"  # development scores of the start, beside the checkpoints
_SECONDS, _DEV_SECONDS = "eval_seconds", "eval_dev_seconds"  # as the trainer's log has them


@dataclass(frozen=True)
class Fitted:
    """The result of a training.

    Attributes:
        model: the student, with the weights of the best step.
        steps: how many were taken; fewer than planned if it stopped early.
        best_step: the step with the best development score, whose weights the model has.
        curve: for every step that was evaluated (0 is the start) `step` and the development scores.
        losses: (step, mean loss since the point before).
        shares: of each corpus in the batches, by name.
        seconds: of training and evaluations, in all processes one after the other.
        dev_seconds: of these, for the evaluations.
    """

    model: Any
    steps: int
    best_step: int
    curve: list[dict[str, float]]
    losses: list[tuple[int, float]]
    shares: dict[str, float]
    seconds: float
    dev_seconds: float


def criterion(recipe: Recipe) -> tuple[str, bool]:
    """The development score that a student is judged by, and whether more of it is better.

    The MSE, unless the recipe says another; for cosine that of unit vectors, as it leaves lengths free; the accuracy
    for ranking alone, which has no teacher. Raises InputError for an unknown score.
    """
    from distill.losses import parse_kind

    kinds = parse_kind(recipe.loss).keys()
    if recipe.best_by is not None:
        if recipe.best_by not in SCORES:
            raise unknown_name("development score", recipe.best_by, SCORES)
        return recipe.best_by, not recipe.best_by.startswith("mse")
    if "mse" in kinds:
        return "mse", False
    return ("mse_unit", False) if "cosine" in kinds else ("accuracy_xx_en", True)


def _log_every(total: int, every: int) -> int:
    """Steps from one logged mean loss to the next: a divisor of `every`, as a resumed training begins a new mean."""
    return next((steps for steps in range(max(1, total // _POINTS), every) if every % steps == 0), every)


def check_recipe(recipe: Recipe, on_cpu: bool) -> None:
    """Raise InputError if a recipe cannot be followed on any data, or not on this machine."""
    from baselines.training.trainer import check_precision

    criterion(recipe)
    check_precision(recipe.precision, on_cpu)
    if not 0 <= recipe.pivots <= 1:
        raise InputError(f"--pivots {recipe.pivots:g}: a share is between 0 and 1")
    if recipe.batch_size % (parts := recipe.accumulate * int(os.environ.get("WORLD_SIZE", "1"))):
        raise InputError(f"a batch of {recipe.batch_size} cannot be cut into {parts} equal parts; change --batch-size")


def evaluate_every(recipe: Recipe, total: int, n_dev_sentences: int) -> int:
    """Steps from one evaluation to the next, so that evaluations take little of the time."""
    cheap = math.ceil(n_dev_sentences / (_DEV_SHARE * 2 * recipe.batch_size))
    wanted = max(cheap, total // _EVALUATIONS)
    # A number with divisors: see `_log_every`.
    return min(total, recipe.eval_steps or math.ceil(wanted / 10) * 10)


def train(
    recipe: Recipe,
    pairs: Pairs,
    teacher: TeacherVectors,
    student: Any,
    development: Development,
    folder: Path,
    progress: Watcher,
    *,
    projection: NDArray[np.float32] | None = None,
) -> Fitted:
    """Train a student, or go on with it after the last checkpoint in `folder`.

    Args:
        recipe: how to train; see `check_recipe`.
        pairs: the training pairs; those whose source is held out by `development` are left out.
        teacher: vectors of `pairs.sources`, in this order.
        student: a `SentenceTransformer`; it is trained in place.
        development: what the student is evaluated on.
        folder: for checkpoints. Everything else about a training must be the same if there are some.
        progress: reports what is done.
        projection: (teacher's dim, student's dim), from the teacher's space into the student's.

    Raises:
        InputError: fewer pairs than a batch, dimensions that do not fit, the loss is not finite any more (the
            checkpoints are kept), a precision that this machine does not have.
    """
    from transformers import set_seed

    from baselines.training.trainer import Schedule
    from distill.losses import DistillationLoss

    kept = development.kept(pairs)
    if recipe.best_by and recipe.best_by.startswith("sts") and development.sts is None:
        raise InputError(
            f"--best-by {recipe.best_by} needs the STS Benchmark in the data directory; take another score"
        )
    batches = mixed_batches(recipe, pairs, kept)
    total = len(batches)
    every = evaluate_every(recipe, total, development.n_sentences)
    set_seed(recipe.seed)
    set_up(student, recipe.dropout)
    projected = teacher.projected(projection)

    def evaluate() -> dict[str, float]:
        # In the precision of the training: in another it would take too long.
        return development.evaluate(lambda texts: encode(student, texts, recipe.precision), projected.__getitem__)

    last = last_checkpoint(folder)
    if last is None:
        scores = {f"eval_{name}": value for name, value in evaluate().items()}
        write_atomically(folder / _START, json.dumps(scores).encode())
    else:
        progress.note(f"goes on after step {last.step:,} of {total:,}")
    history = last.state.log_history if last else []
    n_texts = 2 * recipe.batch_size * total
    score, is_greater_better = criterion(recipe)
    trainer = _make_trainer(
        recipe,
        Schedule(
            name="the training",
            folder=folder,
            steps=total,
            every=every,
            log_every=_log_every(total, every),
            warm_up=min(recipe.warm_up, total // 10),
            best_by=score,
            is_greater_better=is_greater_better,
        ),
        DistillationLoss(student, teacher, recipe.loss, projection=projection, dims=recipe.matryoshka),
        TrainingPairs(
            pairs,
            kept,
            student_features(student, pairs, n_texts, folder.with_name("tokens"), progress),
            pivots=recipe.pivots,
            seed=recipe.seed,
        ),
        batches,
        evaluate,
        history,
        progress,
    )
    if last is None or (last.step < total and not _has_stopped(recipe, history)):
        trainer.run(last)
        trainer.accelerator.wait_for_everyone()
        last = last_checkpoint(folder)
    if last is None or last.state.best_global_step is None:
        raise InputError(f"{folder} has lost its checkpoints; begin anew (--fresh)")
    with quiet():
        trainer._load_from_checkpoint(str(folder / f"checkpoint-{last.state.best_global_step}"))
    trainer.accelerator.wait_for_everyone()  # the first process removes the checkpoints when all is done
    shares = dict(zip((part.name for part in pairs.parts), map(float, batches.shares()), strict=True))
    return _fitted(student.eval(), folder, last.state, shares)


def _fitted(student: Any, folder: Path, state: TrainerState, shares: dict[str, float]) -> Fitted:
    """The result of a training by what the trainer logged."""
    evaluations = [entry for entry in state.log_history if _SECONDS in entry]
    losses = [entry for entry in state.log_history if "loss" in entry]
    start = read_if_whole(folder / _START, dict[str, float]) or {}
    return Fitted(
        model=student,
        steps=state.global_step,
        best_step=state.best_global_step or 0,
        curve=[_point({"step": 0, **start}), *map(_point, evaluations)],
        losses=[(int(entry["step"]), round(float(entry["loss"]), 6)) for entry in losses],
        shares=shares,
        seconds=evaluations[-1][_SECONDS],
        dev_seconds=evaluations[-1][_DEV_SECONDS],
    )


def _make_trainer(
    recipe: Recipe,
    schedule: Schedule,
    loss: Any,
    pairs: TrainingPairs,
    batches: MixedBatches,
    evaluate: Callable[[], dict[str, float]],
    history: _Log,
    progress: Watcher,
) -> Trainer:
    """The trainer of `loss.model`. `history` is what earlier processes logged."""
    from sentence_transformers.base.evaluation import BaseEvaluator
    from transformers import TrainerCallback

    from baselines.training.trainer import Trainer

    total = schedule.steps
    clock = _Clock(history)

    class Evaluator(BaseEvaluator):  # type: ignore[misc]
        """The development scores, and the time."""

        def __call__(self, model: Any, *args: Any, **options: Any) -> dict[str, float]:
            with clock.evaluation():
                scores = evaluate()
            shown = ", ".join(f"{name} {value:.4g}" for name, value in scores.items() if ":" not in name)
            progress.note(f"step {trainer.state.global_step:,} of {total:,}: dev {shown}")
            return {**scores, "seconds": clock.seconds, "dev_seconds": clock.dev_seconds}

    class Callbacks(TrainerCallback):  # type: ignore[misc]
        """Progress, an evaluation at the end, and early stopping."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            clock.start()
            self.step = progress.training(state.global_step, total, 2 * recipe.batch_size)

        def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            self.step(state.global_step, trainer.last_loss)
            if state.global_step >= total:
                control.should_evaluate = True

        def on_evaluate(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if _has_stopped(recipe, state.log_history) and state.global_step < total:
                progress.note(f"stops early: no better dev {schedule.best_by} in {recipe.patience} evaluations")
                control.should_training_stop = True

    class MixingTrainer(Trainer):
        """A trainer with the batches of this training."""

        def get_train_dataloader(self) -> Any:
            self.accelerator.even_batches = False
            parts = recipe.accumulate * self.args.world_size
            loader = pairs.loader(batches, recipe.batch_size, parts, self.args.dataloader_pin_memory)
            return self.accelerator.prepare(loader)

    trainer = MixingTrainer(
        schedule,
        loss.model,
        recipe.precision,
        parts={"train_dataset": pairs, "loss": loss, "evaluator": Evaluator(), "callbacks": [Callbacks()]},
        gradient_accumulation_steps=recipe.accumulate,
        learning_rate=recipe.learning_rate,
        adam_beta2=recipe.beta2,
        max_grad_norm=recipe.max_gradient_norm,
        seed=recipe.seed,
    )
    return trainer


class _Clock:
    """Measures the time of a training and of its evaluations, earlier processes included."""

    def __init__(self, history: _Log):
        last: Mapping[str, float] = next((entry for entry in reversed(history) if _SECONDS in entry), {})
        self._before = float(last.get(_SECONDS, 0.0))
        self.dev_seconds = float(last.get(_DEV_SECONDS, 0.0))
        self._start = time.perf_counter()

    def start(self) -> None:
        """The training begins now."""
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The time since the training began."""
        return self._before + time.perf_counter() - self._start

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """The time of a `with` block is that of an evaluation."""
        start = time.perf_counter()
        yield
        self.dev_seconds += time.perf_counter() - start


def _point(entry: Mapping[str, float]) -> dict[str, float]:
    """The development scores of an entry in the trainer's log."""
    scores = {name.removeprefix("eval_"): round(value, 6) for name, value in entry.items() if name.startswith("eval_")}
    times = {"runtime", "samples_per_second", "steps_per_second", "seconds", "dev_seconds"}
    return {"step": entry["step"], **{name: value for name, value in scores.items() if name not in times}}


def _has_stopped(recipe: Recipe, history: _Log) -> bool:
    """Whether the last `patience` evaluations were no better than one before."""
    score, is_greater_better = criterion(recipe)
    values = [entry[f"eval_{score}"] for entry in history if f"eval_{score}" in entry]
    if not values:
        return False
    best = values.index(max(values) if is_greater_better else min(values))
    return len(values) - 1 - best >= recipe.patience

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baselines.huggingface import Precision, quiet
from baselines.model_folder import last_checkpoint, read_json, step_of
from distill.development import SCORES, Development
from distill.progress import Watcher
from distill.students import encode
from distill.tokens import Tokens, tokenise
from harness.errors import InputError, unknown_name
from harness.files import write_atomically
from harness.registry import one_line

if TYPE_CHECKING:
    from distill.pairs import PairStore
    from distill.sampler import MixedBatches
    from distill.teacher import TeacherVectors, VectorType

_POINTS = 100  # of the loss curve
_EVALUATIONS = 20  # about as many a training
# A sentence of the development set costs at most what one costs that is trained on; what it took is measured and said.
_DEV_SHARE = 0.04
_START = "start.json"  # development scores of the start, beside the checkpoints
_SECONDS, _DEV_SECONDS = "eval_seconds", "eval_dev_seconds"  # as the trainer's log has them


@dataclass(frozen=True)
class Recipe:
    """The settings of a training; the defaults are the paper's, for a transformer. `STATIC` has those of static ones.

    Attributes:
        loss: `mse`, `cosine`, `ranking`, or a sum (`cosine+0.2*ranking`); see `distill.losses`.
        batch_size: pairs a step, over all GPUs.
        accumulate: a step's batch is computed in so many parts (less memory; `ranking` sees the negatives of a part).
        learning_rate: at its highest, after the warm-up.
        warm_up: steps; at most a tenth of all.
        epochs: the number of steps is that of so many passes over as many pairs as there are.
        max_steps: steps at most.
        eval_steps: development scores and a checkpoint every so many steps. None: some twenty times in a training,
            less often if that took 5 % of its time.
        best_by: the development score that decides which step is the best, see `SCORES`. None: by the loss.
        patience: stop after so many evaluations without a better one.
        temperature: how a corpus's share depends on its size: 0 the same for all, as in the paper; 1 as its size.
        max_repeats: no pair is seen more often than this in an epoch, however small its corpus.
        weights: factors on the shares of corpora, by full name or by that without the languages; 0: left out.
        matryoshka: the loss is that of these first dimensions, too.
        max_length: tokens after which a transformer cuts a sentence.
        precision: of the matrix products (autocast); the weights are float32 in any case.
        teacher_dtype: as what the teacher's vectors are stored.
        dropout: of a transformer's dropout layers; None: as the start has it. Without any (0) a step costs less.
        beta2: of AdamW.
        max_gradient_norm: longer gradients are scaled to this length; 0: none are.
        seed: of dropout, of the batches and of new weights.
    """

    loss: str = "mse"
    batch_size: int = 64
    accumulate: int = 1
    learning_rate: float = 2e-5
    warm_up: int = 10_000
    epochs: int = 20
    max_steps: int | None = None
    eval_steps: int | None = None
    best_by: str | None = None
    patience: int = 10
    temperature: float = 0.0
    max_repeats: int = 5
    weights: tuple[tuple[str, float], ...] = ()
    matryoshka: tuple[int, ...] = ()
    max_length: int = 128
    precision: Precision = "fp32"
    teacher_dtype: VectorType = "float16"
    dropout: float | None = None
    beta2: float = 0.999
    max_gradient_norm: float = 1.0
    seed: int = 42


# Adam's steps do not depend on the scale of gradients, and their norm over a large table takes time.
STATIC = replace(
    Recipe(), batch_size=2048, learning_rate=0.02, warm_up=100, epochs=3, beta2=0.99, max_gradient_norm=0.0
)


@dataclass(frozen=True)
class Fitted:
    """What came of a training.

    Attributes:
        model: the student, with the weights of the best step.
        steps: that were taken; fewer than planned if it stopped early.
        best_step: the one with the best development score, whose weights the model has.
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


def check_recipe(recipe: Recipe, on_cpu: bool) -> None:
    """Raise InputError if a recipe cannot be followed on any data, or not on this machine."""
    import torch

    criterion(recipe)
    if recipe.precision == "fp16" and (on_cpu or not torch.cuda.is_available()):
        raise InputError("--precision fp16 needs a GPU; take bf16 or fp32")
    if recipe.batch_size % (parts := recipe.accumulate * int(os.environ.get("WORLD_SIZE", "1"))):
        raise InputError(f"a batch of {recipe.batch_size} cannot be cut into {parts} equal parts; change --batch-size")


def _log_every(total: int, every: int) -> int:
    """After how many steps the mean loss is noted: a divisor of `every`, as a resumed training begins a new mean."""
    return next((steps for steps in range(max(1, total // _POINTS), every) if every % steps == 0), every)


def evaluate_every(recipe: Recipe, total: int, n_dev_sentences: int) -> int:
    """After how many of `total` steps the student is evaluated, so that it takes little of the time."""
    cheap = math.ceil(n_dev_sentences / (_DEV_SHARE * 2 * recipe.batch_size))
    wanted = max(cheap, total // _EVALUATIONS)
    # A number with divisors: see `_log_every`.
    return min(total, recipe.eval_steps or math.ceil(wanted / 10) * 10)


def mixed_batches(recipe: Recipe, pairs: PairStore, kept: NDArray[np.int64]) -> MixedBatches:
    """The batches of a training, of numbers in `kept` (those of the pairs that are trained on, ascending).

    Raises:
        InputError: fewer pairs than a batch.
    """
    from distill.sampler import MixedBatches

    sizes = np.diff(np.searchsorted(kept, [*(part.start for part in pairs.parts), len(pairs.source_rows)]))
    factors = dict(recipe.weights)
    known = {name for part in pairs.parts for name in (part.name, part.name.rpartition(".")[0])}
    for name in factors:
        if name not in known:
            raise unknown_name("corpus in --weight", name, known)
    weights = [factors.get(part.name, factors.get(part.name.rpartition(".")[0], 1.0)) for part in pairs.parts]
    n_pairs = int(sizes[np.array(weights) > 0].sum())
    if n_pairs < recipe.batch_size:
        raise InputError(
            f"{n_pairs:,} pairs to train on are fewer than a batch of {recipe.batch_size:,}; give more, or a smaller "
            "--batch-size"
        )
    total = math.ceil(recipe.epochs * n_pairs / recipe.batch_size)
    total = min(total, recipe.max_steps or total)
    repeats = math.ceil(recipe.max_repeats * total * recipe.batch_size / n_pairs)
    return MixedBatches(
        sizes.tolist(), recipe.batch_size, total, recipe.seed, recipe.temperature, repeats, weights=weights
    )


def train(
    recipe: Recipe,
    pairs: PairStore,
    teacher: TeacherVectors,
    student: Any,
    development: Development,
    folder: Path,
    progress: Watcher,
    *,
    projection: NDArray[np.float32] | None = None,
    on_cpu: bool = False,
) -> Fitted:
    """Train a student, or go on with it after the last checkpoint in `folder`.

    Args:
        recipe: how to train.
        pairs: the training pairs; those whose source is held out by `development` are left out.
        teacher: vectors of `pairs.sources`, in this order.
        student: a `SentenceTransformer`; it is trained in place.
        development: what it is judged on.
        folder: for checkpoints. Everything else about a training must be the same if there are some.
        progress: is told.
        projection: (teacher's dim, student's dim), from the teacher's space into the student's.
        on_cpu: do not use a GPU that is there.

    Raises:
        InputError: fewer pairs than a batch, dimensions that do not fit, the loss is no number any more (the
            checkpoints are kept), a precision that this machine does not have.
    """
    check_recipe(recipe, on_cpu)
    from transformers import set_seed

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

    def wanted(rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return teacher[rows] if projection is None else teacher[rows] @ projection

    def evaluate() -> dict[str, float]:
        # In the precision of the training: in another it would take too long.
        return development.evaluate(lambda texts: encode(student, texts, recipe.precision), wanted)

    last = last_checkpoint(folder)
    state = _state_of(last)
    if last is None:
        scores = {f"eval_{name}": value for name, value in evaluate().items()}
        write_atomically(folder / _START, json.dumps(scores).encode())
    else:
        progress.note(f"goes on after step {step_of(last):,} of {total:,}")
    columns = _columns(student, pairs, 2 * recipe.batch_size * total, folder.with_name("tokens"), progress)
    trainer = _make_trainer(
        recipe,
        student,
        _loss(recipe, student, teacher, projection),
        _Pairs(pairs, kept),
        columns,
        batches,
        evaluate,
        (total, every),
        folder,
        _history(state),
        progress,
        on_cpu,
    )
    if not (state and (state["global_step"] >= total or _has_stopped(recipe, _history(state)))):
        with quiet():
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        trainer.accelerator.wait_for_everyone()
        state = _state_of(last_checkpoint(folder))
    best = int(state["best_global_step"])
    with quiet():
        trainer._load_from_checkpoint(str(folder / f"checkpoint-{best}"))
    trainer.accelerator.wait_for_everyone()  # the first process removes the checkpoints when all is done
    history = _history(state)
    evaluations = [entry for entry in history if _SECONDS in entry]
    return Fitted(
        model=student.eval(),
        steps=int(state["global_step"]),
        best_step=best,
        curve=[_point({"step": 0, **(read_json(folder / _START) or {})}), *map(_point, evaluations)],
        losses=[(int(entry["step"]), round(float(entry["loss"]), 6)) for entry in history if "loss" in entry],
        shares=dict(zip((part.name for part in pairs.parts), map(float, batches.shares()), strict=True)),
        seconds=evaluations[-1][_SECONDS],
        dev_seconds=evaluations[-1][_DEV_SECONDS],
    )


class _Pairs:
    """The numbers of the pairs to train on; what the trainer takes for a data set."""

    column_names = ("source", "target", "label")
    _sentence_transformers_preprocessed = True  # the trainer has nothing to add

    def __init__(self, pairs: PairStore, kept: NDArray[np.int64]):
        self._pairs, self._kept = pairs, kept

    def __len__(self) -> int:
        return len(self._kept)

    def __getitems__(self, numbers: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A batch: the rows of the sources, and the numbers of the pairs."""
        chosen = self._kept[np.asarray(numbers)]
        return np.asarray(self._pairs.source_rows[chosen], dtype=np.int64), chosen


class _BatchParts:
    """The batches, each cut into as many parts of about one mix as are computed one after the other or beside it."""

    def __init__(self, batches: MixedBatches, parts: int, batch_size: int):
        self._batches, self._parts = batches, parts
        self.batch_size, self.drop_last = batch_size // parts, True  # accelerate asks for them

    def __len__(self) -> int:
        return len(self._batches) * self._parts

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._batches:
            for part in range(self._parts):
                yield batch[part :: self._parts].tolist()


def _loss(recipe: Recipe, student: Any, teacher: TeacherVectors, projection: NDArray[np.float32] | None) -> Any:
    from distill.losses import DistillationLoss

    return DistillationLoss(student, teacher, recipe.loss, projection=projection, dims=recipe.matryoshka)


def set_up(student: Any, dropout: float | None) -> None:
    """What holds while a student is trained, and is not saved with it."""
    import torch

    if dropout is not None:
        for module in student.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
    if student.device.type == "cpu" and student.transformers_model is not None:
        # The fused kernel's gradient is slow there (benchmarks/training.py).
        student.transformers_model.set_attn_implementation("eager")


def _columns(
    student: Any, pairs: PairStore, n_texts: int, folder: Path, progress: Watcher
) -> Callable[[NDArray[np.int64], NDArray[np.int64]], tuple[dict[str, Any], dict[str, Any]]]:
    """What turns a batch into a student's input: sources, by their rows, and targets, by the numbers of the pairs.

    `n_texts` is how many a training reads. A static student, whose steps are fast, has them tokenised beforehand if
    that are more than there are.
    """
    import torch

    sources, targets = pairs.sources, pairs.targets
    prompt = student.prompts.get(student.default_prompt_name or "") or None
    if prompt or not _is_static(student):
        return lambda rows, numbers: (
            dict(student.preprocess([sources[row] for row in rows.tolist()], prompt=prompt)),
            dict(student.preprocess([targets[number] for number in numbers.tolist()], prompt=prompt)),
        )
    tokenizer = student[0].tokenizer

    def features(ids: NDArray[np.int64], starts: NDArray[np.int64]) -> dict[str, Any]:
        return {"input_ids": torch.from_numpy(ids), "offsets": torch.from_numpy(starts)}

    if n_texts > len(sources) + len(targets):
        note = partial(progress.count, "texts tokenised")
        of_sources = Tokens.build(tokenizer, sources, folder / "sources", note)
        of_targets = Tokens.build(tokenizer, targets, folder / "targets", note)
        return lambda rows, numbers: (features(*of_sources.bags(rows)), features(*of_targets.bags(numbers)))

    def read(texts: Sequence[str]) -> dict[str, Any]:
        ids, lengths = tokenise(tokenizer, texts)
        return features(ids, np.cumsum(lengths) - lengths)

    return lambda rows, numbers: (
        read([sources[row] for row in rows.tolist()]),
        read([targets[number] for number in numbers.tolist()]),
    )


def _is_static(student: Any) -> bool:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    return isinstance(student[0], StaticEmbedding)


def _make_trainer(
    recipe: Recipe,
    student: Any,
    loss: Any,
    dataset: _Pairs,
    columns: Callable[[NDArray[np.int64], NDArray[np.int64]], tuple[dict[str, Any], dict[str, Any]]],
    batches: MixedBatches,
    evaluate: Callable[[], dict[str, float]],
    steps: tuple[int, int],
    folder: Path,
    before: list[dict[str, Any]],
    progress: Watcher,
    on_cpu: bool,
) -> Any:
    import torch
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.base.evaluation import BaseEvaluator
    from torch.utils.data import DataLoader
    from transformers import PrinterCallback, TrainerCallback

    total, every = steps
    score, is_greater_better = criterion(recipe)
    clock = _Clock(before)

    def collate(batch: tuple[NDArray[np.int64], NDArray[np.int64]]) -> dict[str, Any]:
        source, target = columns(*batch)
        inputs = {f"source_{key}": value for key, value in source.items()}
        inputs |= {f"target_{key}": value for key, value in target.items()}
        return {**inputs, "label": torch.from_numpy(batch[0])}

    class Evaluator(BaseEvaluator):  # type: ignore[misc]
        """The development scores, and the time."""

        def __call__(self, model: Any, *args: Any, **options: Any) -> dict[str, float]:
            if not _is_finite(student):
                raise _diverged(f"weights after step {trainer.state.global_step:,} are no numbers", folder)
            with clock.evaluation():
                scores = evaluate()
            progress.note(f"step {trainer.state.global_step:,} of {total:,}: dev {listed(scores)}")
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
                progress.note(f"stops early: no better dev {score} in {recipe.patience} evaluations")
                control.should_training_stop = True

    class Trainer(SentenceTransformerTrainer):  # type: ignore[misc]
        """The library's trainer with batches of our own; it refuses numbers that are none, and writes no pickled
        arguments and no model card."""

        last_loss = 0.0

        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            pass

        def get_train_dataloader(self) -> Any:
            self.accelerator.even_batches = False
            parts = recipe.accumulate * self.args.world_size
            sampler = _BatchParts(batches, parts, recipe.batch_size)
            pin = torch.cuda.is_available() and not on_cpu
            loader: Any = DataLoader  # its types know no data set that reads batch by batch
            return self.accelerator.prepare(loader(dataset, batch_sampler=sampler, collate_fn=collate, pin_memory=pin))

        def compute_loss(self, *args: Any, **options: Any) -> Any:
            found = super().compute_loss(*args, **options)
            self.last_loss = found.item()
            if not math.isfinite(self.last_loss):
                raise _diverged(f"the loss of step {self.state.global_step + 1:,} is {self.last_loss}", folder)
            return found

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            student.save_pretrained(output_dir, create_model_card=False)

    try:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(folder),
            max_steps=total,
            gradient_accumulation_steps=recipe.accumulate,
            learning_rate=recipe.learning_rate,
            warmup_steps=min(recipe.warm_up, total // 10),
            adam_beta2=recipe.beta2,
            max_grad_norm=recipe.max_gradient_norm,
            bf16=recipe.precision == "bf16",
            fp16=recipe.precision == "fp16",
            use_cpu=student.device.type == "cpu",  # where there is no GPU, too: else bf16 is refused
            seed=recipe.seed,
            eval_strategy="steps",
            eval_steps=every,
            save_strategy="steps",
            save_steps=every,
            save_total_limit=2,  # the last and the best; with 1, the last would go at the end
            metric_for_best_model=score,
            greater_is_better=is_greater_better,
            logging_steps=_log_every(total, every),
            logging_nan_inf_filter=False,
            disable_tqdm=True,
            report_to="none",
        )
    except ValueError as error:  # a precision that this machine does not have
        raise InputError(f"this machine cannot train so: {one_line(error)}") from error
    # DataParallel, which the library takes where no launcher is, would cut a static student's bags in two.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    trainer = Trainer(
        model=student,
        args=arguments,
        train_dataset=dataset,
        loss=loss,
        evaluator=Evaluator(),
        callbacks=[Callbacks()],
    )
    trainer.remove_callback(PrinterCallback)  # it prints to stdout
    return trainer


class _Clock:
    """How long a training has taken, with what it took in earlier processes, and its evaluations."""

    def __init__(self, history: list[dict[str, Any]]):
        last: dict[str, Any] = next((entry for entry in reversed(history) if _SECONDS in entry), {})
        self._before = float(last.get(_SECONDS, 0.0))
        self.dev_seconds = float(last.get(_DEV_SECONDS, 0.0))
        self._start = time.perf_counter()

    def start(self) -> None:
        """The training begins now."""
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the training began."""
        return self._before + time.perf_counter() - self._start

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """The time of a `with` block is that of an evaluation."""
        start = time.perf_counter()
        yield
        self.dev_seconds += time.perf_counter() - start


def listed(scores: Mapping[str, float]) -> str:
    """The main development scores in one line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in scores.items() if ":" not in name and name != "step")


def _point(entry: Mapping[str, float]) -> dict[str, float]:
    """The development scores of an entry in the trainer's log."""
    scores = {name.removeprefix("eval_"): round(value, 6) for name, value in entry.items() if name.startswith("eval_")}
    own = {"runtime", "samples_per_second", "steps_per_second", "seconds", "dev_seconds"}
    return {"step": entry["step"], **{name: value for name, value in scores.items() if name not in own}}


def _has_stopped(recipe: Recipe, history: list[dict[str, Any]]) -> bool:
    """Whether the last `patience` evaluations were no better than one before."""
    score, is_greater_better = criterion(recipe)
    values = [entry[f"eval_{score}"] for entry in history if f"eval_{score}" in entry]
    if not values:
        return False
    best = values.index(max(values) if is_greater_better else min(values))
    return len(values) - 1 - best >= recipe.patience


def _state_of(checkpoint: Path | None) -> dict[str, Any]:
    """The trainer's state in a checkpoint; empty if there is none."""
    return (read_json(checkpoint / "trainer_state.json") if checkpoint else None) or {}


def _history(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trainer's log."""
    return list(state.get("log_history", []))


def _is_finite(student: Any) -> bool:
    return all(bool(weights.isfinite().all()) for weights in student.parameters())


def _diverged(what: str, folder: Path) -> InputError:
    return InputError(
        f"the training has diverged: {what}; the checkpoints are kept in {folder}; begin anew (--fresh) with a lower "
        "--learning-rate, or with --precision fp32"
    )

"""The settings of a training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from baselines.adapters.huggingface import Precision

if TYPE_CHECKING:
    from distill.teacher import VectorType


@dataclass(frozen=True)
class Recipe:
    """The settings of a training. The defaults are the paper's, for a transformer; `STATIC` is for static students.

    Attributes:
        loss: `mse`, `cosine`, `ranking`, or a sum (`cosine+0.2*ranking`); see `distill.losses`.
        batch_size: pairs a step, over all GPUs.
        accumulate: parts in which a batch is computed (less memory; `ranking` has the negatives of a part only).
        learning_rate: the highest one, after the warm-up.
        warm_up: steps; at most a tenth of all.
        epochs: passes over as many pairs as there are, which gives the number of steps.
        max_steps: steps at most.
        eval_steps: steps between development scores, each with a checkpoint. None: about twenty evaluations in a
            training, fewer if they took 5 % of its time.
        best_by: the development score that decides which step is the best, see `SCORES`. None: by the loss.
        patience: stop after so many evaluations without a better one.
        temperature: how a corpus's share depends on its size: 0 the same for all, as in the paper; 1 as its size.
        max_repeats: no pair is seen more often than this in an epoch, however small its corpus.
        weights: factors on the shares of corpora, by full name or by that without the languages; 0: left out.
        pivots: share of the pairs whose source sentence is given in another language, where the pairs have another
            translation of it (pairs xx-yy through English); the teacher's vector is that of the source in any case.
        matryoshka: the loss is that of these first dimensions, too.
        max_length: tokens after which a transformer cuts a sentence.
        precision: of the matrix products (autocast); the weights are float32 in any case.
        teacher_dtype: the format of the teacher's stored vectors.
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
    pivots: float = 0.0
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

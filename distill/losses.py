"""The losses of a student: it learns the teacher's vectors (MSE, cosine), or to rank translations.

The paper's loss is `mse` (Reimers and Gurevych 2020, section 3, equation 1). `ranking` is what it argues against:
the translation ranking of LaBSE (Feng et al. 2022, "Language-agnostic BERT Sentence Embedding", section 2.2). Any sum
of them can be trained, with weights: `mse`, `cosine+ranking`, `cosine+0.2*ranking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cosine_similarity, cross_entropy, mse_loss, normalize

from distill.teacher import TeacherVectors
from harness.core.errors import InputError, unknown_name

KINDS = ("mse", "cosine", "ranking")

_GPU_PART, _CPU_PART = 64, 16  # sentences; see benchmarks/training.py


class DistillationLoss(Module):
    """A loss for sentence-transformers' trainer, with two text columns (source, target) and a label.

    The label is the row number of the source sentence in `teacher`, so that no vector travels through the data set.
    With s, t a pair, M the teacher, M^ the student and means over the batch:

    - `mse`: the mean over dimensions of (M(s) - M^(s))^2, plus that of (M(s) - M^(t))^2. That is twice
      `sentence_transformers.losses.MSELoss`, which takes the mean over the two columns.
    - `cosine`: (1 - cos(M(s), M^(s))) + (1 - cos(M(s), M^(t))).
    - `ranking`: cross-entropy of finding t_i among all t_j of the batch by scale * cos(M^(s_i), M^(t_j)), plus that of
      finding s_i among all s_j; `margin` is subtracted from the cosine of the pair itself. Pairs with the same source
      row are translations of each other, and no negatives. The teacher has no part in it. On several GPUs, each has
      the negatives of its own share of the batch.

    Args:
        model: the student.
        teacher: the vectors of the source sentences.
        kind: see above.
        margin: of `ranking`; 0.3 as in LaBSE.
        scale: of `ranking`, the inverse of the softmax's temperature. The paper's equations have none (1); cosines
            without it leave the softmax over a batch nearly flat.
        projection: (teacher's dim, student's dim), applied to the teacher's vectors, for a student that has fewer
            dimensions (see `distill.students.principal_axes`). None: the dimensions are the same.
        dims: Matryoshka: the loss is the mean over these first dimensions and all of them. For `mse` and `cosine` the
            teacher's vectors should be on their principal axes then (see `projection`).

    Raises:
        InputError: an unknown kind, or dimensions that do not fit.
    """

    def __init__(
        self,
        model: Any,
        teacher: TeacherVectors,
        kind: str = "mse",
        *,
        margin: float = 0.3,
        scale: float = 20.0,
        projection: NDArray[np.floating[Any]] | None = None,
        dims: Sequence[int] = (),
    ):
        super().__init__()
        self.model, self.teacher = model, teacher
        self.margin, self.scale = margin, scale
        self._weights = parse_kind(kind)
        self._dims = _check_dims(model.get_embedding_dimension(), teacher.dim, projection, dims, self._weights)
        self._projection: Tensor | None
        self.register_buffer("_projection", None if projection is None else torch.tensor(projection), persistent=False)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of a batch, a scalar. Its labels are the row numbers, (batch,)."""
        source, target = (embed(self.model, features) for features in sentence_features)
        with torch.autocast(source.device.type, enabled=False):  # half precision is for the student's layers alone
            dtype = torch.promote_types(source.dtype, torch.float32)
            source, target = source.to(dtype), target.to(dtype)
            wanted = self._wanted(labels, source) if self._weights.keys() - {"ranking"} else source
            losses = [
                weight * self._term(kind, source[:, :dim], target[:, :dim], wanted[:, :dim], labels)
                for kind, weight in self._weights.items()
                for dim in self._dims
            ]
        return torch.stack(losses).sum() / len(self._dims)

    def _wanted(self, labels: Tensor, like: Tensor) -> Tensor:
        """The teacher's vectors of the rows, in the student's space."""
        vectors = torch.from_numpy(self.teacher[labels.cpu().numpy()]).to(like)
        return vectors if self._projection is None else vectors @ self._projection.to(like)

    def _term(self, kind: str, source: Tensor, target: Tensor, wanted: Tensor, labels: Tensor) -> Tensor:
        if kind == "mse":
            return mse_loss(source, wanted) + mse_loss(target, wanted)
        if kind == "cosine":
            return 2 - cosine_similarity(source, wanted).mean() - cosine_similarity(target, wanted).mean()
        return translation_ranking(source, target, labels, margin=self.margin, scale=self.scale)


def embed(model: Any, features: dict[str, Tensor], part: int | None = None) -> Tensor:
    """The student's vectors, (batch, dim), computed for `part` sentences of about one length at a time.

    A transformer's batch as it comes is padded to its longest sentence, which is several times the mean. Parts of the
    size that None stands for are as small as keeps the device busy.
    """
    mask = features.get("attention_mask")
    if part is None:
        part = _CPU_PART if mask is not None and mask.device.type == "cpu" else _GPU_PART
    if mask is None or len(mask) <= part:
        return model(features)["sentence_embedding"]  # type: ignore[no-any-return]
    order = mask.sum(dim=1).argsort(stable=True)
    vectors = []
    for rows in torch.split(order, part):
        used = mask[rows].any(dim=0)
        of_rows = {
            name: value[rows][:, used] if getattr(value, "shape", None) == mask.shape else value
            for name, value in features.items()
        }
        vectors.append(model(of_rows)["sentence_embedding"])
    return torch.cat(vectors)[order.argsort()]


def translation_ranking(source: Tensor, target: Tensor, rows: Tensor, *, margin: float, scale: float) -> Tensor:
    """The additive-margin softmax of LaBSE in both directions, for vectors (batch, dim) of any length; a scalar.

    Pairs of the same number in `rows` are no negatives of each other.
    """
    similarities = normalize(source, dim=1) @ normalize(target, dim=1).T
    itself = torch.eye(len(rows), dtype=torch.bool, device=similarities.device)
    is_same = (rows[:, None] == rows[None, :]) & ~itself
    scores = scale * (similarities - margin * itself.to(similarities.dtype))
    scores = scores.masked_fill(is_same, -torch.inf)
    answers = torch.arange(len(rows), device=scores.device)
    return cross_entropy(scores, answers) + cross_entropy(scores.T, answers)


def parse_kind(kind: str) -> dict[str, float]:
    """The weight of each loss in a sum such as `cosine+0.2*ranking`. Raises InputError."""
    weights: dict[str, float] = {}
    for term in kind.split("+"):
        factor, times, name = term.rpartition("*")
        if name not in KINDS:
            raise unknown_name("loss", name, KINDS)
        if name in weights:
            raise InputError(f"loss {kind!r} names {name} twice; give it one weight")
        try:
            weights[name] = float(factor) if times else 1.0
        except ValueError:
            weights[name] = 0.0
        if not 0 < weights[name] < np.inf:
            raise InputError(f"loss {kind!r}: a weight is a number above 0, not {factor!r}")
    return weights


def _check_dims(
    dim: int,
    teacher_dim: int,
    projection: NDArray[np.floating[Any]] | None,
    dims: Sequence[int],
    weights: dict[str, float],
) -> list[int]:
    """The numbers of dimensions to train, all of the student's last. Raises InputError if they do not fit."""
    if weights.keys() - {"ranking"}:
        if projection is None and dim != teacher_dim:
            raise InputError(
                f"the student's vectors have {dim} dimensions, the teacher's {teacher_dim}; "
                "a projection must make them equal"
            )
        if projection is not None and projection.shape != (teacher_dim, dim):
            raise InputError(
                f"the projection of the teacher's vectors has the shape {projection.shape}, not {(teacher_dim, dim)}"
            )
    if any(not 1 <= smaller <= dim for smaller in dims):
        raise InputError(f"Matryoshka dimensions must be 1 to {dim}, the student's, not {', '.join(map(str, dims))}")
    return sorted({*dims, dim})

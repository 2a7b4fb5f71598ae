"""Students: a transformer with mean pooling, or a static one (the mean of token vectors); and means of two.

Both are ordinary `SentenceTransformer`s, which save to folders that the library opens without remote code. What is
fitted here is fitted in closed form in float64, and gives the same numbers again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.huggingface import Precision, folder_digest, legal_text, open_model, torch_dtype
from baselines.adapters.sentence_transformer import set_max_length
from baselines.training.model_folder import as_json, new_folder, save_model
from baselines.training.nli import open_start, resolve_start
from distill.vocabulary import piece_texts, prune_tokenizer
from harness.core.errors import InputError
from harness.core.files import writing

_BATCH = 128  # sentences of about one length
_RIDGE = 1e-3

_COPIED = (".json", ".md", ".png", ".svg")
_POOLER = "pooler."  # no part of mean pooling, and random where the start's file has none

RECORD_FILE = "interpolation.json"
"""What an interpolated student's folder says of it: start, share, and the SHA-256 of what was trained."""

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Pruning:
    """How to reduce a vocabulary (see `distill.vocabulary.prune_tokenizer`).

    Attributes:
        counts: how often each token occurs in the training data (see `distill.vocabulary.count_tokens`).
        size: how many tokens to keep.
    """

    counts: NDArray[np.number[Any]]
    size: int


def transformer_student(
    location: str,
    dim: int,
    *,
    keep_layers: int | None = None,
    pruning: Pruning | None = None,
    max_length: int = 128,
    prompt: str = "",
    seed: int = 0,
    on_cpu: bool = False,
) -> Any:
    """A `SentenceTransformer`: the transformer at `location`, mean pooling, and a projection if dimensions differ.

    Of a sentence-transformers model, the transformer and its dense layers are taken, not its pooling and normalisation.

    Args:
        location: a folder or a hub id.
        dim: length of the student's vectors, which is the teacher's.
        keep_layers: only so many of the lowest layers.
        pruning: which tokens to keep; None: all.
        max_length: tokens after which a sentence is cut.
        prompt: what every sentence begins with, in training and afterwards.
        seed: of a projection, the weights of which are random at first (see `with_fitted_projection`).
        on_cpu: do not use a GPU that is there.

    Raises:
        InputError: no such model, no transformer, or an option that does not fit it.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling

    from baselines.training import trainer

    if dim < 1:
        raise InputError(f"a student has at least 1 dimension, not {dim}")
    loaded, _ = open_model(location, None, lambda source: open_start(source, on_cpu))
    if loaded.transformers_model is None:
        raise InputError(f"{location!r} has no transformer; name another, or a static student (static:...)")
    set_max_length("student", loaded, max_length)
    if keep_layers is not None:
        trainer.keep_layers(loaded, keep_layers)
    if pruning is not None:
        _prune_vocabulary(loaded[0], pruning)

    pooling = Pooling(loaded[0].get_embedding_dimension(), "mean")
    modules = [loaded[0], pooling, *(module for module in loaded if isinstance(module, Dense))]
    width = modules[-1].get_embedding_dimension()
    if width != dim:
        weights = np.random.default_rng(seed).standard_normal((width, dim)) / np.sqrt(width)
        modules.append(_dense(weights, np.zeros(dim)))
    return SentenceTransformer(
        modules=modules,
        device=str(loaded.device),
        prompts={"query": prompt, "document": prompt},
        default_prompt_name="query" if prompt else None,
    )


def with_fitted_projection(student: Any, texts: Sequence[str], vectors: Floats, precision: Precision = "fp32") -> Any:
    """A transformer student whose projection is the best linear map to the teacher's space, by ridge regression.

    Without any training this is a student already; with it, a good start.

    Args:
        student: from `transformer_student`; its transformer is shared with the new student, its projection is dropped.
        texts: a sample of source and target sentences.
        vectors: the teacher's vectors of their sources, (len(texts), dim).
        precision: of the matrix products in the transformer.
    """
    from sentence_transformers import SentenceTransformer

    bare = SentenceTransformer(modules=[student[0], student[1]], device=str(student.device))
    bare.prompts, bare.default_prompt_name = student.prompts, student.default_prompt_name
    fitted = ridge_map(encode(bare, [legal_text(text) for text in texts], precision), vectors)
    return SentenceTransformer(
        modules=[student[0], student[1], _dense(fitted.weights, fitted.offset - fitted.centre @ fitted.weights)],
        device=str(student.device),
        prompts=student.prompts,
        default_prompt_name=student.default_prompt_name,
    )


def set_up(student: Any, dropout: float | None) -> None:
    """Set up a student for its training; nothing of this is saved with it."""
    import torch

    if dropout is not None:
        for module in student.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
    if student.device.type == "cpu" and student.transformers_model is not None:
        # The fused kernel's gradient is slow there (benchmarks/training.py).
        student.transformers_model.set_attn_implementation("eager")


def encode(student: Any, texts: Sequence[str], precision: Precision = "fp32") -> NDArray[np.float32]:
    """A student's vectors, (len(texts), dim), by matrix products of this precision."""
    import torch

    half = torch.autocast(student.device.type, torch_dtype(precision)) if precision != "fp32" else nullcontext()
    with half:
        vectors = student.encode(list(texts), batch_size=_BATCH, show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)


def static_student(tokenizer: Any, dim: int, table: Floats | None = None, *, seed: int = 0) -> Any:
    """A `SentenceTransformer` that takes the mean of its tokens' vectors; a token's weight is its vector's length.

    Args:
        tokenizer: a `tokenizers.Tokenizer`.
        dim: length of a vector.
        table: the vectors to begin with, (tokens, dim), see `distill.pieces.initial_table`; None: random ones.
        seed: of random vectors.

    Raises:
        InputError: a table of another shape.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    if dim < 1:
        raise InputError(f"a student has at least 1 dimension, not {dim}")
    shape = len(piece_texts(tokenizer)), dim
    if table is None:
        table = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(dim)
    if table.shape != shape:
        raise InputError(f"the table of token vectors has the shape {table.shape}, the tokenizer needs {shape}")
    tokenizer.no_truncation()
    # A copy: the weights must not be changed through the caller's array while they are trained.
    embedding = StaticEmbedding(tokenizer, embedding_weights=torch.tensor(table, dtype=torch.float32))
    return SentenceTransformer(modules=[embedding], device="cpu")


@dataclass(frozen=True)
class RidgeMap:
    """x -> (x - centre) @ weights + offset, float64."""

    centre: NDArray[np.float64]
    weights: NDArray[np.float64]
    offset: NDArray[np.float64]


def ridge_map(x: Floats, y: Floats, strength: float = _RIDGE) -> RidgeMap:
    """The linear map from the rows of `x` to those of `y` with the least squared error, weights penalised.

    The penalty is `strength` times the mean variance of a dimension of `x`, times the number of rows.

    Raises:
        InputError: `x` and `y` have different numbers of rows, or fewer than two.
    """
    if len(x) != len(y) or len(x) < 2:
        raise InputError(f"a linear map is fitted on two or more pairs of vectors, not on {len(x)} and {len(y)}")
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    centre, offset = x.mean(axis=0), y.mean(axis=0)
    x = x - centre
    covariance = x.T @ x
    penalty = strength * np.trace(covariance) / len(covariance) or 1.0  # rows that are all alike: no map at all
    weights = np.linalg.solve(covariance + penalty * np.eye(len(covariance)), x.T @ (y - offset))
    return RidgeMap(centre, weights, offset)


def principal_axes(vectors: Floats, dim: int) -> NDArray[np.float64]:
    """The `dim` directions of the greatest second moment of the rows, (row length, dim), orthonormal, greatest first.

    The rows are not centred: their cosines are to stay. An axis points where its largest component is positive.

    Raises:
        InputError: more directions than dimensions.
    """
    if not 1 <= dim <= vectors.shape[1]:
        raise InputError(f"vectors of {vectors.shape[1]} dimensions have that many principal axes, not {dim}")
    x = np.asarray(vectors, dtype=np.float64)
    axes = np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :dim]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(dim)]
    return np.ascontiguousarray(axes * np.sign(largest))


def _dense(weights: NDArray[np.float64], bias: NDArray[np.float64]) -> Any:
    """x -> x @ weights + bias as sentence-transformers' layer."""
    import torch
    from sentence_transformers.base.modules import Dense

    return Dense(
        *weights.shape,
        activation_function=None,
        init_weight=torch.tensor(weights.T, dtype=torch.float32),
        init_bias=torch.tensor(bias, dtype=torch.float32),
    )


def _prune_vocabulary(transformer: Any, pruning: Pruning) -> None:
    """Reduce a transformer's tokenizer, and its embeddings to the rows of the tokens that are kept."""
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    before = transformer.tokenizer
    if getattr(before, "backend_tokenizer", None) is None:
        raise InputError("the student's tokenizer has no tokenizer.json; its vocabulary cannot be pruned")
    pruned, kept = prune_tokenizer(before.backend_tokenizer.to_str(), pruning.counts, pruning.size)
    after = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(pruned),
        model_max_length=before.model_max_length,
        padding_side=before.padding_side,
        truncation_side=before.truncation_side,
        model_input_names=before.model_input_names,
        **before.special_tokens_map,
    )
    if after.pad_token_id != before.pad_token_id:
        # RoBERTa and its kin number positions from that of the padding token.
        raise InputError("pruning would renumber the padding token, which this vocabulary has behind other pieces")
    model, config = transformer.model, transformer.model.config
    rows = model.get_input_embeddings()
    weights = rows.weight.detach()[torch.from_numpy(kept).to(rows.weight.device)].clone()
    model.set_input_embeddings(
        torch.nn.Embedding(len(kept), weights.shape[1], padding_idx=rows.padding_idx, _weight=weights)
    )
    config.vocab_size = len(kept)
    new = {int(old): number for number, old in enumerate(kept)}
    for role in ("bos", "eos", "cls", "sep", "mask", "unk"):
        if (old := getattr(config, f"{role}_token_id", None)) is not None:
            setattr(config, f"{role}_token_id", new.get(old))
    transformer.processor = after


def interpolate(trained: Path, start: str, share: float, out: Path) -> None:
    """Write the transformer student that is `share` of the way from its start to itself.

    Weight by weight it is (1 - share) * start + share * trained (Wortsman et al. 2022, "Robust fine-tuning of zero-shot
    models", WiSE-FT, equation 1). A student that is trained on few corpora is better on their kind of sentences and
    worse on others; half-way it keeps most of both, and costs nothing more to run. The start may have more layers and
    more tokens: those are taken that the student kept. Layers that only the student has (a projection) stay as they
    are trained.

    Args:
        trained: folder of the student.
        start: what it was trained from: a folder, a hub id, or the alias of such an encoder.
        share: 0 to 1; 0.5 is what the paper recommends where no data of the wanted kind can decide.
        out: folder to write; it must not be there.

    Raises:
        InputError: no such model, no transformer, a start with other weights than the student's, or a folder that is
            there already or cannot be written.
    """
    if not 0 <= share <= 1:
        raise InputError(f"--share is between 0 (the start) and 1 (the student), not {share:g}")
    if not trained.is_dir():
        raise InputError(f"no model folder {str(trained)!r}")
    if out.exists():
        raise InputError(f"{out} is there already; delete it, or name another folder")
    model = _open(str(trained))
    begin = _open(resolve_start(start)[0])
    _blend(model, begin, share, f"{start!r} is not what {trained.name!r} was trained from")
    record = {"start": start, "share": share, "trained_sha256": folder_digest(trained)}
    with writing(out), new_folder(out) as part:
        save_model(model, part)
        for path in trained.iterdir():  # report, curve, record: what the library has not written itself
            if path.suffix in _COPIED and not (part / path.name).exists():
                shutil.copyfile(path, part / path.name)
        (part / RECORD_FILE).write_bytes(as_json(record))


def _open(location: str) -> Any:
    model, _ = open_model(location, None, lambda source: open_start(source, on_cpu=True))
    if model.transformers_model is None:
        raise InputError(f"{location!r} has no transformer; weights are interpolated between transformers")
    return model


def _blend(model: Any, begin: Any, share: float, mismatch: str) -> None:
    """Move the model's weights towards the start's, in place; `mismatch` begins the error if they do not fit."""
    import torch

    tokens, others = model.tokenizer.get_vocab(), begin.tokenizer.get_vocab()
    if not tokens.keys() <= others.keys():
        raise InputError(f"{mismatch}: it lacks tokens such as {min(tokens.keys() - others.keys())!r}")
    rows = torch.tensor([others[token] for token in sorted(tokens, key=tokens.__getitem__)])
    table = model.transformers_model.get_input_embeddings().weight
    starts = dict(begin.transformers_model.named_parameters())
    with torch.no_grad():
        for name, weight in model.transformers_model.named_parameters():
            if name.startswith(_POOLER):
                continue
            first = starts.get(name)
            if first is not None and weight is table and len(first) != len(table):
                first = first[rows]
            if first is None or first.shape != weight.shape:
                raise InputError(f"{mismatch}: its weights {name} are missing or of another shape")
            weight.lerp_(first.to(weight), 1 - share)

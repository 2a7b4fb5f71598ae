"""Any sentence-transformers model, and any transformer with pooling: a hub id or a folder.

`sentence-transformers:LOCATION` and `mean-pooling:LOCATION`.

Library: Reimers & Gurevych 2019, "Sentence-BERT" (https://sbert.net).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal

import numpy as np

from baselines.adapters.huggingface import (
    Precision,
    Source,
    encode_by_length,
    legal_text,
    open_model,
    token_lengths,
    torch_dtype,
)
from harness.core.errors import InputError
from harness.core.threads import MAX_WORKERS, n_threads
from harness.encoders.info import EncoderInfo, never

Pooling = Literal["mean", "cls", "max"]

_MIN_LENGTH = 3  # the two special tokens and one of the sentence


class SentenceTransformerEncoder:
    """Sentences to vectors through a loaded `sentence_transformers.SentenceTransformer`; `lang` is ignored.

    The first module (the transformer) runs in `precision`; pooling and all that follows run in float32, so that
    vectors are not rounded a second time. The vector of a sentence depends on its neighbours in the batch by rounding
    only (less than 1e-6 in fp32; in bf16 about 1e-3 of its length, which may move the second decimal of a score).
    Another number of threads changes the batches where there are fewer sentences than all of them together hold.

    Attributes:
        identity: what the fingerprint begins with: the weights.
    """

    uses_lang = False
    size_bytes: int | None = None
    """Of the files that the model was loaded from, where that is known."""

    def __init__(
        self,
        model: Any,
        identity: str,
        *,
        name: str,
        prompt: str | None = None,
        max_length: int | None = None,
        precision: Precision = "fp32",
        batch_size: int = 32,
    ):
        if batch_size < 1:
            raise InputError(f"{name}: batch_size must be at least 1, not {batch_size}")
        self.name = name
        self._model = model
        self._batch_size = batch_size
        self._prompt = _default_prompt(name, model) if prompt is None else prompt
        set_max_length(name, model, max_length)
        self.dim = _output_dim(name, model)
        _set_precision(model, precision)
        self._lock = threading.Lock()
        self.identity, self._precision = identity, precision

    @property
    def fingerprint(self) -> str:
        """Of the weights, and all options that change vectors."""
        shown = {
            "prompt": self._prompt,
            "max_length": self.max_length,
            "precision": self._precision,
            "truncate_dim": None,  # of old: an option that this adapter had; stored fingerprints name it
        }
        return "|".join([self.identity, *(f"{key}:{value}" for key, value in shown.items())])

    def with_prompt(self, prompt: str) -> SentenceTransformerEncoder:
        """The same model with another prompt."""
        other = copy.copy(self)
        other._prompt = prompt
        return other

    @property
    def n_parameters(self) -> int:
        """Of all modules of the model."""
        return sum(parameter.numel() for parameter in self._model.parameters())

    @property
    def max_length(self) -> int | None:
        """Tokens after which a sentence is cut; None where the model reads it whole."""
        length: int | None = self._model.max_seq_length
        return length

    @property
    def model(self) -> Any:
        """The `SentenceTransformer`."""
        return self._model

    @property
    def prompt(self) -> str:
        """What every sentence begins with."""
        return self._prompt

    @property
    def device(self) -> str:
        """Where the model runs, as PyTorch names it."""
        return str(self._model.device)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim)."""
        texts = [legal_text(text) for text in sentences]
        on_cpu = self._model.device.type == "cpu"
        return encode_by_length(
            texts,
            token_lengths(getattr(self._model[0], "tokenizer", None), texts, self._model.max_seq_length),
            self._encode_batch,
            dim=self.dim,
            batch_size=self._batch_size,
            workers=min(n_threads(), MAX_WORKERS) if on_cpu else 0,
        )

    def _encode_batch(self, texts: list[str]) -> np.ndarray:
        import torch
        from sentence_transformers.util import batch_to_device

        with torch.inference_mode():
            with self._lock:  # a tokenizer changes its own padding while it runs
                features = self._model.preprocess(texts, prompt=self._prompt)
            vectors = self._model(batch_to_device(features, self._model.device))["sentence_embedding"]
            return np.asarray(vectors[:, : self.dim].float().cpu().numpy())


def load(
    location: str,
    *,
    name: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    max_length: int | None = None,
    precision: Precision = "fp32",
    revision: str | None = None,
    device: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
) -> SentenceTransformerEncoder:
    """Load a sentence-transformers model.

    Args:
        location: a folder, or the id of a model on the hub (taken from the local cache if it is there).
        name: under which results are stored.
        prompt: what every sentence begins with. None: the model's own default prompt, if it has one; "": none.
        prompt_name: one of the prompts that the model itself comes with.
        max_length: tokens after which a sentence is cut; the model's own by default.
        precision: of the transformer. bf16 is faster where the processor computes in it.
        revision: branch, tag or commit on the hub.
        device: as PyTorch names it (`cpu`, `cuda:0`); the best one there is by default.
        batch_size: sentences that run at a time (per core on a CPU).
        trust_remote_code: run code that comes with the model. Only for models whose code you have read.

    Raises:
        InputError: no such model, a hub that cannot be reached, or an option that does not fit the model.
    """

    def open_source(source: Source) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(
            source.path,
            revision=source.revision,
            device=device,
            trust_remote_code=trust_remote_code,
            local_files_only=source.is_local,
            # Else a checkpoint that is stored in half precision has the modules after it rounded to that, too.
            model_kwargs={"dtype": torch.float32},
        )

    if prompt is not None and prompt_name is not None:
        raise InputError(f"{name or location}: give prompt or prompt_name, not both")
    model, source = open_model(location, revision, open_source)
    encoder = SentenceTransformerEncoder(
        model,
        f"sentence-transformers/{source.identity}",
        name=name or location,
        prompt=_named_prompt(name or location, model, prompt_name) if prompt_name else prompt,
        max_length=max_length,
        precision=precision,
        batch_size=batch_size,
    )
    encoder.size_bytes = source.size_bytes
    return encoder


def load_pooled(
    location: str,
    *,
    name: str | None = None,
    pooling: Pooling = "mean",
    prompt: str = "",
    max_length: int | None = None,
    precision: Precision = "fp32",
    revision: str | None = None,
    device: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
) -> SentenceTransformerEncoder:
    """Load any transformer, pooled without training; a trained pooling in the folder is not used.

    The paper's mBERT mean and XLM-R mean. Mean: the average of the last hidden states over all tokens of a sentence,
    the special ones included and padding left out (Reimers & Gurevych 2020, section 4).

    Args:
        location, name, revision, device, batch_size, trust_remote_code: as of `load`.
        pooling: mean or maximum over the tokens, or the first token alone (`cls`).
        prompt: what every sentence begins with.
        max_length: tokens after which a sentence is cut, special ones included. By default as many as tokenizer and
            model take (512 for mBERT and XLM-R), as sentence-transformers does with a bare transformer.
        precision: of the transformer; pooling runs in float32.

    Raises:
        InputError: no such model, a hub that cannot be reached, or an option that does not fit the model.
    """

    def open_source(source: Source) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
        from sentence_transformers.sentence_transformer.modules import Transformer

        where = {
            "revision": source.revision,
            "local_files_only": source.is_local,
            "trust_remote_code": trust_remote_code,
        }
        transformer = Transformer(
            source.path,
            model_kwargs={**where, "dtype": torch.float32},
            processor_kwargs=dict(where),
            config_kwargs=dict(where),
        )
        pooled = PoolingModule(transformer.get_embedding_dimension(), pooling)
        return SentenceTransformer(modules=[transformer, pooled], device=device)

    model, source = open_model(location, revision, open_source)
    encoder = SentenceTransformerEncoder(
        model,
        f"mean-pooling/{source.identity}|pooling:{pooling}",
        name=name or location,
        prompt=prompt,
        max_length=max_length,
        precision=precision,
        batch_size=batch_size,
    )
    encoder.size_bytes = source.size_bytes
    return encoder


def loader_of(location: Callable[[], str | Path], name: str) -> Callable[..., SentenceTransformerEncoder]:
    """`load` with all its options for the model at `location()`, which is called when the model is loaded."""

    # The registry reads the options from the signature, which is that of the wrapped function: all but the location.
    @wraps(partial(load, ""), assigned=())
    def load_model(**options: Any) -> SentenceTransformerEncoder:
        return load(str(location()), **{"name": name, **options})

    return load_model


def _default_prompt(name: str, model: Any) -> str:
    return _named_prompt(name, model, model.default_prompt_name) if model.default_prompt_name else ""


def _named_prompt(name: str, model: Any, prompt_name: str) -> str:
    if prompt_name not in model.prompts:
        raise InputError(
            f"{name}: the model has no prompt {prompt_name!r}; it has {', '.join(model.prompts) or 'none'}"
        )
    return str(model.prompts[prompt_name] or "")


def set_max_length(name: str, model: Any, max_length: int | None) -> None:
    """Cut sentences after `max_length` tokens, if the model has positions for as many.

    A model's own default is cut to its positions, which some forget: the model would fail on a long sentence.
    """
    limit = _positions(model)
    if max_length is None:
        if limit is not None and (model.max_seq_length or 0) > limit:
            model.max_seq_length = limit
    elif max_length < _MIN_LENGTH or (limit is not None and max_length > limit):
        raise InputError(f"{name}: max_length must be {_MIN_LENGTH} to {limit or 'any number'}, not {max_length}")
    else:
        try:
            model.max_seq_length = max_length
        except AttributeError:  # a static model has no such limit
            raise InputError(f"{name}: this model takes no max_length, it reads a sentence whole") from None


def _positions(model: Any) -> int | None:
    """How many tokens a transformer has positions for; None where it says nothing or takes any number."""
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if not isinstance(limit, int) or limit <= 0:
        return None
    # RoBERTa and its kin number positions from the padding token's number + 1, which this table alone tells.
    tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
    padding = getattr(next(tables, None), "padding_idx", None)
    return limit if padding is None else limit - (padding + 1)


def _output_dim(name: str, model: Any) -> int:
    """Length of a vector, which a model's folder may cut."""
    stored = model.truncate_dim
    if stored is not None and not (isinstance(stored, int) and stored >= 1):
        raise InputError(
            f"{name}: the model's folder says truncate_dim {stored!r}; mend config_sentence_transformers.json"
        )
    dim = model.get_embedding_dimension()
    if dim is None:
        raise InputError(f"{name}: the model does not say how long its vectors are")
    return int(dim)


def _set_precision(model: Any, precision: Precision) -> None:
    """The first module in `precision`, its output and all other modules in float32.

    This is set for fp32 too: checkpoints that are stored in half precision would otherwise stay so.
    """
    import torch

    def widen(module: Any, args: Any, features: dict[str, object]) -> dict[str, object]:
        return {
            key: value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for key, value in features.items()
        }

    model.eval().float()
    if precision != "fp32":
        model[0].to(torch_dtype(precision)).register_forward_hook(widen)


sentence_transformers = EncoderInfo(
    factory=load,
    description="any sentence-transformers model: a hub id or a folder",
    backend="sentence-transformers",
    is_kind=True,
    location_form="HUB_ID-or-DIR",
    extra="torch",
    modules=("sentence_transformers",),
    runs_code=never,
)

mean_pooling = EncoderInfo(
    factory=load_pooled,
    description="any transformer with mean, max or first-token pooling: a hub id or a folder",
    backend="transformers",
    is_kind=True,
    location_form="HUB_ID-or-DIR",
    extra="torch",
    modules=("sentence_transformers",),
    runs_code=never,
)

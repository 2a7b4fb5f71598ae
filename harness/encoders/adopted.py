"""Models of other libraries as encoders: any object with `encode(sentences)`, a `SentenceTransformer` for one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from harness.core.errors import InputError
from harness.encoders.containment import contained
from harness.encoders.sides import SIDES, AnyEncoder, joined

_PROBES = (
    "A man is playing a guitar.",
    "Ein Mann spielt auf einer Gitarre, während eine Frau zuhört.",
    "Мужчина играет на гитаре.",
    "一个男人在弹吉他。",
    "رجل يعزف على الجيتار.",
    "1 + 1 = 2",
    "The committee, which had met twice before without result, at last agreed on the wording of the report. " * 4,
)
_DECIMALS = 4  # of unit vectors: rounding between two processes stays far below


class AdoptedEncoder:
    """An object with `encode(sentences)`, which returns an array of one row a sentence.

    The fingerprint is a digest of its vectors for fixed sentences: the object does not say what its weights are. So it
    is another one where the vectors differ by rounding at the fourth decimal, and vectors are then computed again.

    Args:
        model: the object; `lang` is passed on if its method takes it.
        name: under which results are stored; by default what the object says of itself, else its class.
        method: the name of its method that encodes.
    """

    def __init__(self, model: Any, name: str | None = None, method: str = "encode"):
        self._model, self._method = model, getattr(model, method)
        self.name = name or _name_of(model)
        self.uses_lang = "lang" in _parameters(self._method)
        with contained():
            probes = _array(self._method(list(_PROBES)))
        if probes.ndim != 2 or len(probes) != len(_PROBES):
            raise InputError(
                f"{type(model).__name__}.{method} returned an array of shape {probes.shape} for {len(_PROBES)} "
                "sentences; it has to give one vector a sentence"
            )
        self.dim = probes.shape[1]
        norms = np.linalg.norm(probes, axis=1, keepdims=True)
        digits = np.round(probes / np.where(norms > 0, norms, 1), _DECIMALS) + 0.0
        self.fingerprint = (
            f"{type(model).__qualname__}|dim:{self.dim}|probes:{sha256(digits.tobytes()).hexdigest()[:16]}"
        )

    @property
    def device(self) -> str:
        """Where the model runs, as far as it says so."""
        return str(getattr(self._model, "device", "cpu"))

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim)."""
        if not sentences:
            return np.empty((0, self.dim), np.float32)
        options = {"lang": lang} if self.uses_lang else {}
        return _array(self._method(list(sentences), **options))


def adopted(model: Any, *, by_side: bool = False) -> AnyEncoder:
    """An object with `encode` as an encoder.

    by_side: use its methods `encode_query` and `encode_document`, if it has both (a `SentenceTransformer` does, which
        puts its prompts `query` and `document` before the texts). They are one encoder if their vectors are equal.

    Raises:
        InputError: what it returns is no array with a vector for each sentence.
    """
    if by_side and all(callable(getattr(model, f"encode_{side}", None)) for side in SIDES):
        query, document = (AdoptedEncoder(model, method=f"encode_{side}") for side in SIDES)
        return joined(query, document)
    return AdoptedEncoder(model)


def _array(vectors: Any) -> np.ndarray:
    if hasattr(vectors, "detach"):  # a tensor of PyTorch, on whatever device
        vectors = vectors.detach().float().cpu().numpy()
    return np.asarray(vectors, dtype=np.float32)


def _parameters(function: Any) -> Sequence[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _name_of(model: Any) -> str:
    """The last part of a model's path or hub id, where it says one."""
    card = getattr(model, "model_card_data", None)
    said = (
        getattr(card, "model_name", None) or getattr(card, "base_model", None) or getattr(model, "name_or_path", None)
    )
    name = str(said or type(model).__name__).rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.") or "model"

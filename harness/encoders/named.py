"""An encoder under the name of its spec string, normalised or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.encoders.encoder import PartialError, check_vectors, normalise


class Named:
    """An encoder under the name of its spec string, its vectors as they are or scaled to unit L2 norm in float32.

    Zero vectors stay zero. All else, its `device` for one, is the encoder's own.
    """

    def __init__(self, encoder: Any, name: str, is_normalised: bool):
        self.name = name
        self._encoder = encoder
        self._is_normalised = is_normalised

    # Not left to __getattr__: from Python 3.12 on, `isinstance(encoder, Encoder)` does not see what that gives.
    @property
    def fingerprint(self) -> str:
        """The encoder's own, and whether its vectors are scaled."""
        return f"{self._encoder.fingerprint}|normalized" if self._is_normalised else str(self._encoder.fingerprint)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self._encoder.dim)

    @property
    def uses_lang(self) -> bool:
        """Whether `lang` changes the vectors."""
        return bool(self._encoder.uses_lang)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """What the encoder returns, scaled if that is wanted."""
        if not self._is_normalised:
            vectors: np.ndarray = self._encoder.encode(sentences, lang=lang)
            return vectors
        try:
            return normalise(check_vectors(self._encoder.encode(sentences, lang=lang), sentences, self))
        except PartialError as partial:
            kept = normalise(check_vectors(partial.vectors, [sentences[row] for row in partial.rows], self))
            raise PartialError(partial.rows, kept, partial.error) from partial.error

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # copying and unpickling ask for some before `_encoder` is there
            raise AttributeError(attribute)
        return getattr(self._encoder, attribute)

"""Encoders that compute next to nothing.

Tests of the command line put the text of this file (`inspect.getsource`) at the start of a user's module.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Letters:
    """A vector counts the code points of its sentence, modulo the dimension; `seen` is what was encoded."""

    name, fingerprint, dim, uses_lang = "letters", "letters-v1", 32, False

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        self.seen += sentences
        rows = [np.bincount([ord(letter) % self.dim for letter in text], minlength=self.dim) for text in sentences]
        return np.array(rows, np.float32).reshape(len(sentences), self.dim)


class Counting:
    """A vector is a function of the sentence, and of the language if that is used; `batches` is what was encoded."""

    name, dim = "counting", 3

    def __init__(self, fingerprint: str = "v1", uses_lang: bool = False):
        self.fingerprint, self.uses_lang = fingerprint, uses_lang
        self.batches: list[list[str]] = []
        self.langs: list[str | None] = []

    @property
    def seen(self) -> list[tuple[str | None, str]]:
        """All sentences with their languages, in the order in which they came."""
        return [(lang, text) for lang, batch in zip(self.langs, self.batches, strict=True) for text in batch]

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        self.batches.append(list(sentences))
        self.langs.append(lang)
        return np.array([self.row(text, lang if self.uses_lang else None) for text in sentences], np.float32)

    @staticmethod
    def row(sentence: str, lang: str | None = None) -> list[float]:
        return [len(sentence), sum(map(ord, sentence)) % 977, 0 if lang is None else sum(map(ord, lang))]


class Metered(Counting):
    """Counts what it is given in `usage`, and says in which precision it computes."""

    def __init__(self, precision: str = "bf16") -> None:
        super().__init__()
        self.usage = {"tokens": 100.0}  # of earlier calls
        self.conditions = {"precision": precision}

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        self.usage["tokens"] += sum(map(len, sentences))
        return super().encode(sentences, lang=lang)

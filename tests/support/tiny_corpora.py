"""Parallel corpora of languages that are made up: each word of one has one word of the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def made_up_words(language: str, n: int = 40) -> list[str]:
    """Words of two syllables, the same for the same language."""
    source = random.Random(language)
    words: dict[str, None] = {}
    while len(words) < n:
        words["".join(source.choice(_CONSONANTS) + source.choice(_VOWELS) for _ in range(2)) + language[-1]] = None
    return list(words)


def write_corpus(folder: Path, name: str, language: str, n: int, *, seed: int = 0) -> Path:
    """`NAME.en-LANGUAGE.tsv`: n distinct sentences of 3 or 4 words; with the same seed, the same English ones."""
    words = made_up_words("en")
    translation = dict(zip(words, made_up_words(language), strict=True))
    source = random.Random(seed)
    sentences: dict[tuple[str, ...], None] = {}
    while len(sentences) < n:
        sentences[tuple(source.choices(words, k=source.choice([3, 4])))] = None
    path = folder / f"{name}.en-{language}.tsv"
    path.write_text(
        "".join(f"{' '.join(s)}\t{' '.join(translation[word] for word in s)}\n" for s in sentences), encoding="utf-8"
    )
    return path


def write_word_swaps(folder: Path, name: str, language: str, n: int, *, words: Sequence[str], seed: int = 0) -> Path:
    """The same with the first half of `words` as English and the second half as the other language: no new words."""
    half = len(words) // 2
    source = random.Random(seed)
    sentences: dict[tuple[str, ...], None] = {}
    while len(sentences) < n:
        sentences[tuple(source.sample(list(words[:half]), k=3))] = None
    translation = dict(zip(words[:half], words[half : 2 * half], strict=True))
    path = folder / f"{name}.en-{language}.tsv"
    path.write_text(
        "".join(f"{' '.join(s)}\t{' '.join(translation[word] for word in s)}\n" for s in sentences), encoding="utf-8"
    )
    return path

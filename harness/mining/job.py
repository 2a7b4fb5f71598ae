"""A mining job in stages, each a function of what the one before gave: read, encode, search, select, write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.encoders.cache import VectorCache
from harness.encoders.encoder import Encoder
from harness.mining import bitext
from harness.mining.bitext import Sentences
from harness.mining.margin import Margin, Retrieval, mine
from harness.mining.neighbours import Backend, Progress
from harness.mining.search import Floats, Ints

Vectors = NDArray[np.floating[Any]]


class Watcher(Protocol):
    """Is told how far a job is."""

    def note(self, message: str) -> None:
        """Something is to be said."""

    def encoding(self, task: str, subset: str, done: int, total: int) -> None:
        """`done` of `total` new sentences of a side are encoded."""

    def searching(self, search: Progress) -> None:
        """How far the search is."""


@dataclass(frozen=True)
class Input:
    """A side as it is given.

    Attributes:
        path: its file.
        lang: its language, None where it is unknown.
        option: that names the language.
    """

    path: Path
    lang: str | None
    option: str


@dataclass(frozen=True)
class Reading:
    """Which lines are sentences to mine; see `harness.mining.bitext.read_sentences`."""

    min_length: int = 1
    max_length: int | None = None
    dedup: bool = True


@dataclass(frozen=True)
class Searching:
    """How pairs are found; see `harness.mining.margin.mine`."""

    k: int = 4
    margin: Margin = "ratio"
    retrieval: Retrieval = "max"
    backend: Backend = "auto"


@dataclass(frozen=True)
class Choice:
    """Which of the mined pairs are written: those with at least `threshold`, the `top` best; None: all."""

    threshold: float | None = None
    top: int | None = None


@dataclass(frozen=True)
class Mined:
    """Pairs that were mined.

    Attributes:
        rows: (p, 2), of the sentences of the sides.
        scores: (p,), descending.
    """

    rows: Ints
    scores: Floats

    def __len__(self) -> int:
        return len(self.scores)


def check_backend(searching: Searching) -> None:
    """Raise InputError or MissingExtraError if the backend cannot work here: better known before hours of encoding."""
    if searching.backend != "auto":
        mine(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), backend=searching.backend)


def read(inputs: Sequence[Input], reading: Reading, say: Callable[[str], None]) -> list[Sentences]:
    """The sentences of both sides. Raises InputError as `harness.mining.bitext.read_sentences`."""
    texts = []
    for side in inputs:
        text = bitext.read_sentences(
            side.path, min_length=reading.min_length, max_length=reading.max_length, dedup=reading.dedup
        )
        say(f"{side.path.name} ({side.lang or 'language unknown'}): {text.summary}")
        texts.append(text)
    return texts


def encode(
    texts: Sequence[Sentences], inputs: Sequence[Input], model: Encoder, cache_dir: Path | None, watcher: Watcher
) -> list[Vectors]:
    """The vectors of both sides, (n, dim) each. Raises what the encoder raises, and as the cache of vectors."""
    for text, side in zip(texts, inputs, strict=True):  # before the other side has taken hours
        bitext.check_encodes(model, text, side.lang, side.path, side.option)
    vectors = VectorCache(cache_dir).of(model)
    encoded = [
        vectors.encode(text.sentences, side.lang, partial(watcher.encoding, "mine", side.path.name))
        for text, side in zip(texts, inputs, strict=True)
    ]
    n_zero = sum(int(np.count_nonzero(~side.vectors.any(axis=1))) for side in encoded)
    watcher.note(
        f"{model.name}: {sum(side.n_new for side in encoded):,} of {sum(side.n_distinct for side in encoded):,} "
        "sentences encoded, the others taken from the cache" + (f"; {n_zero:,} zero vectors" if n_zero else "")
    )
    return [side.vectors for side in encoded]


def search(vectors: Sequence[Vectors], searching: Searching, checkpoint: Path | None, watcher: Watcher) -> Mined:
    """All pairs, the best first. Raises as `harness.mining.margin.mine`."""
    x, y = vectors
    pairs, scores = mine(
        x,
        y,
        k=searching.k,
        margin=searching.margin,
        retrieval=searching.retrieval,
        backend=searching.backend,
        checkpoint=checkpoint,
        on_progress=watcher.searching,
    )
    return Mined(pairs, scores)


def select(mined: Mined, texts: Sequence[Sentences], choice: Choice) -> Mined:
    """The pairs that are written, in the same order."""
    n = bitext.n_best(mined.scores, threshold=choice.threshold, top=choice.top)
    return Mined(mined.rows[:n], mined.scores[:n])


def write(chosen: Mined, texts: Sequence[Sentences], out: Path) -> None:
    """Write the pairs to a file. Raises InputError if that is impossible."""
    bitext.write_bitext(out, bitext.to_tsv(chosen.rows, chosen.scores, texts[0].sentences, texts[1].sentences))

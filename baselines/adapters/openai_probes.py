"""Which model answers behind a name: fixed probe sentences, and a sketch of their vectors that stands in fingerprints.

A server's name for a model does not tell its weights, and equal requests need not have equal bits. So two answers are
of one model if the vectors of the probes have nearly the same direction. Of their coordinates along two fixed
directions, the sketch keeps a byte each. Two sketches tell by themselves whether they are of one model; nothing else
has to be kept for that, and it holds on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import shake_256
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from harness.encoders.encoder import normalise

PROBES = (
    "The cat sleeps.",
    "Der Hund läuft durch den Wald.",
    "Il pleut à Paris.",
    "¿Dónde está la biblioteca?",
    "Зимой в Москве холодно",
    "今天天气很好。",
    "猫がソファーで寝ています。",
    "صباح الخير يا أصدقائي",
    "बच्चे मैदान में खेल रहे हैं।",
    "고양이가 자고 있다",
    "Bugün hava çok güzel",
    "1 + 1 = 2; x_i ≤ 3.14",
    "NASA LAUNCHES A Rocket",
    "The committee, which had met twice before without result, at last agreed on the wording of the report. " * 3,
    "Der Ausschuss, der schon zweimal ohne Ergebnis getagt hatte, einigte sich auf den Wortlaut des Berichts. " * 3,
    "Комитет, который уже дважды собирался безрезультатно, наконец согласовал текст доклада. " * 3,
)
"""What is asked when a server is opened: texts in many scripts, with digits and capitals, short and long ones."""

N_SHORT = 13
"""So many of them, the first ones, are short enough to go along with every request."""

SAME = 1e-3
"""1 - cosine below which two vectors of a text are of one model: half precision and batching stay far below it."""

_DIRECTIONS = 2
_STEPS = 32  # of a coordinate: one step is 0.03 of a vector's length
_MIDDLE = 128


def unlike(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """The largest 1 - cosine between rows of two arrays, (n, dim) each; 1 where a row is zero."""
    products = normalise(first).astype(np.float64) * normalise(second)
    return max(0.0, float((1 - products.sum(axis=1)).max(initial=0.0)))


def sketch(vectors: NDArray[np.float32]) -> str:
    """The coordinates of the probes' vectors, (16, dim), scaled to unit length, along two directions; 64 hex digits."""
    coordinates = normalise(vectors).astype(np.float64) @ _directions(vectors.shape[1]).T
    steps = np.clip(np.rint(coordinates * _STEPS), 1 - _MIDDLE, _MIDDLE - 1) + _MIDDLE
    return steps.astype(np.uint8).tobytes().hex()


def nearest_sketch(found: str, known: Iterable[str], spread: float) -> str | None:
    """The one of the known sketches that is of the same model as `found`; None if none is.

    Each coordinate may differ by a step, since it may have been at an edge, and by four standard deviations of what
    two equal requests differ by (`spread`, a 1 - cosine: the coordinates then differ by its square root, doubled).
    """
    allowed = 1 + int(4 * sqrt(2 * spread) * _STEPS)
    distances = {other: _distances(found, other) for other in known}
    same = {other: int(steps.sum()) for other, steps in distances.items() if steps.max() <= allowed}
    return min(same, key=same.__getitem__, default=None)


def _distances(first: str, second: str) -> NDArray[np.int64]:
    parts = [np.frombuffer(bytes.fromhex(text), np.uint8).astype(np.int64) for text in (first, second)]
    return np.asarray(np.abs(parts[0] - parts[1]))


@cache
def _directions(dim: int) -> NDArray[np.float64]:
    """Fixed signs, (2, dim): the coordinate of a unit vector along such a row has a standard deviation of about 1."""
    digest = shake_256(b"probe directions").digest(-(-_DIRECTIONS * dim // 8))
    bits = np.unpackbits(np.frombuffer(digest, np.uint8))[: _DIRECTIONS * dim]
    return bits.reshape(dim, _DIRECTIONS).T.astype(np.float64) * 2 - 1

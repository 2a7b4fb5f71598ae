"""One encoder's per-item rows on what is to be compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.cache import EncoderVectors, VectorCache
from harness.data import Source
from harness.encoder import Encoder
from harness.errors import HarnessError, LanguageError, VectorError
from harness.registry import one_line
from harness.rows import stored_rows
from harness.runner import Planned, Progress, Silent, identity_of
from harness.tasks import Rows, Task

Key = tuple[str, str]
"""Task and subset."""


@dataclass(frozen=True)
class Measured:
    """An encoder's rows by task and subset, and why there are none of the other subsets."""

    encoder: str
    rows: dict[Key, Rows] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)


def measure_rows(
    encoder: Encoder,
    plan: Sequence[Planned],
    cache: VectorCache,
    results: Path,
    progress: Progress | None = None,
) -> Measured:
    """The rows that `run` has kept below `results`, where they are of the same data, vectors and protocol.

    The others are computed, from cached vectors as far as there are any; they are not stored. As in a run, an error
    of the encoder's own fails one subset, vectors that are none fail what is left.

    Raises:
        HarnessError: bad data, damaged rows, a folder that cannot be written.
    """
    progress = progress or Silent()
    vectors = cache.of(encoder)
    measured = Measured(encoder.name)
    todo = [(planned.task, source) for planned in plan for source in planned.sources]
    progress.start(encoder.name, len(todo))
    for place, (task, source) in enumerate(todo):
        key = task.name, source.subset
        start = time.perf_counter()
        try:
            rows = stored_rows(results, task, identity_of(encoder, task, source))
            how = "stored rows"
            if rows is None:
                rows = _computed(task, source, vectors, progress)
                how = f"{time.perf_counter() - start:.1f} s"
        except Exception as error:
            if isinstance(error, HarnessError) and not isinstance(error, VectorError | LanguageError):
                raise
            progress.fail(encoder.name, *key, error)
            measured.failures[key] = one_line(error)
            if isinstance(error, VectorError):
                for other, skipped in todo[place + 1 :]:
                    measured.failures[other.name, skipped.subset] = f"not tried after: {one_line(error)}"
                break
        else:
            measured.rows[key] = rows
            progress.note(f"  [{place + 1}/{len(todo)}] {task.name} {source.subset} ({how})")
    return measured


def _computed(task: Task, source: Source, vectors: EncoderVectors, progress: Progress) -> Rows:
    def encode(sentences: Sequence[str], lang: str | None) -> NDArray[np.float32]:
        return vectors.encode(
            sentences, lang, lambda done, total: progress.encoding(task.name, source.subset, done, total)
        ).vectors

    return task.rows(task.load(source), encode)

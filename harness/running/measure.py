"""Planning and measuring: encoder x task x subset; each set is read once, each distinct sentence encoded once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from hashlib import sha256
from math import isfinite
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from harness.core import provenance
from harness.core.errors import EncoderError, HarnessError, InputError, LanguageError
from harness.data import Source
from harness.encoders.cache import VectorCache
from harness.encoders.encoder import Conditions
from harness.encoders.reduction import Reduced
from harness.encoders.shards import Effort
from harness.encoders.sides import AnyEncoder, Side, Sides, TwoSided, by_side, side_of
from harness.encoders.variant import Variant
from harness.encoders.vectors import EncoderVectors
from harness.protocol.task import Planned, Rows, Task, common_signature
from harness.results.records import Dataset, Identity, RecordKey, Result, mean_metrics
from harness.results.store import ResultStore
from harness.running.plan import Items, Progress, Silent, identity_of, sets_of

_ENOUGH = 5000
"""Sentences: the speed on fewer is that of warming up."""


class _How(TypedDict):
    threads: int | None
    conditions: Conditions
    usage: dict[str, float]


class Failure(NamedTuple):
    """An error in place of results: of one subset, or (both names empty) of all that an encoder had to do."""

    encoder: str
    task: str
    subset: str
    error: Exception

    @property
    def key(self) -> RecordKey:
        """The names of the record that is missing."""
        return RecordKey(self.encoder, self.task, self.subset)


@dataclass(frozen=True)
class Run:
    """How encoders are measured.

    Attributes:
        cache: where vectors are kept.
        store: where results are kept; None keeps them nowhere.
        fresh: measure again what is stored (vectors still come from the cache).
        save_rows: keep the per-item rows as "npz", "jsonl" or "parquet", and measure again a stored subset without
            usable ones; by default they are kept as "npz" of what is measured anyway.
        progress: who wants to know.
        replace: remove what is stored under an encoder's name if it is of other weights or options (all of it, in one
            step, when the first new subset is there); without, such an encoder is refused.
        items: of the sets, as far as they have been read.
    """

    cache: VectorCache
    store: ResultStore | None = None
    fresh: bool = False
    save_rows: str | None = None
    progress: Progress = field(default_factory=Silent)
    replace: bool = False
    items: Items = field(default_factory=Items)

    def measure(
        self,
        encoder: AnyEncoder,
        plan: Sequence[Planned],
        take: Callable[[Task, Result, Rows | None], None],
        known: Callable[[Task, Identity], tuple[Result, Rows | None] | None],
        *,
        spec: str = "",
        modules: Sequence[str] = (),
    ) -> list[Failure]:
        """Measure an encoder on one set after another, and return what failed; stores nothing but vectors.

        An error of the encoder's own, a language that it cannot take among them, fails one subset; an EncoderError
        (vectors that are none, say) fails what is left. What the encoder does not fit (see `refused`) fails at first.

        Args:
            take: is given what was measured on each set, or is known.
            known: gives the result of an earlier measurement (and its rows, if `take` wants them), or None.
            spec, modules: for the records: what names the encoder, and the Python modules that it runs on.

        Raises:
            HarnessError: any other error, of `take` too: bad data, a full disk.
        """
        sets = sets_of(plan)
        self.progress.start(encoder.name, len(sets))
        failures = refused(encoder, plan)
        for failure in failures:
            self.progress.fail(*failure)
        with ExitStack() as stack:
            vectors = {side: stack.enter_context(self.cache.of(each)) for side, each in by_side(encoder).items()}
            for task, source in [each for each in sets if fits(encoder, each[0])]:
                try:
                    stored = known(task, identity_of(encoder.name, encoder.fingerprint, task, source))
                    result, rows = stored or self._measured(encoder, vectors, task, source)
                    if not stored:
                        result = replace(result, spec=spec, versions=provenance.versions(modules))
                    take(task, result, rows)
                except Exception as error:
                    if isinstance(error, HarnessError) and not isinstance(error, EncoderError | LanguageError):
                        raise
                    failures.append(Failure(encoder.name, task.name, source.subset, error))
                    self.progress.fail(*failures[-1])
                    if isinstance(error, EncoderError):
                        break
                else:
                    self.progress.finish(result, task.main_metric, stored is not None)
        return failures

    def _measured(
        self, encoder: AnyEncoder, vectors: Mapping[Side | None, EncoderVectors], task: Task, source: Source
    ) -> tuple[Result, Rows]:
        start = time.perf_counter()
        n_distinct, effort = 0, Effort(0.0)
        zero: set[str] = set()

        def encode(sentences: Sequence[str], lang: str | None, *, side: Side | None = None) -> NDArray[np.float32]:
            nonlocal n_distinct, effort
            of_side = vectors[side_of(encoder, side)]
            encoded = of_side.encode(sentences, lang, partial(self.progress.encoding, task.name, source.subset))
            n_distinct, effort = n_distinct + encoded.n_distinct, effort.plus(encoded.effort, 1)
            zero.update(sentences[i] for i in np.flatnonzero(~encoded.vectors.any(axis=1)).tolist())
            return encoded.vectors

        device = str(getattr(next(iter(by_side(encoder).values())), "device", "cpu"))
        items = self.items.of(task, source)
        rows = task.rows(items, encode)
        metrics = task.aggregate(rows)
        for name, value in metrics.items():
            if name not in task.metric_names:
                raise ValueError(f"task {task.name!r} gives {name}, which is none of its metrics")
            if not isfinite(value):
                raise ValueError(f"task {task.name!r} gives {name} = {value}")
        result = Result(
            task=task.name,
            task_version=task.version,
            subset=source.subset,
            encoder=encoder.name,
            fingerprint=encoder.fingerprint,
            metrics={name: round(float(metrics[name]), 6) for name in task.metric_names if name in metrics},
            n=task.count(items),
            signature=task.signature_on(source),
            dataset=Dataset(source.dataset, source.sha256, source.checksums, source.is_published),
            zero_vectors=len(zero),
            git=provenance.git_state(),
            hardware={**provenance.hardware(), "device": device},
            wall_time_s=round(time.perf_counter() - start, 3),
            sentences_per_s=round(n_distinct / effort.seconds, 1) if n_distinct >= _ENOUGH and effort.seconds else None,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            languages=list(dict.fromkeys(code for code in source.languages if code)),
            left_out=dict(task.left_out(items)),
            remarks=list(task.remarks(items)),
            **_how(effort),
            **_made(encoder),
        )
        return result, rows


def _how(effort: Effort) -> _How:
    """How vectors were made, as fields of a record."""
    threads = effort.conditions.get("threads")
    return {
        "threads": threads if isinstance(threads, int) else None,
        "conditions": {k: v for k, v in effort.conditions.items() if k != "threads" or not isinstance(v, int)},
        "usage": {name: round(amount, 3) for name, amount in effort.usage.items()},
    }


def fits(encoder: AnyEncoder, task: Task) -> bool:
    """Whether a task can be measured with an encoder: with one of two sides only if it has queries and documents."""
    return task.has_sides or not isinstance(encoder, TwoSided)


def refused(encoder: AnyEncoder, plan: Sequence[Planned]) -> list[Failure]:
    """What of a plan the encoder does not fit, with the reason."""
    unfit = [(task, source) for task, source in sets_of(plan) if not fits(encoder, task)]
    return [
        Failure(
            encoder.name,
            task.name,
            source.subset,
            InputError(
                f"{encoder.name} encodes queries and documents differently, and {task.name} has neither; measure it "
                "with one prompt for all (prompt=..., name=...), or leave the task out"
            ),
        )
        for task, source in unfit
    ]


class _Made(TypedDict, total=False):
    base: str
    reduced: Reduced
    sides: Sides


def _made(encoder: AnyEncoder) -> _Made:
    """Of cut or quantised vectors, what was done to which; of two sides, their fingerprints; as fields of a record."""
    made: _Made = {"sides": encoder.sides} if isinstance(encoder, TwoSided) else {}
    one = next(iter(by_side(encoder).values()))
    if isinstance(one, Variant):
        made |= {"base": one.base.name, "reduced": Reduced(one.dim, one.base.dim, one.reduction.quantize)}
    return made


def averages_of(task: Task, results: Sequence[Result]) -> list[Result]:
    """The averages that the results of one encoder and task make complete, each over one fingerprint.

    The signature of an average is what those of its parts have in common: sets may add what is theirs alone.
    """
    averages = []
    groups: dict[str, dict[str, Result]] = {}
    for result in results:
        if not result.parts and task.is_current(result.signature):
            groups.setdefault(result.fingerprint, {})[result.subset] = result
    for single in groups.values():
        for name, parts in task.averages(single).items():
            averages.append(_average(task, name, [single[part] for part in parts]))
    return averages


def _average(task: Task, name: str, parts: Sequence[Result]) -> Result:
    no_scores = {metric.name for metric in task.metrics if not metric.has_interval}  # a mean threshold says nothing
    metrics = {name: value for name, value in mean_metrics(parts).items() if name not in no_scores}
    effort = Effort(0.0)
    for part in parts:
        conditions = {"threads": part.threads or "unknown", **part.conditions}
        effort = effort.plus(Effort(0.0, conditions, part.usage), 1)
    published = {part.dataset.published for part in parts}
    listing = "".join(f"{part.dataset.sha256}  {part.subset}\n" for part in parts)
    return replace(
        parts[0],
        subset=name,
        signature=common_signature(part.signature for part in parts),
        metrics=metrics,
        n=sum(part.n for part in parts),
        dataset=Dataset(
            name="+".join(dict.fromkeys(part.dataset.name for part in parts)),
            sha256=sha256(listing.encode()).hexdigest(),
            files={key: value for part in parts for key, value in part.dataset.files.items()},
            published=False if False in published else None if None in published else True,
        ),
        parts=[part.subset for part in parts],
        languages=list(dict.fromkeys(code for part in parts for code in part.languages)),
        remarks=[],  # those of the parts are theirs
        left_out=dict(sum((Counter(part.left_out) for part in parts), Counter())),
        zero_vectors=sum(part.zero_vectors for part in parts),
        wall_time_s=round(sum(part.wall_time_s for part in parts), 3),
        sentences_per_s=None,
        created=max(part.created for part in parts),
        tolerance={},  # `leaderboard check` derives it from the parts
        **_how(effort),
    )

"""Which measured result a published figure may stand beside: the same model, on the published data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from harness.errors import HarnessError
from harness.published import PublishedScore
from harness.results import Result, mean_metrics
from harness.spec import Spec, parse_spec

# Options that change no vector, or only its last digits.
_HARMLESS = {"name", "batch_size", "device"}
# Ids under which the hub still finds models that have moved, of those with published figures.
_OLD_HUB_IDS = {
    "bert-base-multilingual-cased": "google-bert/bert-base-multilingual-cased",
    "xlm-roberta-base": "FacebookAI/xlm-roberta-base",
}


@dataclass(frozen=True)
class Measured:
    """A measured score: the name that its record is stored under, the spec string and the fingerprint in it.

    `note`: what a reader of the difference to a published figure must know.
    """

    encoder: str
    spec: str
    fingerprint: str
    value: float
    note: str = ""


class Measurements:
    """Results, looked up by published figures.

    Subset names with a tag are never equal to a published figure's; results on files that are known not to be the
    published ones are left out.
    """

    def __init__(self, results: Iterable[Result]):
        self._by_subset: dict[tuple[str, str], list[Result]] = {}
        for result in results:
            if result.dataset.published is not False:
                self._by_subset.setdefault((result.task, result.subset), []).append(result)

    def of(self, score: PublishedScore) -> Measured | None:
        """The score that was measured with the same model; of several, the first of `each_of`."""
        return next(iter(self.each_of(score)), None)

    def each_of(self, score: PublishedScore) -> list[Measured]:
        """One score for each of the figure's models that was measured: that which is stored under the model's name."""
        chosen = []
        for model, note in zip(score.models, score.notes, strict=True):
            own_name = parse_spec(model).stored_name
            found = [m for m in self.all_of(score) if same_model(m.spec, model, m.fingerprint)]
            if found:
                best = min(found, key=lambda measured: (measured.encoder != own_name, measured.encoder))
                chosen.append(replace(best, note=note))
        return chosen

    def all_of(self, score: PublishedScore) -> list[Measured]:
        """What every encoder has where the published figure stands, whatever the model."""
        stored = [r for r in self._by_subset.get((score.task, score.subset), ()) if score.metric in r.metrics]
        if stored or not score.parts:
            return [Measured(r.encoder, r.spec, r.fingerprint, r.metrics[score.metric]) for r in stored]
        return self._means(score)

    def _means(self, score: PublishedScore) -> list[Measured]:
        """The mean of the parts, for every encoder that has them all with one fingerprint and protocol."""
        alike: dict[tuple[str, ...], list[Result]] = {}
        for result in (r for part in score.parts for r in self._by_subset.get((score.task, part), ())):
            if score.metric in result.metrics:
                key = (result.encoder, result.spec, result.fingerprint, result.signature)
                alike.setdefault(key, []).append(result)
        return [
            Measured(encoder, spec, fingerprint, mean_metrics(parts)[score.metric])
            for (encoder, spec, fingerprint, _), parts in alike.items()
            if len(parts) == len(score.parts)
        ]


@cache
def same_model(spec: str, model: str, fingerprint: str = "") -> bool:
    """Whether the encoder of a record's spec string and fingerprint has the vectors of `model`, another spec string."""
    if not spec:  # measured through the Python API: nothing tells what it is
        return False
    try:
        left, right = parse_spec(spec), parse_spec(model)
        if (left.head, left.location) == (right.head, right.location) and _changes(left) == _changes(right):
            return True
        if left.location is None and left.head != right.head:
            return False
        # A record has the last part of a folder's path: it may look like an old id, and fingerprints tell them apart.
        if left.location in _OLD_HUB_IDS and f"/{left.location}@" in fingerprint:
            left = replace(left, location=_OLD_HUB_IDS[left.location])
        return _opened(left) == _opened(right)
    except HarnessError:  # of a package that is gone, say
        return False


def _changes(spec: Spec) -> dict[str, str]:
    return {key: value for key, value in spec.options.items() if key not in _HARMLESS}


def _opened(spec: Spec) -> tuple[object, str | None, dict[str, str]]:
    """What opens the model, where it is, and the options that count.

    Those that an alias implies are among them, those with their default are not.
    """
    from harness.registry import encoder_info  # imports NumPy, and most specs are equal or different at sight

    info = encoder_info(spec.head)
    location = spec.location or info.location
    defaults = _defaults(info.factory)
    options = {
        key: _handle(value)
        for key, value in {**info.options, **_changes(spec)}.items()
        if value not in defaults.get(key, ())
    }
    return inspect.unwrap(info.factory), location and _handle(location), options


def _handle(text: str) -> str:
    """An address of tfhub.dev as the short handle, other text as it is."""
    return re.sub(r"^https?://tfhub\.dev/(.+?)/?$", r"\1", text)


def _defaults(factory: Callable[..., Any]) -> dict[str, set[str]]:
    """The options of a factory that have a default, and how a spec string may write it."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not tell theirs
        return {}
    given = {p.name: p.default for p in parameters if p.default is not p.empty and p.default is not None}
    return {name: {str(value), str(value).lower()} for name, value in {"normalize": False, **given}.items()}

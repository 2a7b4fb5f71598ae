"""Which measured result a published figure may stand beside: the same model, on the published data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from harness.errors import HarnessError
from harness.published import PublishedScore
from harness.results import Result, mean_metrics
from harness.spec import Spec, parse_spec

# Options that change no vector, or only its last digits.
_HARMLESS = {"name", "batch_size", "device", "precision"}


@dataclass(frozen=True)
class Measured:
    """A measured score: the name that its record is stored under, and the spec string in it."""

    encoder: str
    spec: str
    value: float


class Measurements:
    """Results, looked up by published figures.

    Subset names with a tag are never equal to a published figure's; results on files that are known not to be the
    published ones are left out.
    """

    def __init__(self, results: Iterable[Result]):
        self._by_subset: dict[tuple[str, str], list[Result]] = {}
        for result in results:
            if result.dataset.get("published") is not False:
                self._by_subset.setdefault((result.task, result.subset), []).append(result)

    def of(self, score: PublishedScore) -> Measured | None:
        """The score that was measured with the same model; of several, that which is stored under the model's name."""
        for model in score.models:
            own_name = parse_spec(model).stored_name
            found = [measured for measured in self.all_of(score) if same_model(measured.spec, model)]
            if found:
                return min(found, key=lambda measured: (measured.encoder != own_name, measured.encoder))
        return None

    def all_of(self, score: PublishedScore) -> list[Measured]:
        """What every encoder has where the published figure stands, whatever the model."""
        stored = [r for r in self._by_subset.get((score.task, score.subset), ()) if score.metric in r.metrics]
        if stored or not score.parts:
            return [Measured(r.encoder, r.spec, r.metrics[score.metric]) for r in stored]
        return self._means(score)

    def _means(self, score: PublishedScore) -> list[Measured]:
        """The mean of the parts, for every encoder that has them all with one fingerprint and protocol."""
        alike: dict[tuple[str, ...], list[Result]] = {}
        for result in (r for part in score.parts for r in self._by_subset.get((score.task, part), ())):
            if score.metric in result.metrics:
                key = (result.encoder, result.spec, result.fingerprint, result.signature)
                alike.setdefault(key, []).append(result)
        return [
            Measured(encoder, spec, mean_metrics(parts)[score.metric])
            for (encoder, spec, *_), parts in alike.items()
            if len(parts) == len(score.parts)
        ]


@cache
def same_model(spec: str, model: str) -> bool:
    """Whether the encoder of a record's spec string has the vectors of `model`, another spec string."""
    if not spec:  # measured through the Python API: nothing tells what it is
        return False
    try:
        left, right = parse_spec(spec), parse_spec(model)
        if (left.head, left.location) == (right.head, right.location) and _changes(left) == _changes(right):
            return True
        if left.location is None and left.head != right.head:
            return False
        return _opened(left) == _opened(right)
    except HarnessError:  # of a package that is gone, say
        return False


def _changes(spec: Spec) -> dict[str, str]:
    return {key: value for key, value in spec.options.items() if key not in _HARMLESS}


def _opened(spec: Spec) -> tuple[object, str | None, dict[str, str]]:
    """What opens the model, where it is, and the options that count, those that an alias implies included."""
    from harness.registry import encoder_info  # imports NumPy, and most specs are equal or different at sight

    info = encoder_info(spec.head)
    return info.factory, spec.location or info.location, {**info.options, **_changes(spec)}

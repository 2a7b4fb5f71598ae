"""Published figures as data: one TOML file a source (`reimers2020.toml` describes their keys), read on demand.

Nothing here measures anything. A figure is set beside a measured one only where both are of the very same model on the
very same data (`Measurements`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.schema import read_toml
from harness.encoders.spec import Spec, parse_spec
from harness.results.records import Result, mean_metrics

PAPER = "paper"
# The paper first, and what is nearest to the origin of a figure before what repeats it.
_FILES = ("reimers2020", "laser", "labse", "sentence_transformers", "sts_eval", "mteb")
# Options that change no vector, or only its last digits.
_HARMLESS = {"name", "batch_size", "device"}
# Ids under which the hub still finds models that have moved, of those with published figures.
_OLD_HUB_IDS = {
    "bert-base-multilingual-cased": "google-bert/bert-base-multilingual-cased",
    "xlm-roberta-base": "FacebookAI/xlm-roberta-base",
}


@dataclass(frozen=True)
class PublishedScore:
    """One figure as it is printed somewhere.

    Attributes:
        source: short name of the publication (`paper`, `mteb`); `citation` is the long one.
        table, row, column: where it stands there, as printed.
        numbered: the table's number in an earlier version, where it had another one.
        versions: of the publication, those that it is in; empty where there are none.
        edition: the version, where not all have it; or the revision of the model.
        task, subset, metric: what it is called here.
        printed: the figure with its digits, x 100 where ours is.
        models: spec strings of the encoders that are the very same model, the first one preferred; empty where there is
            none.
        notes: of each model, what a reader of the difference must know; "" where that is nothing.
        name: of its row in tables: the encoder's, else what the publication calls it.
        parts: for an average that the task does not give, the subsets that it is the mean of.
        needs: what it takes to measure it where there is no such encoder.
        is_experiment: whether it is of a variant of a system, which tables that compare systems leave out.
        exact: the figure with all its digits, where `printed` has been rounded here.
    """

    source: str
    citation: str
    table: str
    row: str
    column: str
    edition: str
    task: str
    subset: str
    metric: str
    printed: str
    models: tuple[str, ...]
    notes: tuple[str, ...]
    name: str
    numbered: str = ""
    versions: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    needs: str = ""
    is_experiment: bool = False
    exact: float | None = None

    @property
    def value(self) -> float:
        """The figure as a number."""
        return float(self.printed) if self.exact is None else self.exact

    @property
    def encoder(self) -> str:
        """`name`, under the key that results have."""
        return self.name

    @property
    def metrics(self) -> dict[str, float]:
        """The figure by its metric, as results have them."""
        return {self.metric: self.value}

    @property
    def full_table(self) -> str:
        """The table, with the number that it had earlier: `Table 5 (v1: 4)`."""
        return f"{self.table} ({self.numbered})" if self.numbered else self.table

    @property
    def short_source(self) -> str:
        """The source and the edition: `paper v1`, `mteb 8b3219a`."""
        return f"{self.source} {self.edition}".strip()

    @property
    def full_source(self) -> str:
        """The citation with table and edition."""
        return f"{self.citation}, {self.full_table}{f' ({self.edition})' if self.edition else ''}"


@cache
def published_scores() -> tuple[PublishedScore, ...]:
    """Every published figure, source by source in the order of the tables."""
    return tuple(score for name in _FILES for score in _scores(source_file(name)))


def paper_scores() -> tuple[PublishedScore, ...]:
    """The figures of Tables 1 to 8 of Reimers and Gurevych (2020)."""
    return tuple(score for score in published_scores() if score.source == PAPER)


@cache
def source_file(name: str) -> dict[str, Any]:
    """The content of a source's file; `reimers2020.toml` describes the keys."""
    # Decimal keeps the digits that were printed: 83.00 is not 83.0.
    return read_toml(Path(__file__).with_name(f"{name}.toml"), parse_float=Decimal)


def _scores(file: Mapping[str, Any]) -> Iterator[PublishedScore]:
    all_versions = file.get("versions", ())
    for table in file["tables"]:
        for printed_name, edition, *cells in table["rows"]:
            spec = table.get("models", file["models"]).get(printed_name, ())
            models = (spec,) if isinstance(spec, str) else tuple(spec)
            versions = tuple(edition.split()) if all_versions else ()
            is_experiment = not models and "experiment" in table
            stated = table["experiment"].format(row=printed_name) if is_experiment else printed_name
            for i, (column, subset, cell) in enumerate(zip(table["columns"], table["subsets"], cells, strict=True)):
                if not subset or cell == "-":
                    continue
                size = table["sizes"][i] if "sizes" in table else cells[i - 1] if i else ""
                yield PublishedScore(
                    source=file["name"],
                    citation=file["citation"],
                    table=table["table"],
                    row=printed_name + table.get("suffix", ""),
                    column=column,
                    edition="" if len(versions) == len(all_versions) > 0 else edition,
                    task=table["task"],
                    subset=subset,
                    metric=table["metrics"][i] if i < len(table.get("metrics", ())) else table["metric"],
                    printed=str(cell),
                    models=models,
                    notes=tuple(file.get("notes", {}).get(model, "") for model in models),
                    name=parse_spec(models[0]).stored_name if models else stated,
                    numbered=table.get("numbered", ""),
                    versions=versions,
                    parts=tuple(table.get("parts", {}).get(subset, ())),
                    needs="" if models else table["needs"].format(row=printed_name, column=column, size=size),
                    is_experiment=is_experiment,
                )


@dataclass(frozen=True)
class Measured:
    """A measured score, with the encoder's name, spec string and fingerprint as its record has them.

    `note`: what a reader of the difference to a published figure must know.
    """

    encoder: str
    spec: str
    fingerprint: str
    value: float
    note: str = ""


class Measurements:
    """Results, looked up by published figures.

    Results on stand-ins are never found: their subsets' names have a tag, those of published figures have none. Results
    on files that are known not to be the published ones are left out.
    """

    def __init__(self, results: Iterable[Result]):
        self._by_subset: dict[tuple[str, str], list[Result]] = {}
        for result in results:
            if result.dataset.published is not False:
                self._by_subset.setdefault((result.task, result.subset), []).append(result)

    def measured(self, score: PublishedScore) -> Measured | None:
        """The score that was measured with the same model; the first of `of_each_model` where there are several."""
        return next(iter(self.of_each_model(score)), None)

    def of_each_model(self, score: PublishedScore) -> list[Measured]:
        """A score of each of the figure's models that was measured, preferably the one stored under its name."""
        chosen = []
        for model, note in zip(score.models, score.notes, strict=True):
            name = parse_spec(model).stored_name
            same = [m for m in self.of_any_model(score) if same_model(m.spec, model, m.fingerprint)]
            if same:
                preferred = min(same, key=lambda measured: (measured.encoder != name, measured.encoder))
                chosen.append(replace(preferred, note=note))
        return chosen

    def of_any_model(self, score: PublishedScore) -> list[Measured]:
        """The score of every encoder on the task, subset and metric of the figure."""
        stored = [r for r in self._by_subset.get((score.task, score.subset), ()) if score.metric in r.metrics]
        if stored or not score.parts:
            return [Measured(r.encoder, r.spec, r.fingerprint, r.metrics[score.metric]) for r in stored]
        return self._means(score)

    def _means(self, score: PublishedScore) -> list[Measured]:
        """The mean of the parts, for every encoder that has them all with one fingerprint and protocol."""
        by_origin: dict[tuple[str, ...], list[Result]] = {}
        for result in (r for part in score.parts for r in self._by_subset.get((score.task, part), ())):
            if score.metric in result.metrics:
                key = (result.encoder, result.spec, result.fingerprint, result.signature)
                by_origin.setdefault(key, []).append(result)
        return [
            Measured(encoder, spec, fingerprint, mean_metrics(parts)[score.metric])
            for (encoder, spec, fingerprint, _), parts in by_origin.items()
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
    """What opens the model, where it is, and the options that differ from their defaults, an alias's own included."""
    from harness.encoders.registry import encoder_info  # imports NumPy, and most specs are equal or different at sight

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
    return {
        name: {str(value), str(value).lower()}
        for name, value in {"normalize": False, "quantize": "none", **given}.items()
    }

"""Published figures as data: one TOML file a source (`reimers2020.toml` describes their keys), read on demand.

Nothing here measures anything. A figure is set beside a measured one only where both are of the very same model on the
very same data (`harness.published.matching`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from harness.schema import read_toml
from harness.spec import parse_spec

PAPER = "paper"
# The paper first, and what is nearest to the origin of a figure before what repeats it.
_FILES = ("reimers2020", "laser", "labse", "sentence_transformers", "sts_eval", "mteb")


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
    numbered: str
    versions: tuple[str, ...]
    edition: str
    task: str
    subset: str
    metric: str
    printed: str
    models: tuple[str, ...]
    notes: tuple[str, ...]
    name: str
    parts: tuple[str, ...]
    needs: str
    is_experiment: bool
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
    return tuple(score for name in _FILES for score in _read(Path(__file__).with_name(f"{name}.toml")))


def paper_scores() -> tuple[PublishedScore, ...]:
    """The figures of Tables 1 to 8 of Reimers and Gurevych (2020)."""
    return tuple(score for score in published_scores() if score.source == PAPER)


def _read(path: Path) -> Iterator[PublishedScore]:
    # Decimal keeps the digits that were printed: 83.00 is not 83.0.
    file = read_toml(path, parse_float=Decimal)
    for table in file["tables"]:
        for row in table["rows"]:
            yield from _row(file, table, *row)


def _row(
    file: Mapping[str, Any], table: Mapping[str, Any], printed_name: str, edition: str, *cells: Decimal | str
) -> Iterator[PublishedScore]:
    models = _models(table.get("models", file["models"]).get(printed_name, ()))
    all_versions = file.get("versions", ())
    versions = tuple(edition.split()) if all_versions else ()
    is_experiment = not models and "experiment" in table
    called = table["experiment"].format(row=printed_name) if is_experiment else printed_name
    for i, (column, subset, cell) in enumerate(zip(table["columns"], table["subsets"], cells, strict=True)):
        if not subset or cell == "-":
            continue
        yield PublishedScore(
            source=file["name"],
            citation=file["citation"],
            table=table["table"],
            row=printed_name + table.get("suffix", ""),
            column=column,
            numbered=table.get("numbered", ""),
            versions=versions,
            edition="" if len(versions) == len(all_versions) > 0 else edition,
            task=table["task"],
            subset=subset,
            metric=table["metrics"][i] if i < len(table.get("metrics", ())) else table["metric"],
            printed=str(cell),
            models=models,
            notes=tuple(file.get("notes", {}).get(model, "") for model in models),
            name=parse_spec(models[0]).stored_name if models else called,
            parts=tuple(table.get("parts", {}).get(subset, ())),
            needs="" if models else _needs(table, printed_name, column, i, cells),
            is_experiment=is_experiment,
        )


def _models(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _needs(table: Mapping[str, Any], row: str, column: str, i: int, cells: Sequence[Decimal | str]) -> str:
    size = table["sizes"][i] if "sizes" in table else cells[i - 1] if i else ""
    needs: str = table["needs"].format(row=row, column=column, size=size)
    return needs

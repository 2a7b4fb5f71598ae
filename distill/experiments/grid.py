"""A grid of distillations to compare, read from a TOML file.

    teacher = "minilm"
    seeds = [1, 2, 3]
    steps = 200                       # settings of every distillation, see `Settings`

    [[tables]]
    name = "size"
    title = "Size of the training set"
    columns = [
        { title = "EN-DE", score = "sts17/en-de", languages = ["de"] },
        { title = "EN-AR", score = "sts17/en-ar", languages = ["ar"] },
    ]
    rows = [{ name = "1k", pairs = 1000 }, { name = "all" }]

A cell is the score of its column for the student of its settings: the grid's, changed by those of its table, of its
column and of its row, in this order. A score is TASK/SUBSET, or TASK/SUBSET/METRIC where it is not the task's main one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from distill.losses import parse_kind
from distill.start import Start
from harness.core.errors import InputError, unknown_name
from harness.core.files import user_path
from harness.core.names import Subset, check_name
from harness.core.schema import read_toml
from harness.tasks import get_task

EXPERIMENTS = Path(__file__).parent
"""The grids that come with the package."""

_Text = Annotated[str, Meta(min_length=1)]
_Positive = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True)
class Settings:
    """The settings of one distillation without its seed. All others are those of `STATIC` or `Recipe`.

    Attributes:
        student: what it begins as, see `distill.start.Start`.
        dim: length of its vectors; None: the teacher's.
        tokenizer: of `static:pruned-...`.
        loss: see `distill.losses`.
        corpora, languages: which of the data directory to train on; all if empty.
        pairs: how many, drawn at random by the seed (a smaller draw is part of a larger one); None: all.
        steps: how many to train.
        batch_size: pairs a step.
        learning_rate: None: the recipe's.
        eval_steps: steps between development scores; the student has the weights of the best score.
    """

    student: str = "static:unigram-16000"
    dim: int | None = None
    tokenizer: str = Start.tokenizer
    loss: str = "mse"
    corpora: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    pairs: int | None = None
    steps: int = 200
    batch_size: int = 1024
    learning_rate: float | None = None
    eval_steps: int = 50

    @property
    def start(self) -> Start:
        """What the student begins as."""
        return Start(self.student, dim=self.dim, tokenizer=self.tokenizer)


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that a grid, or a table, column or row of it, changes; see `Settings`."""

    student: _Text | UnsetType = UNSET
    dim: _Positive | UnsetType = UNSET
    tokenizer: _Text | UnsetType = UNSET
    loss: _Text | UnsetType = UNSET
    corpora: tuple[str, ...] | UnsetType = UNSET
    languages: tuple[str, ...] | UnsetType = UNSET
    pairs: _Positive | UnsetType = UNSET
    steps: _Positive | UnsetType = UNSET
    batch_size: _Positive | UnsetType = UNSET
    learning_rate: Annotated[float, Meta(gt=0, le=1e6)] | UnsetType = UNSET
    eval_steps: _Positive | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        """The changed settings by name."""
        values = {name: getattr(self, name) for name in Changes.__struct_fields__}
        return {name: value for name, value in values.items() if value is not UNSET}


@dataclass(frozen=True)
class Score:
    """What a column shows: a task's metric for a subset or average; `str()` gives the form in the file."""

    task: str
    subset: str
    metric: str

    def __str__(self) -> str:
        return f"{self.task}/{self.subset}/{self.metric}"

    @classmethod
    def parse(cls, text: str) -> Score:
        """The score that TASK/SUBSET or TASK/SUBSET/METRIC names. Raises InputError."""
        name, _, rest = text.partition("/")
        subset, _, metric = rest.partition("/")
        task = get_task(name)
        if not subset:
            raise InputError(f"score {text!r}: expected TASK/SUBSET, as in sts17/en-de")
        metric = metric or task.metric_names[0]
        if metric not in task.metric_names:
            raise unknown_name(f"metric of {name}", metric, task.metric_names)
        return cls(name, subset, metric)


class Column(Changes, frozen=True):
    """A column of a table, with the settings that it changes; `score` is in the form of the file."""

    title: _Text
    score: _Text


class Row(Changes, frozen=True):
    """A row of a table, with the settings that it changes."""

    name: _Text


class Table(Changes, frozen=True):
    """An experiment, with the settings of its cells where row and column change nothing."""

    name: _Text
    title: _Text
    columns: Annotated[list[Column], Meta(min_length=1)]
    rows: Annotated[list[Row], Meta(min_length=1)]

    def cell(self, row: Row, column: Column) -> Settings:
        """The settings of a cell."""
        return Settings(**{**self.changes(), **column.changes(), **row.changes()})

    def cells(self) -> list[Settings]:
        """The settings of all cells, row by row."""
        return [self.cell(row, column) for row in self.rows for column in self.columns]

    @property
    def has_data_by_column(self) -> bool:
        """Whether the columns differ in what is trained on."""
        return any(column.changes().keys() & {"corpora", "languages", "pairs"} for column in self.columns)

    @property
    def is_curve(self) -> bool:
        """Whether the rows differ in how many pairs are trained on."""
        return any(row.pairs is not UNSET for row in self.rows)


class Grid(Changes, frozen=True):
    """What to compare, with the settings of all tables where these change nothing.

    Attributes:
        name: of the file, or of the grid in the package.
        teacher: spec of an encoder.
        seeds: every distillation is done once with each seed.
        tables: in the order of the page.
    """

    name: str
    teacher: _Text
    tables: Annotated[list[Table], Meta(min_length=1)]
    seeds: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)] = (1, 2, 3)

    def scores(self) -> dict[Settings, set[Score]]:
        """Which scores are wanted of which distillation, in the order of the cells."""
        wanted: dict[Settings, set[Score]] = {}
        for table in self.tables:
            for row in table.rows:
                for column in table.columns:
                    wanted.setdefault(table.cell(row, column), set()).add(Score.parse(column.score))
        return wanted

    def chosen(self, names: Sequence[str]) -> list[Table]:
        """The tables with these names; all if there are none. Raises InputError."""
        known = {table.name: table for table in self.tables}
        for name in names:
            if name not in known:
                raise unknown_name("table", name, known)
        return [table for table in self.tables if not names or table.name in names]


def read_grid(location: str | Path) -> Grid:
    """A grid from a file, or one of those that come with the package, by its name.

    Raises:
        InputError: no such file, not TOML, a key or name that is not known, a value of the wrong kind, no tables.
    """
    path = user_path(location)
    shipped = {file.stem: file for file in EXPERIMENTS.glob("*.toml")}
    name = path.name
    if not path.is_file():
        if path.suffix:
            raise InputError(f"no file {path}; give a grid in TOML, or {', '.join(sorted(shipped))}")
        if path.name not in shipped:
            raise unknown_name("grid", str(location), shipped)
        path = shipped[path.name]
    try:
        content = read_toml(path)
    except (OSError, ValueError) as error:  # TOMLDecodeError is a ValueError
        raise InputError(f"{path}: not TOML ({error})") from None
    try:
        grid = msgspec.convert({**content, "name": name}, Grid)
        tables = [msgspec.structs.replace(table, **{**grid.changes(), **table.changes()}) for table in grid.tables]
        grid = msgspec.structs.replace(grid, tables=tables)
        _check(grid)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: {error}") from None
    return grid


def _check(grid: Grid) -> None:
    """Raise InputError for a name that is repeated or unknown, before anything is trained."""
    _check_distinct("seeds", grid.seeds)
    _check_distinct("tables", [table.name for table in grid.tables])
    for table in grid.tables:
        check_name(table.name, "table")
        _check_distinct(f"table {table.name}: columns", [column.title for column in table.columns])
        _check_distinct(f"table {table.name}: rows", [row.name for row in table.rows])
        for column in table.columns:
            try:
                Score.parse(column.score)
            except InputError as error:
                raise InputError(f"table {table.name}, column {column.title}: {error}") from None
    for settings in grid.scores():
        settings.start.check()
        parse_kind(settings.loss)


def _check_distinct(place: str, names: Sequence[object]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{place}: {name!r} is there twice")


def resolve_score(score: Score, present: Collection[str]) -> Score:
    """The score on the published data if `present` (subsets and averages) has it, else on its stand-in.

    Raises:
        InputError: neither is there.
    """
    if score.subset in present:
        return score
    for name in sorted(present):
        if Subset.parse(name).base == score.subset:
            return replace(score, subset=name)
    raise unknown_name(f"subset of {score.task} in the data directory:", score.subset, present)

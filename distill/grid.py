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

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from distill.losses import parse_kind
from distill.start import Start
from harness.errors import InputError, unknown_name
from harness.names import Subset, check_name
from harness.tasks import get_task

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXPERIMENTS = Path(__file__).parent / "experiments"
"""The grids that come with the package."""


@dataclass(frozen=True)
class Settings:
    """Of one distillation, but for its seed; what is not here is as in `distill.training.STATIC` or `Recipe`.

    Attributes:
        student: what it begins as, see `distill.start.Start`.
        dim: length of its vectors; None: the teacher's.
        tokenizer: of `static:pruned-...`.
        loss: see `distill.losses`.
        corpora, languages: which of the data directory to train on; all if empty.
        pairs: only so many, drawn at random by the seed (with the same seed, fewer pairs are among more); None: all.
        steps: of the training.
        batch_size: pairs a step.
        learning_rate: None: the recipe's.
        eval_steps: development scores every so many steps; the student is that of the best ones.
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


@dataclass(frozen=True)
class Score:
    """What a column shows: a task's metric for a subset or average; `str()` gives the form in the file."""

    task: str
    subset: str
    metric: str

    def __str__(self) -> str:
        return f"{self.task}/{self.subset}/{self.metric}"


@dataclass(frozen=True)
class Column:
    """A column of a table; `changes` are settings."""

    title: str
    score: Score
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of a table; `changes` are settings."""

    name: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """An experiment. `settings` are those of its cells where row and column change nothing."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    settings: Settings

    def cell(self, row: Row, column: Column) -> Settings:
        """The settings of a cell."""
        return replace(self.settings, **{**column.changes, **row.changes})

    def cells(self) -> list[Settings]:
        """The settings of all cells, row by row."""
        return [self.cell(row, column) for row in self.rows for column in self.columns]

    @property
    def has_data_by_column(self) -> bool:
        """Whether the columns differ in what is trained on."""
        return any(column.changes.keys() & {"corpora", "languages", "pairs"} for column in self.columns)

    @property
    def is_curve(self) -> bool:
        """Whether the rows differ in how many pairs are trained on."""
        return any("pairs" in row.changes for row in self.rows)


@dataclass(frozen=True)
class Grid:
    """What to compare.

    Attributes:
        name: of the file, or by which the package has it.
        teacher: its spec.
        seeds: every distillation is done once with each.
        tables: in the order of the page.
    """

    name: str
    teacher: str
    seeds: tuple[int, ...]
    tables: Sequence[Table]

    def scores(self) -> dict[Settings, set[Score]]:
        """Which scores are wanted of which distillation, in the order of the cells."""
        wanted: dict[Settings, set[Score]] = {}
        for table in self.tables:
            for row in table.rows:
                for column in table.columns:
                    wanted.setdefault(table.cell(row, column), set()).add(column.score)
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
    path = Path(location).expanduser()
    shipped = {file.stem: file for file in EXPERIMENTS.glob("*.toml")}
    name = path.name
    if not path.is_file():
        if path.suffix:
            raise InputError(f"no file {path}; give a grid in TOML, or {', '.join(sorted(shipped))}")
        if path.name not in shipped:
            raise unknown_name("grid", str(location), shipped)
        path = shipped[path.name]
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # TOMLDecodeError is a ValueError
        raise InputError(f"{path}: not TOML ({error})") from None
    try:
        return _grid(name, content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


_KINDS: dict[str, type] = {
    "student": str,
    "dim": int,
    "tokenizer": str,
    "loss": str,
    "corpora": list,
    "languages": list,
    "pairs": int,
    "steps": int,
    "batch_size": int,
    "learning_rate": float,
    "eval_steps": int,
}
_IN_WORDS = {str: "a text", int: "a whole number of at least 1", float: "a number above 0", list: "a list of texts"}


def _grid(name: str, content: Mapping[str, Any]) -> Grid:
    _check_keys("the grid", content, {"teacher", "seeds", "tables", *_KINDS})
    seeds = content.get("seeds", [1, 2, 3])
    if not isinstance(seeds, list) or not seeds or not all(_is_int(seed) and seed >= 0 for seed in seeds):
        raise InputError("seeds: expected a list of whole numbers, as in [1, 2, 3]")
    if len(set(seeds)) < len(seeds):
        raise InputError("seeds: one is given twice")
    common = replace(Settings(), **_settings("the grid", content))
    tables = [_table(table, common) for table in _list_of_tables("the grid", content, "tables")]
    _check_distinct("tables", [table.name for table in tables])
    for settings in {settings for table in tables for settings in table.cells()}:
        settings.start.check()
        parse_kind(settings.loss)
    return Grid(name, _text("the grid", content, "teacher"), tuple(seeds), tables)


def _table(content: Mapping[str, Any], common: Settings) -> Table:
    name = check_name(_text("a table", content, "name"), "table")
    where = f"table {name}"
    _check_keys(where, content, {"name", "title", "columns", "rows", *_KINDS})
    columns = [_column(where, column) for column in _list_of_tables(where, content, "columns")]
    rows = []
    for row in _list_of_tables(where, content, "rows"):
        row_name = _text(f"a row of {where}", row, "name")
        _check_keys(f"{where}, row {row_name}", row, {"name", *_KINDS})
        rows.append(Row(row_name, _settings(f"{where}, row {row_name}", row)))
    _check_distinct(f"{where}: columns", [column.title for column in columns])
    _check_distinct(f"{where}: rows", [row.name for row in rows])
    return Table(name, _text(where, content, "title"), columns, rows, replace(common, **_settings(where, content)))


def _column(where: str, content: Mapping[str, Any]) -> Column:
    title = _text(f"a column of {where}", content, "title")
    where = f"{where}, column {title}"
    _check_keys(where, content, {"title", "score", *_KINDS})
    task, _, rest = _text(where, content, "score").partition("/")
    subset, _, metric = rest.partition("/")
    found = get_task(task)
    if not subset:
        raise InputError(f"{where}: score {content['score']!r}: expected TASK/SUBSET, as in sts17/en-de")
    metric = metric or found.metrics[0]
    if metric not in found.metrics:
        raise unknown_name(f"metric of {task}", metric, found.metrics)
    return Column(title, Score(task, subset, metric), _settings(where, content))


def _settings(where: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value(where, key, content[key]) for key in _KINDS if key in content}


def _value(where: str, key: str, value: Any) -> Any:
    kind = _KINDS[key]
    if kind is list:
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
    elif kind is str:
        if isinstance(value, str) and value:
            return value
    elif (_is_int(value) or (kind is float and isinstance(value, float))) and 0 < value < float("inf"):
        return value
    raise InputError(f"{where}: {key} = {value!r}: expected {_IN_WORDS[kind]}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(where: str, content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(f"{where} has no {key}; give it one, a text")
    return value


def _list_of_tables(where: str, content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = content.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        raise InputError(f"{where} has no {key}; see `leaderboard distill ablate --help` for a grid to begin with")
    return value


def _check_keys(where: str, content: Iterable[str], known: Collection[str]) -> None:
    for key in content:
        if key not in known:
            raise unknown_name(f"key in {where}:", key, known)


def _check_distinct(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{what}: {name!r} is there twice")


def resolve_score(score: Score, present: Collection[str]) -> Score:
    """The score on the published data if that is in `present` (subsets and averages), else on what stands in for it.

    Raises:
        InputError: neither is there.
    """
    if score.subset in present:
        return score
    for name in sorted(present):
        if Subset.parse(name).base == score.subset:
            return replace(score, subset=name)
    raise unknown_name(f"subset of {score.task} in the data directory:", score.subset, present)

"""`leaderboard tasks`: what can be measured, and on what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.options import DataDirOption, TaskOption, format_option
from harness.cli.own import takes_own_sets
from harness.data import DataDir, Source
from harness.report.render import ENTRY_FORMATS, render, render_long

if TYPE_CHECKING:
    from harness.protocol.task import Task
    from harness.report.cells import Row, Table

_WIDTH = 100  # characters a line of the table
_LISTED = 4  # languages; more are counted
_SETS = ("data", "published")  # where a data set has a name and a licence of its own


@dataclass(frozen=True)
class SubsetRow:
    """An entry of the long form.

    Attributes:
        task: its name.
        subset: its name; empty for a task of the user's own sets, where none is given, and for "absent".
        languages: ISO 639 codes; empty where nobody tells them.
        n: items (see the task); None where the data is not here to be counted.
        data_set: as `leaderboard data` calls it; of the user's own, the set's or the folder's name.
        source: "data" (it is there), "sample" (bundled), "published" (to be had), "own" (the user's), or "absent" (of a
            task that names no published sets, as another package's may: none is here).
        licence: of the data; empty where it is not known.
        metrics, description: of the task.
    """

    task: str
    subset: str
    languages: tuple[str, ...]
    n: int | None
    data_set: str
    source: str
    licence: str
    metrics: tuple[str, ...]
    description: str


@takes_own_sets
def tasks(
    task: TaskOption = None,
    data_dir: DataDirOption = None,
    format: Annotated[str, format_option("an entry a subset")] = "table",
    own: DataDir | None = None,
) -> None:
    """List tasks, sets and languages. Of all installed packages, with numbers of items, metrics and licences.

    With a data directory, or data sets of your own (--pairs, --scored, --beir, --sets): what is there. Without: the
    published subsets, and the bundled sample. Items are counted where the data is.

    Example: leaderboard tasks --language tr
    """
    from harness.cli.progress import Watcher
    from harness.core.errors import InputError
    from harness.data import open_data_dir
    from harness.running.plan import choose_tasks

    chosen = choose_tasks(task, Watcher())
    data = own or (open_data_dir(data_dir) if data_dir else None)
    rows = [row for each in chosen for row in _rows(each, data)]
    if not (any(row.subset for row in rows) if data else rows):
        names = " or ".join(each.name for each in chosen)
        where = f"in {data_dir}; leave --data-dir (HARNESS_DATA) out to see what is to be had"
        raise InputError(f"no data set of {names} {'is given' if own else where}")
    if format in ENTRY_FORMATS:
        typer.echo(render_long([_entry(row, format) for row in rows], format))
    else:
        typer.echo(render(_table(rows), format, width=_WIDTH))


def _rows(task: Task, data: DataDir | None) -> list[SubsetRow]:
    """The entries of a task; none, with a warning, of another package's that fails."""
    from harness.core.errors import HarnessError, one_line

    try:
        rows = list(_there(task, data) if data else _to_be_had(task))
        is_absent = not (rows or task.published or task.is_own or (data and data.sets))
        return [_row(task, Source("", "", ()), "absent")] if is_absent else rows
    except HarnessError:
        raise
    except Exception as error:
        say(f"warning: task {task.name} fails: {one_line(error)}")
        return []


def _there(task: Task, data: DataDir) -> Iterator[SubsetRow]:
    """What of a task is in a data directory."""
    origin = "own" if data.sets else "sample" if data.stand_in else "data"
    for source in task.sources(data).values():
        yield _row(task, source, origin, _count(task, source))


def _to_be_had(task: Task) -> Iterator[SubsetRow]:
    """The published subsets, and the sample."""
    from harness.data import bundled_sample

    rows = [_row(task, Source(name, "+".join(task.data_sets(name)), ()), "published") for name in task.published]
    rows += _there(task, bundled_sample())
    yield from rows or ([_row(task, Source("", "", ()), "own")] if task.is_own else [])


def _row(task: Task, source: Source, origin: str, n: int | None = None) -> SubsetRow:
    from harness.data.catalogue import catalogue
    from harness.protocol.languages import languages_of_source

    names = source.dataset.split("+")
    licences = dict.fromkeys(catalogue()[name].licence for name in names if name in catalogue())
    return SubsetRow(
        task=task.name,
        subset=source.subset,
        languages=tuple(sorted(languages_of_source(task, source))) if source.subset else (),
        n=n,
        data_set=source.dataset,
        source=origin,
        licence={"own": "your own", "sample": "CC0 1.0"}.get(origin, "; ".join(licences)),
        metrics=task.metric_names,
        description=task.description,
    )


def _count(task: Task, source: Source) -> int | None:
    from harness.core.errors import one_line

    try:
        return task.count(task.load(source))
    except Exception as error:  # bad data, or another package's fault: the other sets are still worth a look
        say(f"warning: {task.name} {source.subset}: {one_line(error)}")
        return None


def _entry(row: SubsetRow, format: str) -> dict[str, object]:
    lists = {"languages": row.languages, "metrics": row.metrics}
    return asdict(row) | {name: list(each) if format == "json" else " ".join(each) for name, each in lists.items()}


def _table(rows: Sequence[SubsetRow]) -> Table:
    """A row for the subsets of a task that are in one data set, one for its sample, and one for own sets."""
    from harness.report.cells import Column, Note, Table

    heads = {"task": False, "data set": False, "from": False, "sets": True, "languages": False, "n": True}
    columns = (
        *(Column(head, is_number=is_number) for head, is_number in heads.items()),
        *(Column(head, is_number=False, is_prose=True) for head in ("subsets", "metrics", "licence")),
    )
    groups: dict[tuple[str, str, str], list[SubsetRow]] = {}
    for row in rows:
        groups.setdefault((row.task, row.source, row.data_set if row.source in _SETS else ""), []).append(row)
    shown, lines = set(), []
    for (name, _, data_set), group in groups.items():
        lines.append(_line(group, data_set, with_metrics=name not in shown))
        shown.add(name)
    notes = [Note("n: items of a set, counted where its data is here; csv and json have an entry a subset")]
    if any(not row.subset and row.source == "own" for row in rows):
        notes.append(Note("own: for data sets of your own (--pairs, --scored, --beir, --sets)"))
    if any(row.source == "absent" for row in rows):
        notes.append(Note("absent: no data set of it is here; give a --data-dir that has one"))
    return Table("", columns, tuple(lines), tuple(notes))


def _line(rows: Sequence[SubsetRow], data_set: str, *, with_metrics: bool) -> Row:
    from harness.report.cells import Cell, Row

    first = rows[0]
    languages = sorted({code for row in rows for code in row.languages})
    counts = sorted({row.n for row in rows if row.n is not None})
    n = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1]))) if counts else None
    named = [row.subset for row in rows if row.subset]
    return Row(
        (
            Cell(first.task),
            Cell(data_set or None),
            Cell(first.source),
            Cell(len(named) or None, "count"),
            Cell((" ".join(languages) if len(languages) <= _LISTED else str(len(languages))) or None),
            Cell(n),
            Cell(f"subsets: {' '.join(named)}" if named else ""),
            Cell(f"metrics: {' '.join(first.metrics)}" if with_metrics else ""),
            Cell(f"licence: {first.licence}" if first.licence and named else ""),
        )
    )

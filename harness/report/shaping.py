"""Other shapes of a table: some of its columns, without intervals, or turned round."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.core.errors import unknown_name
from harness.report.cells import Column, Note, Row, Table
from harness.results.records import Result


def with_columns(tables: Sequence[Table], names: Sequence[str]) -> list[Table]:
    """Only these columns, in this order, after those that name the rows; tables without any of them are left out.

    A name is a whole heading (`de-en f1_test`) or a part of it (`de-en`), which may stand for several columns.

    Raises:
        InputError: a name that no table has.
    """
    known = {label for table in tables for c in table.columns[table.n_keys :] for label in (c.label, c.head, c.sub)}
    for name in names:
        if name not in known or not name:
            raise unknown_name("column", name, {c.label for table in tables for c in table.columns[table.n_keys :]})
    shaped = []
    for table in tables:
        places = [
            i
            for name in names
            for i, column in enumerate(table.columns)
            if i >= table.n_keys and name in (column.label, column.head, column.sub)
        ]
        if places:
            kept = [*range(table.n_keys), *dict.fromkeys(places)]
            rows = (replace(row, cells=tuple(row.cells[i] for i in kept)) for row in table.rows)
            columns = tuple(table.columns[i] for i in kept)
            gone = {column.head for column in table.columns} - {column.head for column in columns}
            notes = tuple(note for note in table.notes if note.of not in gone)
            chosen = replace(table, columns=columns, rows=tuple(rows), notes=notes)
            shaped.append(_in_one_level(chosen))
    return shaped


def _in_one_level(table: Table) -> Table:
    """With the lower heading in the title where all columns of numbers share it."""
    keys, columns = table.columns[: table.n_keys], table.columns[table.n_keys :]
    subs = {column.sub for column in columns}
    if len(subs) != 1 or not (sub := subs.pop()):
        return table
    title = f"{table.title}, {sub}" if table.title else sub
    return replace(table, title=title, columns=(*keys, *(replace(column, sub="") for column in columns)))


def without_intervals(table: Table) -> Table:
    """The values alone, without the note on intervals."""
    rows = (replace(row, cells=tuple(replace(cell, interval=None) for cell in row.cells)) for row in table.rows)
    notes = tuple(note for note in table.notes if not note.plain.startswith(("[low, high]", "no interval")))
    return replace(table, rows=tuple(rows), notes=notes)


def transposed(table: Table) -> Table:
    """Rows become columns, under the first of the cells that name them; the other such cells are left out.

    What notes say of the encoders of a column they say of a row then, and the other way round.
    """
    heads = [row.cells[0] for row in table.rows]
    columns = (
        Column("", is_number=False),
        *(Column(head.text, is_average=row.is_average) for head, row in zip(heads, table.rows, strict=True)),
    )
    rows = []
    for place, column in enumerate(table.columns[table.n_keys :], table.n_keys):
        label = replace(heads[0], value=column.label, shown="", link="", is_best=False) if heads else None
        cells = (*([label] if label else []), *(row.cells[place] for row in table.rows))
        rows.append(Row(cells, column.is_average))
    notes = tuple(replace(note, text=_turned(note.text), rest=_turned(note.rest)) for note in table.notes)
    return replace(table, columns=columns, rows=tuple(rows), notes=notes, n_keys=1)


def _turned(text: str) -> str:
    if "over the encoders of a" not in text:
        return text
    return re.sub(r"\b(row|column)(s?)\b", lambda m: ("column" if m[1] == "row" else "row") + m[2], text)


def citing(table: Table, results: Sequence[Result]) -> Table:
    """With a short note that cites the harness, and the task and data sets of a table's scores among these results."""
    from harness.report.citations import of_results  # which reads tasks and encoders: no table needs it

    of_task = [result for result in results if result.task == table.task]
    if not of_task:  # what encoders cost, or figures of others, which have their own citations
        return table
    entries = dict.fromkeys(
        entry for thing in of_results(of_task) if not thing.what.startswith("encoder ") for entry in thing.entries
    )
    keys = tuple(dict.fromkeys(found[1] for entry in entries if (found := re.match(r"@\w+\{([^,\s]+),", entry))))
    return replace(table, notes=(*table.notes, Note("Measured with, and on: ", cites=keys)))

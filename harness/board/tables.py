"""Tables as HTML, for a browser without JavaScript, and for what needs no choosing."""

from __future__ import annotations

from harness.core import escaping
from harness.report.cells import Cell, Column, Note, Row, Table


def html_table(table: Table) -> str:
    """The table in a box that scrolls by itself, and below it the notes; intervals stand below values."""
    title = escaping.xml(table.title)
    heads = "".join(map(_head, table.columns))
    body = "\n".join(_row(row, table) for row in table.rows)
    notes = "".join(f"<li>{_note(note)}</li>" for note in table.notes)
    return (
        f'<div class="box" role="region" tabindex="0" aria-label="{title}"><table class="plain">'
        f"<caption>{title}</caption>"
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def _head(column: Column) -> str:
    number = ' class="number"' if column.is_number else ""
    return f'<th scope="col"{number}>{escaping.xml(column.label)}</th>'


def _row(row: Row, table: Table) -> str:
    cells = [_cell(cell, table.columns[i].is_number, i == 0) for i, cell in enumerate(row.cells)]
    kind = ' class="published"' if row.is_published else ' class="average"' if row.is_average else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _cell(cell: Cell, is_number: bool, is_key: bool) -> str:
    text = escaping.xml(cell.text)
    text = f"<b>{text}</b>" if cell.is_best else f"<code>{text}</code>" if cell.kind == "code" else text
    if cell.interval:
        text += f"<small>{escaping.xml(cell.interval_text)}</small>"
    if is_key:
        return f'<th scope="row">{text}</th>'
    return f'<td class="number">{text}</td>' if is_number else f"<td>{text}</td>"


def _note(note: Note) -> str:
    code = f"<code>{escaping.xml(note.code)}</code>" if note.code else ""
    text = f"<b>{escaping.xml(note.text)}</b>" if note.is_on_bold else escaping.xml(note.text)
    return f"{text}{code}{escaping.xml(note.rest)}"

"""Tables as GitHub Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core import escaping
from harness.report.cells import Cell, Column, Note, Row, Table


def markdown(table: Table, *, level: int = 3) -> str:
    """The title as a heading of that level, the table, padded so that it reads well as text too, and the notes."""
    parts = [f"{'#' * level} {escaping.markdown(table.title)}"] if table.title else []
    parts.append(markdown_grid(table))
    if table.notes:
        parts.append("\n".join(f"- {markdown_note(note)}" for note in table.notes))
    return "\n\n".join(parts)


def markdown_grid(table: Table) -> str:
    """Only the table: intervals below values, the best values bold; names of averages and published rows in italics."""
    columns = table.columns
    heads = [_emphasis(escaping.markdown(c.label), False, c.is_average) for c in columns]
    lines = [[_md_cell(cell, row, i < table.n_keys) for i, cell in enumerate(row.cells)] for row in table.rows]
    widths = [
        3 if column.is_prose else max(3, *(len(line[i]) for line in [heads, *lines]))
        for i, column in enumerate(columns)
    ]
    rule = ["-" * (w - 1) + ":" if c.is_number else "-" * w for c, w in zip(columns, widths, strict=True)]
    return "\n".join(_md_line(line, columns, widths) for line in [heads, rule, *lines])


def _md_cell(cell: Cell, row: Row, is_key: bool) -> str:
    if cell.value is None and row.is_published:
        return cell.text
    if cell.kind == "code":
        return escaping.code(cell.text, in_table=True)
    text = escaping.markdown(cell.text)
    text = f"[{text}]({escaping.link_target(cell.link)})" if cell.link else text
    text += cell.mark
    value = _emphasis(text, cell.is_best, row.is_published or (is_key and row.is_average))
    return f"{value}<br><sub>{escaping.markdown(cell.interval_text)}</sub>" if cell.interval else value


def _md_line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (
        cell if column.is_prose else cell.rjust(width) if column.is_number else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def markdown_note(note: Note) -> str:
    """A note without the dash of a list."""
    code = escaping.code(note.code) if note.code else ""
    return f"{escaping.markdown(note.text)}{code}{escaping.markdown(note.rest)}"


def _emphasis(text: str, is_bold: bool, is_italic: bool = False) -> str:
    marks = "**" * is_bold + "*" * is_italic
    return f"{marks}{text}{marks}" if text else text

"""One table, many renderers; and the long form as CSV and JSON."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

from harness import escaping
from harness.report.cells import BOLD, Cell, Column, Row, Table
from harness.tasks.described import TAGS

Format = Literal["table", "md", "latex"]
LongFormat = Literal["csv", "json"]

_OF_TAGS = {f"{tag}: {meaning}" for tag, meaning in TAGS.items()}  # notes that begin with `@` and are our own


def render(table: Table, format: Format = "table", *, width: int | None = None) -> str:
    """A table as text without a newline at the end.

    `table`: for a terminal of `width` columns (default: the terminal's, 80 where there is none); a wide table is
    split into blocks, and no cell is ever cut. `md`: GitHub Markdown. `latex`: a `table` for the package booktabs.
    """
    if format == "md":
        return markdown(table)
    if format == "latex":
        return latex(table)
    return terminal(table, width or shutil.get_terminal_size((80, 24)).columns)


def render_long(entries: Sequence[Mapping[str, Any]], format: LongFormat) -> str:
    """The entries of `long_form` as CSV with a header, or as a JSON array of objects; no newline at the end."""
    if format == "json":
        return escaping.json_text(list(entries), indent=2)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(entries[0]) if entries else [], lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        writer.writerow({key: _csv_value(value) for key, value in entry.items()})
    return stream.getvalue().removesuffix("\n")


def _csv_value(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return escaping.spreadsheet(value) if isinstance(value, str) else value


def terminal(table: Table, width: int) -> str:
    """Plain text in blocks that fit into `width`, each with the columns that name the rows.

    A cell's interval stands below its value. A published row that has no figure in a block is left out of it. The best
    values are marked `*`. On a terminal they are bold too, as averages' names are, and published rows in italics.

    Laid out here and not by rich, which takes half a second for Tatoeba's languages and a dozen encoders.
    """
    table = _visible(table)
    columns = table.columns
    # Where one is marked, the others have a blank, so that decimals stay below each other.
    blanks = [" " if any(row.cells[i].is_best for row in table.rows) else "" for i in range(len(columns))]
    texts = [
        [
            escaping.visible(cell.text) + ("*" if cell.is_best else blank)
            for cell, blank in zip(row.cells, blanks, strict=True)
        ]
        for row in table.rows
    ]
    below = [[cell.interval_text for cell in row.cells] for row in table.rows]
    printed = [[c.sub or c.head for c in columns], *texts, *below]
    widths = [max(len(line[i]) for line in printed) for i in range(len(columns))]
    keys = list(range(table.n_keys))
    room = width - _span(keys, widths) - _GAP
    is_tty = sys.stdout.isatty()

    def line(cells: Sequence[str], block: Sequence[int], bold: Container[int], is_italic: bool = False) -> str:
        padded = (cells[i].rjust(widths[i]) if columns[i].is_number else cells[i].ljust(widths[i]) for i in block)
        marked = (
            _marked(text, is_tty and i in bold, is_tty and is_italic) for i, text in zip(block, padded, strict=True)
        )
        return _BETWEEN.join(marked).rstrip()

    lines = [_marked(table.title, is_tty)]
    averages = {i for i, column in enumerate(columns) if column.is_average}
    for pieces in _blocks(_pieces(table, widths, room), widths, room):
        block = [*keys, *(i for piece in pieces for i in piece)]
        lines.append("")
        if any(columns[i].sub for i in block):
            above = (_above(columns[piece[0]], _span(piece, widths)) for piece in pieces)
            lines.append(_BETWEEN.join([" " * _span(keys, widths), *above]).rstrip())
        lines.append(line([c.sub or c.head for c in columns], block, averages))
        lines.append("-" * _span(block, widths))
        figures = block[table.n_keys :]
        for row, cells, intervals in zip(table.rows, texts, below, strict=True):
            if row.is_published and all(row.cells[i].value is None for i in figures):
                continue
            best = {i for i in figures if row.cells[i].is_best}
            lines.append(line(cells, block, best | set(keys) if row.is_average else best, row.is_published))
            if any(intervals[i] for i in figures):
                lines.append(line(intervals, block, ()))
    notes = [re.sub(f"^{BOLD}", "bold (* where text is plain): ", note) for note in table.notes]
    return escaping.without_commands("\n".join([*lines, *([""] if notes else []), *notes]))


def _visible(table: Table) -> Table:
    """All texts of a table but its cells'."""
    visible = escaping.visible
    columns = tuple(replace(c, head=visible(c.head), sub=visible(c.sub)) for c in table.columns)
    return replace(table, title=visible(table.title), columns=columns, notes=tuple(map(visible, table.notes)))


_GAP = 2
_BETWEEN = " " * _GAP


def _marked(text: str, is_bold: bool, is_italic: bool = False) -> str:
    codes = ";".join([*(["1"] if is_bold else []), *(["3"] if is_italic else [])])
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def _above(column: Column, span: int) -> str:
    """The upper level of a heading, over all of its columns."""
    if not column.sub:
        return " " * span
    return f" {column.head} ".center(span, "-") if span >= len(column.head) + 4 else column.head.rjust(span)


def _pieces(table: Table, widths: list[int], room: int) -> list[list[int]]:
    """Columns that stay together: those under one heading, where a block can hold them. Widens them for the heading."""
    pieces: list[list[int]] = []
    for head, group in groupby(range(table.n_keys, len(table.columns)), lambda i: table.columns[i].head):
        together = list(group)
        fits = max(_span(together, widths), len(head)) <= room
        for piece in [together] if fits else [[i] for i in together]:
            pieces.append(piece)
            for n, i in enumerate(piece):  # share what is lacking among the columns
                widths[i] += max(0, len(head) - _span(piece, widths)) // (len(piece) - n)
    return pieces


def _blocks(pieces: Sequence[list[int]], widths: Sequence[int], room: int) -> list[list[list[int]]]:
    """As many pieces to a block as there is room for, one at least."""
    blocks: list[list[list[int]]] = []
    for piece in pieces:
        if blocks and _span([i for other in [*blocks[-1], piece] for i in other], widths) <= room:
            blocks[-1].append(piece)
        else:
            blocks.append([piece])
    return blocks or [[]]


def _span(columns: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] + _GAP for i in columns) - _GAP


def markdown(table: Table, *, level: int = 3) -> str:
    """GitHub Markdown under a heading of that level: the table, padded to read well as text too, and its notes."""
    parts = [f"{'#' * level} {escaping.markdown(table.title)}", markdown_grid(table)]
    if table.notes:
        parts.append("\n".join(f"- {_md_note(note)}" for note in table.notes))
    return "\n\n".join(parts)


def markdown_grid(table: Table) -> str:
    """The table alone: intervals below values, the best ones bold; averages' names and published rows in italics."""
    columns = table.columns
    heads = [_emphasis(escaping.markdown(c.label), False, c.is_average) for c in columns]
    lines = [[_md_cell(cell, row, i < table.n_keys) for i, cell in enumerate(row.cells)] for row in table.rows]
    widths = [max(3, *(len(line[i]) for line in [heads, *lines])) for i in range(len(heads))]
    rule = ["-" * (w - 1) + ":" if c.is_number else "-" * w for c, w in zip(columns, widths, strict=True)]
    return "\n".join(_md_line(line, columns, widths) for line in [heads, rule, *lines])


def _md_cell(cell: Cell, row: Row, is_key: bool) -> str:
    if cell.value is None and row.is_published:
        return cell.text
    value = _emphasis(escaping.markdown(cell.text), cell.is_best, row.is_published or (is_key and row.is_average))
    return f"{value}<br><sub>{escaping.markdown(cell.interval_text)}</sub>" if cell.interval else value


def _md_line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if column.is_number else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _md_note(note: str) -> str:
    """Signatures are code: a reader copies them."""
    if note in _OF_TAGS:
        return note
    head, separator, signature = note.partition(": task:")
    return f"{escaping.markdown(head)}: {escaping.code(f'task:{signature}')}" if separator else escaping.markdown(note)


def _emphasis(text: str, is_bold: bool, is_italic: bool = False) -> str:
    marks = "**" * is_bold + "*" * is_italic
    return f"{marks}{text}{marks}" if text else text


def latex(table: Table) -> str:
    """A `table` environment with booktabs rules; headings in two levels where the table has them."""
    columns = table.columns
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaping.latex(table.title)}}}",
        rf"\begin{{tabular}}{{{''.join('r' if c.is_number else 'l' for c in columns)}}}",
        r"\toprule",
        *_latex_headings(columns),
        r"\midrule",
        *(_latex_row(row, table.n_keys) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if table.notes:
        # Not a double backslash: it would take the `[2]` of a footnote for a length.
        notes = r" \par ".join(escaping.latex(note) for note in table.notes)
        # A signature is one long word: without ragged lines it would run into the margin.
        lines.append(rf"\par\smallskip\raggedright\footnotesize {notes}")
    return "\n".join([*lines, r"\end{table}"])


def _latex_headings(columns: Sequence[Column]) -> list[str]:
    if not any(c.sub for c in columns):
        return [_latex_line([_tex_emphasis(c.head, False, c.is_average) for c in columns])]
    above, rules, place = [], [], 1
    for (head, is_grouped), group in groupby(columns, key=lambda c: (c.head, bool(c.sub))):
        n = len(list(group))
        above.append(rf"\multicolumn{{{n}}}{{c}}{{{escaping.latex(head)}}}" if is_grouped else "")
        if is_grouped:
            rules.append(rf"\cmidrule(lr){{{place}-{place + n - 1}}}")
        place += n
    below = [_tex_emphasis(c.sub or c.head, False, c.is_average) for c in columns]
    return [_latex_line(above), " ".join(rules), _latex_line(below)]


def _latex_row(row: Row, n_keys: int) -> str:
    texts = [_latex_cell(cell, row.is_average and i < n_keys) for i, cell in enumerate(row.cells)]
    return _latex_line([rf"\textit{{{text}}}" if row.is_published and text else text for text in texts])


def _latex_cell(cell: Cell, is_average: bool) -> str:
    value = _tex_emphasis(cell.text, cell.is_best, is_average)
    # A group of its own: a bracket at the start of a line would be read as a length.
    return rf"{value} {{\scriptsize {escaping.latex(cell.interval_text)}}}" if cell.interval else value


def _latex_line(cells: Sequence[str]) -> str:
    # The `\\` or rule of the line before would take a bracket for a length, and a star for its own.
    return rf"{'{}' if cells[0].startswith(('[', '*')) else ''}{' & '.join(cells)} \\"


def _tex_emphasis(text: str, is_bold: bool, is_italic: bool) -> str:
    tex = rf"\textbf{{{escaping.latex(text)}}}" if is_bold and text else escaping.latex(text)
    return rf"\textit{{{tex}}}" if is_italic and tex else tex

"""Tables as plain text, for a terminal, a pipe or a log."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from harness.core.escaping import visible, without_commands
from harness.report.cells import Column, Note, Table


def plain_text(table: Table, width: int | None = None) -> str:
    """Lays a table out for a terminal of `width` columns (default: that of the terminal; 80 if there is none).

    A wide table is split into blocks, each with the columns that name the rows; no cell is ever cut. The interval of a
    cell is below its value. A block leaves out published rows that have no figure in it. The best values are marked
    `*`. On a terminal they are also bold, as are the names of averages, and published rows are in italics.

    Prose follows at the end of its row if it fits there, else in lines below. In a pipe it is always at the end, so
    that a row is one line.

    The package rich is not used: it takes half a second for Tatoeba's languages and a dozen encoders.
    """
    table = _visible(table)
    columns = table.columns
    # In a column with a mark, the other cells have a blank, so that decimals stay below each other.
    blanks = [" " if any(row.cells[i].is_best for row in table.rows) else "" for i in range(len(columns))]
    marks = [" " if any(row.cells[i].mark for row in table.rows) else "" for i in range(len(columns))]
    texts = [
        [
            visible(cell.text) + (cell.mark or mark) + ("*" if cell.is_best else blank)
            for cell, blank, mark in zip(row.cells, blanks, marks, strict=True)
        ]
        for row in table.rows
    ]
    below = [[cell.interval_text for cell in row.cells] for row in table.rows]
    heads = [c.sub or c.head for c in columns]
    widths = [max(len(line[i]) for line in [heads, *texts, *below]) for i in range(len(columns))]
    is_tty = sys.stdout.isatty()
    prose = [i for i, column in enumerate(columns) if column.is_prose]
    prose_width = shutil.get_terminal_size().columns if is_tty and width is None else width
    width = width or shutil.get_terminal_size((80, 24)).columns
    keys = list(range(table.n_keys))
    room = sys.maxsize if prose else width - _span(keys, widths) - _GAP

    def line(cells: Sequence[str], block: Sequence[int], bold: Container[int], is_italic: bool = False) -> list[str]:
        padded = (cells[i].rjust(widths[i]) if columns[i].is_number else cells[i].ljust(widths[i]) for i in block)
        styled = (
            _styled(text, is_tty and i in bold, is_tty and is_italic) for i, text in zip(block, padded, strict=True)
        )
        return _with_prose(_BETWEEN.join(styled), (cells[i] for i in prose), prose_width)

    parts = [_styled(table.title, is_tty)] if table.title else []
    averages = {i for i, column in enumerate(columns) if column.is_average}
    for pieces in _blocks(_pieces(table, widths, room), widths, room):
        block = [*keys, *(i for piece in pieces for i in piece)]
        lines = []
        if any(columns[i].sub for i in block):
            above = (_above(columns[piece[0]], _span(piece, widths)) for piece in pieces)
            lines.append(_BETWEEN.join([" " * _span(keys, widths), *above]).rstrip())
        lines += [*line(heads, block, averages), "-" * _span(block, widths)]
        figures = block[table.n_keys :]
        for row, cells, intervals in zip(table.rows, texts, below, strict=True):
            if row.is_published and all(row.cells[i].value is None for i in figures):
                continue
            best = {i for i in figures if row.cells[i].is_best}
            lines += line(cells, block, best | set(keys) if row.is_average else best, row.is_published)
            if any(intervals[i] for i in figures):
                lines += line(intervals, block, ())
        parts.append("\n".join(lines))
    if table.notes:
        parts.append("\n".join(map(_note_line, table.notes)))
    return without_commands("\n\n".join(parts))


def wrapped(text: str, width: int) -> list[str]:
    """A note in lines of at most `width` characters, if no word is longer; the following ones are set in."""
    return textwrap.wrap(
        without_commands(visible(text)), width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _with_prose(line: str, texts: Iterable[str], width: int | None) -> list[str]:
    """The line with texts at its end; texts that do not fit there follow below. Without a width, all fit."""
    lines = [line]
    for text in filter(None, texts):
        if len(lines) == 1 and (width is None or len(line) + _GAP + len(text) <= width):
            lines[0] = line = line + _BETWEEN + text
        else:
            lines += textwrap.wrap(
                text,
                width or sys.maxsize,
                initial_indent="    ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return [line.rstrip() for line in lines]


def _visible(table: Table) -> Table:
    """The table with its headings and title made visible; cells are treated when they are printed."""
    columns = tuple(replace(c, head=visible(c.head), sub=visible(c.sub)) for c in table.columns)
    return replace(table, title=visible(table.title), columns=columns)


def _note_line(note: Note) -> str:
    return visible(f"{note.text} (* where text is plain){note.rest}" if note.is_on_bold else note.plain)


_GAP = 2
_BETWEEN = " " * _GAP


def _styled(text: str, is_bold: bool, is_italic: bool = False) -> str:
    codes = ";".join([*(["1"] if is_bold else []), *(["3"] if is_italic else [])])
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def _above(column: Column, span: int) -> str:
    """The upper level of a heading, over all of its columns."""
    if not column.sub:
        return " " * span
    return f" {column.head} ".center(span, "-") if span >= len(column.head) + 4 else column.head.rjust(span)


def _pieces(table: Table, widths: list[int], room: int) -> list[list[int]]:
    """Groups columns under one heading that stay together, if a block can hold them. Widens them for the heading."""
    pieces: list[list[int]] = []
    figures = (i for i, c in enumerate(table.columns) if i >= table.n_keys and not c.is_prose)
    for head, group in groupby(figures, lambda i: table.columns[i].head):
        columns = list(group)
        fits = max(_span(columns, widths), len(head)) <= room
        for piece in [columns] if fits else [[i] for i in columns]:
            pieces.append(piece)
            for n, i in enumerate(piece):  # shares the lacking width among the columns
                widths[i] += max(0, len(head) - _span(piece, widths)) // (len(piece) - n)
    return pieces


def _blocks(pieces: Sequence[list[int]], widths: Sequence[int], room: int) -> list[list[list[int]]]:
    """Fills blocks with as many pieces as fit, at least one."""
    blocks: list[list[list[int]]] = []
    for piece in pieces:
        if blocks and _span([i for other in [*blocks[-1], piece] for i in other], widths) <= room:
            blocks[-1].append(piece)
        else:
            blocks.append([piece])
    return blocks or [[]]


def _span(columns: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] + _GAP for i in columns) - _GAP

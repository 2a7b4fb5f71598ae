"""Tables as LaTeX, for the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from harness.core import escaping
from harness.report.cells import Cell, Column, Row, Table


def latex(table: Table) -> str:
    """A `table` environment with booktabs rules; headings in two levels where the table has them."""
    columns = table.columns
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{escaping.latex(table.title)}}}"] if table.title else []),
        rf"\begin{{tabular}}{{{''.join('r' if c.is_number else 'l' for c in columns)}}}",
        r"\toprule",
        *_latex_headings(columns),
        r"\midrule",
        *(_latex_row(row, table.n_keys) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if table.notes:
        # No double backslash: it would read the `[2]` of a footnote as a length.
        notes = r" \par ".join(escaping.latex(note) for note in table.note_texts)
        # Ragged lines keep a signature, which is one long word, out of the margin.
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
    # In a group, because a bracket at the start of a line would be read as a length.
    return rf"{value} {{\scriptsize {escaping.latex(cell.interval_text)}}}" if cell.interval else value


def _latex_line(cells: Sequence[str]) -> str:
    # The `\\` or rule of the line before would read a bracket as a length, and a star as its variant.
    return rf"{'{}' if cells[0].startswith(('[', '*')) else ''}{' & '.join(cells)} \\"


def _tex_emphasis(text: str, is_bold: bool, is_italic: bool) -> str:
    tex = rf"\textbf{{{escaping.latex(text)}}}" if is_bold and text else escaping.latex(text)
    return rf"\textit{{{tex}}}" if is_italic and tex else tex

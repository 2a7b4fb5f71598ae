"""Tables as LaTeX, for the package booktabs.

What a reader of a paper needs is in the caption and in a short note; how to repeat it (signatures, commands) is in
comments. Numbers are flush right with the same number of decimals, marks take no room, and intervals have a column of
their own: so decimal points stand below each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from harness.core import escaping
from harness.report.cells import BETTER, WORSE, Cell, Column, Note, Row, Table

_MANY = 5  # columns that a page takes in its own size
_MARKS = {BETTER: r"\rlap{$^{\uparrow}$}", WORSE: r"\rlap{$^{\downarrow}$}"}


def latex(table: Table) -> str:
    """A `table` environment with booktabs rules; headings in two levels where the table has them."""
    columns = table.columns
    widths = [2 if any(row.cells[i].interval for row in table.rows) else 1 for i in range(len(columns))]
    caption = [table.title, *(note.plain for note in table.notes if note.is_caption)]
    marked = [any(row.cells[i].mark for row in table.rows) for i in range(len(columns))]
    specs = map(_spec, columns, widths, marked)
    lines = [
        r"% needs \usepackage{booktabs}",
        *(f"% {escaping.visible(note.plain)}" for note in table.notes if _is_comment(note)),
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{'. '.join(_escaped(text) for text in caption if text)}}}\smallskip"] if any(caption) else []),
        *([r"\small\setlength{\tabcolsep}{3.5pt}"] if sum(widths) > _MANY else []),
        rf"\begin{{tabular}}{{{''.join(specs)}}}",
        r"\toprule",
        *_headings(columns, widths),
        r"\midrule",
        *(_row(row, table.n_keys, widths) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if notes := [_note(note) for note in table.notes if not (note.is_caption or _is_comment(note))]:
        # No double backslash: it would read the `[2]` of a footnote as a length.
        lines.append(r"\par\smallskip\raggedright\footnotesize " + r" \par ".join(notes))
    return "\n".join([*lines, r"\end{table}"])


def _is_comment(note: Note) -> bool:
    """Whether a note says how to repeat something, which is one long word or a command line."""
    return note.text.startswith("signature: ") or note.code.startswith("leaderboard ")


def _note(note: Note) -> str:
    cited = rf"\cite{{{','.join(note.cites)}}}" if note.cites else ""
    return _escaped(note.plain) + cited


def _escaped(text: str) -> str:
    """With arrows as LaTeX has them."""
    return escaping.latex(text).replace(BETTER, r"$\uparrow$").replace(WORSE, r"$\downarrow$")


def _spec(column: Column, width: int, has_marks: bool) -> str:
    if width == 2:  # a mark stands in the gap
        return r"r@{\hspace{7pt}}l" if has_marks else r"r@{\hspace{3pt}}l"
    return "r" if column.is_number else "l"


def _headings(columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    pairs = list(zip(columns, widths, strict=True))
    if not any(c.sub for c in columns):
        return [_line(_spanning(_emphasis(c.head, False, c.is_average), width) for c, width in pairs)]
    above, rules, place = [], [], 1
    for (head, is_grouped), group in groupby(pairs, key=lambda pair: (pair[0].head, bool(pair[0].sub))):
        n = sum(width for _, width in group)
        above.append(rf"\multicolumn{{{n}}}{{c}}{{{escaping.latex(head)}}}" if is_grouped else "&" * (n - 1))
        if is_grouped:
            rules.append(rf"\cmidrule(lr){{{place}-{place + n - 1}}}")
        place += n
    below = _line(_spanning(_emphasis(c.sub or c.head, False, c.is_average), width) for c, width in pairs)
    return [_line(above), " ".join(rules), below]


def _spanning(text: str, width: int) -> str:
    return text if width == 1 else rf"\multicolumn{{{width}}}{{c}}{{{text}}}"


def _row(row: Row, n_keys: int, widths: Sequence[int]) -> str:
    texts = []
    for place, (cell, width) in enumerate(zip(row.cells, widths, strict=True)):
        text = _value(cell, row.is_average and place < n_keys)
        text = rf"\textit{{{text}}}" if row.is_published and text else text
        # In a group, because a bracket at the start of a line would be read as a length.
        interval = rf" & {{\scriptsize {escaping.latex(cell.interval_text)}}}" if cell.interval else " &"
        texts.append(text + (interval if width == 2 else ""))
    return _line(texts)


def _value(cell: Cell, is_average: bool) -> str:
    return _emphasis(cell.text, cell.is_best, is_average) + _MARKS.get(cell.mark, "")


def _line(cells: Iterable[str]) -> str:
    texts = list(cells)
    # The `\\` or rule of the line before would read a bracket as a length, and a star as its variant.
    return rf"{'{}' if texts[0].startswith(('[', '*')) else ''}{' & '.join(texts)} \\"


def _emphasis(text: str, is_bold: bool, is_italic: bool) -> str:
    tex = rf"\textbf{{{escaping.latex(text)}}}" if is_bold and text else escaping.latex(text)
    return rf"\textit{{{tex}}}" if is_italic and tex else tex

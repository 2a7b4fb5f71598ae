"""The parts of a table, for every renderer."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Literal

MISSING = "–"
OTHER_LANGUAGE = "†"
"""Stands before a score on a language that the encoder was not made for: so decimals stay below each other."""
BETTER, WORSE = "↑", "↓"
"""Stand after a score that is significantly better, or worse, than that of the reference."""
CellKind = Literal["text", "code", "score", "error", "gain", "difference", "threshold", "count", "rank"]

_DIGITS = {"score": 1, "gain": 1, "difference": 2, "threshold": 4}


@dataclass(frozen=True)
class Cell:
    """A value and how it is printed; None prints as "–".

    Attributes:
        shown: the printed form, if it is not made from the value: a published figure keeps its published digits.
        interval: both ends, printed beside or below the value.
        is_best: whether the value is the best, or not significantly worse; printed bold.
        is_other_language: whether it is on a language that the encoder was not made for; printed with a mark.
        link: the page of what the cell names, from the page that the table is on; only Markdown has it.
        mark: stands after the value: how it compares with a reference (`BETTER`, `WORSE`), or empty.
    """

    value: float | str | None
    kind: CellKind = "text"
    shown: str = ""
    interval: tuple[float, float] | None = None
    is_best: bool = False
    is_other_language: bool = False
    link: str = ""
    mark: str = ""

    @property
    def text(self) -> str:
        """The printed value: scores have one decimal, signed gains one, signed differences two, thresholds four."""
        return (OTHER_LANGUAGE if self.is_other_language else "") + (self.shown or self._plain)

    @property
    def _plain(self) -> str:
        if self.value is None:
            return MISSING
        return self.value if isinstance(self.value, str) else self._number(self.value)

    @property
    def interval_text(self) -> str:
        """`[75.1, 83.8]`, with the digits of the value; empty without an interval."""
        return f"[{', '.join(map(self._number, self.interval))}]" if self.interval else ""

    def _number(self, value: float) -> str:
        if self.kind == "count":
            return f"{value:,.0f}"
        digits = digits_of(self.kind)
        value = round(value, digits) + 0.0  # prints -0.04 as 0.0, not as -0.0
        return f"{value:{'+' if self.kind in ('difference', 'gain') else ''}.{digits}f}"


def digits_of(kind: str) -> int:
    """Decimals of a number that is printed. Of two that are as near, the one that ends in an even digit is printed."""
    return _DIGITS.get(kind, 1)


@dataclass(frozen=True)
class Column:
    """The heading of a column; it has two levels where columns belong together (`de-en` over `f1_train`).

    is_prose: texts may be longer than a line. Such columns come last.
    """

    head: str
    sub: str = ""
    is_number: bool = True
    is_average: bool = False
    is_prose: bool = False

    @property
    def label(self) -> str:
        """The heading in one line."""
        return f"{self.head} {self.sub}".strip()


@dataclass(frozen=True)
class Row:
    """The cells of a row, one per column; `is_published`: none of them was measured here."""

    cells: tuple[Cell, ...]
    is_average: bool = False
    is_published: bool = False


@dataclass(frozen=True)
class Note:
    """A line below a table: `text`, then `code` (something to copy), then `rest`; each may be empty.

    Attributes:
        is_on_bold: the note explains bold; plain text adds the sign that stands for bold.
        is_caption: it belongs to the caption where a table has one, as in LaTeX.
        cites: keys of BibTeX entries, which LaTeX cites after the text.
        of: the heading of the column that it explains, if it explains a single one.
    """

    text: str = ""
    code: str = ""
    rest: str = ""
    is_on_bold: bool = False
    is_caption: bool = False
    cites: tuple[str, ...] = ()
    of: str = ""

    @property
    def plain(self) -> str:
        """The line without marks."""
        return f"{self.text}{self.code}{self.rest}"


@dataclass(frozen=True)
class Table:
    """A table that any renderer can print.

    Attributes:
        title: one line.
        columns: headings; the first `n_keys` columns name the row (an encoder; a language's code, name and n).
        rows: each has as many cells as there are columns.
        notes: footnotes and legend, a line each.
        task: whose scores these are; empty for a table of something else.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...] = ()
    n_keys: int = 1
    task: str = ""

    @property
    def note_texts(self) -> list[str]:
        """The notes as plain text."""
        return [note.plain for note in self.notes]


def p_text(p: float) -> str:
    """A p-value as `0.012` or `<0.001`; "–" if nothing was tested."""
    return MISSING if isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def p_is(p: float) -> str:
    """A p-value in a sentence: `p = 0.012`, `p < 0.001`, `not tested`."""
    return "not tested" if isnan(p) else f"p {'' if p < 0.001 else '= '}{p_text(p)}".replace("<", "< ")

"""The finer view of language bias (`harness.stats.joining`): two tables of several encoders, a heat map of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING

from harness import escaping
from harness.report.cells import Cell, Column, Row, Table
from harness.report.tables import tag_notes

if TYPE_CHECKING:  # needs NumPy
    from harness.stats.joining import Joining

_SHIFT = (
    "mean rank of the cosines minus mean rank of the gold scores in the list of all sets, in per cent of its length; "
    "positive: over-scored against the other sets"
)
_COST = "Spearman's rho x 100 of the two sets joined minus the mean of the two separate ones; negative: joining costs"
_UNTESTED = "descriptive: not tested"


def bias_tables(joinings: Mapping[str, Joining], group: str) -> list[Table]:
    """Rank shift (a row an encoder, a column a set) and cost (a row a pair of sets, a column an encoder).

    `joinings`: by the encoder's label, in the order of rows and columns; `group`: the subset that they are of
    (`ten@deepl`), for the titles. Pairs are in ascending order of their mean over the encoders: the worst first.
    """
    shifts: dict[str, dict[str, float]] = {}
    costs: dict[str, dict[tuple[str, str], float]] = {}
    for encoder, joining in joinings.items():
        values = joining.as_dict()
        sets, cost = values["sets"], values["cost"]
        shifts[encoder] = dict(zip(sets, values["shift"], strict=True))
        costs[encoder] = {(sets[i], sets[j]): cost[i][j] for i, j in combinations(range(len(sets)), 2)}
    sets = list(dict.fromkeys(name for own in shifts.values() for name in own))
    pairs = list(dict.fromkeys(pair for own in costs.values() for pair in own))
    if not pairs:
        return []
    pairs.sort(key=lambda pair: fmean(own[pair] for own in costs.values() if pair in own))
    tags = tag_notes(sets)
    shift_table = Table(
        f"Language bias, {group}: rank shift of each set",
        (Column("encoder", is_number=False), *map(Column, sets)),
        tuple(Row((Cell(encoder), *_differences(own.get(name) for name in sets))) for encoder, own in shifts.items()),
        (f"rank shift: {_SHIFT}", _UNTESTED, *tags),
    )
    cost_table = Table(
        f"Language bias, {group}: cost of joining two sets",
        (Column("sets joined", is_number=False), *map(Column, costs)),
        (
            *(Row((Cell(" + ".join(pair)), *_differences(own.get(pair) for own in costs.values()))) for pair in pairs),
            Row((Cell("mean over the pairs"), *_differences(fmean(own.values()) for own in costs.values())), True),
        ),
        (f"cost: {_COST}", _UNTESTED, "order of pairs: mean over the encoders, the worst first", *tags),
    )
    return [shift_table, cost_table]


def _differences(values: Iterable[float | None]) -> list[Cell]:
    return [Cell(value, "difference") for value in values]


_CELL, _HEIGHT, _CHARACTER, _MARGIN = 50, 26, 8, 16  # pixels
# Fixed, and not the largest value of each map: the same colour means the same on every encoder's.
_COST_LIMIT, _SHIFT_LIMIT = 10.0, 20.0
_Colour = tuple[int, int, int]
# Orange and blue of ColorBrewer's PuOr and RdBu: told apart with any kind of colour vision.
_BELOW, _MIDDLE, _ABOVE = (179, 88, 6), (247, 247, 247), (33, 102, 172)


def heat_map(joining: Joining, title: str) -> str:
    """Costs of every pair of sets and, beside them, each set's rank shift, as an SVG that needs nothing else.

    Values are drawn as `as_dict` rounds them: a joining that was stored and read back gives the same bytes.
    """
    values = joining.as_dict()
    sets, cost, shift = values["sets"], values["cost"], values["shift"]
    label = _CHARACTER * max(len(name) for name in (*sets, "rank shift"))
    slanted = label * 3 // 4
    left, top = _MARGIN + label + 6, 2 * _MARGIN + 24 + slanted
    strip, bottom = left + _CELL * len(sets) + _MARGIN, top + _HEIGHT * len(sets)
    width = max(strip + _CELL + slanted, 2 * _MARGIN + 10 * len(title), 600)
    height = bottom + 136
    cells, names = [], []
    for i, name in enumerate(sets):
        y = top + _HEIGHT * i
        names.append(_text(left - 8, y + 17, name, ' text-anchor="end"'))
        for j in range(len(sets)):
            x = left + _CELL * j
            cells += [_rectangle(x, y, (225, 225, 225))] if i == j else _cell(x, y, cost[i][j], _COST_LIMIT)
    heads = [(left + _CELL * i, name) for i, name in enumerate(sets)] + [(strip, "rank shift")]
    for x, name in heads:
        place = f"{x + _CELL // 2} {top - 8}"
        names.append(f'<text transform="translate({place}) rotate(-45)">{escaping.xml(name)}</text>')
    shifts = [part for i, v in enumerate(shift) for part in _cell(strip, top + _HEIGHT * i, v, _SHIFT_LIMIT)]
    legends = [
        *_legend(bottom + 30, _COST_LIMIT, "cost of joining two sets", "rho x 100, joined minus mean of both"),
        *_legend(bottom + 84, _SHIFT_LIMIT, "rank shift of a set", "% of the joined list; positive: over-scored"),
    ]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#1a1a1a">',
        f"<title>{escaping.xml(title)}</title>",
        f"<desc>{escaping.xml(f'Matrix of costs: {_COST}. Beside it the rank shift: {_SHIFT}.')}</desc>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(_MARGIN, _MARGIN + 12, title, ' font-size="15" font-weight="bold"'),
        *_group("names", names),
        *_group("cost", cells, ' text-anchor="middle"'),
        *_group("shift", shifts, ' text-anchor="middle"'),
        *_group("legend", legends),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _cell(x: int, y: int, value: float, limit: float) -> list[str]:
    """A coloured rectangle and its value, in black or white."""
    colour = _diverging(value / limit)
    text = f"{round(value, 1) + 0.0:+.1f}"
    return [_rectangle(x, y, colour), _text(x + _CELL // 2, y + 17, text, f' fill="{_readable_on(colour)}"')]


def _legend(y: int, limit: float, what: str, unit: str) -> list[str]:
    steps, side = 21, 10
    bar = [
        _rectangle(_MARGIN + side * k, y + 8, _diverging(2 * k / (steps - 1) - 1), side, side + 2) for k in range(steps)
    ]
    end = _MARGIN + side * steps
    return [
        _text(_MARGIN, y + 2, f"{what} ({unit})"),
        *bar,
        _text(_MARGIN, y + 34, f"-{limit:g} or less"),
        _text((_MARGIN + end) // 2, y + 34, "0", ' text-anchor="middle"'),
        _text(end, y + 34, f"+{limit:g} or more", ' text-anchor="end"'),
    ]


def _diverging(share: float) -> _Colour:
    """From -1 or less over 0 to 1 or more."""
    end = _BELOW if share < 0 else _ABOVE
    weight = min(abs(share), 1.0)
    red, green, blue = (round(m + weight * (e - m)) for m, e in zip(_MIDDLE, end, strict=True))
    return red, green, blue


def _readable_on(colour: _Colour) -> str:
    """Black or white, whichever has the higher contrast (WCAG 2.1, definition of contrast ratio): 4.5 or more."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (c / 255 for c in colour)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"


def _rectangle(x: int, y: int, colour: _Colour, width: int = _CELL, height: int = _HEIGHT) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#{bytes(colour).hex()}"/>'


def _text(x: int, y: int, text: str, attributes: str = "") -> str:
    return f'<text x="{x}" y="{y}"{attributes}>{escaping.xml(text)}</text>'


def _group(name: str, parts: Sequence[str], attributes: str = "") -> list[str]:
    return [f'<g class="{name}"{attributes}>', *parts, "</g>"]

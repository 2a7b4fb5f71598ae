"""The finer view of language bias on its page: what joining two sets costs, and which set is over- or under-scored.

Two tables of several encoders, and a heat map of each, drawn from the values of `harness.tasks.language_bias.joining`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import TypedDict

import msgspec

from harness.core import escaping
from harness.core.errors import InputError
from harness.core.names import Subset, check_name
from harness.core.schema import Number
from harness.protocol.described import described
from harness.report.cells import Cell, Column, Note, Row, Table
from harness.report.markdown import markdown
from harness.report.tables import encoder_labels, rank_encoders, split_sample, tag_notes
from harness.results.records import Result
from harness.results.statistics import Statistics

_SHIFT = (
    "mean rank of the cosines minus mean rank of the gold scores in the list of all sets, in per cent of its length; "
    "positive: over-scored against the other sets"
)
_COST = "Spearman's rho x 100 of the two sets joined minus the mean of the two separate ones; negative: joining costs"
_UNTESTED = Note("descriptive: not tested")
JOINING = "joining"
"""Under which name the statistics of a record have `JoiningValues`."""


class JoiningValues(TypedDict):
    """`harness.tasks.language_bias.Joining.as_dict`: `cost` has a row and a column for each set."""

    sets: list[str]
    cost: list[list[Number]]
    shift: list[Number]


def finer_view(results: Sequence[Result], statistics: Statistics) -> tuple[list[str], dict[str, str]]:
    """Parts of the page of the task's results, in Markdown; and by file name the heat maps (SVG) that they show.

    They are of the largest group of sets that has joinings, once of real data and once of the bundled sample.

    Raises:
        InputError: stored costs or shifts are no numbers, or not one a set.
    """
    parts: list[str] = []
    files: dict[str, str] = {}
    for part in split_sample(results):
        group, of_group = joinings(part, statistics)
        if not of_group:
            continue
        task, encoders = part[0].task, list(of_group)
        labels, _ = encoder_labels(part, encoders)
        tables = bias_tables({labels[e]: of_group[e] for e in encoders}, group)
        parts += [markdown(table, level=2) for table in tables]
        check_name(group, "subset")
        for encoder in encoders:
            name = f"{task}/{check_name(encoder, 'encoder')}-{group}.svg"
            files[name] = heat_map(of_group[encoder], f"{encoder}, {group}")
            parts.append(f"![What joining two sets costs {escaping.markdown(encoder)}]({escaping.link_target(name)})")
    return parts, files


def joinings(results: Sequence[Result], statistics: Statistics) -> tuple[str, dict[str, JoiningValues]]:
    """The largest group of sets that has joinings, and by encoder its joinings, in the order of the task's table.

    results: of the task, all on real data or all on the bundled sample. Without joinings both are empty.

    Raises:
        InputError: stored costs or shifts are no numbers, or not one a set.
    """
    found = {
        (r.subset, r.encoder): _read(entry.more[JOINING], r)
        for r in results
        if (entry := statistics.entry(r)) and JOINING in entry.more
    }
    if not found:
        return "", {}
    task = results[0].task
    order = described(task).display.ranking
    bases = {group: Subset.parse(group).base for group, _ in found}
    group = min(bases, key=lambda g: (order.index(bases[g]) if bases[g] in order else len(order), g))
    encoders = rank_encoders(task, results, "actual")[0]
    return group, {encoder: found[group, encoder] for encoder in encoders if (group, encoder) in found}


def _read(stored: object, result: Result) -> JoiningValues:
    try:
        values = msgspec.convert(stored, JoiningValues)
    except msgspec.ValidationError as error:
        why = f"no numbers ({error})"
    else:
        if {len(values["shift"]), len(values["cost"]), *map(len, values["cost"])} == {len(values["sets"])}:
            return values
        why = "not one a set"
    remedy = f"delete statistics/{result.task}.json, and `leaderboard run` makes it again"
    raise InputError(f"the stored joinings of {result.encoder} on {result.subset} are {why}; {remedy}")


def bias_tables(joinings: Mapping[str, JoiningValues], group: str) -> list[Table]:
    """Rank shift (a row an encoder, a column a set) and cost (a row a pair of sets, a column an encoder).

    `joinings`: by the encoder's label, in the order of rows and columns; `group`: the subset that they are of
    (`ten@deepl`), for the titles. Pairs are in ascending order of their mean over the encoders: the worst first.
    """
    shifts: dict[str, dict[str, float]] = {}
    costs: dict[str, dict[tuple[str, str], float]] = {}
    for encoder, values in joinings.items():
        sets, cost = values["sets"], values["cost"]
        shifts[encoder] = dict(zip(sets, values["shift"], strict=True))
        costs[encoder] = {(sets[i], sets[j]): cost[i][j] for i, j in combinations(range(len(sets)), 2)}
    sets = list(dict.fromkeys(name for by_set in shifts.values() for name in by_set))
    pairs = list(dict.fromkeys(pair for by_pair in costs.values() for pair in by_pair))
    if not pairs:
        return []
    pairs.sort(key=lambda pair: fmean(by_pair[pair] for by_pair in costs.values() if pair in by_pair))
    tags = tag_notes(sets)
    shift_rows = (_row(encoder, map(by_set.get, sets)) for encoder, by_set in shifts.items())
    cost_rows = (_row(" + ".join(pair), (by_pair.get(pair) for by_pair in costs.values())) for pair in pairs)
    means = _row("mean over the pairs", (fmean(by_pair.values()) for by_pair in costs.values()), is_average=True)
    return [
        Table(
            f"Language bias, {group}: rank shift of each set",
            (Column("encoder", is_number=False), *map(Column, sets)),
            tuple(shift_rows),
            (Note(f"rank shift: {_SHIFT}"), _UNTESTED, *tags),
        ),
        Table(
            f"Language bias, {group}: cost of joining two sets",
            (Column("sets joined", is_number=False), *map(Column, costs)),
            (*cost_rows, means),
            (Note(f"cost: {_COST}"), _UNTESTED, Note("order of pairs: mean over the encoders, the worst first"), *tags),
        ),
    ]


def _row(name: str, values: Iterable[float | None], *, is_average: bool = False) -> Row:
    return Row((Cell(name), *(Cell(value, "difference") for value in values)), is_average)


_CELL, _HEIGHT, _CHARACTER, _MARGIN = 50, 26, 8, 16  # pixels
COST_LIMIT, SHIFT_LIMIT = 10.0, 20.0
"""The strongest colours stand for these and more: the same colour means the same on every encoder's map."""
_Colour = tuple[int, int, int]
# Orange and blue of ColorBrewer's PuOr and RdBu: told apart with any kind of colour vision.
_BELOW, _MIDDLE, _ABOVE = (179, 88, 6), (247, 247, 247), (33, 102, 172)
_DARK = (20, 23, 28)  # in the place of the middle: `--back` of the page for a browser


def heat_map(joining: JoiningValues, title: str) -> str:
    """Costs of every pair of sets and, beside them, each set's rank shift, as an SVG that needs nothing else."""
    sets, cost, shift = joining["sets"], joining["cost"], joining["shift"]
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
            cells += [_rectangle(x, y, (225, 225, 225))] if i == j else _cell(x, y, cost[i][j], COST_LIMIT)
    heads = [(left + _CELL * i, name) for i, name in enumerate(sets)] + [(strip, "rank shift")]
    for x, name in heads:
        place = f"{x + _CELL // 2} {top - 8}"
        names.append(f'<text transform="translate({place}) rotate(-45)">{escaping.xml(name)}</text>')
    shifts = [part for i, v in enumerate(shift) for part in _cell(strip, top + _HEIGHT * i, v, SHIFT_LIMIT)]
    legends = [
        *_legend(bottom + 30, COST_LIMIT, "cost of joining two sets", "rho x 100, joined minus mean of both"),
        *_legend(bottom + 84, SHIFT_LIMIT, "rank shift of a set", "% of the joined list; positive: over-scored"),
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
    colour, ink = _diverging(value / limit), paint(value, limit)[1]
    text = f"{round(value, 1) + 0.0:+.1f}"
    return [_rectangle(x, y, colour), _text(x + _CELL // 2, y + 17, text, f' fill="{ink}"')]


def paint(value: float, limit: float, *, is_dark: bool = False) -> tuple[str, str]:
    """The colour of a value and that of its text, as `#rrggbb`: orange below zero, blue above.

    Zero is nearly white; in the dark it has the colour of the page for a browser.
    """
    colour = _diverging(value / limit, _DARK if is_dark else _MIDDLE)
    return f"#{bytes(colour).hex()}", _readable_on(colour)


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


def _diverging(share: float, middle: _Colour = _MIDDLE) -> _Colour:
    """From -1 or less over 0 to 1 or more."""
    end = _BELOW if share < 0 else _ABOVE
    weight = min(abs(share), 1.0)
    red, green, blue = (round(m + weight * (e - m)) for m, e in zip(middle, end, strict=True))
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

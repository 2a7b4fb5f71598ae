"""One sentence on what a comparison allows to be said, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from harness.core.names import Subset
from harness.protocol.described import described, metric_of, title_of
from harness.report.cells import Cell
from harness.report.cells import Kind as CellKind
from harness.report.cells import p_text as p_text
from harness.resampling.bootstrap import Interval
from harness.statistics.comparison import Compared, Difference, Kind, win_tie_loss


def conclusion(compared: Sequence[Compared], encoders: Sequence[str], alpha: float) -> str:
    """What may be concluded at level alpha: over the sets, of each task's main average, of differences (language bias).

    One sentence for two encoders, one for each of these for more.
    """
    are_two = len(encoders) == 2
    parts = (_two_on_sets if are_two else _many_on_sets)(compared, encoders, alpha)
    for one in headlines(compared, "average"):
        parts.append((_two_on_average if are_two else _many_on_average)(one, encoders, alpha))
    parts += [_on_bias(one, encoders) for one in headlines(compared, "bias")]
    if are_two:
        parts += _left_open(compared, encoders, alpha)
        return "; ".join(parts) + "."
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


def value_cell(interval: Interval, kind: CellKind = "score", *, is_best: bool = False) -> Cell:
    """A score, signed with two decimals for a bias (`difference`) and with one for a difference of scores (`gain`)."""
    if isnan(interval.value):
        return Cell(None)
    ends = None if isnan(interval.low) else (interval.low, interval.high)
    return Cell(interval.value, kind, interval=ends, is_best=is_best)


def difference_cell(difference: Difference, kind: Kind) -> Cell:
    """`-4.6 [-6.0, -3.2]`, signed; two decimals for a bias."""
    c = difference.comparison
    return value_cell(Interval(c.difference, c.low, c.high), "difference" if kind == "bias" else "gain")


def difference_text(difference: Difference, kind: Kind) -> str:
    """The same in one line."""
    cell = difference_cell(difference, kind)
    return f"{cell.text} {cell.interval_text}".strip()


def _two_on_sets(compared: Sequence[Compared], encoders: Sequence[str], alpha: float) -> list[str]:
    first, second = encoders
    counts = win_tie_loss(compared, first, second, alpha)
    n = sum(counts.values())
    if not n:
        return []
    if counts["tie"] == n:
        return [f"{first} and {second} cannot be told apart on {f'any of {n} sets' if n > 1 else 'the one set'}"]
    if n == 1:
        return [f"{first} is {'better' if counts['win'] else 'worse'} than {second} on the one set"]
    wins, losses = (counts[outcome] or "none" for outcome in ("win", "loss"))
    return [f"{first} is better than {second} on {wins} of {n} sets and worse on {losses}"]


def _two_on_average(one: Compared, encoders: Sequence[str], alpha: float) -> str:
    difference = one.between(*encoders)
    if difference is None:
        return f"{one.subset} cannot be compared"
    no_claim = ", which allows no claim" if difference.outcome(alpha) == "tie" else ""
    text = difference_text(difference, one.kind)
    return f"on {one.subset} the difference ({' - '.join(encoders)}) is {text}, {_p_is(difference.p_holm)}{no_claim}"


def _many_on_sets(compared: Sequence[Compared], encoders: Sequence[str], alpha: float) -> list[str]:
    sets = [one for one in compared if one.kind == "set" and one.differences]
    if not sets:
        return []
    counts = {name: sum(name in one.standing.best for one in sets) for name in encoders}
    first, *others = (f"{name} on {n}" for name, n in counts.items())
    total = f" of {len(sets)} set{'s' if len(sets) > 1 else ''}"
    return [f"best or not significantly worse than the best: {', '.join([first + total, *others])}"]


def _many_on_average(one: Compared, encoders: Sequence[str], alpha: float) -> str:
    if not one.differences:
        return f"{one.subset} cannot be compared"
    best = one.standing.leader
    equal = [encoder for encoder in one.values if encoder in one.standing.equals]
    groups: dict[str, list[str]] = {}
    for encoder, p in one.standing.p.items():
        difference = one.between(encoder, best)
        assert difference is not None  # both have a value
        if encoder not in equal:
            group = "not tested" if isnan(p) else "worse" if p < alpha else "not significantly worse"
            tested = "" if isnan(p) else f", {_p_is(p)}"
            groups.setdefault(group, []).append(f"{encoder} ({difference_text(difference, one.kind)}{tested})")
    order = ("not significantly worse", "worse", "not tested")
    others = [f"; {group}: {', '.join(groups[group])}" for group in order if group in groups]
    are_best = f"the best is {best}" if len(equal) == 1 else f"the best, with equal scores, are {' and '.join(equal)}"
    return f"on {one.subset} {are_best}{''.join(others)}"


def _on_bias(one: Compared, encoders: Sequence[str]) -> str:
    texts = [
        f"{value_cell(value, 'difference').text} with {encoder} ({_p_is(one.p_zero[encoder])} against 0)"
        for encoder, value in one.values.items()
    ]
    heading = metric_of(one.task, one.metric).heading
    text = f"{title_of(one.task)} on {one.subset}: {heading} {', '.join(texts)}"
    difference = one.between(*encoders) if len(encoders) == 2 else None
    if difference:
        text += f", a difference of {difference_text(difference, 'bias')}, {_p_is(difference.p_holm)}"
    return text


def _left_open(compared: Sequence[Compared], encoders: Sequence[str], alpha: float) -> list[str]:
    first, second = encoders
    counts = win_tie_loss(compared, first, second, alpha)
    open_sets = f"no claim can be made of the other {f'{n} sets' if (n := counts['tie']) > 1 else 'one'}"
    lacking = sum(one.kind == "set" and not one.differences for one in compared)
    return [
        *([open_sets] if 0 < counts["tie"] < sum(counts.values()) else []),
        *([f"{lacking} more could not be compared"] if lacking else []),
    ]


def headlines(compared: Sequence[Compared], kind: Kind) -> list[Compared]:
    """Of each task the average (or bias) that its tables are ranked by."""

    def rank(one: Compared) -> int:
        order, base = described(one.task).display.ranking, Subset.parse(one.subset).base
        return order.index(base) if base in order else len(order)

    by_task: dict[str, list[Compared]] = {}
    for one in compared:
        if one.kind == kind and one.values:
            by_task.setdefault(one.task, []).append(one)
    return [min(ones, key=rank) for ones in by_task.values()]


def _p_is(p: float) -> str:
    return "not tested" if isnan(p) else f"p {'' if p < 0.001 else '= '}{p_text(p)}".replace("<", "< ")

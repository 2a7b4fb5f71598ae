"""The conclusion that a comparison allows, in words, and the cells of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from harness.core.names import Subset
from harness.protocol.described import described, metric_of, title_of
from harness.report.cells import Cell, CellKind, p_is
from harness.report.detectable import unseen_of
from harness.resampling.bootstrap import Interval
from harness.statistics.comparison import Comparison, ComparisonKind, Difference, WinTieLoss, win_tie_loss


def conclusion(comparisons: Sequence[Comparison], encoders: Sequence[str], alpha: float) -> str:
    """What may be concluded at level alpha: over the sets, of each task's main average, of differences (language bias).

    It is one sentence for two encoders, and one for each of these subjects for more. Then it says how small a
    difference the averages can show; of a task without one, the sets.
    """
    averages, biases = headlines(comparisons, "average"), headlines(comparisons, "bias")
    sets = [c for c in comparisons if c.kind == "set" and c.differences]
    sets = [c for c in sets if c.task not in {average.task for average in averages}]
    reach = unseen_of([*averages, *sets], encoders, alpha)
    if len(encoders) == 2:
        first, second = encoders
        counts = win_tie_loss(comparisons, first, second, alpha)
        untested = sum(c.kind == "set" and not c.differences for c in comparisons)
        parts = [
            *_pair_on_sets(counts, first, second),
            *(_pair_on_average(c, encoders, alpha) for c in averages),
            *(_on_bias(c, encoders) for c in biases),
        ]
        if 0 < (ties := counts["tie"]) < sum(counts.values()):
            parts.append(f"no claim can be made of the other {f'{ties} sets' if ties > 1 else 'one'}")
        if untested:
            parts.append(f"{untested} more could not be compared")
        return " ".join(["; ".join(parts) + ".", *map(_sentence, reach)])
    parts = [
        *_best_on_sets(comparisons, encoders),
        *(_best_on_average(c, alpha) for c in averages),
        *(_on_bias(c, encoders) for c in biases),
    ]
    return " ".join(map(_sentence, [*parts, *reach]))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def value_cell(interval: Interval, kind: CellKind = "score", *, is_best: bool = False) -> Cell:
    """A score, signed with two decimals for a bias (`difference`) and with one for a difference of scores (`gain`)."""
    if isnan(interval.value):
        return Cell(None)
    ends = None if isnan(interval.low) else (interval.low, interval.high)
    return Cell(interval.value, kind, interval=ends, is_best=is_best)


def difference_cell(difference: Difference, kind: ComparisonKind) -> Cell:
    """`-4.6 [-6.0, -3.2]`, signed; two decimals for a bias."""
    test = difference.test
    return value_cell(Interval(test.difference, test.low, test.high), "difference" if kind == "bias" else "gain")


def headlines(comparisons: Sequence[Comparison], kind: ComparisonKind) -> list[Comparison]:
    """For each task, the average (or bias) that its tables are ranked by."""

    def rank(comparison: Comparison) -> int:
        order, base = described(comparison.task).display.ranking, Subset.parse(comparison.subset).base
        return order.index(base) if base in order else len(order)

    by_task: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.kind == kind and comparison.values:
            by_task.setdefault(comparison.task, []).append(comparison)
    return [min(of_task, key=rank) for of_task in by_task.values()]


def _difference_text(difference: Difference, kind: ComparisonKind) -> str:
    cell = difference_cell(difference, kind)
    return f"{cell.text} {cell.interval_text}".strip()


def _pair_on_sets(counts: Mapping[WinTieLoss, int], first: str, second: str) -> list[str]:
    n = sum(counts.values())
    if not n:
        return []
    if counts["tie"] == n:
        return [f"{first} and {second} cannot be told apart on {f'any of {n} sets' if n > 1 else 'the one set'}"]
    if n == 1:
        return [f"{first} is {'better' if counts['win'] else 'worse'} than {second} on the one set"]
    wins, losses = counts["win"] or "none", counts["loss"] or "none"
    return [f"{first} is better than {second} on {wins} of {n} sets and worse on {losses}"]


def _pair_on_average(comparison: Comparison, encoders: Sequence[str], alpha: float) -> str:
    subset, difference = comparison.subset, comparison.between(*encoders)
    if difference is None:
        return f"{subset} cannot be compared"
    no_claim = ", which allows no claim" if difference.outcome(alpha) == "tie" else ""
    text = f"{_difference_text(difference, comparison.kind)}, {p_is(difference.p_holm)}{no_claim}"
    return f"on {subset} the difference ({' - '.join(encoders)}) is {text}"


def _best_on_sets(comparisons: Sequence[Comparison], encoders: Sequence[str]) -> list[str]:
    sets = [c for c in comparisons if c.kind == "set" and c.differences]
    if not sets:
        return []
    counts = {name: sum(name in c.standing.best for c in sets) for name in encoders}
    first, *others = (f"{name} on {n}" for name, n in counts.items())
    total = f" of {len(sets)} set{'s' if len(sets) > 1 else ''}"
    return [f"best or not significantly worse than the best: {', '.join([first + total, *others])}"]


def _best_on_average(comparison: Comparison, alpha: float) -> str:
    if not comparison.differences:
        return f"{comparison.subset} cannot be compared"
    leader, equals = comparison.standing.leader, comparison.standing.equals
    groups: dict[str, list[str]] = {"not significantly worse": [], "worse": [], "not tested": []}
    for encoder, p in comparison.standing.p.items():
        difference = comparison.between(encoder, leader)
        assert difference is not None  # both have a value
        if encoder not in equals:
            group = "not tested" if isnan(p) else "worse" if p < alpha else "not significantly worse"
            tested = "" if isnan(p) else f", {p_is(p)}"
            groups[group].append(f"{encoder} ({_difference_text(difference, comparison.kind)}{tested})")
    others = [f"; {group}: {', '.join(texts)}" for group, texts in groups.items() if texts]
    names = " and ".join(encoder for encoder in comparison.values if encoder in equals)
    best = f"the best is {leader}" if len(equals) == 1 else f"the best, with equal scores, are {names}"
    return f"on {comparison.subset} {best}{''.join(others)}"


def _on_bias(comparison: Comparison, encoders: Sequence[str]) -> str:
    texts = [
        f"{value_cell(value, 'difference').text} with {encoder} ({p_is(comparison.p_zero[encoder])} against 0)"
        for encoder, value in comparison.values.items()
    ]
    heading = metric_of(comparison.task, comparison.metric).heading
    text = f"{title_of(comparison.task)} on {comparison.subset}: {heading} {', '.join(texts)}"
    difference = comparison.between(*encoders) if len(encoders) == 2 else None
    if difference:
        text += f", a difference of {_difference_text(difference, 'bias')}, {p_is(difference.p_holm)}"
    return text

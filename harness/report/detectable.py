"""How small a difference the data can show, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import NamedTuple

from harness.resampling.power import FOUR_OF_FIVE, HALF, Spread, minimum_detectable
from harness.statistics.comparison import Comparison, Difference


def unseen(items: str, spreads: Iterable[Spread], alpha: float, n_tests: int) -> str:
    """What will usually go unseen, and what is found in four of five cases; empty where nothing can be said.

    Args:
        items: on what, such as `900 items (avg)`.
        spreads: of the differences that it is said of; of several, the range is given.
        alpha, n_tests: the tests are at `alpha`, corrected by Holm over so many. Of the levels that this gives them
            (alpha / n_tests to alpha) the strictest is meant.
    """
    found = reach(spreads, alpha, n_tests)
    if found is None:
        return ""
    tests = (
        f"tests at {alpha:g}"
        if n_tests == 1
        else f"tests at {found.level:.2g}, the strictest level of Holm over {n_tests}"
    )
    return (
        f"with {items} a difference below {points(found.half)} points will usually go unseen; one of "
        f"{points(found.most)} is found in four of five cases ({tests})"
    )


class Reach(NamedTuple):
    """The differences that tests at a level find in half of the cases, and in four of five; the lowest and highest."""

    level: float
    half: tuple[float, float]
    most: tuple[float, float]


def reach(spreads: Iterable[Spread], alpha: float, n_tests: int) -> Reach | None:
    """What tests of such differences find; None where there are none. See `unseen`."""
    level = alpha / max(n_tests, 1)
    known = [
        (half, most)
        for one in spreads
        if (half := minimum_detectable(one, level, HALF)) and (most := minimum_detectable(one, level, FOUR_OF_FIVE))
    ]
    if not known:
        return None
    (low, high), (low_most, high_most) = ((min(values), max(values)) for values in zip(*known, strict=True))
    return Reach(level, (low, high), (low_most, high_most))


def unseen_of(comparisons: Sequence[Comparison], encoders: Sequence[str], alpha: float) -> list[str]:
    """The same of each average that is given, and of the sets of each task; of language bias nothing is said.

    Two encoders are tested against each other on all of them, several against the best of each.
    """
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.kind != "bias":
            subset = comparison.subset if comparison.kind == "average" else ""
            groups.setdefault((comparison.task, subset), []).append(comparison)
    return [text for group in groups.values() if (text := _of_group(group, encoders, alpha))]


def _of_group(group: Sequence[Comparison], encoders: Sequence[str], alpha: float) -> str:
    differences: list[Difference] = []
    n_tests = 1
    for comparison in group:
        if len(encoders) == 2:
            pair = comparison.between(*encoders)
            against = [pair] if pair else []
            n_tests = max([n_tests, *(d.n_tests for d in against)])
        else:
            p, leader = comparison.standing.p, comparison.standing.leader
            against = [d for name in p if (d := comparison.between(name, leader))]
            n_tests = max(n_tests, sum(not isnan(value) for value in p.values()))
        differences += against
    numbers = [f"{n:,}" for n in sorted({d.test.units for d in differences})]
    where = f"({group[0].subset})" if len(group) == 1 else "a set"
    spreads = [d.test.spread for d in differences]
    return unseen(f"{_range(numbers)} items {where}", spreads, alpha, n_tests) if spreads else ""


def points(ends: tuple[float, float]) -> str:
    """`1.2`, or `1.2 to 3.4`; what is below 0.1 has two digits."""
    return _range([f"{value:.1f}" if value >= 0.1 else f"{value:.2g}" for value in ends])


def _range(texts: Sequence[str]) -> str:
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"

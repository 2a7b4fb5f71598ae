"""Where the names of points go: beside them, over no other name, point or line. Pixels, y downwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot
from typing import NamedTuple

from harness.charts.theme import TEXT

HEIGHT = TEXT + 2
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] -"), frozenset("mwMW@%")
_GAP = 8
_DISTANCES = (0, 8, 18, 30, 44)
_FEW, _FAR, _STEP = 12, 120, 6
"""Where names are few, each has a place somewhere around: how far at most, and pixels between the places tried."""


class Box(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two have a point in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Label(NamedTuple):
    """A name and its place.

    Attributes:
        text: the name.
        x, y: the point it stands at: the text's left end, middle or right end, and its middle.
        align: which of these: left, center, right.
        is_away: whether it is so far from its point that a line should join them.
    """

    text: str
    x: float
    y: float
    align: str
    is_away: bool


def text_width(text: str) -> float:
    """Pixels that a text takes, and rather more than fewer."""
    return TEXT * sum(0.34 if c in _NARROW else 0.95 if c in _WIDE or c > "\u1100" else 0.68 for c in text)


def place(
    points: Sequence[tuple[str, float, float]], obstacles: Iterable[Box], width: float, height: float
) -> list[Label | None]:
    """The places of names in a chart of this size; None where there is no room. Few names are put further away.

    Args:
        points: name, x and y; earlier ones are placed first.
        obstacles: that no name may cover, the points among them.
        width, height: names stay inside.
    """
    taken = list(obstacles)
    labels: list[Label | None] = []
    for text, x, y in points:
        others = [(u, v) for _, u, v in points if (u, v) != (x, y)]
        found = None
        # Second, further off or nearer to another point, with a line to its own.
        for is_away in (False, True):
            for label, box in _candidates(text, x, y):
                is_inside = box.left >= 2 and box.top >= 2 and box.right <= width - 2 and box.bottom <= height - 2
                is_clear = is_inside and not any(box.meets(other) for other in taken)
                if is_clear and (is_away or (not label.is_away and not _is_nearer(others, (x, y), box))):
                    found = label._replace(is_away=is_away)
                    taken.append(box)
                    break
            if found:
                break
        labels.append(found)
    if len(points) <= _FEW:
        for n, (text, x, y) in enumerate(points):
            labels[n] = labels[n] or _anywhere(text, x, y, taken, width, height)
    return labels


def _anywhere(text: str, x: float, y: float, taken: list[Box], width: float, height: float) -> Label | None:
    """The nearest free place to the left or to the right, which is then taken; a line leads to the nearer end."""
    wide = text_width(text)
    steps = range(-_FAR, _FAR + 1, _STEP)
    offsets = sorted(((dx, dy) for dx in steps if dx for dy in steps), key=lambda offset: (hypot(*offset), offset))
    for dx, dy in offsets:
        middle = y + dy
        align, left = ("left", x + dx) if dx > 0 else ("right", x + dx - wide)
        box = Box(left, middle - HEIGHT / 2, left + wide, middle + HEIGHT / 2)
        is_inside = box.left >= 2 and box.top >= 2 and box.right <= width - 2 and box.bottom <= height - 2
        if is_inside and not any(box.meets(other) for other in taken):
            taken.append(box)
            return Label(text, x + dx, middle, align, True)
    return None


def _is_nearer(others: Iterable[tuple[float, float]], own: tuple[float, float], box: Box) -> bool:
    return any(_distance(other, box) <= _distance(own, box) for other in others)


def _distance(point: tuple[float, float], box: Box) -> float:
    x, y = point
    return hypot(max(box.left - x, 0, x - box.right), max(box.top - y, 0, y - box.bottom))


def _candidates(text: str, x: float, y: float) -> Iterable[tuple[Label, Box]]:
    """Places around a point, the nearest first: right, left, above, below, and between these."""
    half, wide = HEIGHT / 2, text_width(text)
    for distance in _DISTANCES:
        for dx, dy in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)):
            if (distance and not dy) or (distance > 8 and not dx):
                continue  # further off it would read as the name of another point
            middle = y + dy * (_GAP + half + distance)
            if dx == 0:
                label, left = Label(text, x, middle, "center", False), x - wide / 2
            elif dx > 0:
                start = x + _GAP + distance / 2
                label, left = Label(text, start, middle, "left", distance > 8), start
            else:
                end = x - _GAP - distance / 2
                label, left = Label(text, end, middle, "right", distance > 8), end - wide
            yield label, Box(left, middle - half, left + wide, middle + half)

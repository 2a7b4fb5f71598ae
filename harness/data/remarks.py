"""What whoever reads the scores of pairs of the user's own should know of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.data.corpora import header_words

if TYPE_CHECKING:
    from harness.data.own import OwnPairs


def pair_remarks(pairs: OwnPairs) -> list[str]:
    """Of a first pair that looks like a header, and of repeats, which cost accuracy; a clause each."""
    return [*_of_header(pairs), *_of_repeats(pairs)]


def _of_header(pairs: OwnPairs) -> list[str]:
    first = pairs.sources[0], pairs.targets[0]
    cells = {cell.strip().lower() for cell in first}
    if len(cells) < 2 or not cells <= header_words(pairs.languages):
        return []
    return [f"the first pair ({', '.join(cell.strip() for cell in first)}) looks like a header; it counts as a pair"]


def _of_repeats(pairs: OwnPairs) -> list[str]:
    """Every sentence finds one row, equal ones the same row, and of equal rows the lowest is found.

    So no more pairs can be right than there are different sentences on a side, in both directions; it may be fewer.
    """
    n, n_sources, n_targets = len(pairs.sources), len(set(pairs.sources)), len(set(pairs.targets))
    if n == min(n_sources, n_targets):
        return []
    bound = f"{100 * min(n_sources, n_targets) / n:.1f}"
    so = "" if bound == "100.0" else f", so accuracy is at most {bound}"  # of thousands of pairs one says nothing
    return [
        f"{n:,} pairs, but {n_sources:,} different source and {n_targets:,} different target sentences: of equal ones "
        f"at most one counts as found{so}; remove repeats"
    ]

"""A sample of mined pairs to be judged by hand, and what the verdicts say of every threshold.

The scores are cut into bands of equal width, and of each band as many pairs are drawn: a stratified sample, in which
the few pairs about a threshold weigh as they should. See `harness.review.sheet` for the file that is filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.mining.texts import Sentences
from harness.report.cells import Cell, Column, Note, Row, Table
from harness.review.sheet import Candidate

_BANDS = 10
_TAILS = 0.05  # share of pairs beyond the outer edges, which belong to the outer bands
_CONFIDENCE = 0.95


def bands_of(scores: NDArray[np.float64]) -> list[slice]:
    """Positions in `scores` (p,), descending, by band, the highest scores first; no band is empty."""
    if not len(scores):
        return []
    high, low = np.quantile(scores, [1 - _TAILS, _TAILS])
    edges = np.unique(np.linspace(low, high, _BANDS + 1)[1:-1])[::-1]  # a pair on an edge is in the band above it
    ends = np.searchsorted(-scores, -edges, side="right")
    bounds = np.unique(np.concatenate([[0], ends, [len(scores)]])).tolist()
    return [slice(start, end) for start, end in pairwise(bounds)]


def drawn(scores: NDArray[np.float64], per_band: int, seed: int = 0) -> NDArray[np.int64]:
    """Positions of at most `per_band` pairs of every band, in random order: a reviewer is not to guess the score."""
    rng = np.random.default_rng(seed)
    chosen = [
        band.start + rng.choice(band.stop - band.start, min(per_band, band.stop - band.start), replace=False)
        for band in bands_of(scores)
    ]
    return rng.permutation(np.concatenate([*chosen, np.empty(0, np.int64)]).astype(np.int64))


def described(
    positions: NDArray[np.int64],
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    texts: Sequence[Sentences],
) -> list[Candidate]:
    """What a reviewer is to see of the pairs at `positions` of the mined ones, `rows` (p, 2) of `texts`."""
    candidates = []
    for position in positions.tolist():
        i, j = (int(row) for row in rows[position])
        places = [text.place(row) for text, row in zip(texts, (i, j), strict=True)]
        ids = tuple(f"{file}:{line}" for file, line in places)
        candidates.append(
            Candidate(
                position=position,
                score=float(scores[position]),
                above_threshold=None,
                ids=(ids[0], ids[1]),
                sentences=(texts[0].sentences[i], texts[1].sentences[j]),
            )
        )
    return candidates


@dataclass(frozen=True)
class Estimate:
    """What the verdicts say of one threshold, the lowest score of a band.

    Attributes:
        threshold: the score.
        n_pairs: mined pairs with at least this score; n_judged: those judged.
        precision: x 100; `low`, `high`: its 95 % interval. NaN where a band above has no verdict.
        n_translations: translations among the pairs. NaN likewise.
    """

    threshold: float
    n_pairs: int
    n_judged: int
    precision: float
    low: float
    high: float
    n_translations: float


def estimates(scores: NDArray[np.float64], positions: NDArray[np.int64], verdicts: Sequence[str]) -> list[Estimate]:
    """Precision at the lowest score of every band, the highest first.

    scores: (p,), descending, of all mined pairs.
    positions: of those that were drawn; verdicts: on them, `yes`, `no`, `unsure` (no translation) or empty.
    """
    is_judged = np.array([bool(verdict) for verdict in verdicts], bool)
    is_good = np.array([verdict == "yes" for verdict in verdicts], bool)
    sizes, judged, good = [], [], []
    found = []
    for band in bands_of(scores):
        inside = (positions >= band.start) & (positions < band.stop)
        sizes.append(band.stop - band.start)
        judged.append(int((inside & is_judged).sum()))
        good.append(int((inside & is_good).sum()))
        share, low, high = stratified(np.array(sizes), np.array(judged), np.array(good))
        n_pairs = band.stop
        threshold = float(scores[band.stop - 1])
        found.append(Estimate(threshold, n_pairs, sum(judged), 100 * share, 100 * low, 100 * high, n_pairs * share))
    return found


def stratified(
    sizes: NDArray[np.int64], judged: NDArray[np.int64], good: NDArray[np.int64]
) -> tuple[float, float, float]:
    """The share of good ones in a population of strata, and its 95 % interval, after Korn and Graubard.

    Clopper and Pearson's interval for the effective sample size: that of a simple sample with the variance of this one
    (Korn and Graubard, "Confidence intervals for proportions with small expected number of positive counts estimated
    from survey data", Survey Methodology 24, 1998). Where all are good, or none, no variance is seen, and the effective
    size is what the weights alone allow. Not theirs: one hit and one miss more in the variance of every stratum, in
    place of degrees of freedom. In simulations of 40 populations 95 to 100 % of the intervals held the truth.

    sizes, judged, good: (strata,), of the population, of the sample, and of the good ones in that. NaN, three times,
    where a stratum has no sample.
    """
    from scipy.stats import beta

    if not judged.all():
        return float("nan"), float("nan"), float("nan")
    weights, shares = sizes / sizes.sum(), good / judged
    # Not left to the sum of floats, which may be 0.9999999999999999.
    share = 1.0 if (good == judged).all() else float((weights * shares).sum())
    # What was judged is known: of a stratum that was judged as a whole there is nothing to guess.
    unknown = weights**2 / judged * (sizes - judged) / np.maximum(sizes - 1, 1)
    if not unknown.any():
        return share, share, share
    effective = float(1 / unknown.sum())
    # A stratum without a miss has no variance of its own, by its sample; a hit and a miss more give it some.
    smooth = (good + 1) / (judged + 2)
    if 0 < share < 1:
        effective = share * (1 - share) / float((unknown * smooth * (1 - smooth)).sum())
    tail = (1 - _CONFIDENCE) / 2
    x = share * effective
    low = float(beta.ppf(tail, x, effective - x + 1)) if share > 0 else 0.0
    high = float(beta.ppf(1 - tail, x + 1, effective - x)) if share < 1 else 1.0
    return share, low, high


def as_table(found: Sequence[Estimate], verdicts: Sequence[str]) -> Table:
    """The estimates, the highest threshold first; the threshold with the highest F1 among the mined pairs is bold."""
    total = found[-1].n_translations if found else float("nan")
    f1 = [200 * each.n_translations / (each.n_pairs + total) for each in found]
    best = int(np.nanargmax(f1)) if found and not np.isnan(total) else None
    rows = []
    for number, each in enumerate(found):
        is_known = not np.isnan(each.precision)
        figures = [Cell(value if is_known else None, "score") for value in (each.precision, each.low, each.high)]
        rows.append(
            Row(
                (
                    Cell(each.threshold, "threshold", is_best=number == best),
                    Cell(each.n_pairs, "count"),
                    Cell(each.n_judged, "count"),
                    *figures,
                    Cell(each.n_translations, "count") if is_known else Cell(None),
                    Cell(None if np.isnan(f1[number]) else f1[number], "score"),
                )
            )
        )
    n_judged = sum(map(bool, verdicts))
    notes = [
        f"{n_judged:,} of {len(verdicts):,} pairs judged; unsure counts as no translation",
        "precision, and its 95 % interval (after Korn and Graubard); F1: of the translations among the mined pairs",
    ]
    heads = ("score at least", "pairs", "judged", "precision", "from", "to", "translations", "F1")
    return Table("Judged sample, x 100", tuple(map(Column, heads)), tuple(rows), tuple(map(Note, notes)))

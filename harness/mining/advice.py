"""A threshold for mined pairs without gold: how many of them are translations, from their scores alone.

Pairs that are each other's best are of two kinds, translations and matches by chance. What chance gives is measured:
these pairs are taken away, and what is then each other's best is a match by chance, for a sentence has one translation
(`evidence`). A mixture of two laws is fitted to the scores with that measurement as the prior of one of them
(`advise`): Normal for translations, Gumbel, the law of maxima, for chance. The suggested threshold has the highest
expected F1. `benchmarks/threshold.py` compares this with other ways on sets whose gold is hidden.

It fails where many sentences have near duplicates on the other side (paraphrases): taken away, a translation has
another behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import InputError
from harness.mining.margin import Margin, best_candidates, margin_scores
from harness.mining.search import Floats, Ints, Neighbours

LEAST_K = 3
"""Neighbours that `evidence` needs: a row's best, and two without it."""
DOUBTFUL = 70.0
"""Expected F1 below which the few translations there are can hardly be told from chance."""

_AT_ONCE = 1 << 18  # rows
# Of the mixture, chosen on six sets and three encoders, see `benchmarks/threshold.py`. In the scale of chance's scores:
_GAP, _SPREAD = 2.7, 1.4  # translations stand so many standard deviations above chance, and have so many
_PRIOR_TRUE, _PRIOR_CHANCE = 20.0, 1000.0  # observations that the priors are worth
# Where no pair is a translation, all those taken away were matches by chance, the best ones; what is left scores less.
_GROWTH = 0.35
_ENOUGH = 100  # pairs for a fit
_FEWEST = 5.0  # expected translations without which nothing is suggested
_MOST = 100_000  # scores that the fit takes; of more, evenly spaced ones
_ITERATIONS, _SETTLED = 200, 1e-4
_EULER = 0.5772156649015329


@dataclass(frozen=True)
class Evidence:
    """What advice is taken from.

    Attributes:
        mutual: (m,), scores of the pairs that are each other's best, descending.
        chance: (c,), scores of the pairs that are each other's best when those are taken away, descending.
        margin: that the scores are of.
    """

    mutual: Floats
    chance: Floats
    margin: Margin = "ratio"


@dataclass(frozen=True)
class Advice:
    """A threshold, and what is expected of others.

    Attributes:
        threshold: the one with the highest expected F1, to four decimals; None where none can be suggested.
        reason: why there is none; else empty.
        scores: (m,), of the pairs that are each other's best, descending.
        correct: (m,), the probability that such a pair is a translation; it falls with the score.
        mined: (p,), scores of all pairs that count, descending; those that are not each other's best count as wrong.
    """

    threshold: float | None
    reason: str
    scores: Floats
    correct: Floats
    mined: Floats

    @property
    def n_correct(self) -> float:
        """How many translations are expected among the pairs."""
        return float(self.correct.sum())

    @property
    def expected_f1(self) -> float:
        """Expected F1 x 100 at the suggested threshold; NaN without one."""
        if self.threshold is None:
            return float("nan")
        n = np.count_nonzero(self.mined >= self.threshold)
        return 200 * self.correct_above(self.threshold) / (n + self.n_correct)

    @property
    def is_doubtful(self) -> bool:
        """Whether what is suggested is to be doubted, as is all else that is expected."""
        return bool(self.expected_f1 < DOUBTFUL)  # never without a threshold: NaN

    def correct_above(self, threshold: float) -> float:
        """How many translations are expected with at least this score."""
        return float(self.correct[: np.count_nonzero(self.scores >= threshold)].sum())


def check_margin(margin: str, k: int) -> None:
    """Raise InputError if no advice can be given on scores of this margin, or with so few neighbours."""
    if margin == "absolute":
        raise InputError("no advice on thresholds of the margin absolute; take ratio or distance")
    if k < LEAST_K:
        raise InputError(f"advice on thresholds needs {LEAST_K} neighbours or more, not {k}; give -k {LEAST_K}")


def evidence(of_x: Neighbours, of_y: Neighbours, margin: Margin = "ratio") -> Evidence:
    """The scores of mutual best pairs, and of those by chance, from the neighbours of both sides (see `nearest`).

    A row whose pair is taken away has k - 1 neighbours left; its mean takes the farthest twice.
    """
    check_margin(margin, LEAST_K)
    if min(of_x.rows.shape[1], of_y.rows.shape[1]) < LEAST_K:
        return Evidence(np.empty(0), np.empty(0), margin)
    (best_y, forward), (best_x, _) = best_candidates(of_x, of_y, margin)
    rows_x, rows_y = np.arange(len(best_y)), np.arange(len(best_x))
    is_mutual = best_x[best_y] == rows_x
    partner_x = np.where(is_mutual, best_y, -1)
    partner_y = np.where(best_y[best_x] == rows_y, best_x, -1)
    mean_x, mean_y = _means_without(of_x, partner_x), _means_without(of_y, partner_y)
    second_y, second = _best_without(of_x, partner_x, mean_x, mean_y, margin)
    second_x, _ = _best_without(of_y, partner_y, mean_y, mean_x, margin)
    by_chance = second[second_x[second_y] == rows_x]
    return Evidence(-np.sort(-forward[is_mutual]), -np.sort(-by_chance), margin)


def _means_without(neighbours: Neighbours, partner: Ints) -> Floats:
    """Each row's mean similarity to its neighbours but `partner` (n,), in whose place the farthest counts twice."""
    means = np.empty(len(partner))
    for start in range(0, len(partner), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        similarity = neighbours.similarity[part]
        is_partner = neighbours.rows[part] == partner[part, None]
        farthest = np.where(is_partner[:, -1], similarity[:, -2], similarity[:, -1])
        means[part] = np.where(is_partner, farthest[:, None], similarity).mean(axis=1)
    return means


def _best_without(
    neighbours: Neighbours, partner: Ints, mean: Floats, mean_other: Floats, margin: Margin
) -> tuple[Ints, Floats]:
    """Each row's neighbour with the highest score but `partner` (n,), and that score."""
    best, scores = np.empty(len(partner), np.int64), np.empty(len(partner))
    for start in range(0, len(partner), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        rows = neighbours.rows[part]
        candidates = margin_scores(neighbours.similarity[part], mean[part, None], mean_other[rows], margin)
        candidates[rows == partner[part, None]] = -np.inf
        first = candidates.argmax(axis=1)[:, None]
        best[part] = np.take_along_axis(rows, first, 1)[:, 0]
        scores[part] = np.take_along_axis(candidates, first, 1)[:, 0]
    return best, scores


def advise(found: Evidence, mined: Floats | None = None) -> Advice:
    """The threshold with the highest expected F1, and what it rests on.

    mined: (p,), descending, scores of the pairs that are written; None: those that are each other's best.
    """
    scores, observed = _scale(found.mutual, found.margin)
    _, chance = _scale(found.chance, found.margin)
    mined = scores if mined is None else mined
    nothing = partial(Advice, None, scores=scores, mined=mined)
    if (fewest := min(len(observed), len(chance))) < _ENOUGH:
        reason = f"only {fewest:,} pairs are each other's best, or by chance; {_ENOUGH} or more of both are needed"
        return nothing(reason, correct=np.zeros(len(scores)))
    if not chance.std() > 0 or not observed.std() > 0:
        return nothing("all scores are equal", correct=np.zeros(len(scores)))
    correct = fitted(observed, chance).probabilities(observed)
    expected = np.cumsum(correct)
    if expected[-1] < _FEWEST:
        reason = "no pairs stand out from matches by chance: none are translations, or many have near duplicates"
        return nothing(reason, correct=correct)
    n_above = np.searchsorted(-mined, -scores, side="right")
    f1 = 2 * expected / (n_above + expected[-1])
    best = int(f1.argmax())
    below = min(int(n_above[best]), len(mined) - 1)
    return Advice(round(float(scores[best] + mined[below]) / 2, 4), "", scores, correct, mined)


def _scale(scores: Floats, margin: Margin) -> tuple[Floats, Floats]:
    """Scores, and those on the scale on which chance's are a Gumbel's: of the ratio the logarithm, where it has one."""
    if margin == "distance":
        return scores, scores
    positive = scores[scores > 0]
    return positive, np.log(positive)


@dataclass(frozen=True)
class Mixture:
    """Two laws of scores: with probability `share` a Normal (translations), else a Gumbel (chance).

    Attributes:
        share: of translations.
        mean, sd: of the Normal.
        location, scale: of the Gumbel.
    """

    share: float
    mean: float
    sd: float
    location: float
    scale: float

    def probabilities(self, scores: Floats) -> Floats:
        """(m,), that the pair of each of `scores`, descending, is a translation; made to fall with the score.

        The laws cross three times: beyond the scores of translations the tail of chance is the longer one, and below
        those of chance the Normal's. What decides is the crossing between them.
        """
        u = (scores - self.location) / self.scale
        by_chance = -u - np.exp(-np.maximum(u, -30)) - np.log(self.scale)
        true = -(((scores - self.mean) / self.sd) ** 2) / 2 - np.log(self.sd * np.sqrt(2 * np.pi))
        odds = np.log(self.share / (1 - self.share)) + true - by_chance
        probability: Floats = 1 / (1 + np.exp(-np.clip(odds, -60, 60)))
        above = int(np.count_nonzero(scores >= self.location + _EULER * self.scale))  # the mean of chance
        if above:
            top = int(probability[:above].argmax())
            probability[:top] = probability[top]
            probability[top:] = np.minimum.accumulate(probability[top:])
            return probability
        return np.zeros(len(scores))


def fitted(observed: Floats, chance: Floats) -> Mixture:
    """The mixture that fits `observed` (m,), descending, by expectation maximisation with priors on both laws.

    chance: (c,), a sample of the Gumbel's; not of one value.
    """
    observed = _thinned(observed)
    mean_0, sd_0 = float(chance.mean()), float(chance.std())
    share = 0.3
    mixture: Mixture | None = None
    correct: NDArray[np.float64] = np.zeros(len(observed))
    for _ in range(_ITERATIONS):
        growth = 1 + _GROWTH * (1 - share)
        # The Gumbel by its moments: those of chance, grown, and those of what is observed and no translation.
        rest = 1 - correct if mixture else np.zeros(len(observed))
        weight = rest.sum()
        centre = (_PRIOR_CHANCE * growth * mean_0 + (rest * observed).sum()) / (_PRIOR_CHANCE + weight)
        spread = _PRIOR_CHANCE * (growth * sd_0) ** 2 + (rest * (observed - centre) ** 2).sum()
        sd_chance = np.sqrt(spread / (_PRIOR_CHANCE + weight))
        scale = sd_chance * np.sqrt(6) / np.pi
        location = centre - _EULER * scale
        if mixture is None:
            mean, sd = centre + _GAP * sd_chance, _SPREAD * sd_chance
        else:
            weight = correct.sum() + _PRIOR_TRUE
            mean = ((correct * observed).sum() + _PRIOR_TRUE * growth * (mean_0 + _GAP * sd_0)) / weight
            spread = (correct * (observed - mean) ** 2).sum() + _PRIOR_TRUE * (_SPREAD * growth * sd_0) ** 2
            sd = np.sqrt(spread / weight)
        mixture = Mixture(share, float(mean), float(sd), float(location), float(scale))
        now = mixture.probabilities(observed)
        settled = np.abs(now - correct).max() < _SETTLED
        correct = now
        share = float((correct.sum() + 0.5) / (len(observed) + 1))
        if settled:
            break
    assert mixture is not None
    return mixture


def _thinned(values: Floats) -> Floats:
    """At most `_MOST` of descending values, evenly spaced."""
    if len(values) <= _MOST:
        return values
    return values[np.linspace(0, len(values) - 1, _MOST).astype(np.int64)]

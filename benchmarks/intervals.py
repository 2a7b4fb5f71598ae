"""How often 95 % intervals cover the truth and paired tests reject a true null, and how long resampling takes.

    python benchmarks/intervals.py [--times 2000] [--resamples 1000] [--seed 7] [--only coverage|null|speed]

Coverage and null are simulated where the truth is known: gold scores and similarities are bivariate normal (Spearman's
rho of the population is 6 / pi x asin(r / 2)), also rounded to few values and transformed; accuracies are binomial; the
mined pairs' scores are two normals (F1 at the best threshold by numerical search). Speed is that of a board of ten
encoders on the ten STS 2017 sets, their averages and both language biases, at the default number of resamples.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from harness.resampling.bootstrap import bca_interval, bootstrap, percentile_interval
from harness.resampling.metrics import Sample, average, mean
from harness.resampling.resamples import Resampling, independent
from harness.resampling.tests import bootstrap_p, paired_tests, randomisation_p, rank_intervals
from harness.statistics.board import holm
from harness.tasks import Rows
from harness.tasks.bucc import sample as mining
from harness.tasks.language_bias import sample as language_bias
from harness.tasks.sts17 import sample as correlation

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Sample]

SETS = ("en-en", "es-es", "ar-ar", "en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")
SHARED = ("en-en", "en-de", "en-fr", "en-it", "en-nl")


def best_group(sample: Sample, plan: Resampling | None = None, alpha: float = 0.05) -> NDArray[np.bool_]:
    """(m,), the best encoder and all that are not significantly worse than it.

    m - 1 tests by approximate randomisation against the best, corrected by Holm. What cannot be tested is not
    significantly worse.
    """
    values = sample.values
    best = int(np.argmax(values))
    others = [k for k in range(len(values)) if k != best]
    adjusted = holm(randomisation_p(sample, [(best, k) for k in others], plan))
    group = np.ones(len(values), dtype=bool)
    group[others] = [not p < alpha for p in adjusted]
    return group


def population_spearman(r: float) -> float:
    """Spearman's rho x 100 of a bivariate normal with correlation r (Pearson 1907)."""
    return 600 / math.pi * math.asin(r / 2)


def normals(rng: np.random.Generator, correlations: Floats, n: int) -> Floats:
    """(variables, n), standard normal with these correlations."""
    return np.linalg.cholesky(correlations) @ rng.standard_normal((len(correlations), n))


def sts_rows(gold: Floats, cosine: Floats) -> Rows:
    return {"item": np.arange(len(gold)), "gold": gold, "cosine": cosine}


def one_set(r: float, n: int = 250) -> Draw:
    def draw(rng: np.random.Generator) -> Sample:
        gold, cosine = normals(rng, np.array([[1, r], [r, 1]]), n)
        return correlation([sts_rows(gold, cosine)])

    return draw


def clustered_average(r: float, shared: float, n: int = 250) -> Draw:
    """Five sets with one gold, whose encoder errors correlate by `shared`, and two sets of their own."""

    def draw(rng: np.random.Generator) -> Sample:
        gold = rng.standard_normal(n)
        common = rng.standard_normal(n)
        parts = []
        for _ in range(5):
            error = math.sqrt(shared) * common + math.sqrt(1 - shared) * rng.standard_normal(n)
            parts.append(correlation([sts_rows(gold, r * gold + math.sqrt(1 - r * r) * error)]))
        return average([*parts, one_set(r)(rng), one_set(r)(rng)])

    return draw


def accuracy_of(p: float, n: int = 1000) -> Draw:
    return lambda rng: Sample(mean(rng.random((1, n)) < p), independent(n))


N_GOLD, N_OTHER, CLOSER = 600, 3000, 2.5


def mined(rng: np.random.Generator) -> Sample:
    """Mined pairs, gold ones `CLOSER` standard deviations above the others; a twentieth of the gold is never mined."""
    is_mined = rng.random(N_GOLD) < 0.95
    score = np.concatenate([rng.normal(CLOSER, 1, N_GOLD), rng.normal(0, 1, N_OTHER)])
    score[:N_GOLD][~is_mined] = np.nan
    order = np.argsort(-score, kind="stable")
    rows = {
        "split": np.full(len(score), "training"),
        "row1": order,
        "row2": order,
        "score": score[order],
        "gold": order < N_GOLD,
    }
    return mining([rows], "f1_train")


def population_f1() -> float:
    t = np.linspace(-2, 6, 80_001)
    correct, wrong = 0.95 * N_GOLD * ndtr(CLOSER - t), N_OTHER * ndtr(-t)
    return float((200 * correct / (correct + wrong + N_GOLD)).max())


def coverage(times: int, plan: Resampling, seed: int) -> None:
    cases = [
        *((f"Spearman, 250 pairs, r = {r}", one_set(r), population_spearman(r)) for r in (0.0, 0.5, 0.8, 0.9)),
        ("average of 7 sets, 5 share their source pairs", clustered_average(0.8, 0.7), population_spearman(0.8)),
        ("accuracy 0.9 of 1,000 sentences", accuracy_of(0.9), 90.0),
        ("F1 at the tuned threshold, 600 gold pairs", mined, population_f1()),
    ]
    print(f"coverage of nominal {plan.level:.0%} intervals, {times} times, {plan.resamples} resamples")
    for name, draw, truth in cases:
        rng = np.random.default_rng(seed)
        hits = np.zeros(2)
        for _ in range(times):
            replicates = bootstrap(draw(rng), plan)
            for k, interval in enumerate((bca_interval(replicates)[0], percentile_interval(replicates)[0])):
                hits[k] += interval.low <= truth <= interval.high
        bca, percentile = hits / times
        print(f"  {name:48} BCa {bca:6.1%}   percentile {percentile:6.1%}", flush=True)


def null_pairs() -> Iterator[tuple[str, Draw]]:
    """Two encoders with one population score."""
    for r, between in ((0.8, 0.7), (0.8, 0.95), (0.5, 0.3)):
        matrix = np.array([[1, r, r], [r, 1, between], [r, between, 1]])
        for name, transform in (("", lambda x: x), (", one on another scale", lambda x: np.exp(2 * x))):

            def draw(
                rng: np.random.Generator, matrix: Floats = matrix, transform: Callable[[Floats], Floats] = transform
            ) -> Sample:
                gold, a, b = normals(rng, matrix, 250)
                return correlation([sts_rows(gold, a), sts_rows(gold, transform(b))])

            yield f"Spearman, r = {r}, encoders {between}{name}", draw
    matrix = np.array([[1, 0.8, 0.8], [0.8, 1, 0.8], [0.8, 0.8, 1]])

    def heavy(rng: np.random.Generator) -> Sample:
        gold, a, b = normals(rng, matrix, 250)
        return correlation([sts_rows(np.round(gold * 2), np.round(a * 3)), sts_rows(np.round(gold * 2), b**3)])

    yield "Spearman, gold in steps, b cubed", heavy

    def binary(rng: np.random.Generator) -> Sample:
        hard = rng.random(1000)
        return Sample(mean(0.6 * hard + 0.4 * rng.random((2, 1000)) < 0.7), independent(1000))

    yield "accuracy of 1,000 sentences", binary


def null(times: int, plan: Resampling, seed: int) -> None:
    print(f"share of true nulls rejected at 5 %, {times} times, {plan.resamples} resamples")
    for name, draw in null_pairs():
        rng = np.random.default_rng(seed)
        rejected = np.zeros(2)
        for _ in range(times):
            sample = draw(rng)
            rejected += [
                randomisation_p(sample, [(0, 1)], plan)[0] <= 0.05,
                bootstrap_p(bootstrap(sample, plan).difference(0, 1))[0] <= 0.05,
            ]
        randomisation, paired = rejected / times
        print(f"  {name:52} randomisation {randomisation:5.1%}   paired bootstrap {paired:5.1%}", flush=True)


def board(rng: np.random.Generator, encoders: int, n: int = 250) -> dict[str, list[Rows]]:
    shared = np.round(rng.random(n) * 25) / 5
    golds = {name: shared if name in SHARED else np.round(rng.random(n) * 25) / 5 for name in SETS}
    return {
        name: [sts_rows(gold, gold / 5 + rng.normal(0.02 * k, 0.2 + 0.01 * k, n)) for k in range(encoders)]
        for name, gold in golds.items()
    }


def joined(sets: list[list[Rows]], names: tuple[str, ...]) -> list[Rows]:
    """The rows of language-bias: for each encoder, those of all sets."""
    return [
        {
            "set": np.repeat(names, [len(part["gold"]) for part in parts]),
            **{key: np.concatenate([part[key] for part in parts]) for key in parts[0]},
        }
        for parts in zip(*sets, strict=True)
    ]


def speed(plan: Resampling, encoders: int = 10) -> None:
    rows = board(np.random.default_rng(1), encoders)
    start = time.perf_counter()
    bca_interval(bootstrap(correlation(rows["en-en"][:1]), plan))
    print(f"{plan.resamples} resamples of Spearman on 250 pairs: {time.perf_counter() - start:.2f} s")

    start = time.perf_counter()
    samples = {name: correlation(rows[name]) for name in SETS}
    samples |= {"avg-same": average([samples[name] for name in SETS[:3]])}
    samples |= {"avg-cross": average([samples[name] for name in SETS[3:]])}
    official = tuple(name for name in SETS if name == "en-en" or name not in SHARED)
    for group in (official, SETS):
        samples[f"bias {len(group)}"] = language_bias(joined([rows[name] for name in group], group))
    samples |= {f"actual {len(SETS)}": language_bias(joined([rows[name] for name in SETS], SETS), "actual")}
    samples |= {f"expected {len(SETS)}": language_bias(joined([rows[name] for name in SETS], SETS), "expected")}
    seconds = dict.fromkeys(("bootstrap", "intervals and ranks", "45 paired bootstraps", "tests against the best"), 0.0)
    for sample in samples.values():
        marks = [time.perf_counter()]
        replicates = bootstrap(sample, plan)
        marks.append(time.perf_counter())
        bca_interval(replicates), rank_intervals(replicates)
        marks.append(time.perf_counter())
        for i, j in itertools.combinations(range(encoders), 2):
            bootstrap_p(replicates.difference(i, j))
        marks.append(time.perf_counter())
        best_group(sample, plan)
        marks.append(time.perf_counter())
        for name, begin, end in zip(seconds, marks, marks[1:], strict=False):
            seconds[name] += end - begin
    total = time.perf_counter() - start
    print(f"STS 2017, {len(samples)} columns, {encoders} encoders, {plan.resamples} resamples: {total:.1f} s")
    for name, taken in seconds.items():
        print(f"  {name:24} {taken:6.1f} s")
    start = time.perf_counter()
    paired_tests(samples["bias 10"], [(0, 1)], plan)
    print(f"one comparison on the language bias of 2,500 pairs: {time.perf_counter() - start:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=1000, help="in each simulated comparison")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", choices=("coverage", "null", "speed"))
    options = parser.parse_args()
    plan = Resampling(resamples=options.resamples)
    if options.only in (None, "coverage"):
        coverage(options.times, plan, options.seed)
    if options.only in (None, "null"):
        null(options.times, plan, options.seed)
    if options.only in (None, "speed"):
        speed(Resampling())


if __name__ == "__main__":
    main()

"""Advice on a threshold without gold, way by way, on bitext whose gold is hidden.

    python benchmarks/threshold.py --data-dir DIR [--sets NAME ...] [--held-out NAME ...] [--encoders SPEC ...]
        [--shares .02 .1 .5 .9] [--size 3000] [--all]

A set is a file `parallel/NAME.tsv.gz` of the data directory (English, tab, translation). Of its pairs, that share of
each side's `--size` sentences (fewer where the file is small) have their partner on the other side; the others'
partners are left out. Mined as `leaderboard mine` does; a way's loss is the highest F1 that any threshold reaches less
the F1 at the threshold that it suggests from the scores. --sets are those on which the ways were chosen, --held-out
those on which nothing was. "best constant" is the one with the lowest median loss on these very sets, so hindsight.

Ways: the mixture of `harness.mining.advice`; two Normals without what chance gives (`scores alone`); counting, with
what chance gives taken for the false pairs (`chance`), or what is best from one side only (`one-sided`).
Vectors come from the cache, encoded first where they are not there. Prints Markdown; --all prints every case too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.text import tab_rows
from harness.mining import best_candidates, nearest
from harness.mining.advice import Evidence, advise, evidence
from harness.mining.margin import matched

SETS = (
    *("multi30k.en-de", "xnli.en-tr", "tatoeba-manythings.en-es"),
    *("gnome-user-docs.en-ru", "python-docs.en-fr", "tatoeba-challenge.en-ar"),
)
HELD_OUT = (
    *("tatoeba-challenge.en-it", "multi30k.en-fr", "xnli.en-zh", "gnome-user-docs.en-it", "tatoeba-manythings.en-nl"),
    *("tldr-pages.en-es", "python-docs.en-es", "django-docs.en-fr"),
)
ENCODERS = ("student", "muse", "e5-small-q4?prompt=query: &precision=bf16")
SHARES = (0.02, 0.1, 0.5, 0.9)
CONSTANTS = np.arange(0.95, 1.5, 0.005)


@dataclass(frozen=True)
class Case:
    """A set that is mined: the pairs' scores, descending, F1 x 100 at each, and what a way may see."""

    name: str
    encoder: str
    share: float
    scores: np.ndarray
    f1: np.ndarray
    found: Evidence
    one_sided: np.ndarray

    def loss(self, threshold: float | None) -> float:
        n = np.count_nonzero(self.scores >= threshold) if threshold is not None else 0
        return float(self.f1.max() - (self.f1[n - 1] if n else 0))


def read_pairs(path: Path, most: int) -> list[tuple[str, str]]:
    """Pairs in random order, no sentence twice."""
    rows = [(fields[0], fields[1]) for _, fields in tab_rows(path, 2, 2, "English TAB translation")]
    seen: set[str] = set()
    pairs = []
    for i in np.random.default_rng(1).permutation(len(rows)):
        if rows[i][0] != rows[i][1] and not seen & set(rows[i]):
            seen |= set(rows[i])
            pairs.append(rows[i])
            if len(pairs) == most:
                break
    return pairs


def make_case(name: str, encoder: str, share: float, x: np.ndarray, y: np.ndarray, n: int) -> Case:
    """x, y: vectors of the pairs' sides, row by row."""
    rng = np.random.default_rng([0, int(share * 100)])
    order, n_true = rng.permutation(len(x)), round(share * n)
    rest = n - n_true
    rows_x = rng.permutation(np.concatenate([order[:n_true], order[n_true : n_true + rest]]))
    rows_y = rng.permutation(np.concatenate([order[:n_true], order[n_true + rest : n_true + 2 * rest]]))
    of_x, of_y = nearest(x[rows_x], y[rows_y], 4)
    pairs, scores = matched(of_x, of_y)
    correct = rows_x[pairs[:, 0]] == rows_y[pairs[:, 1]]
    f1 = 200 * np.cumsum(correct) / (np.arange(1, len(scores) + 1) + n_true)
    (best_y, forward), (best_x, backward) = best_candidates(of_x, of_y)
    lone_x = forward[best_x[best_y] != np.arange(n)]
    lone_y = backward[best_y[best_x] != np.arange(n)]
    one_sided = np.concatenate([lone_x, lone_y])
    return Case(name, encoder, share, scores, f1, evidence(of_x, of_y), one_sided)


def by_mixture(case: Case) -> float | None:
    return advise(case.found, case.scores).threshold


def by_scores_alone(case: Case) -> float | None:
    """A mixture of two Normals on the logarithms of the scores, without the second matching."""
    from sklearn.mixture import GaussianMixture

    observed = np.log(case.found.mutual)[:, None]
    mixture = GaussianMixture(2, random_state=0).fit(observed)
    correct = mixture.predict_proba(observed)[:, mixture.means_[:, 0].argmax()]
    top = int(correct.argmax())
    correct[:top] = correct[top]
    expected = np.cumsum(np.minimum.accumulate(correct))
    f1 = 2 * expected / (np.arange(1, len(observed) + 1) + expected[-1])
    return float(case.found.mutual[f1.argmax()])


def by_chance(case: Case) -> float | None:
    """Counting: below the median of what chance gives, all pairs are false, and half of the false ones are there."""
    observed, chance = np.log(case.found.mutual), np.log(case.found.chance[case.found.chance > 0])
    share = 0.5
    for _ in range(20):  # where few are true, chance's own best were taken away; see `harness.mining.advice`
        grown = chance * (1 + 0.35 * (1 - share))
        n_false = min(len(observed), 2 * np.count_nonzero(observed < np.median(grown)))
        share = 0.5 * share + 0.5 * (1 - n_false / len(observed))
    return by_counts(observed, n_false * (1 - np.searchsorted(np.sort(grown), observed) / len(grown)), n_false)


def by_one_sided(case: Case) -> float | None:
    """Counting: what is the best for one side only is false, and chance makes as many mutual ones as below 1."""
    observed, lone = np.log(case.found.mutual), np.log(case.one_sided[case.one_sided > 0])
    ratio = np.count_nonzero(observed < 0) / max(1, np.count_nonzero(lone < 0))
    n_false = min(len(observed), ratio * len(lone))
    return by_counts(observed, ratio * (len(lone) - np.searchsorted(np.sort(lone), observed)), n_false)


def by_counts(observed: np.ndarray, n_false_above: np.ndarray, n_false: float) -> float:
    extracted = np.arange(1, len(observed) + 1)
    f1 = 2 * np.maximum(extracted - n_false_above, 0) / (extracted + max(len(observed) - n_false, 1))
    return float(np.exp(observed[f1.argmax()]))


WAYS: dict[str, Callable[[Case], float | None]] = {
    "mixture": by_mixture,
    "scores alone": by_scores_alone,
    "chance": by_chance,
    "one-sided": by_one_sided,
    "1.06": lambda case: 1.06,
}


def losses(cases: Sequence[Case]) -> dict[str, np.ndarray]:
    """By way, (cases,)."""
    table = {name: np.array([case.loss(way(case)) for case in cases]) for name, way in WAYS.items()}
    constants = np.array([[case.loss(value) for case in cases] for value in CONSTANTS])
    best = int(np.median(constants, axis=1).argmin())
    return {**table, f"best constant ({CONSTANTS[best]:.3f})": constants[best]}


def print_table(title: str, cases: Sequence[Case]) -> None:
    shares, encoders = sorted({case.share for case in cases}), list(dict.fromkeys(case.encoder for case in cases))
    heads = ["way", "median", "mean", "9 of 10 below", *(f"{100 * s:g} % true" for s in shares), *encoders]
    print(f"\n{title}: {len(cases)} cases\n\n| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    share, encoder = (np.array([getattr(case, key) for case in cases]) for key in ("share", "encoder"))
    for name, loss in losses(cases).items():
        values = [np.median(loss), loss.mean(), np.quantile(loss, 0.9)]
        values += [np.median(loss[share == s]) for s in shares] + [np.median(loss[encoder == e]) for e in encoders]
        print(f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} |")


def print_expectations(cases: Sequence[Case]) -> None:
    """How far the expected number of translations and F1 are from the truth, at the suggested threshold."""
    rows: dict[float, list[tuple[float, float]]] = {}
    for case in cases:
        advice = advise(case.found, case.scores)
        if advice.threshold is None:
            continue
        n = np.count_nonzero(case.scores >= advice.threshold)
        rows.setdefault(case.share, []).append((advice.expected_f1, case.f1[n - 1] if n else 0))
    print("\n| true pairs | expected F1, median | F1, median | expected less F1: 1 of 10 below | 9 of 10 below |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for share, values in sorted(rows.items()):
        expected, real = np.array(values).T
        low, high = np.quantile(expected - real, [0.1, 0.9])
        print(f"| {100 * share:g} % | {np.median(expected):.1f} | {np.median(real):.1f} | {low:+.1f} | {high:+.1f} |")


def cases_of(names: Sequence[str], options: argparse.Namespace) -> list[Case]:
    from harness import load_encoder
    from harness.encoders.cache import VectorCache

    cases = []
    for spec in options.encoders:
        encoder = load_encoder(spec)
        vectors = VectorCache(options.cache_dir).of(encoder)
        for name in names:
            pairs = read_pairs(options.data_dir / "parallel" / f"{name}.tsv.gz", int((2 - SHARES[0]) * options.size))
            n = int(len(pairs) / (2 - SHARES[0]))
            x = vectors.encode([english for english, _ in pairs], "en").vectors
            y = vectors.encode([translation for _, translation in pairs], name.rpartition("-")[2]).vectors
            cases += [make_case(name, encoder.name, share, x, y, n) for share in options.shares]
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--cache-dir", type=Path)
    parser.add_argument("--sets", nargs="*", default=SETS, metavar="NAME")
    parser.add_argument("--held-out", nargs="*", default=HELD_OUT, metavar="NAME")
    parser.add_argument("--encoders", nargs="+", default=ENCODERS, metavar="SPEC")
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES)
    parser.add_argument("--size", type=int, default=3000, help="sentences a side")
    parser.add_argument("--all", action="store_true", help="print every case")
    options = parser.parse_args()
    for title, names in (("Sets on which it was chosen", options.sets), ("Held out", options.held_out)):
        if not (cases := cases_of(names, options)):
            continue
        print_table(f"{title}, loss of F1 against the best threshold", cases)
        print_expectations(cases)
        if options.all:
            print(
                "\n| set | encoder | true pairs | best F1 | F1 lost | threshold |"
                "\n| --- | --- | ---: | ---: | ---: | ---: |"
            )
            for case in cases:
                threshold = by_mixture(case)
                row = (case.name, case.encoder, f"{100 * case.share:g} %", f"{case.f1.max():.1f}")
                print(f"| {' | '.join(row)} | {case.loss(threshold):.1f} | {threshold or '-'} |")


if __name__ == "__main__":
    main()

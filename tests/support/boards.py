"""A results folder with all that the board shows, made by hand: nothing is measured, and every number is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from result_records import record, sts, write_records
from speeds import measurement

from harness.board.data import Shown
from harness.encoders.reduction import Reduced
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, StatisticsStore, digest
from harness.results.store import ResultStore
from harness.speed.store import SpeedStore

SAME, CROSS = ["en-en", "es-es", "ar-ar"], ["en-ar", "en-de@deepl", "en-tr"]
P = {("fast", "good"): 0.4, ("fast", "poor"): 0.0001, ("good", "poor"): 0.0001}
"""The tests of all sets and metrics, before any correction: `fast` cannot be told from `good`, `poor` can."""
SECONDS = {"good": 0.004, "fast": 0.0001, "poor": 0.002}
SCORES = {"good": 80.0, "fast": 79.0, "poor": 40.0}


def full_records(scores: dict[str, float] | None = None) -> list[Result]:
    """Encoders on STS with averages, on language bias, on Tatoeba and on a user's own retrieval."""
    results = []
    for name, score in (SCORES if scores is None else scores).items():
        results += [
            *(sts(name, subset, score + n) for n, subset in enumerate([*SAME, *CROSS])),
            sts(name, "avg-same", score + 1, parts=SAME),
            sts(name, "avg-cross@deepl", score + 4, parts=CROSS),
            record(
                name, "language-bias", "ten@deepl", {"expected": score, "actual": score - 2, "difference": -2.0}, "b"
            ),
            *(
                # More digits than the page has; one set by another protocol for each encoder.
                record(
                    name,
                    "tatoeba",
                    code,
                    {"accuracy_en_xx": score - n - 1 / 7e3, "accuracy_xx_en": score - 2 * n},
                    f"t|by:{name}" if code == "kab" else "t",
                    **({"spec": "minilm"} if (name, code) == ("poor", "kab") else {}),  # which was made for English
                )
                for n, code in enumerate(("deu", "tur", "kab"))
            ),
            record(
                name,
                "tatoeba",
                "avg-all",
                {"accuracy_en_xx": score - 1, "accuracy_xx_en": score - 2},
                "t",
                parts=["deu", "tur", "kab"],
            ),
            record(name, "retrieval", "faq", {"ndcg_at_10": score - 3}, "r", languages=["tr"]),
        ]
    return results


def variants(of: str, score: float) -> list[Result]:
    """Its vectors cut to 128 components, and these quantised: their scores on the two averages of STS."""
    made = []
    for name, quantize, less in ((f"{of}@128", "none", 1.0), (f"{of}@128-binary", "binary", 3.0)):
        fingerprint = f"{of}-1|truncate_dim:128" + ("|quantize:binary" if quantize == "binary" else "")
        for subset, parts, more in (("avg-same", SAME, 1), ("avg-cross@deepl", CROSS, 4)):
            one = sts(name, subset, score + more - less, parts=parts, fingerprint=fingerprint)
            made.append(replace(one, base=of, reduced=Reduced(128, 512, quantize)))  # type: ignore[arg-type]
    return made


def statistics_of(results: Sequence[Result]) -> dict[str, Statistics]:
    """An interval of two points for each number, and the tests of `P`."""
    found: dict[str, Statistics] = {}
    for result in results:
        present = {r.encoder for r in results if (r.task, r.subset) == (result.task, result.subset)}
        tests = {b: p for (a, b), p in P.items() if a == result.encoder and b in present}
        interval = {metric: (value - 1, value + 1) for metric, value in result.metrics.items()}
        entry = Entry(digest(result), interval, {metric: tests for metric in result.metrics} if tests else {})
        if result.task == "language-bias":
            sets = [*SAME, *CROSS]
            cost = [[0.0 if i == j else -float(abs(i - j)) for j in range(6)] for i in range(6)]
            joining = {"sets": sets, "cost": cost, "shift": [float(i - 2) for i in range(6)]}
            entry = replace(entry, p_zero={"difference": 0.001}, more={"joining": joining})
        known = found.setdefault(result.task, Statistics("made-up", 0.95, {}))
        known.entries[result.encoder, result.subset] = entry
    return found


def shown(results: Sequence[Result] | None = None) -> Shown:
    """What the page is made from."""
    everything = [*full_records(), *variants("good", SCORES["good"])] if results is None else results
    measured = [measurement(name, SECONDS.get(name, 0.001)) for name in sorted({r.encoder for r in everything})]
    return Shown(everything, statistics_of(everything), [one for one in measured if "@" not in one.encoder])


def write_board(root: Path, results: Iterable[Result] | None = None) -> ResultStore:
    """The same as a results folder."""
    made = shown(None if results is None else list(results))
    store = write_records(root, made.results)
    for task, known in made.statistics.items():
        of_task = {(r.encoder, r.subset): digest(r) for r in made.results if r.task == task}
        StatisticsStore(root).merge(task, known, of_task)
    for one in made.measured:
        SpeedStore(root).merge(one)
    return store

"""What `leaderboard gate` finds: planted changes of `student`, false alarms where nothing changed, and its power.

    python benchmarks/gate.py --data-dir DIR [--part changes|null|power] [--repeats 200]

- changes: noise of growing size on all vectors, one language broken, a truncated vocabulary, an improvement (vectors
  of `student` and `muse` side by side). Prints what the gate says of each, with `student` as the baseline.
- null: the per-item rows of `student` and `muse` are exchanged at random, item by item: neither side is better;
  prints how often the gate fails.
- power: by kind of change, the smallest drop that a test finds, and the probability of finding one of 1, 2, 5 points.

Sets: STS 2017 with its averages, and Tatoeba's nine languages of the student with their average. All three parts use
the functions behind the command, on rows in a temporary folder.
"""

from __future__ import annotations

import argparse
import copy
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from harness import load_encoder
from harness.data import DataDir, open_data_dir
from harness.encoders.cache import VectorCache
from harness.protocol.described import subset_order
from harness.reproduction.judge import Judgement, Limits, judge
from harness.reproduction.sides import stored_side
from harness.resampling.resamples import Resampling
from harness.results.named import StoredEncoder, join
from harness.results.records import Result
from harness.results.store import ResultStore
from harness.running.measure import Run, averages_of
from harness.running.plan import make_plan
from harness.running.suite import measure_and_store
from harness.statistics.board import holm
from harness.statistics.evidence import Evidence
from harness.statistics.rows import rows_of, save_rows
from harness.tasks import get_task

SETS = {"sts17": (), "tatoeba": ("avg-student",)}
NOISE = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
TURKISH = (0.2, 0.4, 0.6, 0.8, 1.0, 1.5)
KEPT = (0.95, 0.9, 0.75, 0.5, 0.25)


@dataclass
class Changed:
    """An encoder whose vectors are changed: `noise` times as long a random vector is added, in one language or all."""

    name: str
    inner: Any
    noise: float = 0.0
    only: str | None = None
    uses_lang: bool = True

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def fingerprint(self) -> str:
        return f"{self.inner.fingerprint};{self.name}"

    def encode(self, sentences: list[str], *, lang: str | None = None) -> np.ndarray:
        vectors = self.inner.encode(sentences)
        if self.noise and self.only in (None, lang):
            seeds = (zlib.crc32(f"{self.name} {text}".encode()) for text in sentences)
            random = np.stack([np.random.default_rng(seed).normal(size=self.dim) for seed in seeds])
            random *= np.linalg.norm(vectors, axis=1, keepdims=True) / np.linalg.norm(random, axis=1, keepdims=True)
            vectors = vectors + self.noise * random.astype(np.float32)
        return vectors


class Both:
    """The unit vectors of two encoders side by side."""

    uses_lang = False

    def __init__(self, name: str, first: Any, second: Any):
        self.name, self._encoders = name, (first, second)
        self.dim = first.dim + second.dim
        self.fingerprint = f"{first.fingerprint}+{second.fingerprint}"

    def encode(self, sentences: list[str], *, lang: str | None = None) -> np.ndarray:
        parts = [encoder.encode(sentences) for encoder in self._encoders]
        return np.hstack([part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-9) for part in parts])


def truncated(student: Any, share: float) -> Any:
    """The same with vectors of zero for the tokens after the first part of its vocabulary."""
    changed = copy.copy(student)
    changed._table = student._table.copy()
    changed._table[int(share * len(changed._table)) :] = 0
    changed.fingerprint = f"{student.fingerprint};kept={share}"
    return changed


def changes() -> Iterator[tuple[str, Any]]:
    student, muse = load_encoder("student"), load_encoder("muse")
    for size in NOISE:
        yield f"noise of {size:g}", Changed(f"noise-{size}", student, size)
    for size in TURKISH:
        yield f"Turkish: noise of {size:g}", Changed(f"turkish-{size}", student, size, "tr")
    for share in KEPT:
        yield f"vocabulary: {100 * share:.0f} % kept", Changed(f"kept-{share}", truncated(student, share))
    yield "improvement: student and muse side by side", Both("both", student, muse)


def measured(encoder: Any, data: DataDir, results: Path) -> StoredEncoder:
    run = Run(VectorCache(results.parent / "cache"), ResultStore(results), save_rows="npz")
    for name, subsets in SETS.items():
        measure_and_store(run, make_plan([get_task(name)], data, subsets), encoder)
    return join([results])[encoder.name]


def held_against(old: StoredEncoder, new: StoredEncoder, resampling: Resampling) -> Judgement:
    return judge(stored_side(old), stored_side(new), old.records, Limits(), resampling=resampling)


def show_changes(data: DataDir, results: Path, resampling: Resampling) -> None:
    baseline = measured(Changed("student", load_encoder("student")), data, results)
    print("| change | gate | significantly worse | largest drop | averages: STS same, STS cross, Tatoeba |")
    print("| --- | --- | --- | ---: | --- |")
    for label, encoder in changes():
        found = held_against(baseline, measured(encoder, data, results), resampling)
        worse = [score.key.subset for score in found.scores if score.drop > 0 and score.is_significant(0.05)]
        listed = f"{len(worse)} of {len(found.scores)}" + (f": {', '.join(worse[:3])}" if 0 < len(worse) < 4 else "")
        drop = max(score.drop for score in found.scores)
        means = ", ".join(f"{score.change:+.2f}" for score in found.scores if score.is_average)
        print(f"| {label} | {'fails' if found.exit_code else 'passes'} | {listed} | {drop:.1f} | {means} |", flush=True)


def exchanged(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], drawn: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Both with the outputs of each item exchanged with probability 1/2."""
    swap = drawn.random(len(next(iter(first.values())))) < 0.5
    return (
        {name: np.where(swap, second[name], first[name]) for name in first},
        {name: np.where(swap, first[name], second[name]) for name in first},
    )


def show_null(data: DataDir, results: Path, resampling: Resampling, repeats: int) -> None:
    """The p-values alone are computed, without intervals: those of the gate, which is run once to see that."""
    real = [measured(load_encoder(name), data, results) for name in ("student", "muse")]
    rows = [
        {(r.task, r.subset): rows_of(results, get_task(r.task), r) for r in one.records if not r.parts} for one in real
    ]
    alarms = either = 0
    for repeat in range(repeats):
        drawn = np.random.default_rng([7, repeat])
        sides: tuple[dict, dict] = ({}, {})
        for key in rows[0]:
            for side, of_side in zip(sides, exchanged(rows[0][key], rows[1][key], drawn), strict=True):
                side[key] = of_side
        changes, p = tested(*sides, resampling)
        if repeat == 0:
            assert np.allclose(p, by_the_gate(real[0].records, sides, resampling))
        alarms += any(q < 0.05 and change < 0 for q, change in zip(p, changes, strict=True))
        either += min(p) < 0.05
        if (repeat + 1) % 20 == 0:
            print(f"{repeat + 1} repeats of {len(p)} tests: {alarms} false alarms; {either} either way", flush=True)


def tested(old: Mapping, new: Mapping, resampling: Resampling) -> tuple[list[float], list[float]]:
    """The change of every score, new minus old, and its p-value corrected by Holm."""
    changes, p = [], []
    for name in SETS:
        task = get_task(name)
        subsets = [subset for of_task, subset in old if of_task == name]
        parts = {subset: (subset,) for subset in subsets} | task.averages(subsets)
        for subset in subset_order(name, parts):
            both = {"new": [new[name, s] for s in parts[subset]], "old": [old[name, s] for s in parts[subset]]}
            evidence = Evidence(task, both, resampling)
            first, second = evidence.sample(task.main_metric, ["new", "old"]).values
            changes.append(float(first - second))
            p.append(evidence.p_values(task.main_metric, [("new", "old")])["new", "old"])
    return changes, holm(p)


def by_the_gate(like: Sequence[Result], sides: Sequence[Mapping], resampling: Resampling) -> list[float]:
    with TemporaryDirectory() as folder:
        stored = []
        for name, of_side in zip(("old", "new"), sides, strict=True):
            records = []
            for record in like:
                if (key := (record.task, record.subset)) in of_side:
                    metrics = {m: round(v, 6) for m, v in get_task(record.task).aggregate(of_side[key]).items()}
                    records.append(replace(record, encoder=name, fingerprint=name, metrics=metrics))
                    save_rows(Path(folder), records[-1].key, of_side[key])
            means = [a for t in SETS for a in averages_of(get_task(t), [r for r in records if r.task == t])]
            stored.append(StoredEncoder(name, Path(folder), tuple(records + means)))
        return [score.p_holm for score in held_against(*stored, resampling).scores]


def show_power(data: DataDir, results: Path, resampling: Resampling) -> None:
    student = load_encoder("student")
    baseline = measured(Changed("student", student), data, results)
    kinds = {
        "a small change (noise of 0.1)": Changed("noise-0.1", student, 0.1),
        "a larger change (noise of 0.3)": Changed("noise-0.3", student, 0.3),
        "another model (muse)": load_encoder("muse"),
    }
    print("| candidate | score | items | standard error | found in 4 of 5 | drop of 1 | of 2 | of 5 |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for label, encoder in kinds.items():
        found = held_against(baseline, measured(encoder, data, results), resampling)
        for score in found.scores:
            if not score.is_average and score.key.subset not in ("en-en", "en-tr", "deu", "tur"):
                continue
            assert score.test
            if score.detectable is None:
                continue
            least, most = ("≥ ", "≤ ") if score.is_at_best else ("", "")
            powers = " | ".join(f"{most}{100 * (score.power(drop) or 0):.0f} %" for drop in (1, 2, 5))
            place = f"{score.key.task} {score.key.subset}"
            numbers = f"{score.test.units:,} | {score.test.standard_error:.2f} | {least}{score.detectable:.1f}"
            print(f"| {label} | {place} | {numbers} | {powers} |", flush=True)
    print(f"\n{len(found.tested)} tests; level of each: {0.05 / len(found.tested):.2g} (0.05 / {len(found.tested)})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--part", choices=["changes", "null", "power"], action="append")
    parser.add_argument("--repeats", type=int, default=200, help="of the null")
    parser.add_argument("--resamples", type=int, default=2000)
    options = parser.parse_args()
    resampling = Resampling(options.resamples)
    with TemporaryDirectory() as folder:
        data, results = open_data_dir(options.data_dir), Path(folder) / "results"
        for part in options.part or ["changes", "power", "null"]:
            print(f"\n{part}, {options.resamples:,} resamples\n", flush=True)
            if part == "changes":
                show_changes(data, results, resampling)
            elif part == "power":
                show_power(data, results, resampling)
            else:
                show_null(data, results, resampling, options.repeats)


if __name__ == "__main__":
    main()

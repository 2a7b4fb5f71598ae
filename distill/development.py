"""The development set of a distillation: parallel sentences held out of training, and STS in their languages.

It is small, so that it takes little of a training's time, and the same for every training on the same data, whatever
its seed, so that students can be compared on it. No sentence of evaluation data is in it.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from baselines.training.training_data import ScoredPairs, read_sts
from harness.core.errors import InputError
from harness.data.sources import DataDir
from harness.mining import nearest, normalise
from harness.tasks.leakage import EvaluationSentences

if TYPE_CHECKING:
    from distill.pairs import Pairs, Part

PAIRS_PER_LANGUAGE = 200
STS_ROWS = 200

SCORES = ("mse", "mse_unit", "accuracy_en_xx", "accuracy_xx_en", "sts_same", "sts_cross")
"""The main development scores; see `Development.evaluate`."""

_SEED = 2004_09813  # the paper's number on arXiv
_LARGEST_SHARE = 10  # at most a tenth of a corpus is held out

Encode = Callable[[list[str]], NDArray[np.float32]]
Teacher = Callable[[NDArray[np.int64]], NDArray[np.float32]]


@dataclass(frozen=True)
class DevPairs:
    """Held-out pairs of one target language.

    Attributes:
        source_rows: int64 (n,), row numbers of the sources in the store and in the teacher's vectors.
        sources, targets: n sentences each, distinct on each side.
    """

    source_rows: NDArray[np.int64]
    sources: list[str]
    targets: list[str]


@dataclass(frozen=True)
class DevSts:
    """The same rows of the STS Benchmark in several languages.

    Attributes:
        sentences1, sentences2: by language, English among them, n sentences each.
        scores: n gold scores, 0 to 5.
    """

    sentences1: dict[str, list[str]]
    sentences2: dict[str, list[str]]
    scores: list[float]


@dataclass(frozen=True)
class Development:
    """What a student is judged on while it is trained.

    Attributes:
        pairs: by target language.
        sts: None where the data directory has no STS Benchmark.
        is_held_out: bool, one a distinct source sentence of the store; pairs with these sources are not trained on.
    """

    pairs: dict[str, DevPairs]
    sts: DevSts | None
    is_held_out: NDArray[np.bool_]
    _texts: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        texts: dict[str, int] = {}
        columns = [side for pairs in self.pairs.values() for side in (pairs.sources, pairs.targets)]
        if self.sts:
            columns += [*self.sts.sentences1.values(), *self.sts.sentences2.values()]
        for column in columns:
            for text in column:
                texts.setdefault(text, len(texts))
        object.__setattr__(self, "_texts", texts)

    @property
    def n_sentences(self) -> int:
        """The number of distinct sentences that one evaluation encodes."""
        return len(self._texts)

    @property
    def digest(self) -> str:
        """SHA-256 of the sentences, which identifies the development set."""
        return hashlib.sha256("\n".join(self._texts).encode("utf-8", "surrogatepass")).hexdigest()

    def kept(self, pairs: Pairs) -> NDArray[np.int64]:
        """The numbers of the pairs to train on: their sources are not held out. int64, ascending."""
        return np.flatnonzero(~self.is_held_out[pairs.source_rows])

    def evaluate(self, encode: Encode, teacher: Teacher) -> dict[str, float]:
        """The scores of a student, each x 100.

        Args:
            encode: the student: sentences to float32 (n, dim).
            teacher: row numbers (n,) of source sentences to the vectors that the student should have, float32 (n, dim).

        Returns:
            `mse`: mean over the elements of (teacher(source) - student(target))^2; `mse_unit`: the same once all
            vectors have length 1; `accuracy_en_xx` and `accuracy_xx_en`: how many sentences have their translation as
            nearest neighbour by cosine (ties to the lowest row); all three also by language (`mse:de`), of which the
            plain name is the mean. `sts_same` and `sts_cross`: means of Spearman's rho within a language (`sts:de-de`)
            and between English and another (`sts:en-de`: both ways of taking the first sentence in English, mean).
        """
        vectors = encode(list(self._texts))
        scores: dict[str, float] = {}
        for language, pairs in self.pairs.items():
            source, target = (self._rows(vectors, side) for side in (pairs.sources, pairs.targets))
            wanted = teacher(pairs.source_rows)
            scores[f"mse:{language}"] = 100 * _mean_square(wanted - target)
            scores[f"mse_unit:{language}"] = 100 * _mean_square(normalise(wanted) - normalise(target))
            of_source, of_target = nearest(source, target, k=1)
            item = np.arange(len(source))
            scores[f"accuracy_en_xx:{language}"] = 100 * float(np.mean(of_source.rows[:, 0] == item))
            scores[f"accuracy_xx_en:{language}"] = 100 * float(np.mean(of_target.rows[:, 0] == item))
        means = {name: float(np.mean([scores[f"{name}:{language}"] for language in self.pairs])) for name in SCORES[:4]}
        return {**means, **self._sts_scores(vectors), **scores}

    def _sts_scores(self, vectors: NDArray[np.float32]) -> dict[str, float]:
        if self.sts is None:
            return {}
        from scipy.stats import spearmanr

        first, second = (
            {language: normalise(self._rows(vectors, side)) for language, side in sides.items()}
            for sides in (self.sts.sentences1, self.sts.sentences2)
        )
        gold = self.sts.scores

        def rho(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
            cosines = np.einsum("ij,ij->i", left, right, dtype=np.float64)
            # Where all are equal, nothing is ranked.
            return 100 * float(spearmanr(cosines, gold).statistic) if np.ptp(cosines) and np.ptp(gold) else 0.0

        same = {f"sts:{language}-{language}": rho(first[language], second[language]) for language in first}
        cross = {
            f"sts:en-{language}": (rho(first["en"], second[language]) + rho(first[language], second["en"])) / 2
            for language in first
            if language != "en"
        }
        means = {"sts_same": float(np.mean(list(same.values())))}
        if cross:
            means["sts_cross"] = float(np.mean(list(cross.values())))
        return {**means, **same, **cross}

    def _rows(self, vectors: NDArray[np.float32], sentences: list[str]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = vectors[[self._texts[text] for text in sentences]]
        return rows


def hold_out(
    pairs: Pairs,
    guard: Collection[str] | EvaluationSentences,
    data: DataDir | None = None,
    *,
    pairs_per_language: int = PAIRS_PER_LANGUAGE,
    sts_rows: int = STS_ROWS,
) -> Development:
    """Draw the development set of a store of pairs.

    Of every language as many pairs, about evenly over its corpora, at most a tenth of each. Their source sentences,
    and those of the STS rows, are held out for every language.

    Args:
        pairs: the store.
        guard: the sentences of evaluation data; no STS row has one.
        data: where the STS Benchmark is; its training part is used.
        pairs_per_language: how many at most.
        sts_rows: how many at most.

    Raises:
        InputError: too few pairs to hold any out, or a damaged file of the STS Benchmark.
    """
    is_held_out = np.zeros(len(pairs.sources), dtype=np.bool_)
    by_language: dict[str, list[Part]] = {}
    for part in pairs.parts:
        by_language.setdefault(part.target_lang, []).append(part)
    dev = {}
    for language, parts in sorted(by_language.items()):
        chosen = np.concatenate([_draw(part, math.ceil(pairs_per_language / len(parts))) for part in parts])
        if held_out := distinct(pairs, chosen):
            dev[language] = held_out
            is_held_out[held_out.source_rows] = True
    if not dev:
        raise InputError(
            f"{len(pairs.source_rows):,} pairs are too few: a tenth of a corpus is held out for development, which "
            f"takes {_LARGEST_SHARE} pairs in one corpus at least; give more"
        )
    sts = _sts(data, sorted(by_language), guard, sts_rows) if data else None
    if sts:
        english = EvaluationSentences([*sts.sentences1["en"], *sts.sentences2["en"]])
        for row, source in enumerate(pairs.sources):
            if source in english:
                is_held_out[row] = True
    return Development(dev, sts, is_held_out)


def _draw(part: Part, number: int) -> NDArray[np.int64]:
    """Draw pairs of one corpus. The draw does not depend on other corpora."""
    size = part.stop - part.start
    random = np.random.default_rng([_SEED, zlib.crc32(part.name.encode())])
    return np.sort(part.start + random.permutation(size)[: min(number, size // _LARGEST_SHARE)]).astype(np.int64)


def distinct(pairs: Pairs, numbers: NDArray[np.int64]) -> DevPairs | None:
    """The pairs whose source and target occur in no earlier pair, so that every sentence has one translation."""
    rows: list[int] = []
    sources: dict[str, None] = {}
    targets: dict[str, None] = {}
    for number in numbers:
        row = int(pairs.source_rows[number])
        source, target = pairs.sources[row], pairs.targets[int(number)]
        if source not in sources and target not in targets:
            rows.append(row)
            sources[source] = targets[target] = None
    return DevPairs(np.array(rows, dtype=np.int64), list(sources), list(targets)) if rows else None


def _sts(
    data: DataDir, languages: Sequence[str], guard: Collection[str] | EvaluationSentences, number: int
) -> DevSts | None:
    """Rows of the STS Benchmark's training part, the same in English and all of `languages` that have it."""
    versions: dict[str, ScoredPairs] = {}
    for language in ("en", *(language for language in languages if language != "en")):
        if path := data.find(f"stsb/stsb-{language}-train.csv"):
            versions[language] = read_sts(path)
    if "en" not in versions:
        return None
    n_rows = len(versions["en"].scores)
    versions = {language: version for language, version in versions.items() if len(version.scores) == n_rows}
    order = np.random.default_rng(_SEED).permutation(n_rows)
    rows: list[int] = []
    for row in order.tolist():
        if len(rows) == number:
            break
        if not any(v.sentences1[row] in guard or v.sentences2[row] in guard for v in versions.values()):
            rows.append(row)
    return DevSts(
        {language: [v.sentences1[row] for row in rows] for language, v in versions.items()},
        {language: [v.sentences2[row] for row in rows] for language, v in versions.items()},
        [versions["en"].scores[row] for row in rows],
    )


def _mean_square(difference: NDArray[np.float32]) -> float:
    return float(np.mean(np.square(difference, dtype=np.float64)))

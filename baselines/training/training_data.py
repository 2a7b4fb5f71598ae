"""The training data of the NLI-tuned baselines: AllNLI and the STS Benchmark, from a data directory or from files.

The STS Benchmark shares sentences with STS 2017, on which the models are measured. 125 rows of its dev split are half
of track 5 (EN-EN): they are left out, in every language. So are the rows of the training split that hold a sentence
of STS 2017 (six of 5,749 in English).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.core.errors import InputError
from harness.data.catalogue import find_set
from harness.data.nli import NLIPairs, read_nli
from harness.data.sources import DataDir, content_sha256
from harness.data.sts import read_scored
from harness.tasks.leakage import EvaluationSentences, evaluation_sentences

STSB_LANGUAGES = ("de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "zh")
TRACK_5 = "track5.en-en"
_NLI_FILES = {  # by data set: alternatives, the first that is there whole counts
    "allnli": [["allnli/AllNLI.tsv"], ["allnli/snli_1.0_train.txt", "allnli/multinli_1.0_train.txt"]],
    "kornli": [["kornli/snli_1.0_train.ko.tsv", "kornli/multinli.train.ko.tsv"]],
}
_SAME_SCORE = 0.005  # translations give the scores with two or three decimals


@dataclass(frozen=True)
class ScoredPairs:
    """n sentence pairs with their STS scores.

    Attributes:
        sentences1, sentences2: the sentences.
        scores: from 0 (unrelated) to 5 (same meaning).
        origins: the STS task's file that each pair was taken from (`track5.en-en`); empty where the file tells none.
    """

    sentences1: list[str]
    sentences2: list[str]
    scores: list[float]
    origins: list[str]

    def without(self, rows: Collection[int]) -> ScoredPairs:
        """The pairs without those in `rows` (counted from 0)."""
        kept = [row for row in range(len(self.scores)) if row not in rows]
        return ScoredPairs(
            [self.sentences1[row] for row in kept],
            [self.sentences2[row] for row in kept],
            [self.scores[row] for row in kept],
            [self.origins[row] for row in kept] if self.origins else [],
        )


def joined(parts: Iterable[ScoredPairs]) -> ScoredPairs:
    """All pairs in one value, without their origins."""
    parts = list(parts)
    return ScoredPairs(
        [sentence for part in parts for sentence in part.sentences1],
        [sentence for part in parts for sentence in part.sentences2],
        [score for part in parts for score in part.scores],
        [],
    )


def read_sts(path: Path) -> ScoredPairs:
    """Read STS pairs: the STS Benchmark, KorSTS or STSb Multi MT as they are published.

    Raises:
        InputError: as `harness.data.sts.read_scored`.
    """
    rows = list(read_scored(path))
    return ScoredPairs(
        [row.sentence1 for row in rows],
        [row.sentence2 for row in rows],
        [row.score for row in rows],
        [row.origin for row in rows if row.origin is not None],
    )


@dataclass(frozen=True)
class UsedFile:
    """A file that was trained or selected on, as the model card names it.

    Attributes:
        name: without folders; `sha256` is that of its uncompressed content.
        licence: as the catalogue has it; empty for a file of the user's own.
        pairs: how many pairs of it are used.
        notes: what was left out, and why.
    """

    name: str
    sha256: str
    licence: str
    pairs: int
    notes: list[str] = field(default_factory=list)


def load_nli(files: Sequence[Path], languages: Sequence[str], data: DataDir | None) -> tuple[NLIPairs, list[UsedFile]]:
    """The NLI pairs of `files`, or else those of the data directory: KorNLI for Korean, AllNLI for any other language.

    AllNLI is `allnli/AllNLI.tsv`, or else SNLI's and MultiNLI's own training files. How many pairs hold a sentence of
    STS 2017 is noted; they stay, as they did in the published models: track 5 was drawn from SNLI.

    Raises:
        InputError: there is none (it says how to get it), or a file is damaged.
    """
    wanted = sorted({"kornli" if language == "ko" else "allnli" for language in languages})
    chosen = [("", path) for path in files] or [(name, path) for name in wanted for path in _nli_files(data, name)]
    evaluated = evaluation_sentences(data, ["sts17"]) if data else EvaluationSentences([])
    joined = NLIPairs([], [], [])
    used = []
    for dataset, path in chosen:
        pairs = read_nli(path)
        shared = sum(
            any(sentence in evaluated for sentence in pair)
            for pair in zip(pairs.sentences1, pairs.sentences2, strict=True)
        )
        notes = [f"{pairs.unlabelled:,} pairs without a label are left out"] if pairs.unlabelled else []
        notes += [f"{shared:,} pairs hold a sentence of STS 2017 and are used"] if shared else []
        licence = find_set(dataset).licence if dataset else ""
        used.append(UsedFile(path.name.removesuffix(".gz"), content_sha256(path), licence, len(pairs.labels), notes))
        joined.sentences1.extend(pairs.sentences1)
        joined.sentences2.extend(pairs.sentences2)
        joined.labels.extend(pairs.labels)
    return joined, used


def load_sts(
    split: Literal["train", "dev"], files: Sequence[Path], languages: Sequence[str], data: DataDir | None
) -> tuple[dict[str, ScoredPairs], list[UsedFile]]:
    """A split of the STS Benchmark, by language from the data directory, or else the given files, by their names.

    Raises:
        InputError: the data directory lacks a file (it says how to get it), the rows of track 5 cannot be told, a
            file is damaged, or a language or file name is given twice.
    """
    evaluated = evaluation_sentences(data, ["sts17"]) if data else EvaluationSentences([])
    original_path = data.find(f"stsb/original-en/sts-{split}.csv") if data else None
    original = read_sts(original_path) if original_path else None
    chosen = [("", path) for path in files] or [(language, _stsb_file(data, language, split)) for language in languages]
    loaded: dict[str, ScoredPairs] = {}
    used = []
    for language, path in chosen:
        pairs = read_sts(path)
        # The translations have no column of their own that tells where a row is from.
        reference = original if original is not None and _are_aligned(pairs, original) else None
        if split == "train":
            kept, notes = _without_evaluated(pairs, reference, evaluated)
        else:
            kept, notes = _without_track_5(pairs, reference, evaluated)
            if language and not notes:
                raise InputError(
                    f"{path}: cannot tell which of its rows are in STS 2017: its scores are not those of "
                    "stsb/original-en/, or that is not there; `leaderboard data fetch stsb` gets it"
                )
        licence = find_set("korsts" if language == "ko" else "stsb").licence if language else ""
        used.append(UsedFile(path.name.removesuffix(".gz"), content_sha256(path), licence, len(kept.scores), notes))
        name = language or used[-1].name
        if name in loaded:
            raise InputError(f"{name} is given twice; give each once, and two files other names")
        loaded[name] = kept
    return loaded, used


def _nli_files(data: DataDir | None, dataset: str) -> list[Path]:
    for names in _NLI_FILES[dataset] if data else ():
        paths = [path for name in names if (path := data.find(name))] if data else []
        if len(paths) == len(names):
            return paths
    raise InputError(
        f"no NLI pairs: `leaderboard data fetch {dataset}` gets them into the data directory (--data-dir); or give "
        "files with --nli, or leave the first stage out with --skip nli"
    )


def _stsb_file(data: DataDir | None, language: str, split: str) -> Path:
    """A split of the STS Benchmark in the data directory: the original, a translation, or KorSTS."""
    if data is None:
        raise InputError("no STS pairs: give --data-dir (or set HARNESS_DATA), or files with --sts and --sts-dev")
    if language == "ko":
        names = [f"korsts/sts-{split}.tsv"]
    else:
        names = [f"stsb/original-en/sts-{split}.csv"] if language == "en" else []
        names.append(f"stsb/stsb-{language}-{split}.csv")
    for name in names:
        if path := data.find(name):
            return path
    dataset = names[0].partition("/")[0]
    raise InputError(f"{data.root / names[0]} is not there: `leaderboard data fetch {dataset}` gets it")


def _are_aligned(pairs: ScoredPairs, original: ScoredPairs) -> bool:
    """Whether the rows are translations of the English original: as many rows, with the same scores."""
    return len(pairs.scores) == len(original.scores) and all(
        abs(ours - theirs) <= _SAME_SCORE for ours, theirs in zip(pairs.scores, original.scores, strict=True)
    )


def _without_track_5(
    pairs: ScoredPairs, reference: ScoredPairs | None, evaluated: EvaluationSentences
) -> tuple[ScoredPairs, list[str]]:
    """A file of the user's own that tells no origins is compared with STS 2017 sentence by sentence."""
    origins = pairs.origins or (reference.origins if reference else [])
    if not origins:
        return _without_evaluated(pairs, None, evaluated)
    rows = {row for row, origin in enumerate(origins) if origin == TRACK_5}
    return pairs.without(rows), [f"{len(rows):,} rows of STS 2017 track 5 are left out"] if rows else []


def _without_evaluated(
    pairs: ScoredPairs, reference: ScoredPairs | None, evaluated: EvaluationSentences
) -> tuple[ScoredPairs, list[str]]:
    """A row is left out if one of its sentences, or the English original of one, is in STS 2017."""
    if not evaluated:
        return pairs, ["not compared with STS 2017, which is not in the data directory"]
    rows = {
        row
        for version in (pairs, reference)
        if version is not None
        for row, sentences in enumerate(zip(version.sentences1, version.sentences2, strict=True))
        if any(sentence in evaluated for sentence in sentences)
    }
    return pairs.without(rows), [f"{len(rows):,} rows with a sentence of STS 2017 are left out"] if rows else []

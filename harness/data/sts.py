"""Sentence pairs with scores: STS 2017, the STS Benchmark and its translations, in their published layouts.

STS 2017: the SemEval-2017 tracks, the extended sets of Reimers & Gurevych (2020), and the stand-ins for them. Among the
translations of the STS Benchmark is KorSTS (Ham et al. 2020). Every file may be plain or `.gz`. The readers of the STS
Benchmark are generators: their errors are raised while they are read.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.core.errors import InputError
from harness.core.text import REMEDY, iter_lines, parse_number, tab_rows
from harness.data.sources import DataDir, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAME_LANGUAGE = ("en-en", "es-es", "ar-ar")
CROSS_LINGUAL = ("en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")
EXTENDED = ("en-de", "en-fr", "en-it", "en-nl")
STS_SUBSETS = SAME_LANGUAGE + CROSS_LINGUAL


@dataclass(frozen=True)
class _Track:
    """A track of SemEval-2017 task 1: its part of the file names, and the languages of the two columns."""

    stem: str
    lang1: str
    lang2: str


# Track 4b, WMT quality estimation, is not STS in the sense of the paper: it is left out on purpose.
_TRACKS = {
    "en-en": _Track("track5.en-en", "en", "en"),
    "es-es": _Track("track3.es-es", "es", "es"),
    "ar-ar": _Track("track1.ar-ar", "ar", "ar"),
    "en-ar": _Track("track2.ar-en", "en", "ar"),
    "en-tr": _Track("track6.tr-en", "en", "tr"),
    "en-es": _Track("track4a.es-en", "es", "en"),
}
_STEMS = {track.stem: track for track in _TRACKS.values()}

# The release has 500 lines for track 6 and scores for the first 250 of them.
_CUT_TO_GOLD = "track6.tr-en"

PUBLISHED_PAIRS = 250
# The tracks' means are those of the release; the extended sets are track 5 with one side translated, scores and all
# (means as in mteb's descriptive statistics of STS17).
_MEAN_GOLD = {
    "ar-ar": 2.2168,
    "en-ar": 2.1424,
    "es-es": 2.2312,
    "en-es": 2.1464,
    "en-en": 2.2776,
    "en-tr": 2.1336,
    "en-de": 2.2776,
    "en-fr": 2.2776,
    "en-it": 2.2776,
    "en-nl": 2.2776,
}

_FOLDER_FILE = re.compile(r"STS\.([a-z]{2,3})-([a-z]{2,3})\.txt(?:\.gz)?")
_TRACK_FILE = re.compile(r"STS\.(?:input|gs)\.(track[^.]+\.[a-z]{2}-[a-z]{2})\.txt(?:\.gz)?")

_ORIGINAL = ("genre", "filename", "year", "id", "score", "sentence1", "sentence2")
_MULTI_MT = ("sentence1", "sentence2", "score")
_KORSTS, _KORSTS_FILE = "korsts", "sts-test.tsv"
KORSTS_SUBSETS = ("ko-ko",)


@dataclass(frozen=True, eq=False)
class STSPairs:
    """n sentence pairs with their gold scores.

    Attributes:
        subset: such as `en-de` or `en-de@deepl`.
        sentences1, sentences2: the first and the second column, n sentences each.
        lang1, lang2: their languages (ISO 639-1; None: not known); in `en-es` and the extended sets English is not
            always first.
        gold: float64 of shape (n,), from 0 (unrelated) to 5 (same meaning).
    """

    subset: str
    sentences1: list[str]
    sentences2: list[str]
    lang1: str | None
    lang2: str | None
    gold: NDArray[np.float64]


def sts_sources(data: DataDir) -> dict[str, Source]:
    """The STS sets that are in `data`, not yet read: the ten in the order of `STS_SUBSETS`, then stand-ins.

    Folders: `sts17/` (the tracks), `sts17-extended/` (only the ten sets; the tracks' own files win where both are
    there) and `sts17-extended-TAG/` with its `more/` (tagged `@TAG`, as `sts17-extended-deepl/` is `@deepl`). From the
    bundled sample every subset is tagged `@sample`.

    Raises:
        InputError: a track has its input but no gold scores, or the other way round (names the missing file); a folder
            with a bad tag.
    """
    mark = f"@{data.stand_in}" if data.stand_in else ""
    extended = _folder_files(data, "sts17-extended")
    sources: dict[str, Source] = {}
    for subset in STS_SUBSETS:
        files: tuple[Path, ...] = ()
        if track := _TRACKS.get(subset):
            files = data.find_all(f"sts17/STS.input.{track.stem}.txt", f"sts17/STS.gs.{track.stem}.txt")
        if files:
            sources[subset + mark] = Source(subset + mark, "sts17", files)
        elif subset in extended:
            sources[subset + mark] = Source(subset + mark, "sts17-extended", (extended[subset],))
    for tag, dataset in data.stand_ins("sts17-extended").items():
        for folder in (dataset, f"{dataset}/more"):
            for subset, path in _folder_files(data, folder).items():
                name = subset + (mark or f"@{tag}")
                sources.setdefault(name, Source(name, dataset, (path,)))
    return sources


def load_sts(source: Source) -> STSPairs:
    """Read one STS set.

    Raises:
        InputError: a line has too few or too many tabs; a score is not a number from 0 to 5; there are not as many
            scores as pairs (track 6 of the release excepted); a published set of 250 pairs has another mean score
            than the published one. Names file and line where there is one.
    """
    import numpy as np

    if len(source.files) == 2:
        sentences1, sentences2, scores, lang1, lang2 = _read_track(*source.files)
    else:
        sentences1, sentences2, scores, lang1, lang2 = _read_extended(source.files[0])
    if not scores:
        raise InputError(f"{source.files[0]}: no sentence pairs in it; {REMEDY}")
    gold = np.array(scores, dtype=np.float64)
    expected = _MEAN_GOLD.get(source.subset)
    if expected is not None and len(gold) == PUBLISHED_PAIRS and abs(gold.mean() - expected) > 5e-5:
        raise InputError(
            f"{source.files[-1]}: the scores do not belong to the pairs of {source.subset}: their mean is "
            f"{gold.mean():.4f}, that of the published set {expected:.4f}; {REMEDY}"
        )
    return STSPairs(source.subset, sentences1, sentences2, lang1, lang2, gold)


def _folder_files(data: DataDir, folder: str) -> dict[str, Path]:
    """The files `STS.xx-yy.txt` of a folder by subset: the ten first, then the others by name."""
    files: dict[str, Path] = {}
    for path in sorted((data.root / folder).glob("STS.*.txt*")):
        if (subset := subset_of(path.name)) and path.is_file():
            files.setdefault(subset, path)
    order = {subset: position for position, subset in enumerate(STS_SUBSETS)}
    return {subset: files[subset] for subset in sorted(files, key=lambda name: (order.get(name, len(order)), name))}


def subset_of(name: str) -> str:
    """The subset in a file of the extended sets: `en-fr` of `STS.fr-en.txt`; empty for another name."""
    match = _FOLDER_FILE.fullmatch(name)
    if match is None:
        return ""
    lang1, lang2 = match.groups()
    return f"en-{lang1}" if lang2 == "en" else f"{lang1}-{lang2}"


_Columns = tuple[list[str], list[str], list[float], str, str]


def _read_track(input_path: Path, gold_path: Path) -> _Columns:
    match = _TRACK_FILE.fullmatch(input_path.name)
    if match is None or match[1] not in _STEMS:
        raise InputError(f"{input_path}: not a file of an STS 2017 track; expected STS.input.TRACK.txt")
    track = _STEMS[match[1]]
    pairs = [fields for _, fields in tab_rows(input_path, 2, 2, "sentence1 TAB sentence2")]
    gold_lines = enumerate(iter_lines(gold_path), start=1)
    scores = [parse_number(line, gold_path, number, low=0, high=5) for number, line in gold_lines]
    if track.stem == _CUT_TO_GOLD and len(pairs) == 2 * PUBLISHED_PAIRS and len(scores) == PUBLISHED_PAIRS:
        del pairs[PUBLISHED_PAIRS:]
    if len(pairs) != len(scores):
        raise InputError(f"{gold_path}: {len(scores)} scores for the {len(pairs)} pairs of {input_path.name}; {REMEDY}")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], scores, track.lang1, track.lang2


def _read_extended(path: Path) -> _Columns:
    match = _FOLDER_FILE.fullmatch(path.name)
    if match is None:
        raise InputError(f"{path}: not an STS file; expected a name such as STS.en-de.txt")
    rows = list(tab_rows(path, 3, 3, "sentence1 TAB sentence2 TAB score"))
    scores = [parse_number(fields[2], path, number, low=0, high=5) for number, fields in rows]
    return [fields[0] for _, fields in rows], [fields[1] for _, fields in rows], scores, match[1], match[2]


class ScoredRow(NamedTuple):
    """A sentence pair with its score, from 0 (unrelated) to 5 (same meaning).

    `origin` is the STS task's file that it was taken from (`track5.en-en`); None where the file has no such column.
    """

    sentence1: str
    sentence2: str
    score: float
    origin: str | None


def read_scored(path: Path) -> Iterator[ScoredRow]:
    """Read a file in any of the three formats, which its first line tells.

    Raises:
        InputError: as the three readers below.
    """
    first = next(iter_lines(path), "").split("\t")
    if set(_MULTI_MT) <= set(first):
        return read_korsts(path)
    return read_original(path) if len(first) >= len(_ORIGINAL) else read_multi_mt(path)


def read_original(path: Path) -> Iterator[ScoredRow]:
    """Read the English original: tab-separated without header or quoting, seven columns and perhaps more.

    Raises:
        InputError: a line with too few columns, a score that is not a number from 0 to 5, no pairs at all; names file
            and line.
    """
    return _scored(path, tab_rows(path, len(_ORIGINAL), None), _ORIGINAL)


def read_korsts(path: Path) -> Iterator[ScoredRow]:
    """Read KorSTS: tab-separated without quoting, with a header that names `score`, `sentence1` and `sentence2`.

    Raises:
        InputError: no such header, a line with too few or too many columns, a score that is not a number from 0 to 5,
            no pairs at all; names file and line.
    """
    header = next(iter_lines(path), "").split("\t")
    if absent := [name for name in _MULTI_MT if name not in header]:
        raise InputError(
            f"{path}:1: no column {absent[0]}: expected a header with {', '.join(_MULTI_MT)}, separated by tabs; "
            f"{REMEDY}"
        )
    yield from _scored(path, tab_rows(path, len(header), len(header), skip=1), header)


def read_multi_mt(path: Path) -> Iterator[ScoredRow]:
    """Read STSb Multi MT: comma-separated sentence1, sentence2 and score, with quoting and without header.

    Raises:
        InputError: not comma-separated values, a row with too few or too many, a score that is not a number from 0 to
            5, no pairs at all; names file and line.
    """
    return _scored(path, _comma_rows(path), _MULTI_MT)


def _comma_rows(path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows with the number of the line that each begins at."""
    rows = csv.reader(iter_lines(path), strict=True)
    number = 1
    try:
        for fields in rows:
            if len(fields) != len(_MULTI_MT):
                raise InputError(
                    f"{path}:{number}: {len(fields)} columns, expected {len(_MULTI_MT)} ({','.join(_MULTI_MT)}); "
                    f"{REMEDY}"
                )
            yield number, fields
            number = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{number}: not comma-separated values ({error}); {REMEDY}") from None


def _scored(path: Path, rows: Iterable[tuple[int, Sequence[str]]], columns: Sequence[str]) -> Iterator[ScoredRow]:
    sentence1, sentence2, score = (columns.index(name) for name in _MULTI_MT)
    origin = columns.index("filename") if "filename" in columns else None
    number = 0
    for number, fields in rows:
        value = parse_number(fields[score], path, number, low=0, high=5)
        yield ScoredRow(fields[sentence1], fields[sentence2], value, None if origin is None else fields[origin])
    if not number:
        raise InputError(f"{path}: no sentence pairs in it; {REMEDY}")


def korsts_sources(data: DataDir) -> dict[str, Source]:
    """The test split as `ko-ko`, not yet read, if it is in `data`: `korsts/sts-test.tsv`.

    A user's own `korsts-TAG/` gives `ko-ko@TAG`; the subset of the bundled sample is tagged `@sample`.

    Raises:
        InputError: a folder with a bad tag.
    """
    sources: dict[str, Source] = {}
    folders = [(data.stand_in, _KORSTS), *data.stand_ins(_KORSTS).items()]
    for tag, folder in folders:
        subset = f"ko-ko@{tag}" if tag else "ko-ko"
        if path := data.find(f"{folder}/{_KORSTS_FILE}"):
            sources[subset] = Source(subset, folder, (path,))
    return sources


def load_korsts(source: Source) -> STSPairs:
    """Read the test split.

    Raises:
        InputError: as `read_korsts`.
    """
    import numpy as np

    rows = list(read_korsts(source.files[0]))
    return STSPairs(
        source.subset,
        [row.sentence1 for row in rows],
        [row.sentence2 for row in rows],
        "ko",
        "ko",
        np.array([row.score for row in rows], dtype=np.float64),
    )

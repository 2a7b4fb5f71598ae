"""STS 2017: the SemEval-2017 tracks, the extended sets of Reimers & Gurevych (2020), and the stand-ins for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import InputError
from harness.data.sources import DataDir, Source
from harness.data.text import REMEDY, iter_lines, parse_number, tab_rows

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


@dataclass(frozen=True, eq=False)
class STSPairs:
    """n sentence pairs with their gold scores.

    Attributes:
        subset: such as `en-de` or `en-de@deepl`.
        sentences1, sentences2: the first and the second column, n sentences each.
        lang1, lang2: their languages (ISO 639-1); in `en-es` and the extended sets English is not always first.
        gold: float64 of shape (n,), from 0 (unrelated) to 5 (same meaning).
    """

    subset: str
    sentences1: list[str]
    sentences2: list[str]
    lang1: str
    lang2: str
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
        sentences1, sentences2, scores, lang1, lang2 = _read_scored(source.files[0])
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


def _read_scored(path: Path) -> _Columns:
    match = _FOLDER_FILE.fullmatch(path.name)
    if match is None:
        raise InputError(f"{path}: not an STS file; expected a name such as STS.en-de.txt")
    rows = list(tab_rows(path, 3, 3, "sentence1 TAB sentence2 TAB score"))
    scores = [parse_number(fields[2], path, number, low=0, high=5) for number, fields in rows]
    return [fields[0] for _, fields in rows], [fields[1] for _, fields in rows], scores, match[1], match[2]

"""Bitext mining in the format of BUCC 2018: two lists of sentences, and gold pairs of their ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import InputError
from harness.core.text import REMEDY, iter_lines
from harness.data.sources import DataDir, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAIRS = ("de-en", "fr-en", "ru-en", "zh-en")
_SPLITS = ("training", "test")
_FOLDER = "bucc2018"
_PAIR = re.compile(r"[a-z]{2,3}-[a-z]{2,3}")
_FILE = re.compile(r"([a-z]{2,3})-([a-z]{2,3})\.(training|test)\.([a-z]{2,4})(?:\.gz)?")


@dataclass(frozen=True, eq=False)
class BUCCSplit:
    """Sentences of both sides and the gold pairs among them.

    Attributes:
        sentences1: the foreign side.
        sentences2: the English side.
        gold: int64 of shape (g, 2), row numbers into the two lists, in the order of the gold file.
    """

    sentences1: list[str]
    sentences2: list[str]
    gold: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BUCCPair:
    """A language pair with its splits; `test` is None where its gold is not there (BUCC 2018's never came out)."""

    subset: str
    lang1: str
    lang2: str
    training: BUCCSplit
    test: BUCCSplit | None


def bucc_sources(data: DataDir) -> dict[str, Source]:
    """The mining sets that are in `data`, not yet read: those of BUCC 2018, then stand-ins.

    `bucc2018/` gives `de-en`, `bucc-style/bucc2018/` gives `de-en@ntrex`, the bundled sample `de-en@sample`; these have
    the four pairs of BUCC 2018. A user's own `bucc2018-TAG/xx-yy/` gives `xx-yy@TAG`, whatever the languages. The
    files of the test split belong to the source only if its gold is there.

    Raises:
        InputError: a pair has some, but not all, of the files of its training split, or test gold without the test
            sentences (names the missing file); a folder with a bad tag.
    """
    folders: list[tuple[str, str, str | None, Iterable[str]]] = [
        (_FOLDER, "bucc2018", None, PAIRS),
        (f"bucc-style/{_FOLDER}", "bucc-style", "ntrex", PAIRS),
    ]
    for tag_of_folder, folder in data.stand_ins(_FOLDER, taken=["ntrex"]).items():
        folders.append((folder, folder, tag_of_folder, _pairs_in(data.root / folder)))
    sources: dict[str, Source] = {}
    for folder, dataset, folder_tag, pairs in folders:
        tag = data.stand_in or folder_tag
        for pair in pairs:
            files = _pair_files(data, f"{folder}/{pair}/{pair}")
            if files:
                subset = f"{pair}@{tag}" if tag else pair
                sources.setdefault(subset, Source(subset, dataset, files))
    return sources


def bucc_texts(data: DataDir) -> list[Path]:
    """The text files (`ID TAB sentence`) of every pair and split that is in `data`, test sets without gold included."""
    folders = [_FOLDER, f"bucc-style/{_FOLDER}", *data.stand_ins(_FOLDER, taken=["ntrex"]).values()]
    paths = (path for folder in folders for path in sorted((data.root / folder).glob("*-*/*")))
    matches = [(path, match) for path in paths if path.is_file() and (match := _FILE.fullmatch(path.name))]
    return [path for path, match in matches if match[4] in match.group(1, 2)]


def load_bucc(source: Source) -> BUCCPair:
    """Read one language pair.

    Lines of the text files are `ID TAB sentence`, split at the first tab; nothing but the line end is taken off a
    sentence. Lines of the gold files are `foreign-id TAB english-id`.

    Raises:
        InputError: a malformed line, an id that occurs twice in a text file or in the gold file, an unknown id in the
            gold file; names file and line.
    """
    splits: dict[str, dict[str, Path]] = {split: {} for split in _SPLITS}
    lang1 = lang2 = ""
    for path in source.files:
        match = _FILE.fullmatch(path.name)
        if match is None:
            raise InputError(f"{path}: not a BUCC file; expected a name such as de-en.training.de")
        lang1, lang2, split, kind = match.groups()
        splits[split][kind] = path
    training = _read_split(splits["training"], lang1, lang2)
    test = _read_split(splits["test"], lang1, lang2) if splits["test"] else None
    return BUCCPair(source.subset, lang1, lang2, training, test)


def _pairs_in(folder: Path) -> list[str]:
    """The subfolders named like a language pair: the four of BUCC 2018 first, then the others by name."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and _PAIR.fullmatch(path.name))
    return sorted(names, key=lambda pair: PAIRS.index(pair) if pair in PAIRS else len(PAIRS))


def _pair_files(data: DataDir, stem: str) -> tuple[Path, ...]:
    lang1, lang2 = stem.rpartition("/")[2].split("-")
    training, test = ([f"{stem}.{split}.{kind}" for kind in (lang1, lang2, "gold")] for split in _SPLITS)
    # Test sentences without gold are what the shared task published: nothing to score, nothing amiss.
    return data.find_all(*training, *(test if data.find(test[-1]) else ()))


def _read_split(files: Mapping[str, Path], lang1: str, lang2: str) -> BUCCSplit:
    import numpy as np

    gold_path = files["gold"]
    ids = _read_gold(gold_path)
    # Only the ids in the gold pairs are kept with their rows: a side has up to 560,000 ids.
    sentences1, rows1 = _read_side(files[lang1], {first for first, _ in ids})
    sentences2, rows2 = _read_side(files[lang2], {second for _, second in ids})
    gold = np.empty((len(ids), 2), dtype=np.int64)
    for row, (first, second) in enumerate(ids):
        for column, name, rows, path in ((0, first, rows1, files[lang1]), (1, second, rows2, files[lang2])):
            if name not in rows:
                raise InputError(f"{gold_path}:{row + 1}: no id {name!r} in {path.name}; {REMEDY}")
            gold[row, column] = rows[name]
    return BUCCSplit(sentences1, sentences2, gold)


def _read_gold(path: Path) -> list[tuple[str, str]]:
    # Mining is one-to-one, so an id stands in one pair. Sentences do recur in the gold of BUCC 2018 (mteb counts 9,573
    # distinct German and 9,570 distinct English ones in the 9,580 pairs of de-en), but the text files repeat sentences
    # under different ids (397,151 distinct ones on 399,337 English lines); nothing says that an id recurs.
    pairs: list[tuple[str, str]] = []
    lines: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for number, line in enumerate(iter_lines(path), start=1):
        first, tab, second = line.partition("\t")
        if not (first and tab and second) or "\t" in second:
            raise InputError(
                f"{path}:{number}: expected two ids with a tab between them, found {line[:80]!r}; {REMEDY}"
            )
        for name, before in zip((first, second), lines, strict=True):
            if before.setdefault(name, number) != number:
                raise InputError(
                    f"{path}:{number}: the id {name} is in a pair on line {before[name]} already; remove one line"
                )
        pairs.append((first, second))
    if not pairs:
        raise InputError(f"{path}: no gold pairs in it; {REMEDY}")
    return pairs


def _read_side(path: Path, wanted: set[str]) -> tuple[list[str], dict[str, int]]:
    """The sentences of a text file, and the row numbers of the ids in `wanted`."""
    sentences: list[str] = []
    rows: dict[str, int] = {}
    seen: set[str] = set()
    for line in iter_lines(path):
        name, tab, sentence = line.partition("\t")
        row = len(sentences)
        if not (name and tab):
            raise InputError(f"{path}:{row + 1}: expected an id, a tab and a sentence, found {line[:80]!r}; {REMEDY}")
        seen.add(name)
        if len(seen) == row:
            raise InputError(f"{path}:{row + 1}: the id {name} occurs twice; {REMEDY}")
        sentences.append(sentence)
        if name in wanted:
            rows[name] = row
    return sentences, rows

"""Corpora of parallel sentences by name: where they are fetched from, and how their files are read."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal

from harness.core.errors import InputError, unknown_name
from harness.core.names import check_name
from harness.core.schema import read_tables
from harness.core.text import DAMAGES, REMEDY, decoded_lines, iter_lines, parse_number, tab_rows, unpacked
from harness.data.catalogue import DataSet, Download, catalogue

PARALLEL_FILE = Path(__file__).with_name("parallel.toml")
FOLDER = "parallel"
LANGUAGE_CODE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4})?"
_MEMBER = re.compile(rf"[\w.+-]+\.({LANGUAGE_CODE})-({LANGUAGE_CODE})\.({LANGUAGE_CODE})")  # of OPUS's archives

Pairs = Iterator[tuple[str, str]]
"""A sentence and its translation, one by one."""


@dataclass(frozen=True)
class ParallelCorpus:
    """A public corpus of English with many other languages.

    Attributes:
        name, title, licence, home, citation, note: as in the catalogue of data sets.
        url, file: address and local name of a language pair, with `{pair}` in them.
        order: of the two languages in `{pair}` and in the columns.
        codes: the corpus's own code by ISO 639 code, where they differ.
        languages: those beside English; empty where the corpus has many.
        format: of the lines: `scored` (score, sentence, sentence), `words` (two words), or empty, told by the name.
        min_score: of `scored`.
        max_bytes: as in the catalogue of data sets, of a language pair.
        withdrawn: why it cannot be had; else empty.
    """

    name: str
    title: str
    licence: str
    home: str
    citation: str
    note: str = ""
    url: str = ""
    file: str = ""
    order: Literal["alphabetical", "english-first", "english-last"] = "alphabetical"
    codes: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    format: Literal["", "scored", "words"] = ""
    min_score: float | None = None
    max_bytes: int = 20_000_000_000
    withdrawn: str = ""

    @property
    def folder(self) -> str:
        """Where its files lie in the data directory."""
        return f"{FOLDER}/{self.name}"

    def refuse_withdrawn(self) -> None:
        """Raise InputError if the corpus cannot be had any more."""
        if self.withdrawn:
            raise InputError(f"{self.name} has been withdrawn ({self.withdrawn}); take another corpus, such as TED2020")

    def data_set(self, languages: Sequence[str]) -> DataSet:
        """What to fetch of it: one file for each language.

        Raises:
            InputError: the corpus has been withdrawn, or is known not to have a language; a code that is none.
        """
        self.refuse_withdrawn()
        for language in languages:
            check_name(language, "language")
            if self.languages and language not in self.languages:
                raise InputError(
                    f"{self.name} has no {language}; it has English with {', '.join(self.languages)}; "
                    "name some of these with --languages"
                )
        downloads = [self._download(language) for language in dict.fromkeys(languages)]
        return DataSet(
            name=self.name,
            title=self.title,
            licence=self.licence,
            home=self.home,
            citation=self.citation,
            folder=self.folder,
            files=tuple(item.target.removesuffix(".gz") for item in downloads),
            downloads=tuple(downloads),
            note=self.note,
            on_request=True,
            max_bytes=self.max_bytes,
        )

    def read(self, file: Path) -> Pairs:
        """The pairs of one of its files, in the order of the columns.

        Raises:
            InputError: as the reader of its format (below).
        """
        if file.name.endswith(".zip"):
            source, _, target = file.name.removeprefix(f"{self.name}.").partition(".")[0].partition("-")
            return read_moses_zip(file, source, target)
        return {"scored": read_scored, "words": read_words, "": read_table}[self.format](file)

    def _download(self, language: str) -> Download:
        remote = self.codes.get(language, language)
        # The columns of a table are in the order of the corpus's own codes; the local name tells that order.
        english_is_first = self.order == "english-first" or (self.order == "alphabetical" and remote > "en")
        pair, local = ("-".join(("en", code) if english_is_first else (code, "en")) for code in (remote, language))
        return Download((self.url.replace("{pair}", pair),), f"{self.folder}/{self.file.replace('{pair}', local)}")


@cache
def parallel_corpora() -> Mapping[str, ParallelCorpus]:
    """All of them by name, in the order of `parallel.toml`."""
    return MappingProxyType(read_tables(PARALLEL_FILE, ParallelCorpus))


def chosen_sets(names: Sequence[str], languages: Sequence[str] = ()) -> list[DataSet]:
    """The data sets of these names, and the corpora of parallel sentences, in these languages; all sets without names.

    Raises:
        InputError: an unknown name; languages without a corpus; what `ParallelCorpus.data_set` raises.
    """
    corpora = parallel_corpora()
    if languages and not any(name in corpora for name in names):
        raise InputError(f"--languages is for corpora of parallel sentences: {', '.join(corpora)}; name one of them")
    for name in names:
        if name not in corpora and name not in catalogue():
            raise unknown_name("data set", name, [*catalogue(), *corpora])
    return [
        corpora[name].data_set(languages) if name in corpora else catalogue()[name] for name in names or catalogue()
    ]


def read_table(path: Path) -> Pairs:
    """Lines `sentence TAB translation`. Raises InputError at another number of columns; names file and line."""
    return ((fields[0], fields[1]) for _, fields in tab_rows(path, 2, 2, "sentence TAB translation"))


def read_scored(path: Path, min_score: float = 0.0) -> Pairs:
    """Lines `score TAB sentence TAB translation`, of which those with a lower score than `min_score` are left out.

    Raises:
        InputError: too few columns, a score that is no number from 0 to 100; names file and line.
    """
    for number, fields in tab_rows(path, 3, None, "score TAB sentence TAB translation"):
        if parse_number(fields[0], path, number, low=0, high=100) >= min_score:
            yield fields[1], fields[2]


def read_words(path: Path) -> Pairs:
    """Lines of two words. Raises InputError at another number; names file and line."""
    for number, line in enumerate(iter_lines(path), start=1):
        words = line.split()
        if len(words) != 2:
            raise InputError(f"{path}:{number}: {len(words)} words, expected 2 (word and translation); {REMEDY}")
        yield words[0], words[1]


def read_moses_zip(path: Path, source: str, target: str) -> Pairs:
    """OPUS's archives of two files that are aligned line by line; the sentences in `source` come first.

    Raises:
        InputError: no zip file or a damaged one, other files in it, sides of different lengths; names the file.
    """
    with zip_errors(path), zipfile.ZipFile(path) as archive:
        members = {
            match[3]: info
            for info in archive.infolist()
            if (match := _MEMBER.fullmatch(PurePosixPath(info.filename).name)) and match[3] in match.group(1, 2)
        }
        if len(members) != 2:
            raise InputError(f"{path}: expected two files NAME.xx-yy.xx and NAME.xx-yy.yy in it, found {len(members)}")
        # The archive may have a code of its own (zh_cn) for one language, hardly for both.
        sides = sorted(members, key=lambda code: (code != source, code == target))
        if source not in members and target not in members:
            raise InputError(f"{path}: it holds {' and '.join(members)}, its name says otherwise; rename it")
        names = [f"{path}/{PurePosixPath(members[code].filename).name}" for code in sides]
        with archive.open(members[sides[0]]) as first, archive.open(members[sides[1]]) as second:
            sources = decoded_lines(unpacked(first, path), names[0])
            yield from aligned(sources, decoded_lines(unpacked(second, path), names[1]), names)


def aligned(sources: Iterable[str], targets: Iterable[str], names: Sequence[str]) -> Pairs:
    """Pairs of lines. Raises InputError where there are not as many of both; `names` stand for the two files."""
    for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
        if source is None or target is None:
            short, long = names if source is None else (names[1], names[0])
            raise InputError(f"{short} has {number - 1} lines, {long} has more: they are not aligned; {REMEDY}")
        yield source, target


@contextmanager
def zip_errors(path: Path) -> Iterator[None]:
    """What reading a zip file raises, as one line that names it."""
    try:
        yield
    except (*DAMAGES, zipfile.BadZipFile) as error:
        reason = str(error) or type(error).__name__
        raise InputError(f"{path}: not a zip file that can be read ({reason}); {REMEDY}") from None

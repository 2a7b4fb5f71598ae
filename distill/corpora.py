"""Parallel sentences on disk: finds the corpora, and reads their pairs one by one.

A corpus is one file, or two that are aligned line by line, named `NAME.xx-yy` with the languages in the order of its
columns: `NAME.xx-yy.tsv` (also `.gz`), OPUS's Moses format as two files `NAME.xx-yy.xx` and `NAME.xx-yy.yy` or as the
`.txt.zip` that it comes in, and TMX (`.tmx`, `.tmx.gz`, `.tmx.zip`). Those that `harness.data.parallel` knows have
formats of their own.
"""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from baselines.training.training_data import read_sts
from harness.core.errors import InputError, unknown_name
from harness.core.files import user_path
from harness.core.text import REMEDY, iter_lines
from harness.data.catalogue import find_set
from harness.data.parallel import (
    FOLDER,
    LANGUAGE_CODE,
    aligned,
    parallel_corpora,
    read_moses_zip,
    read_scored,
    read_table,
    read_words,
    zip_errors,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_Format = Literal["tsv", "scored", "words", "moses", "moses-zip", "tmx", "tmx-zip", "stsb"]

STSB_TRAIN = "stsb-train"
_NAME = re.compile(rf"(?:(.+)\.)?({LANGUAGE_CODE})-({LANGUAGE_CODE})\.([A-Za-z_.]+)")
_STSB_FILE = re.compile(r"stsb-([a-z]{2})-train\.csv(?:\.gz)?")
_ENDINGS: dict[str, _Format] = {
    "tsv": "tsv",
    "tmx": "tmx",
    "tmx.zip": "tmx-zip",
    "txt.zip": "moses-zip",
    "zip": "moses-zip",
    "txt": "words",
}
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODE_ELEMENTS = ("bpt", "ept", "it", "ph", "ut")  # of TMX: mark-up of the original format, no text


@dataclass(frozen=True)
class Corpus:
    """The description of a corpus; `read_pairs` reads it.

    Attributes:
        name: with its languages, source first: `tatoeba-manythings.en-de`.
        files: one file; or two, source first, whose lines (of `stsb`, rows) are aligned.
        source_lang, target_lang: ISO 639 codes.
        licence: empty if it is not known.
        format: how the files are read.
        is_swapped: whether a table has the target language in its first column.
        min_score: for the format `scored`: pairs with a lower score are not read.
    """

    name: str
    files: tuple[Path, ...]
    source_lang: str
    target_lang: str
    licence: str = ""
    format: _Format = "tsv"
    is_swapped: bool = False
    min_score: float = 0.0


def find_corpora(
    data_dir: str | Path, names: Sequence[str] = (), languages: Sequence[str] = (), *, source_lang: str = "en"
) -> list[Corpus]:
    """The corpora of a data directory with `source_lang` on one side, sorted by name.

    They are in `parallel/` and its subfolders (see the head of this module), and the training part of STSb Multi MT is
    `stsb-train.en-de` and so on. Licences are those that the table in the data directory's `SOURCES.md` gives (its
    first column names the file, its last one the licence), or else those of the public corpora.

    Args:
        data_dir: the data directory.
        names: which, as `tatoeba-manythings` (all its languages) or `tatoeba-manythings.en-de`; all if empty.
        languages: target languages; all if empty.
        source_lang: the language of the sources.

    Raises:
        InputError: a name that is not there (it says how to get it, or what is near it) or has been withdrawn; a
            language that no corpus has; one of two aligned files is missing; two files of one name.
    """
    root = user_path(data_dir)
    licences = _listed_licences(root / "SOURCES.md")
    corpora: dict[str, Corpus] = {}
    for files in _files_of_corpora(root / FOLDER):
        corpus = _describe(files, source_lang, licences.get(files[0].relative_to(root).as_posix(), ""))
        if source_lang not in (corpus.source_lang, corpus.target_lang):
            continue
        if corpus.name in corpora:
            first = corpora[corpus.name].files[0]
            raise InputError(f"{first} and {files[0]} are both {corpus.name}; remove one of them")
        corpora[corpus.name] = corpus
    corpora |= {corpus.name: corpus for corpus in _stsb_corpora(root, source_lang)}
    chosen = {full for name in names for full in _full_names(name, corpora, languages)} if names else set(corpora)
    present = {corpora[name].target_lang for name in chosen}
    for language in languages:
        if language not in present:
            raise InputError(
                f"no such corpus with {source_lang} and {language} in {root / FOLDER} (languages there: "
                f"{', '.join(sorted(present)) or 'none'}); `leaderboard data fetch TED2020 --languages {language}` "
                "gets one"
            )
    return [corpora[name] for name in sorted(chosen) if not languages or corpora[name].target_lang in languages]


def open_corpus(location: str | Path, *, source_lang: str = "en") -> Corpus:
    """The corpus in a file, or in two aligned files as in `A.en,A.de`.

    The source is the side in `source_lang`; if neither is, it is the first.

    Raises:
        InputError: no such file, or a name that does not tell languages and format.
    """
    files = tuple(user_path(part) for part in str(location).split(","))
    for path in files:
        if not path.is_file():
            raise InputError(f"no file {path}; give a file such as NAME.en-de.tsv.gz, or two as in NAME.en,NAME.de")
    if len(files) > 2:
        raise InputError(f"{location}: {len(files)} files; a corpus is one file or two aligned ones")
    return _describe(files, source_lang, "")


def read_pairs(corpus: Corpus) -> Iterator[tuple[str, str]]:
    """The pairs (source, target) of a corpus in order, white space at the ends of a sentence included.

    Raises:
        InputError: no pairs at all, a column missing or too many, sides of different lengths, not UTF-8, a damaged
            file; names file and, where there is one, line.
    """
    pairs = _READERS[corpus.format](corpus)
    is_empty = True
    for left, right in pairs:
        is_empty = False
        yield (right, left) if corpus.is_swapped else (left, right)
    if is_empty:
        least = f" with a score of at least {corpus.min_score:g}" if corpus.min_score else ""
        raise InputError(f"{corpus.files[0]}: no pairs{least} in it; {REMEDY}, or leave {corpus.name} out")


def _files_of_corpora(folder: Path) -> Iterator[tuple[Path, ...]]:
    """The files in a folder and its subfolders that are named like a corpus; two aligned files are one item."""
    for path in sorted(path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file()):
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        name, first, second, ending = match.groups()
        ending = ending.removesuffix(".gz")
        if ending in (first, second):
            other = path.with_name(
                f"{path.name.removesuffix('.gz').removesuffix(ending)}{second if ending == first else first}"
            )
            sides = [side for side in (other, other.with_name(f"{other.name}.gz")) if side.is_file()]
            if not sides:
                raise InputError(f"{other} is missing, but {path.name} is there; add it or remove both")
            if ending == first:
                yield path, sides[0]
        elif ending in _ENDINGS and (_ENDINGS[ending] != "words" or _known_format(name) == "words"):
            yield (path,)


def _known_format(name: str | None) -> str:
    known = parallel_corpora().get(name or "")
    return known.format if known else ""


def _describe(files: tuple[Path, ...], source_lang: str, licence: str) -> Corpus:
    """Describe a corpus by the names of its files. Raises InputError."""
    if len(files) == 2:
        names = [path.name.removesuffix(".gz") for path in files]
        first, second = (name.rpartition(".")[2] for name in names)
        if not (re.fullmatch(LANGUAGE_CODE, first) and re.fullmatch(LANGUAGE_CODE, second)) or first == second:
            raise InputError(f"{files[0]},{files[1]}: the names do not tell the languages; expected NAME.en,NAME.de")
        name = re.sub(rf"\.{LANGUAGE_CODE}-{LANGUAGE_CODE}$", "", names[0].rpartition(".")[0])
        kind: _Format = "moses"
    else:
        match = _NAME.fullmatch(files[0].name)
        ending = match[4].removesuffix(".gz") if match else ""
        if match is None or ending not in _ENDINGS:
            raise InputError(
                f"{files[0]}: the name does not tell languages and format; expected NAME.en-de with .tsv, .tsv.gz, "
                ".tmx, .tmx.gz, .tmx.zip or .txt.zip after it"
            )
        name, first, second = match[1] or files[0].parent.name, match[2], match[3]
        kind = _ENDINGS[ending]
    known = parallel_corpora().get(name)
    if known and known.format and kind in ("tsv", "words"):
        kind = known.format
    elif kind == "words":
        raise InputError(f"{files[0]}: a .txt file holds no pairs; expected .tsv, or two files as in NAME.en,NAME.de")
    source, target = (second, first) if second == source_lang else (first, second)
    if len(files) == 2 and source != first:
        files = files[::-1]
    return Corpus(
        name=f"{name}.{source}-{target}",
        files=files,
        source_lang=source,
        target_lang=target,
        licence=licence or (known.licence if known else ""),
        format=kind,
        is_swapped=kind in ("tsv", "scored", "words") and source != first,
        min_score=(known.min_score or 0.0) if known and kind == "scored" else 0.0,
    )


def _stsb_corpora(root: Path, source_lang: str) -> Iterator[Corpus]:
    paths = {
        match[1]: path for path in sorted((root / "stsb").glob("stsb-*")) if (match := _STSB_FILE.fullmatch(path.name))
    }
    for language in paths if source_lang in paths else ():
        if language != source_lang:
            yield Corpus(
                name=f"{STSB_TRAIN}.{source_lang}-{language}",
                files=(paths[source_lang], paths[language]),
                source_lang=source_lang,
                target_lang=language,
                licence=find_set("stsb").licence,
                format="stsb",
            )


def _full_names(name: str, present: Iterable[str], languages: Sequence[str]) -> list[str]:
    """The full names that a name stands for. Raises InputError."""
    bases = {full: full.rpartition(".")[0] for full in present}
    if full_names := [full for full, base in bases.items() if name in (full, base)]:
        return full_names
    known = parallel_corpora().get(name)
    if known is None:
        raise unknown_name("corpus", name, bases.values())
    known.refuse_withdrawn()
    codes = ",".join(languages) or "de"
    raise InputError(
        f"{name} is not in the data directory: `leaderboard data fetch {name} --languages {codes}` gets it"
    )


def _listed_licences(path: Path) -> dict[str, str]:
    """Licences by file from the rows `| file | ... | licence |` of a Markdown table; empty if there is no such file."""
    if not path.is_file():
        return {}
    rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in iter_lines(path) if "|" in line)
    return {cells[0]: cells[-1] for cells in rows if len(cells) > 1}


_Pairs = Iterator[tuple[str, str]]


def _read_moses(corpus: Corpus) -> _Pairs:
    names = [str(path) for path in corpus.files]
    yield from aligned(iter_lines(corpus.files[0]), iter_lines(corpus.files[1]), names)


def _read_tmx(corpus: Corpus) -> _Pairs:
    path = corpus.files[0]
    try:
        with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as stream:
            yield from _tmx_pairs(stream, corpus)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); {REMEDY}") from None


def _read_tmx_zip(corpus: Corpus) -> _Pairs:
    path = corpus.files[0]
    with zip_errors(path), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".tmx")]
        if len(members) != 1:
            raise InputError(f"{path}: expected one .tmx file in it, found {len(members)}")
        with archive.open(members[0]) as stream:
            yield from _tmx_pairs(stream, corpus)


def _tmx_pairs(stream: Any, corpus: Corpus) -> _Pairs:
    """The translation units that have both languages."""
    body = None
    for event, element in _xml_events(stream, corpus.files[0]):
        if element.tag == "body" and event == "start":
            body = element
        if element.tag != "tu" or event != "end":
            continue
        segments = {_language(variant): variant.find("seg") for variant in element.iter("tuv")}
        source, target = segments.get(corpus.source_lang), segments.get(corpus.target_lang)
        if source is not None and target is not None:
            yield " ".join(_text(source).split()), " ".join(_text(target).split())
        if body is not None:
            body.clear()  # or the whole file would be kept


def _xml_events(stream: Any, path: Path) -> Iterator[tuple[str, Element]]:
    """Start and end of every element. Raises InputError."""
    from xml.etree.ElementTree import ParseError, iterparse

    try:
        yield from iterparse(stream, ("start", "end"))
    except ParseError as error:
        why = f":{error.position[0]}: not TMX ({str(error).partition(':')[0]})"
    except (LookupError, ValueError) as error:  # an encoding that Python or the parser does not have
        why = f": not TMX ({error})"
    else:
        return
    raise InputError(f"{path}{why}; {REMEDY}")


def _language(variant: Element) -> str:
    code = variant.get(_XML_LANG) or variant.get("lang") or ""
    return re.split("[-_]", code.lower())[0]


def _text(element: Element) -> str:
    """The text in an element without its mark-up. The mark-up may be nested to any depth."""
    parts: list[str] = []
    left: list[Element | str] = [element]  # the next one last
    while left:
        item = left.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        parts.append(item.text or "")
        for child in reversed(item):
            left.append(child.tail or "")
            if child.tag not in _CODE_ELEMENTS:
                left.append(child)
    return "".join(parts)


def _read_stsb(corpus: Corpus) -> _Pairs:
    source, target = map(read_sts, corpus.files)
    names = [str(path) for path in corpus.files]
    yield from aligned(source.sentences1, target.sentences1, names)
    yield from aligned(source.sentences2, target.sentences2, names)


_READERS: dict[_Format, Callable[[Corpus], _Pairs]] = {
    "tsv": lambda corpus: read_table(corpus.files[0]),
    "scored": lambda corpus: read_scored(corpus.files[0], corpus.min_score),
    "words": lambda corpus: read_words(corpus.files[0]),
    "moses": _read_moses,
    "moses-zip": lambda corpus: read_moses_zip(corpus.files[0], corpus.source_lang, corpus.target_lang),
    "tmx": _read_tmx,
    "tmx-zip": _read_tmx_zip,
    "stsb": _read_stsb,
}

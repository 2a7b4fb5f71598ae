"""Files of parallel sentences: what one holds, told by its name or by the user, and reading its pairs one by one.

A corpus is one file, or two that are aligned line by line. Its name tells the languages in the order of its columns:
`NAME.xx-yy.tsv` (also `.gz`), `.csv` and `.jsonl` with named columns, OPUS's Moses format as two files `NAME.xx-yy.xx`
and `NAME.xx-yy.yy` (or `NAME.xx` and `NAME.yy`) or as the `.txt.zip` that it comes in, and TMX (`.tmx`, `.tmx.gz`,
`.tmx.zip`). Those that `harness.data.parallel` knows have formats of their own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.core.errors import InputError
from harness.core.files import user_path
from harness.core.text import FileError, iter_lines
from harness.data.pair_formats import (
    LANGUAGE_CODE,
    Pairs,
    aligned,
    named_rows,
    read_moses_zip,
    read_scored,
    read_table,
    read_tmx,
    read_words,
)
from harness.data.parallel import parallel_corpora
from harness.data.sts import read_scored as read_sts

Format = Literal["tsv", "named", "scored", "words", "moses", "moses-zip", "tmx", "stsb"]

NAME = re.compile(rf"(?:(.+)\.)?({LANGUAGE_CODE})-({LANGUAGE_CODE})\.([A-Za-z_.]+)")
"""Of a file: the corpus's name, two languages, the ending."""

ENDINGS: dict[str, Format] = {
    "tsv": "tsv",
    "csv": "named",
    "jsonl": "named",
    "tmx": "tmx",
    "tmx.zip": "tmx",
    "txt.zip": "moses-zip",
    "zip": "moses-zip",
    "txt": "words",
}
_COLUMNS = (("source", "src", "sentence1", "text1"), ("target", "trg", "tgt", "sentence2", "text2"))
TEXT_FORMATS: tuple[Format, ...] = ("tsv", "named", "scored", "words", "moses", "stsb")
"""Of which every line is UTF-8 text."""


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
        columns: for the format `named`: the names of the two columns, source first; empty: those of the languages, or
            `source` and `target` and the like.
    """

    name: str
    files: tuple[Path, ...]
    source_lang: str
    target_lang: str
    licence: str = ""
    format: Format = "tsv"
    is_swapped: bool = False
    min_score: float = 0.0
    columns: tuple[str, ...] = ()


def open_corpus(
    location: str | Path | Sequence[Path],
    *,
    source_lang: str = "",
    languages: Sequence[str] = (),
    columns: Sequence[str] = (),
    or_say: str = "",
) -> Corpus:
    """The corpus in a file, or in two aligned files as in `A.en,A.de`.

    Args:
        location: one path, or two with a comma between them; or a list of these.
        source_lang: the language of the sources; by default, and if neither side is in it, the first.
        languages: of the two sides, for files whose names do not tell them.
        columns: of a CSV or JSONL file, the names of the two columns.
        or_say: ends the error where a name does not tell the languages: what else tells them.

    Raises:
        InputError: no such file, or nothing tells languages and format.
    """
    files = tuple(_paths(location))
    for path in files:
        if not path.is_file():
            raise InputError(f"no file {path}; give a file such as NAME.en-de.tsv.gz, or two as in NAME.en,NAME.de")
    if len(files) > 2:
        raise InputError(f"{','.join(map(str, files))}: {len(files)} files; a corpus is one file or two aligned ones")
    if len(set(files)) < len(files):
        raise InputError(f"{files[0]}: the same file on both sides; give one that is aligned with it")
    return describe(files, source_lang, languages=languages, columns=tuple(columns), or_say=or_say)


def _paths(location: str | Path | Sequence[Path]) -> Sequence[Path]:
    if not isinstance(location, str | Path):
        return [plain_or_packed(path) for path in location]
    whole = plain_or_packed(user_path(location))
    return [whole] if whole.is_file() else [plain_or_packed(user_path(part)) for part in str(location).split(",")]


def plain_or_packed(path: Path) -> Path:
    """The file; where it is not there, its form with `.gz`: records name files without it."""
    packed = path.with_name(f"{path.name}.gz") if path.name else path
    return packed if packed.is_file() and not path.is_file() else path


def describe(
    files: tuple[Path, ...],
    source_lang: str = "",
    *,
    licence: str = "",
    languages: Sequence[str] = (),
    columns: tuple[str, ...] = (),
    or_say: str = "",
) -> Corpus:
    """A corpus by the names of its one or two files; see `open_corpus`. Raises InputError."""
    name, first, second, kind = (_of_two if len(files) == 2 else _of_one)(files, languages, or_say)
    known = parallel_corpora().get(name)
    if known and known.format and kind in ("tsv", "words"):
        kind = known.format
    elif kind == "words":
        raise InputError(f"{files[0]}: a .txt file holds no pairs; expected .tsv, or two files as in NAME.en,NAME.de")
    if columns and kind != "named":
        raise InputError(f"{files[0]}: columns have names in .csv and .jsonl files only; leave --columns out")
    if len(columns) not in (0, 2):
        raise InputError(f"{files[0]}: {len(columns)} columns are named, expected two (--columns source,target)")
    source, target = (second, first) if second == source_lang else (first, second)
    is_swapped = source != first
    return Corpus(
        name=f"{name}.{source}-{target}",
        files=files[::-1] if is_swapped else files,
        source_lang=source,
        target_lang=target,
        licence=licence or (known.licence if known else ""),
        format=kind,
        is_swapped=is_swapped and kind in ("tsv", "scored", "words"),
        min_score=(known.min_score or 0.0) if known and kind == "scored" else 0.0,
        columns=columns[::-1] if is_swapped else columns,
    )


def _of_two(files: Sequence[Path], languages: Sequence[str], or_say: str) -> tuple[str, str, str, Format]:
    """Name, languages and format of two aligned files."""
    names = [path.name.removesuffix(".gz") for path in files]
    endings = [name.rpartition(".")[2] for name in names]
    stem = re.sub(rf"\.{LANGUAGE_CODE}-{LANGUAGE_CODE}$", "", names[0].rpartition(".")[0])
    if all(re.fullmatch(LANGUAGE_CODE, ending) for ending in endings) and endings[0] != endings[1]:
        return stem, endings[0], endings[1], "moses"
    if len(languages) == 2:
        return stem or names[0], languages[0], languages[1], "moses"
    raise InputError(f"{files[0]},{files[1]}: the names do not tell the languages; expected NAME.en,NAME.de")


def _of_one(files: Sequence[Path], languages: Sequence[str], or_say: str) -> tuple[str, str, str, Format]:
    """Name, languages and format of one file."""
    path = files[0]
    match = NAME.fullmatch(path.name)
    ending = match[4].removesuffix(".gz") if match else ""
    if match and ending in ENDINGS:
        return match[1] or path.parent.name, match[2], match[3], ENDINGS[ending]
    plain = path.name.removesuffix(".gz")
    ending = next((known for known in ENDINGS if plain.endswith(f".{known}")), "")
    if ending and len(languages) == 2:
        return plain.removesuffix(f".{ending}"), languages[0], languages[1], ENDINGS[ending]
    if ending:
        raise InputError(f"{path}: the name does not tell the languages; expected NAME.en-de.{ending}{or_say}")
    raise InputError(
        f"{path}: the name does not tell languages and format; expected NAME.en-de with .tsv, .csv, .jsonl, .tmx (each "
        "also with .gz), .tmx.zip or .txt.zip after it"
    )


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
        raise FileError(f"{corpus.files[0]}: no pairs{least} in it", "correct it or leave it out")


def _read_moses(corpus: Corpus) -> Pairs:
    names = [str(path) for path in corpus.files]
    yield from aligned(iter_lines(corpus.files[0]), iter_lines(corpus.files[1]), names)


def _read_tsv(corpus: Corpus) -> Pairs:
    """Without a first line that names the columns, as a CSV file would."""
    usual = usual_columns((corpus.source_lang, corpus.target_lang))
    pairs = read_table(corpus.files[0])
    for pair in itertools.islice(pairs, 1):
        if not is_header(pair, usual[::-1] if corpus.is_swapped else usual):
            yield pair
    yield from pairs


def _read_named(corpus: Corpus) -> Pairs:
    columns = [(name,) for name in corpus.columns] or usual_columns((corpus.source_lang, corpus.target_lang))
    for _, (source, target) in named_rows(corpus.files[0], columns):
        yield source, target


def usual_columns(languages: Sequence[str]) -> list[tuple[str, ...]]:
    """What the columns of sentences in these two languages may be called."""
    return [(language, *usual) for language, usual in zip(languages, _COLUMNS, strict=True)]


def header_words(languages: Sequence[str | None]) -> set[str]:
    """What may stand above a column of sentences, in lower case: codes and English names of languages, usual names."""
    from harness.data.tatoeba import languages as tatoeba_languages

    names = {"en": "english"} | {known.lang: known.name.lower() for known in tatoeba_languages().values()}
    codes = {code for code in languages if code}
    return codes | {names[code] for code in codes & names.keys()} | {word for names in _COLUMNS for word in names}


def is_header(fields: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Whether a line gives names to all these columns, in upper or lower case."""
    return all(field.strip().lower() in map(str.lower, names) for field, names in zip(fields, columns, strict=True))


def _read_stsb(corpus: Corpus) -> Pairs:
    source, target = (list(read_sts(path)) for path in corpus.files)
    names = [str(path) for path in corpus.files]
    yield from aligned([row.sentence1 for row in source], [row.sentence1 for row in target], names)
    yield from aligned([row.sentence2 for row in source], [row.sentence2 for row in target], names)


_READERS: dict[Format, Callable[[Corpus], Pairs]] = {
    "tsv": _read_tsv,
    "named": _read_named,
    "scored": lambda corpus: read_scored(corpus.files[0], corpus.min_score),
    "words": lambda corpus: read_words(corpus.files[0]),
    "moses": _read_moses,
    "moses-zip": lambda corpus: read_moses_zip(corpus.files[0], corpus.source_lang, corpus.target_lang),
    "tmx": lambda corpus: read_tmx(corpus.files[0], corpus.source_lang, corpus.target_lang),
    "stsb": _read_stsb,
}

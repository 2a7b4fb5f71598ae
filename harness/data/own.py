"""Data sets of the user's own: files as they lie, named on the command line, in a file of sets, or in memory.

Three kinds, each of which is a task: `pairs` (sentences and their translations), `scored` (two sentences and a score)
and `retrieval` (queries, documents, and which document answers which query, in BEIR's layout: Thakur et al. 2021,
"BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models").
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from harness.core.errors import InputError
from harness.core.files import user_path
from harness.core.names import Subset, check_name
from harness.core.text import FileError, iter_lines, of_the_user, parse_number, tab_rows
from harness.data.columns import columns_protocol
from harness.data.corpora import (
    NAME,
    TEXT_FORMATS,
    Corpus,
    describe,
    is_header,
    open_corpus,
    plain_or_packed,
    read_pairs,
    usual_columns,
)
from harness.data.languages import standard_language
from harness.data.pair_formats import AS_CSV, csv_delimiter, named_rows
from harness.data.sources import DataDir, Source
from harness.data.sts import STSPairs

Kind = Literal["pairs", "scored", "retrieval"]

AVERAGE = "avg"
"""Of the subset that stands for the mean over all sets of a task."""

_SCORES = ("score", "gold", "label")  # what the column of scores may be called
LARGEST_SCORE = 1e6
"""Of scored pairs, up or down."""

Languages = tuple[str | None, str | None]
"""Of the first and the second side, as encoders are told them: the shortest ISO 639 codes; None: not known."""

_CHOOSE = "rename the file, or give another name (of one set with --set-name, of several in a file of sets, --sets)"
_SAY = "give --src-lang and --trg-lang"


@dataclass(frozen=True)
class OwnSet(Source):
    """A data set of the user's own; `dataset` is its name, too.

    Attributes:
        kind: the task that it is for.
        languages: of the first and the second side (of the queries and the documents): ISO 639 codes, as in the names
            of files; empty: not known.
        columns: the names of the columns of a CSV or JSONL file; empty: the usual ones.
        keep_own_id: of retrieval, whether a document with the query's own id may be found.
        full_name: the name with the languages, for where two files have one name; empty: the user gave the name.
        content: of a set in memory, what the loader of its kind gives.
        expected: sha256 by file name, as far as a file of sets says it; see `Source.checksums`.
    """

    kind: Kind = "pairs"
    languages: tuple[str, str] = ("", "")
    columns: tuple[str, ...] = ()
    keep_own_id: bool = False
    full_name: str = field(default="", compare=False)
    content: Any = field(default=None, compare=False, repr=False)
    expected: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def spoken(self) -> Languages:
        """The languages, as encoders are told them."""
        first, second = (standard_language(code) if code else None for code in self.languages)
        return first, second

    @cached_property
    def checksums(self) -> dict[str, str]:
        """As of any source. Raises InputError, as loading does."""
        with of_the_user():
            return super().checksums


@dataclass(frozen=True)
class Options:
    """What the user says of sets whose files do not say it.

    Attributes:
        name: of the set; by default the stem of its file, or the name of its folder.
        languages: of the two sides; none, or two.
        columns: the names of the columns of a CSV or JSONL file.
        split: of retrieval, the file in `qrels/`.
        keep_own_id: of retrieval, whether a document with the query's own id may be found.
    """

    name: str = ""
    languages: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    split: str = "test"
    keep_own_id: bool = False


Location = str | Path | Sequence[Path]
"""A path; two paths with a comma between them; or a list of paths."""


def open_set(kind: Kind, location: Location, options: Options | None = None) -> OwnSet:
    """A set by its files; they are not read yet.

    Args:
        kind: what the files hold.
        location: of `pairs`, what `harness.data.corpora.open_corpus` takes; of `scored`, a file; of `retrieval`, a
            folder.
        options: what the files do not say.

    Raises:
        InputError: no such files, an unknown language, or a name that cannot be one.
    """
    return _OPEN[kind](location, options or Options())


def own_layout(folder: Path) -> str:
    """What a folder holds that is taken for data sets in their published layouts, and how it is given; or nothing."""
    if DataDir(folder).find("corpus.jsonl"):
        return f"a set in BEIR's layout: give --beir {folder}"
    pairs = sorted(path.name for path in folder.glob("*") if NAME.fullmatch(path.name))
    return f"{pairs[0]}: give --pairs or --scored {folder / pairs[0]}" if pairs else ""


def own_data(sets: Sequence[OwnSet]) -> DataDir:
    """A data directory that has these sets, see `told_apart`, and nothing else.

    Raises:
        InputError: two sets of one task have one name, with their languages too.
    """
    names: dict[tuple[str, str], OwnSet] = {}
    named = told_apart(sets)
    for each in named:
        other = names.setdefault((each.kind, each.subset), each)
        if other is not each:
            raise InputError(
                f"{other.files[0]} and {each.files[0]} are both called {each.subset}; rename one of them, or name them "
                "in a file of sets (--sets)"
            )
    return DataDir(Path(os.devnull), sets=tuple(named))  # nothing is found there


def told_apart(sets: Iterable[OwnSet]) -> list[OwnSet]:
    """The sets; of those of one kind and name, the ones that have it from their files have the languages in it."""
    listed = list(sets)
    count = Counter((each.kind, each.subset) for each in listed)
    return [
        replace(each, subset=check_set_name(each.full_name), dataset=each.full_name)
        if each.full_name and count[each.kind, each.subset] > 1
        else each
        for each in listed
    ]


def own_sources(kind: Kind) -> Callable[[DataDir], dict[str, Source]]:
    """For the task of that kind: the function that finds its sets."""

    def sources(data: DataDir) -> dict[str, Source]:
        return {each.subset: each for each in data.sets if isinstance(each, OwnSet) and each.kind == kind}

    return sources


def has_named_columns(location: str | Path) -> bool:
    """Whether it is a file whose columns have names, by its ending."""
    return str(location).removesuffix(".gz").endswith((".csv", ".jsonl"))


def _table_protocol(files: Sequence[Path], columns: Sequence[str]) -> str:
    """What of a table is in the signature."""
    return columns_protocol(columns) if has_named_columns(files[0]) else ""


def _one_path(location: Location, kind: Kind) -> Path:
    if isinstance(location, str | Path):
        return user_path(location)
    if len(location) > 1:
        raise InputError(f"{len(location)} files are given, but a set of kind {kind!r} is one file or folder")
    return location[0]


def _open_pairs(location: Location, options: Options) -> OwnSet:
    corpus = open_corpus(location, languages=options.languages, columns=options.columns, or_say=f", or {_SAY}")
    return _described(corpus, options)


def pairs_by_name(files: tuple[Path, ...], options: Options) -> OwnSet:
    """The set of pairs that files of these names are, whether they are here or not. Raises InputError as `open_set`."""
    return _described(describe(files, languages=options.languages, columns=options.columns), options)


def _described(corpus: Corpus, options: Options) -> OwnSet:
    stem = corpus.name.rpartition(".")[0]
    sides = _two_languages((corpus.source_lang, corpus.target_lang), corpus.files[0])
    name = check_set_name(options.name or stem)
    return OwnSet(
        name,
        name,
        corpus.files,
        protocol=_table_protocol(corpus.files, corpus.columns),
        kind="pairs",
        languages=sides,
        columns=corpus.columns,
        full_name=_full_name(stem, sides, options),
    )


def _full_name(stem: str, languages: tuple[str, str], options: Options) -> str:
    return "" if options.name else f"{stem}.{'-'.join(languages)}"


def _open_scored(location: Location, options: Options) -> OwnSet:
    path = plain_or_packed(_one_path(location, "scored"))
    if not path.is_file():
        raise InputError(f"no file {path}; give a file such as NAME.de-tr.tsv: sentence TAB sentence TAB score")
    return scored_by_name(path, options)


def scored_by_name(path: Path, options: Options) -> OwnSet:
    """The scored pairs that a file of this name holds, whether it is here or not. Raises InputError as `open_set`."""
    stem, _, ending = path.name.removesuffix(".gz").rpartition(".")
    if ending not in ("tsv", "csv", "jsonl"):
        raise InputError(f"{path}: expected .tsv (sentence TAB sentence TAB score), .csv or .jsonl, each also with .gz")
    if options.columns and ending == "tsv":
        raise InputError(f"{path}: columns have names in .csv and .jsonl files only; leave --columns out")
    if len(options.columns) not in (0, 3):
        raise InputError(f"{path}: {len(options.columns)} columns are named, expected sentence,sentence,score")
    languages = options.languages
    if match := NAME.fullmatch(path.name):
        stem, languages = match[1] or path.parent.name, (match[2], match[3])
    name = check_set_name(options.name or stem)
    sides = _two_languages(languages, path)
    return OwnSet(
        name,
        name,
        (path,),
        protocol=_table_protocol((path,), options.columns),
        kind="scored",
        languages=sides,
        columns=options.columns,
        full_name=_full_name(stem, sides, options),
    )


def _open_retrieval(location: Location, options: Options) -> OwnSet:
    folder = _one_path(location, "retrieval")
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; give one with corpus.jsonl, queries.jsonl and qrels/{options.split}.tsv")
    data = DataDir(folder)
    wanted = ("corpus.jsonl", "queries.jsonl", f"qrels/{check_name(options.split, 'split')}.tsv")
    missing = [name for name in wanted if data.find(name) is None]
    if missing:
        splits = sorted(path.name.partition(".")[0] for path in (folder / "qrels").glob("*.tsv*"))
        hint = f"; there is qrels/ with {', '.join(splits)}: name one with --split" if splits else ""
        raise InputError(f"{folder}: {' and '.join(missing)} missing; expected {', '.join(wanted)} (also .gz){hint}")
    name = check_set_name(options.name or (folder.name if folder.name.strip(".") else folder.resolve().name))
    return OwnSet(
        name,
        name,
        data.find_all(*wanted),
        protocol=retrieval_protocol(options.keep_own_id),
        kind="retrieval",
        languages=_two_languages(options.languages, folder),
        keep_own_id=options.keep_own_id,
    )


def retrieval_protocol(keep_own_id: bool) -> str:
    """What of a set for retrieval is in the signature. (The split is not: it is the name of a file.)"""
    return f"own-id:{'kept' if keep_own_id else 'dropped'}"


_OPEN: dict[Kind, Callable[[Location, Options], OwnSet]] = {
    "pairs": _open_pairs,
    "scored": _open_scored,
    "retrieval": _open_retrieval,
}


def check_set_name(name: str) -> str:
    """`name`, of a set of the user's own. Raises InputError if it cannot be one."""
    from harness.data.catalogue import catalogue

    if Subset.parse(name).tag:
        raise InputError(f"set name {name!r}: @ marks stand-ins for published sets; choose a name without it")
    if name == AVERAGE:
        raise InputError(f"set name {name!r}: it is that of the average over all sets; choose another")
    if not catalogue().keys().isdisjoint(name.split("+")):
        raise InputError(f"set name {name!r}: it is that of a published data set; {_CHOOSE}")
    return check_name(name, "set")


def _two_languages(languages: Sequence[str], path: Path) -> tuple[str, str]:
    if len(languages) != 2:
        raise InputError(f"{path}: nothing tells its languages; {_SAY}")
    for code in languages:
        standard_language(code)
    return languages[0], languages[1]


@dataclass(frozen=True)
class OwnPairs:
    """n sentences and their translations: `targets[i]` translates `sources[i]`; `languages` of both sides, or None."""

    sources: list[str]
    targets: list[str]
    languages: Languages


@of_the_user()
def load_pairs(source: Source) -> OwnPairs:
    """Read a set of pairs. Raises InputError as `harness.data.corpora.read_pairs`."""
    own = own_set(source)
    if own.content is not None:
        return cast(OwnPairs, own.content)
    corpus = open_corpus(own.files, languages=own.languages, columns=own.columns)
    if corpus.format in TEXT_FORMATS:
        _refuse_nul(own.files)
    pairs = list(read_pairs(corpus))
    while not any(pairs[-1]) and len(pairs) > 1:  # two files that end in blank lines
        pairs.pop()
    sources, targets = zip(*pairs, strict=True)
    return OwnPairs(list(sources), list(targets), own.spoken)


@of_the_user()
def load_scored(source: Source) -> STSPairs:
    """Read a set of scored pairs, with scores of any scale.

    Raises:
        InputError: a column is missing, a score is no number or beyond a million, fewer than two pairs, or all scores
            are equal; names file and line.
    """
    own = own_set(source)
    if own.content is not None:
        return cast(STSPairs, own.content)
    path = own.files[0]
    _refuse_nul(own.files)
    columns: list[tuple[str, ...]] = [(name,) for name in own.columns]
    columns = columns or [*usual_columns(own.languages), _SCORES]
    rows: Iterator[tuple[int, list[str]]]
    if path.name.removesuffix(".gz").endswith(".tsv"):
        table = tab_rows(path, 3, 3, "sentence TAB sentence TAB score", is_blank_no_row=True, if_more=AS_CSV)
        rows = ((line, fields) for line, fields in table if line > 1 or not is_header(fields, columns))
    else:
        rows = named_rows(path, columns)
        if path.name.removesuffix(".gz").endswith(".csv") and csv_delimiter(path) == ";":
            rows = ((line, [*texts, _with_point(score)]) for line, (*texts, score) in rows)
    limits = {"low": -LARGEST_SCORE, "high": LARGEST_SCORE}
    pairs = [(first, second, parse_number(score, path, line, **limits)) for line, (first, second, score) in rows]
    return scored_pairs(own, pairs)


def _with_point(number: str) -> str:
    """A number with a decimal comma, as spreadsheets write it beside semicolons, with a point; others as they are."""
    return number.replace(",", ".") if number.count(",") == 1 and "." not in number else number


def scored_pairs(own: OwnSet, pairs: Sequence[tuple[str, str, float]]) -> STSPairs:
    """The pairs of a set with their scores. Raises InputError if they have no correlation."""
    import numpy as np

    place = own.files[0] if own.files else own.subset
    if len(pairs) < 2:
        raise InputError(f"{place}: {len(pairs)} sentence pairs have no correlation; add pairs")
    if len({score for _, _, score in pairs}) == 1:
        raise InputError(f"{place}: all scores are equal, so there is no correlation with them; correct them")
    first, second, scores = zip(*pairs, strict=True)
    return STSPairs(own.subset, list(first), list(second), *own.spoken, np.array(scores, np.float64))


def _refuse_nul(files: Sequence[Path]) -> None:
    """Raises InputError at a NUL byte, which text in UTF-16 is full of; it may be UTF-8 by chance."""
    for path in files:
        for number, line in enumerate(iter_lines(path), start=1):
            if "\0" in line:
                raise FileError(f"{path}:{number}: a NUL byte, which is no text (is the file UTF-16?)")


def own_set(source: Source) -> OwnSet:
    """The same, as what it is: a set of the user's own. Raises TypeError if it is none."""
    if not isinstance(source, OwnSet):
        raise TypeError(f"{source.subset} is no set of the user's own")
    return source

"""How sets of the user's own are given again on the command line: by the names of their files, which records have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from harness.core.errors import InputError
from harness.data.columns import columns_of
from harness.data.languages import standard_language
from harness.data.own import Options, OwnSet, has_named_columns, pairs_by_name, scored_by_name, told_apart
from harness.data.sources import joint_sha256


@dataclass(frozen=True)
class Recorded:
    """What a record says of its data.

    Attributes:
        task: that it is of.
        subsets: the name of the set; of an average, of all its sets.
        files: checksums by names of files, without `.gz`, in any order.
        languages: of the two sides; one if they are in the same language.
        sha256: of all the files in their order.
        signature: of the record.
    """

    task: str
    subsets: tuple[str, ...]
    files: Mapping[str, str]
    languages: tuple[str, ...]
    sha256: str = ""
    signature: str = ""


def options_for(records: Iterable[Recorded]) -> list[str] | None:
    """The options that give the sets of these records, by the names that the records have.

    None where records do not tell them: of retrieval, of sets in memory, of several sets with names of their user's
    choice or with different columns.
    """
    recorded = list(records)
    found: list[tuple[OwnSet, Options]] = []
    for each in recorded:
        opened = [_set_of(each, files) for files in _files_of_sets(each)]
        if not opened or None in opened:
            return None
        found += filter(None, opened)
    try:
        sets = told_apart(dict.fromkeys(own for own, _ in found))
    except InputError:  # with its languages, a name is too long
        return None
    words = [word for own in sets for word in (f"--{own.kind}", ",".join(map(str, own.files)))]
    if any(options.languages for _, options in found):
        if len(sets) > 1:
            return None
        first, second = sets[0].languages
        words += ["--src-lang", first, "--trg-lang", second]
    columns = {own.columns for own in sets if has_named_columns(own.files[0])} or {()}
    if len(columns) > 1:
        return None
    if named := ",".join(*columns):
        words += ["--columns", named]
    wanted = {(each.task, subset) for each in recorded for subset in each.subsets}
    is_named = any(options.name for _, options in found)
    if not is_named and {(own.kind, own.subset) for own in sets} == wanted and len(sets) == len(wanted):
        return words
    return [*words, "--set-name", next(iter(wanted))[1]] if len(sets) == len(wanted) == 1 else None


def _files_of_sets(recorded: Recorded) -> list[tuple[str, ...]]:
    """The names of the files of each set, in their order; none if the record does not tell them."""
    names = tuple(recorded.files)
    if any(name.startswith("-") or "," in name or not name.isprintable() for name in names):
        return []
    # An average over tables that were read by different columns says nothing of columns.
    if columns_of(recorded.signature) is None and any(map(has_named_columns, names)):
        return []
    if len(recorded.subsets) > 1:
        return [(name,) for name in names]
    if len(names) != 2:
        return [names]
    orders = permutations(names)  # a record has the names sorted
    return [order for order in orders if joint_sha256({n: recorded.files[n] for n in order}) == recorded.sha256][:1]


def _set_of(recorded: Recorded, files: Sequence[str]) -> tuple[OwnSet, Options] | None:
    """The set that files of these names are, with what must be said beside them."""
    for options in _ways(recorded):
        try:
            if recorded.task == "pairs" and len(files) in (1, 2):
                own = pairs_by_name(tuple(map(Path, files)), options)
            elif recorded.task == "scored" and len(files) == 1:
                own = scored_by_name(Path(files[0]), options)
            else:
                return None
            of_files, of_record = map(_standard, (own.languages, recorded.languages))
        except InputError:
            continue
        # Of an average, each set has some of the languages.
        if of_files == of_record or (len(recorded.subsets) > 1 and {*of_files} <= {*of_record}):
            return own, options
    return None


def _ways(recorded: Recorded) -> Iterator[Options]:
    """What may have been said beside the files, the least first."""
    columns = columns_of(recorded.signature) or ()
    if any("," in name or not name.isprintable() for name in columns):  # --columns cannot say these
        return
    languages = recorded.languages * 2 if len(recorded.languages) == 1 else recorded.languages
    names = ("", *recorded.subsets) if len(recorded.subsets) == 1 else ("",)
    for name in names:
        yield Options(name=name, columns=columns)
        yield Options(name=name, languages=languages, columns=columns)


def _standard(languages: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(standard_language, languages)))

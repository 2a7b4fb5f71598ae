"""How sets of the user's own are given again on the command line: by the names of their files, which records have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import InputError
from harness.data.own import Options, OwnSet, pairs_by_name, scored_by_name, told_apart


@dataclass(frozen=True)
class Recorded:
    """What a record says of its data.

    Attributes:
        task: that it is of.
        subsets: the name of the set; of an average, of all its sets.
        files: names of files, without `.gz`.
        languages: of the two sides; one if they are in the same language.
    """

    task: str
    subsets: tuple[str, ...]
    files: tuple[str, ...]
    languages: tuple[str, ...]


def options_for(records: Iterable[Recorded]) -> list[str] | None:
    """The options that give the sets of these records, by the names that the records have.

    None where the names of files do not tell them: of retrieval, of sets in memory, of several sets with names of their
    user's choice. Which columns of a table were read is not known; without `--columns` a run asks for them.
    """
    recorded = list(records)
    found: dict[tuple[str, tuple[str, ...]], tuple[OwnSet, bool]] = {}
    for each in recorded:
        for files in [(file,) for file in each.files] if len(each.subsets) > 1 else [each.files]:
            if (own := _set_of(each, files)) is None:
                return None
            found[each.task, files] = own
    sets, needs_languages = told_apart(own for own, _ in found.values()), any(needs for _, needs in found.values())
    words = [word for own in sets for word in (f"--{own.kind}", ",".join(map(str, own.files)))]
    if needs_languages:
        first, second = sets[0].languages
        if len(sets) > 1:
            return None
        words += ["--src-lang", first, "--trg-lang", second]
    wanted = {(each.task, subset) for each in recorded for subset in each.subsets}
    if {(own.kind, own.subset) for own in sets} == wanted and len(sets) == len(wanted):
        return words
    return [*words, "--set-name", next(iter(wanted))[1]] if len(sets) == len(wanted) == 1 else None


def _set_of(recorded: Recorded, files: tuple[str, ...]) -> tuple[OwnSet, bool] | None:
    """The set that files of these names are, and whether their languages must be given beside them."""
    if any(name.startswith("-") or "," in name for name in files):
        return None
    languages = recorded.languages * 2 if len(recorded.languages) == 1 else recorded.languages
    for options in (Options(), Options(languages=languages)):
        try:
            if recorded.task == "pairs" and len(files) in (1, 2):
                return pairs_by_name(tuple(map(Path, files)), options), bool(options.languages)
            if recorded.task == "scored" and len(files) == 1:
                return scored_by_name(Path(files[0]), options), bool(options.languages)
        except InputError:
            continue
    return None

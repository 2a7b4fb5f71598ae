"""Several results folders as one: records, where each is from, and their statistics. Nothing on disk changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.core.errors import HarnessError, InputError, unknown_name
from harness.core.names import is_name
from harness.encoders.registry import check_spec
from harness.results.named import StoredEncoder, find_stored, is_results_folder, is_spec_of, join
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, StatisticsStore


class JoinedResults:
    """The encoders of some results folders. Where several have an encoder of one name, each is called FOLDER/NAME.

    Attributes:
        folders: in the order given.
        encoders: by name.
        records: of all encoders, under these names, sorted by name, task and subset.
    """

    def __init__(self, folders: Sequence[Path]):
        """Raises InputError for a folder twice, files that hold no records, and where nothing is stored."""
        self.folders = list(folders)
        self.encoders = join(folders)
        self.records = [
            record if record.encoder == name else replace(record, encoder=name)
            for name, one in sorted(self.encoders.items())
            for record in one.records
        ]
        if not self.records:
            listed = ", ".join(map(str, folders))
            raise InputError(
                f"no stored results in the folder {listed}; run `leaderboard run` first, or name a folder (--results)"
            )

    def origin(self, record: Result) -> tuple[Path, Result]:
        """The folder of one of the records, and the record as it is in there."""
        one = self.encoders[record.encoder]
        return one.root, record if record.encoder == one.encoder else replace(record, encoder=one.encoder)

    def name_of(self, folder: Path, encoder: str) -> str:
        """The name here of an encoder of a folder; its own if it has no results."""
        found = (name for name, one in self.encoders.items() if (one.root, one.encoder) == (folder, encoder))
        return next(found, encoder)

    def statistics(self, task: str, records: Sequence[Result]) -> Statistics:
        """What the folders have kept of these records of a task; of folders that resampled otherwise than the first."""
        found = []
        for folder in self.folders:
            names = {one.encoder: name for name, one in self.encoders.items() if one.root == folder}
            found.append(_renamed(StatisticsStore(folder).load(task), names))
        known = [one for one in found if one.entries]
        alike = [one for one in known if (one.signature, one.level) == (known[0].signature, known[0].level)]
        entries = {key: entry for one in alike for key, entry in one.entries.items()}
        return replace(known[0] if known else Statistics(), entries=entries).current(records)


def named_results(
    texts: Sequence[str], folders: Sequence[Path] | None, default: Callable[[], Path]
) -> tuple[JoinedResults, list[str]]:
    """The joined folders, and the encoders among them that are meant (all if no text is given).

    Args:
        texts: stored names, results folders, FOLDER/NAME, or spec strings of stored encoders.
        folders: that are joined beside those in `texts`.
        default: gives the folder of names and specs where no other is joined.

    Raises:
        InputError: as `JoinedResults`; a text that stands for nothing that is stored.
    """
    wanted = [_place(text) or text for text in texts]
    joined = list(folders or ())
    if not joined and (not wanted or any(isinstance(one, str) for one in wanted)):
        joined.append(default())
    for one in wanted:
        if not isinstance(one, str) and all(os.path.realpath(f) != os.path.realpath(one[0]) for f in joined):
            joined.append(one[0])
    results = JoinedResults(joined)
    chosen = [name for one in wanted for name in _names(one, results)]
    return results, list(dict.fromkeys(chosen)) or list(results.encoders)


def with_reference(
    texts: Sequence[str], reference: str, folders: Sequence[Path] | None, default: Callable[[], Path]
) -> tuple[JoinedResults, list[str], str]:
    """`named_results`, joined with the folder of the reference, which may be named in the same ways; and its name.

    Raises:
        InputError: as `named_results`; a reference that is a folder with several encoders.
    """
    first, asked = named_results(texts, folders, default)
    joined, found = named_results([reference], first.folders, default)
    if len(found) != 1:
        raise InputError(f"{reference} has results of {len(found)} encoders; say which: {', '.join(found[:6])}")
    places = [first.encoders[name] for name in asked]
    return joined, [joined.name_of(one.root, one.encoder) for one in places], found[0]


def _place(text: str) -> tuple[Path, str] | None:
    """A folder, and the encoder in it that is meant (empty: all); None for a text that names no folder."""
    if is_results_folder(text):
        return Path(text), ""
    found = find_stored(text, {})
    return (found.root, found.encoder) if found else None


def _names(wanted: tuple[Path, str] | str, results: JoinedResults) -> list[str]:
    if isinstance(wanted, tuple):
        folder, encoder = os.path.realpath(wanted[0]), wanted[1]
        return [
            name
            for name, one in results.encoders.items()
            if os.path.realpath(one.root) == folder and encoder in ("", one.encoder)
        ]
    return [_stored(wanted, results.encoders).name]


def _stored(text: str, encoders: dict[str, StoredEncoder]) -> StoredEncoder:
    if found := find_stored(text, encoders):
        return found
    if is_name(text):
        raise unknown_name("encoder with stored results", text, encoders)
    try:
        spec = check_spec(text)
    except HarnessError as error:
        raise InputError(f"{text}: neither stored results nor an encoder ({error})") from None
    same = encoders.get(spec.stored_name)
    if same is None or not is_spec_of(spec, same.records):
        raise InputError(f"{text} has no stored results; `leaderboard run --encoder {text!r}` measures it")
    return same


def _renamed(statistics: Statistics, names: dict[str, str]) -> Statistics:
    """With other names of encoders; of a pair, the p-value stays with the first in the alphabet."""
    entries: dict[tuple[str, str], Entry] = {}
    moved: list[tuple[tuple[str, str], str, str, float]] = []
    for (encoder, subset), entry in statistics.entries.items():
        if encoder not in names:
            continue
        entries[names[encoder], subset] = replace(entry, p={})
        for metric, others in entry.p.items():
            for other, p in others.items():
                if other in names:
                    first, second = sorted([names[encoder], names[other]])
                    moved.append(((first, subset), metric, second, p))
    for key, metric, second, p in moved:
        if key in entries:
            entries[key].p.setdefault(metric, {})[second] = p
    return replace(statistics, entries=entries)


def renamed_for_paths(records: Iterable[Result]) -> list[Result]:
    """The records with names that can be those of folders: `FOLDER__NAME` in place of `FOLDER/NAME`."""
    return [replace(r, encoder=r.encoder.strip("/").replace("/", "__")) for r in records]

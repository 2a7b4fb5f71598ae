"""Encoders with stored results, as a user names them: in one results folder, or in several that are joined."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import InputError
from harness.core.names import is_name
from harness.encoders.registry import runs_code
from harness.encoders.spec import Spec, parse_spec
from harness.results.records import Result
from harness.results.store import ResultStore


@dataclass(frozen=True)
class StoredEncoder:
    """An encoder with stored results.

    Attributes:
        name: by which it is told from the others: that of its records, or FOLDER/NAME.
        root: the results folder.
        records: all of them, sorted by task and subset; `encoder` of each is the name in the folder.
    """

    name: str
    root: Path
    records: tuple[Result, ...]

    @property
    def encoder(self) -> str:
        """Its name in the folder."""
        return self.records[0].encoder


def join(folders: Sequence[Path]) -> dict[str, StoredEncoder]:
    """By name, all encoders of these results folders; names that several folders have become FOLDER/NAME.

    FOLDER is the last part of a folder's path, or, where several folders share it, the path as it was given.

    Raises:
        InputError: a folder twice, or a file that holds no records.
    """
    real = [os.path.realpath(folder) for folder in folders]
    if twice := next((folder for folder, path in zip(folders, real, strict=True) if real.count(path) > 1), None):
        raise InputError(f"{twice}: the same results folder twice; name it once")
    by_folder = {folder: _encoders(folder) for folder in folders}
    of_name = Counter(name for encoders in by_folder.values() for name in encoders)
    joined: dict[str, StoredEncoder] = {}
    for (folder, encoders), label in zip(by_folder.items(), labels(folders), strict=True):
        for name, records in encoders.items():
            full = f"{label}/{name}" if of_name[name] > 1 else name
            joined[full] = StoredEncoder(full, folder, records)
    return joined


def labels(folders: Sequence[Path]) -> list[str]:
    """The names of folders: the last part of the path, or the path as it was given where several end alike."""
    ends = [Path(os.path.realpath(folder)).name for folder in folders]
    return [end if ends.count(end) == 1 else folder.as_posix() for folder, end in zip(folders, ends, strict=True)]


def find_stored(text: str, joined: Mapping[str, StoredEncoder], beside: str = "") -> StoredEncoder | None:
    """The stored encoder that a user means: its name, a results folder, or FOLDER/NAME; None if it is none of these.

    beside: the name of the encoder that it is compared with: of a folder with several, that one is meant.

    Raises:
        InputError: a folder with several encoders, none of which is `beside`; a name that several folders have.
    """
    if text in joined:
        return joined[text]
    roots = list(dict.fromkeys(one.root for one in joined.values()))
    label_of = dict(zip(roots, labels(roots), strict=True))
    for one in joined.values():  # FOLDER/NAME of a name that only one folder has
        if text == f"{label_of[one.root]}/{one.encoder}":
            return one
    if alike := [name for name in joined if name.endswith(f"/{text}") and is_name(text)]:
        raise InputError(f"several of the results folders have {text!r}; say {' or '.join(alike)}")
    if is_results_folder(text):
        return _one_of(Path(text), beside)
    folder, _, name = text.rstrip("/").rpartition("/")
    if folder and is_name(name) and is_results_folder(folder) and (records := ResultStore(folder).load(name)):
        return StoredEncoder(name, Path(folder), tuple(records))
    return None


def is_spec_of(spec: Spec, records: Sequence[Result]) -> bool:
    """Whether a spec string is that of the records of its name, and promises their vectors: no folder, no code."""
    if runs_code(spec) or os.path.exists(spec.location or ""):  # noqa: PTH110  (False, where Path raises an OSError)
        return False
    given = parse_spec(str(spec))
    return bool(records) and all(record.spec and parse_spec(record.spec) == given for record in records)


def _encoders(folder: Path) -> dict[str, tuple[Result, ...]]:
    encoders: dict[str, list[Result]] = {}
    for record in ResultStore(folder).load():
        encoders.setdefault(record.encoder, []).append(record)
    return {name: tuple(records) for name, records in encoders.items()}


def is_results_folder(text: str) -> bool:
    """Whether a text is the path of a folder with records."""
    return os.path.isdir(os.path.join(text, "records"))  # noqa: PTH112, PTH118  (as above)


def _one_of(folder: Path, beside: str) -> StoredEncoder:
    encoders = _encoders(folder)
    if not encoders:
        raise InputError(f"no stored results in the folder {folder}; name one that has some")
    name = next(iter(encoders)) if len(encoders) == 1 else beside
    if name not in encoders:
        listed = ", ".join(f"{folder.as_posix()}/{name}" for name in encoders)
        raise InputError(f"{folder} has results of {len(encoders)} encoders; say which: {listed}")
    return StoredEncoder(name, folder, encoders[name])

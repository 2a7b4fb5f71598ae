"""Files that list data sets of the user's own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec

from harness.core.errors import InputError
from harness.core.files import user_path
from harness.core.schema import read_tables
from harness.data.own import Kind, Options, OwnSet, open_set

_A_SET = "a set is [NAME] with kind (pairs, scored or retrieval), files (a list) and languages (a list of two)"


@dataclass(frozen=True)
class _Entry:
    """A set in a file of sets."""

    name: str
    kind: Kind
    files: Annotated[list[str], msgspec.Meta(min_length=1, max_length=2)]
    languages: Annotated[list[str], msgspec.Meta(min_length=2, max_length=2)] | None = None
    columns: list[str] = field(default_factory=list)
    split: str = "test"
    keep_own_id: bool = False
    sha256: dict[str, str] = field(default_factory=dict)


def read_sets(file: str | Path) -> list[OwnSet]:
    """The sets of a TOML file: tables `[NAME]` with `kind`, `files`, `languages` and the options.

    Paths begin at its folder. `sha256` may give checksums by file name, for `leaderboard data verify`.

    Raises:
        InputError: no such file, or it holds something else; as `open_set`.
    """
    path = user_path(file)
    try:
        entries = read_tables(path, _Entry)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); give a TOML file with a table for each set"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}: no file of sets ({error}); {_A_SET}") from None
    if not entries:
        raise InputError(f"{path}: no sets in it; {_A_SET}")
    sets = []
    for name, entry in entries.items():
        options = Options(name, tuple(entry.languages or ()), tuple(entry.columns), entry.split, entry.keep_own_id)
        try:
            files = [path.parent / user_path(each) for each in entry.files]
            own = replace(open_set(entry.kind, files, options), expected=entry.sha256)
            if others := entry.sha256.keys() - set(own.names):
                raise InputError(f"sha256 names {min(others)!r}, which is no file of it ({', '.join(own.names)})")
            sets.append(own)
        except InputError as error:
            raise InputError(f"{path}: [{name}]: {error}") from None
    return sets

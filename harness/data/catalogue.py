"""The catalogue: every data set the harness knows, with its licence, files, checksums and download addresses."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.data.text import iter_lines
from harness.errors import InputError, unknown_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CATALOGUE_FILE = Path(__file__).with_name("catalogue.toml")
CHECKSUMS_FILE = Path(__file__).with_name("checksums.sha256")

_CHECKSUM_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


@dataclass(frozen=True)
class Download:
    """Something to fetch: one file, or an archive to unpack.

    Attributes:
        urls: where it is, tried in order.
        target: in the data directory, the file to write (a name in `.gz` is a file that stays compressed) or the
            folder to unpack into.
        members: for an archive, patterns of the file names to take from it; empty for a file.
        copies: for an archive, where a copy of a member `STS.PAIR.txt` is as JSON lines, with `{pair}` for PAIR.
    """

    urls: tuple[str, ...]
    target: str
    members: tuple[str, ...] = ()
    copies: str = ""

    def yields(self, path: str) -> bool:
        """Whether the file `path` (relative to the data directory, without `.gz`) comes from this download."""
        if not self.members:
            return path == self.target.removesuffix(".gz")
        folder, _, name = path.rpartition("/")
        return folder == self.target and any(fnmatchcase(name, pattern) for pattern in self.members)


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
        name: as used on the command line and in results.
        title, licence, home, citation, note: shown to the user.
        folder: where it lies in the data directory.
        files: its files, relative to the data directory, without `.gz`.
        checksums: sha256 of the uncompressed content by file, where it is known.
        downloads: what to fetch; empty if it cannot be downloaded, and `obtain` says how one gets it instead.
        on_request: no task reads it, so it is downloaded only if it is named.
        max_bytes: of each of its downloads, and of what an archive unpacks to: more is refused.
    """

    name: str
    title: str
    licence: str
    home: str
    citation: str
    folder: str
    files: tuple[str, ...]
    checksums: Mapping[str, str]
    downloads: tuple[Download, ...]
    note: str = ""
    obtain: str = ""
    on_request: bool = False
    max_bytes: int = 2_000_000_000


def read_checksums(path: Path) -> dict[str, str]:
    """sha256 by file name from a file in the format of `sha256sum`.

    Raises:
        InputError: a line has another format; names file and line.
    """
    checksums: dict[str, str] = {}
    for number, line in enumerate(iter_lines(path), start=1):
        match = _CHECKSUM_LINE.fullmatch(line)
        if match is None:
            raise InputError(f"{path}:{number}: not a line of `sha256sum` (checksum, two blanks, name); remove it")
        checksums[match[2]] = match[1]
    return checksums


@cache
def catalogue() -> Mapping[str, DataSet]:
    """All data sets by name, in the order of `catalogue.toml`."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(CATALOGUE_FILE.read_text(encoding="utf-8"))
    known = read_checksums(CHECKSUMS_FILE)
    return MappingProxyType({name: _data_set(name, table, known) for name, table in tables.items()})


def find_set(name: str) -> DataSet:
    """The data set called `name`. Raises InputError if there is none."""
    if name not in catalogue():
        raise unknown_name("data set", name, catalogue())
    return catalogue()[name]


def _data_set(name: str, table: Mapping[str, Any], known: Mapping[str, str]) -> DataSet:
    folder = table["folder"]
    checksums = {path: digest for path, digest in known.items() if path.startswith(f"{folder}/")}
    files = (*checksums, *(f"{folder}/{file}" for file in table.get("files", ())))
    return DataSet(
        name=name,
        title=table["title"],
        licence=table["licence"],
        home=table["home"],
        citation=table["citation"],
        folder=folder,
        files=files,
        checksums=MappingProxyType(checksums),
        downloads=tuple(download for row in table.get("downloads", ()) for download in _downloads(row, files)),
        note=table.get("note", ""),
        obtain=table.get("obtain", ""),
        on_request=table.get("on_request", False),
        max_bytes=table.get("max_bytes", DataSet.max_bytes),
    )


def _downloads(row: Mapping[str, Any], files: tuple[str, ...]) -> list[Download]:
    if "archive" in row:
        return [Download(tuple(row["urls"]), row["archive"], tuple(row["members"]), row.get("copies", ""))]
    return [
        Download(tuple(url.replace("{file}", name) for url in row["urls"]), path)
        for path in files
        for folder, _, name in [path.rpartition("/")]
        if folder == row["to"]
    ]

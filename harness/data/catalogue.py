"""The catalogue: every data set the harness knows, with its licence, files, checksums and download addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType

from harness.core.errors import InputError, unknown_name
from harness.core.schema import read_tables
from harness.core.text import iter_lines
from harness.data.citations import cited

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
        title, licence, home, note: shown to the user.
        cite: BibTeX entries; in the file their keys in references.bib.
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
    folder: str
    cite: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    downloads: tuple[Download, ...] = ()
    note: str = ""
    obtain: str = ""
    on_request: bool = False
    max_bytes: int = 2_000_000_000

    @property
    def why_left_out(self) -> str:
        """Why the set is not fetched unless it is named; empty if it is."""
        if not self.downloads:
            return f"not downloadable: {self.obtain}"
        if self.on_request:
            return f"left out, as no task reads it; `leaderboard data fetch {self.name}` gets it"
        return ""


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
    known = read_checksums(CHECKSUMS_FILE)
    tables = read_tables(CATALOGUE_FILE, DataSet)
    return MappingProxyType({name: _complete(table, known) for name, table in tables.items()})


def find_set(name: str) -> DataSet:
    """The data set called `name`. Raises InputError if there is none."""
    if name not in catalogue():
        raise unknown_name("data set", name, catalogue())
    return catalogue()[name]


def _complete(table: DataSet, known: Mapping[str, str]) -> DataSet:
    """A table of the catalogue, whose files are named without the folder, with checksums and each file's download."""
    checksums = {path: digest for path, digest in known.items() if path.startswith(f"{table.folder}/")}
    files = (*checksums, *(f"{table.folder}/{file}" for file in table.files))
    downloads = tuple(download for row in table.downloads for download in _downloads(row, files))
    return replace(
        table, cite=cited(*table.cite), files=files, checksums=MappingProxyType(checksums), downloads=downloads
    )


def _downloads(row: Download, files: tuple[str, ...]) -> list[Download]:
    """An archive; or each of the files in the folder `target`, whose names take the place of `{file}`."""
    if row.members:
        return [row]
    return [
        Download(tuple(url.replace("{file}", name) for url in row.urls), path)
        for path in files
        for folder, _, name in [path.rpartition("/")]
        if folder == row.target
    ]

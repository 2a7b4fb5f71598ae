"""What of a data set is in a data directory: its files counted (status) and checked (verify)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.data.catalogue import DataSet, read_checksums
from harness.data.sources import DataDir, content_sha256
from harness.errors import InputError

PINS_NAME = "checksums.sha256"


@dataclass(frozen=True)
class SetStatus:
    """How much of a data set is there.

    Attributes:
        name, title, licence: of the data set.
        folder: where it was looked for, relative to the data directory.
        state: `complete`, `partial` or `absent`.
        files: files found; `expected` is how many the catalogue lists.
        bytes: size of the files found, on disk.
    """

    name: str
    title: str
    licence: str
    folder: str
    state: Literal["complete", "partial", "absent"]
    files: int
    expected: int
    bytes: int


@dataclass(frozen=True)
class CheckedFile:
    """A file compared with its checksum.

    Attributes:
        path: relative to the data directory, without `.gz`.
        state: `OK`, `differs` (or cannot be read), `missing`, or `unknown` where no checksum is known.
        sha256: of the uncompressed content; None if it is missing or cannot be read.
        expected: the known checksum, or the one pinned at the first download; None if there is neither.
    """

    path: str
    state: Literal["OK", "differs", "missing", "unknown"]
    sha256: str | None
    expected: str | None


def read_pins(data: DataDir) -> dict[str, str]:
    """Checksums pinned at the first download, by file; empty if the data directory has none."""
    path = data.root / PINS_NAME
    return read_checksums(path) if path.is_file() else {}


def expected_checksums(dataset: DataSet, pins: Mapping[str, str]) -> dict[str, str]:
    """The checksums to hold a data set against: pinned ones, and over them the known ones."""
    own = {path: digest for path, digest in pins.items() if path.startswith(f"{dataset.folder}/")}
    return {**own, **dataset.checksums}


def set_status(dataset: DataSet, data: DataDir) -> SetStatus:
    """Count the files of a data set; reads none of them."""
    found = [path for path in map(data.find, dataset.files) if path is not None]
    return SetStatus(
        name=dataset.name,
        title=dataset.title,
        licence=dataset.licence,
        folder=dataset.folder,
        state="absent" if not found else "complete" if len(found) == len(dataset.files) else "partial",
        files=len(found),
        expected=len(dataset.files),
        bytes=sum(path.stat().st_size for path in found),
    )


def verify_set(dataset: DataSet, data: DataDir) -> list[CheckedFile]:
    """Check every file of a data set; an empty list if none of them is there.

    Raises:
        InputError: the file of pinned checksums is damaged.
    """
    expected = expected_checksums(dataset, read_pins(data))
    names = sorted({*dataset.files, *expected})
    if not any(data.find(name) for name in names):
        return []
    return [_check(name, expected.get(name), data) for name in names]


def _check(name: str, expected: str | None, data: DataDir) -> CheckedFile:
    path = data.find(name)
    if path is None:
        return CheckedFile(name, "missing", None, expected)
    try:
        digest = content_sha256(path)
    except InputError:
        return CheckedFile(name, "differs", None, expected)
    if expected is None:
        return CheckedFile(name, "unknown", digest, None)
    return CheckedFile(name, "OK" if digest == expected else "differs", digest, expected)

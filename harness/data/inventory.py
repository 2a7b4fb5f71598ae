"""What of a data set is in a data directory: its files counted (status) and checked (verify)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.core.errors import InputError
from harness.data.catalogue import DataSet, read_checksums
from harness.data.own import OwnSet
from harness.data.sources import DataDir, content_sha256, joint_sha256

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
        checksums: sha256 of the uncompressed content of the files found, by path relative to the data directory,
            without `.gz`; None for one that cannot be read.
        sha256: the `joint_sha256` of `checksums`, in the order of the paths; None if there are no files or one of them
            cannot be read.
    """

    name: str
    title: str
    licence: str
    folder: str
    state: Literal["complete", "partial", "absent"]
    files: int
    expected: int
    bytes: int
    checksums: Mapping[str, str | None]
    sha256: str | None


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


def own_status(own: OwnSet) -> SetStatus:
    """How much of one of the user's own sets is there: all of it, or it could not have been opened."""
    checksums = {name: _readable_sha256(path) for name, path in zip(own.names, own.files, strict=True)}
    return SetStatus(
        name=own.subset,
        title=f"{own.kind} {'-'.join(own.languages)}",
        licence="your own",
        folder=str(own.files[0].parent),
        state="complete",
        files=len(own.files),
        expected=len(own.files),
        bytes=sum(path.stat().st_size for path in own.files),
        checksums=checksums,
        sha256=None if None in checksums.values() else own.sha256,
    )


def verify_own(own: OwnSet) -> list[CheckedFile]:
    """The files of one of the user's own sets, held against the checksums that its file of sets gives."""
    return [_compared(name, digest, own.expected.get(name)) for name, digest in own_status(own).checksums.items()]


def read_pins(data: DataDir) -> dict[str, str]:
    """Checksums pinned at the first download, by file; empty if the data directory has none."""
    path = data.root / PINS_NAME
    return read_checksums(path) if path.is_file() else {}


def expected_checksums(dataset: DataSet, pins: Mapping[str, str]) -> dict[str, str]:
    """The checksums to hold a data set against: pinned ones, and over them the known ones."""
    pinned = {path: digest for path, digest in pins.items() if path.startswith(f"{dataset.folder}/")}
    return {**pinned, **dataset.checksums}


def set_status(dataset: DataSet, data: DataDir) -> SetStatus:
    """Count the files of a data set and take their checksums, which reads each of them once."""
    files = {name: path for name in sorted(dataset.files) if (path := data.find(name)) is not None}
    checksums = {name: _readable_sha256(path) for name, path in files.items()}
    readable = {name: digest for name, digest in checksums.items() if digest is not None}
    return SetStatus(
        name=dataset.name,
        title=dataset.title,
        licence=dataset.licence,
        folder=dataset.folder,
        state="absent" if not files else "complete" if len(files) == len(dataset.files) else "partial",
        files=len(files),
        expected=len(dataset.files),
        bytes=sum(path.stat().st_size for path in files.values()),
        checksums=checksums,
        sha256=joint_sha256(readable) if readable and len(readable) == len(checksums) else None,
    )


def _readable_sha256(path: Path) -> str | None:
    try:
        return content_sha256(path)
    except InputError:
        return None


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
    return _compared(name, _readable_sha256(path), expected)


def _compared(name: str, digest: str | None, expected: str | None) -> CheckedFile:
    if digest is None:
        return CheckedFile(name, "differs", None, expected)
    if expected is None:
        return CheckedFile(name, "unknown", digest, None)
    return CheckedFile(name, "OK" if digest == expected else "differs", digest, expected)

"""Fetching data sets: each file is downloaded, checked and only then put in its place."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness.data.catalogue import DataSet, Download
from harness.data.inventory import PINS_NAME, expected_checksums, read_pins
from harness.data.sources import DataDir, content_sha256
from harness.data.transfer import Progress, TransferError, download, mirrored, unpack
from harness.errors import InputError
from harness.results import write_atomically

_UNPACK_PREFIX = ".unpack-"
_STALE_SECONDS = 24 * 60 * 60  # no unpacking takes a day

T = TypeVar("T")


@dataclass(frozen=True)
class Network:
    """How to download.

    Attributes:
        mirror: takes the place of scheme and host of every address, as in `http://mirror.example.org`; the mirror
            holds the files under the paths of the originals.
        attempts: for each address.
        timeout: seconds, for each single network operation.
        wait: seconds after the first failed attempt, doubled after each further one.
    """

    mirror: str | None = None
    attempts: int = 3
    timeout: float = 30.0
    wait: float = 1.0


@dataclass(frozen=True)
class Fetched:
    """What fetching a data set did, as file names relative to the data directory.

    Attributes:
        new: files downloaded.
        kept: files that were there.
        pinned: those of both without a checksum till now; theirs now stand in the data directory's `checksums.sha256`.
    """

    new: tuple[str, ...]
    kept: tuple[str, ...]
    pinned: tuple[str, ...]


def fetch_set(
    dataset: DataSet,
    data: DataDir,
    network: Network = Network(),
    progress: Progress | None = None,
) -> Fetched:
    """Download what is missing of a data set into `data`.

    Files go to a `.part` file first, from which a later call goes on; archives are unpacked into a temporary folder.
    A file takes its place only when its checksum (the known one, else the one pinned at the first download) is
    right; a checksum is pinned before the file takes its place, so that no file is ever left without one. A file that
    is there is never replaced; if no checksum is known for it, its own is pinned.

    Raises:
        InputError: the set cannot be downloaded (it says how to get it), no address gave it (it says what to download
            from where and where to put it), or a file that is there differs from its checksum.
    """
    if not dataset.downloads:
        raise InputError(f"{dataset.name} cannot be downloaded: {dataset.obtain}; its place is {dataset.folder}/")
    try:
        return _fetch(dataset, data, network, progress)
    except OSError as error:
        raise InputError(f"{error.filename or data.root}: {error.strerror}; choose another data directory") from None


def _fetch(dataset: DataSet, data: DataDir, network: Network, progress: Progress | None) -> Fetched:
    _remove_stale(data.root)
    expected = expected_checksums(dataset, read_pins(data))
    kept = _digests_of_kept(dataset.files, expected, data)
    pinned = _pin(kept, expected, data)
    wanted = {item: [path for path in dataset.files if item.yields(path)] for item in dataset.downloads}
    todo = [item for item, paths in wanted.items() if any(path not in kept for path in paths)]
    new: list[str] = []
    for position, item in enumerate(todo):
        missing = [path for path in wanted[item] if path not in kept]
        try:
            try:
                digests = _get(item, missing, expected, data, network, progress)
            except TransferError as error:
                if not item.copies:
                    raise
                digests = _get_copies(item, missing, expected, data, network, progress, str(error))
        except TransferError as error:
            raise InputError(_how_to_get(dataset, item, len(todo) - position - 1, str(error))) from None
        new += digests
        pinned += [path for path in digests if path not in expected]
    return Fetched(tuple(new), tuple(kept), tuple(pinned))


def _remove_stale(root: Path) -> None:
    """Delete the temporary folders that a killed process has left."""
    for folder in root.glob(f"{_UNPACK_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(folder)


def _digests_of_kept(names: Sequence[str], expected: Mapping[str, str], data: DataDir) -> dict[str, str]:
    """sha256 of those files that are there. Raises InputError if one differs from its checksum."""
    digests = {name: content_sha256(path) for name in names if (path := data.find(name)) is not None}
    for name, digest in digests.items():
        if digest != expected.get(name, digest):
            raise InputError(
                f"{data.find(name)}: not the published file (sha256 differs); move it away and fetch again"
            )
    return digests


def _get(
    item: Download,
    missing: list[str],
    expected: Mapping[str, str],
    data: DataDir,
    network: Network,
    progress: Progress | None,
) -> dict[str, str]:
    """Get `item` from the first address that gives it; returns the sha256 of each file put in place."""
    folder = data.root / (item.target if item.members else item.target.rpartition("/")[0])
    folder.mkdir(parents=True, exist_ok=True)

    def place(part: Path) -> dict[str, str]:
        if not item.members:
            return _move_in({item.target: part}, expected, data)
        # In the data directory, so that moving the files is one step on one file system.
        with tempfile.TemporaryDirectory(prefix=_UNPACK_PREFIX, dir=data.root) as temporary:
            names = unpack(part, Path(temporary), item.members)
            unpacked = {f"{item.target}/{name}": Path(temporary) / name for name in names}
            lacking = [path for path in missing if path not in unpacked]
            if lacking:
                raise TransferError(f"the archive lacks {lacking[0].rpartition('/')[2]}")
            absent = {path: file for path, file in unpacked.items() if data.find(path) is None}
            digests = _move_in(absent, expected, data)
        part.unlink()
        return digests

    reasons: list[str] = []
    for original in item.urls:
        url = mirrored(original, network.mirror)
        name = url.rpartition("/")[2] if item.members else item.target.rpartition("/")[2]
        part = (data.root if item.members else folder) / f"{name}.part"
        try:
            return _download_checked(url, part, place, network, progress)
        except TransferError as error:
            if str(error) not in reasons:
                reasons.append(str(error))
    raise TransferError("; ".join(reasons))


def _get_copies(
    item: Download,
    missing: list[str],
    expected: Mapping[str, str],
    data: DataDir,
    network: Network,
    progress: Progress | None,
    reason: str,
) -> dict[str, str]:
    """Get the members of an archive that is gone (`reason`) from copies as JSON lines; the sha256 of each file."""
    digests: dict[str, str] = {}
    for path in missing:
        pair = path.rpartition("/")[2].split(".")[1]
        part = data.root / f"{path}.jsonl.gz.part"

        def place(part: Path, path: str = path) -> dict[str, str]:
            table = part.with_name(f"{part.name}.tsv")
            try:
                write_scored_pairs(part, table)
                placed = _move_in({path: table}, expected, data)
            finally:
                table.unlink(missing_ok=True)
            part.unlink()
            return placed

        try:
            url = mirrored(item.copies.replace("{pair}", pair), network.mirror)
            digests |= _download_checked(url, part, place, network, progress)
        except TransferError as error:
            raise TransferError(f"{reason}; {error}") from None
    return digests


def write_scored_pairs(copy: Path, table: Path) -> None:
    """Write JSON lines (gzip) with sentence1, sentence2 and score as the layout `sentence1 TAB sentence2 TAB score`.

    Raises:
        TransferError: what was downloaded has another form, or a sentence that does not fit the layout.
    """
    try:
        with gzip.open(copy, "rt", encoding="utf-8", newline="\n") as lines, table.open("w", encoding="utf-8") as out:
            for number, line in enumerate(lines, start=1):
                record = json.loads(line)
                fields = (record["sentence1"], record["sentence2"], str(float(record["score"])))
                if any(separator in field for field in fields for separator in "\t\n\r"):
                    raise TransferError(f"line {number} of the copy holds a tab or a line end")
                out.write("\t".join(fields) + "\n")
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise TransferError(f"the copy is not what was expected ({type(error).__name__}: {error})") from None


def _download_checked(
    url: str, part: Path, place: Callable[[Path], T], network: Network, progress: Progress | None
) -> T:
    # A piece left by an earlier call may be of another version of the file: if so, once more from the start.
    for resumed in (True, False) if part.exists() else (False,):
        download(url, part, attempts=network.attempts, timeout=network.timeout, wait=network.wait, progress=progress)
        try:
            return place(part)
        except TransferError:
            part.unlink(missing_ok=True)
            if not resumed:
                raise
    raise AssertionError("the last round returns or raises")


def _move_in(files: Mapping[str, Path], expected: Mapping[str, str], data: DataDir) -> dict[str, str]:
    """Check the files, pin what has no checksum, and only then put them in place; the sha256 of each file."""
    digests = {}
    for target, file in files.items():
        if target.endswith(".zip") and not zipfile.is_zipfile(file):
            raise TransferError("not a zip file")
        name = target.removesuffix(".gz")
        digests[name] = _sha256(file, is_gzip=name != target)
        if digests[name] != expected.get(name, digests[name]):
            raise TransferError(f"sha256 of {name} is {digests[name]}, expected {expected[name]}")
    _pin(digests, expected, data)
    for target, file in files.items():
        file.replace(data.root / target)
    return digests


def _sha256(file: Path, *, is_gzip: bool) -> str:
    """sha256 of what was downloaded, of the content if it is compressed; its name ends in `.part` and tells nothing."""
    digest = hashlib.sha256()
    try:
        with gzip.open(file, "rb") if is_gzip else file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TransferError(f"not a gzip file, or a damaged one ({error})") from None
    return digest.hexdigest()


def _pin(digests: Mapping[str, str], expected: Mapping[str, str], data: DataDir) -> list[str]:
    """Pin the checksums of the files that have none in `expected`; returns the names of these files."""
    fresh = sorted(digests.keys() - expected.keys())
    if fresh:
        pins = {**read_pins(data), **{name: digests[name] for name in fresh}}
        lines = "".join(f"{digest}  {name}\n" for name, digest in pins.items())
        write_atomically(data.root / PINS_NAME, lines.encode())
    return fresh


def _how_to_get(dataset: DataSet, item: Download, others: int, reason: str) -> str:
    folder = item.target if item.members else item.target.rpartition("/")[0]
    what = f"unpack {' '.join(item.members)} from it" if item.members else "put it"
    more = f" (and the other {others} that are missing; see {dataset.home})" if others else ""
    return (
        f"{dataset.name} was not fetched ({reason}): download {' or '.join(item.urls)}{more} by other means and {what} "
        f"into {folder}/ of the data directory, or give --mirror"
    )

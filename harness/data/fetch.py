"""Fetching data sets: each file is downloaded, checked and only then put in its place."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.errors import InputError
from harness.core.files import locked, replacing
from harness.core.text import DAMAGES, REMEDY, FileError, open_content, unpacked
from harness.data.bucc import load_bucc
from harness.data.catalogue import DataSet, Download
from harness.data.inventory import PINS_NAME, expected_checksums, read_pins
from harness.data.nli import read_nli
from harness.data.parallel import parallel_corpora
from harness.data.sources import DataDir, Source, checksum_lines, content_sha256
from harness.data.sts import load_sts, read_korsts, subset_of
from harness.data.transfer import Network, Progress, TransferError, discard, download, mirrored, unpack


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
    network: Network | None = None,
    progress: Progress | None = None,
) -> Fetched:
    """Download what is missing of a data set into `data`.

    Files go to a `.part` file first, from which a later call goes on. From there they go, or what an archive holds of
    the set goes, into a folder of their own, where they are checked: by the known checksum, else by reading them as
    the set and by the checksum pinned at the first download. A checksum is pinned before the file takes its place, so
    that no file is ever left without one. A file that is there is never replaced; if no checksum is known for it, it
    is read, and its own is pinned. Of several processes that fetch one set, one works and the others wait.

    Raises:
        InputError: the set cannot be downloaded (it says how to get it), no address gave it (it says what to download
            from where and where to put it), or a file that is there is not of the set.
    """
    if not dataset.downloads:
        raise InputError(f"{dataset.name} cannot be downloaded: {dataset.obtain}; its place is {dataset.folder}/")
    try:
        if (whole := _whole(dataset, data)) is not None:
            return whole
        data.root.mkdir(parents=True, exist_ok=True)
        with locked(data.root / f".{dataset.name}.lock"):
            # What is there is looked at from here on: a process that was waited for may have fetched all of it.
            return _Fetch(
                dataset, data, network or Network(), progress, expected_checksums(dataset, read_pins(data))
            ).run()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{error.filename or data.root}: {reason}; choose another data directory") from None


def _whole(dataset: DataSet, data: DataDir) -> Fetched | None:
    """Returns what is there if nothing is missing and each file has its checksum. Then not even a lock is written."""
    expected = expected_checksums(dataset, read_pins(data))
    if not all(name in expected and data.find(name) for name in dataset.files):
        return None
    return Fetched((), tuple(_digests_of_kept(dataset.files, expected, data)), ())


def _digests_of_kept(names: Sequence[str], expected: Mapping[str, str], data: DataDir) -> dict[str, str]:
    """Returns sha256 of the files that are there. Raises InputError if one differs from its checksum."""
    digests = {name: content_sha256(path) for name in names if (path := data.find(name)) is not None}
    for name, digest in digests.items():
        if digest != expected.get(name, digest):
            raise InputError(
                f"{data.find(name)}: not the published file (sha256 differs); move it away and fetch again"
            )
    return digests


@dataclass(frozen=True)
class _Fetch:
    """One call of `fetch_set`, while it has the set's lock; `expected` are the checksums known or pinned before."""

    dataset: DataSet
    data: DataDir
    network: Network
    progress: Progress | None
    expected: Mapping[str, str]

    def run(self) -> Fetched:
        dataset, data = self.dataset, self.data
        kept = _digests_of_kept(dataset.files, self.expected, data)
        check_content(dataset, data, [name for name in kept if name not in self.expected])
        pinned = self._pin(kept)
        wanted = {item: [path for path in dataset.files if item.yields(path)] for item in dataset.downloads}
        todo = [item for item, paths in wanted.items() if any(path not in kept for path in paths)]
        new: list[str] = []
        for position, item in enumerate(todo):
            missing = [path for path in wanted[item] if path not in kept]
            try:
                try:
                    placed = self._get(item, missing)
                except TransferError as error:
                    if not item.copies:
                        raise
                    placed = self._get_copies(item, missing, str(error))
            except TransferError as error:
                raise InputError(_how_to_get(dataset, item, len(todo) - position - 1, str(error))) from None
            new += placed
            pinned += [path for path in placed if path not in self.expected]
        return Fetched(tuple(new), tuple(kept), tuple(pinned))

    def _get(self, item: Download, missing: list[str]) -> list[str]:
        """Downloads `item` from the first address that gives it. Returns the files that were put in place."""
        folder = item.target if item.members else item.target.rpartition("/")[0]
        reasons: list[str] = []
        for original in item.urls:
            url = mirrored(original, self.network.mirror)
            # In the set's own folder, even of an archive: no other set has a download there.
            name = (url if item.members else item.target).rpartition("/")[2]
            place = partial(self._place, item.target, Path.replace)
            if item.members:
                place = partial(self._place_members, item, missing)
            try:
                return self._download(url, f"{folder}/{name}.part", place)
            except TransferError as error:
                if str(error) not in reasons:
                    reasons.append(str(error))
        raise TransferError("; ".join(reasons))

    def _get_copies(self, item: Download, missing: list[str], reason: str) -> list[str]:
        """Downloads copies, as JSON lines, of the members of an archive that is gone (`reason`). Returns as `_get`."""
        placed: list[str] = []
        for path in missing:
            pair = path.rpartition("/")[2].split(".")[1]
            url = mirrored(item.copies.replace("{pair}", pair), self.network.mirror)
            try:
                placed += self._download(url, f"{path}.jsonl.gz.part", partial(self._place, path, write_scored_pairs))
            except TransferError as error:
                raise TransferError(f"{reason}; {error}") from None
        return placed

    def _download(self, url: str, name: str, place: Callable[[Path, Path], list[str]]) -> list[str]:
        """Downloads into the file `name`. Returns what `place`, given that file and an empty folder, returns."""
        part = self.data.root / name
        part.parent.mkdir(parents=True, exist_ok=True)
        # A piece left by an earlier call may be of another version of the file: if so, once more from the start.
        for resumed in (True, False) if part.exists() else (False,):
            download(url, part, self.dataset.max_bytes, self.network, self.progress)
            try:
                _refuse_page(part)
                with self._stage() as stage:
                    placed = place(part, stage)
            except TransferError:
                discard(part)
                if not resumed:
                    raise
            else:
                discard(part)
                return placed
        raise AssertionError("the last round returns or raises")

    @contextmanager
    def _stage(self) -> Iterator[Path]:
        """An empty folder in the data directory, so that moving files from it is one step on one file system."""
        stage = self.data.root / f".{self.dataset.name}.new"
        # What is there is left of a process that was killed: this one has the lock.
        if stage.exists():
            shutil.rmtree(stage)
        stage.mkdir()
        try:
            yield stage
        finally:
            shutil.rmtree(stage)

    def _place(self, target: str, move: Callable[[Path, Path], object], part: Path, stage: Path) -> list[str]:
        """Let `move` make the file `target` of what was downloaded."""
        file = stage / target
        file.parent.mkdir(parents=True)
        move(part, file)
        return self._move_in([target], stage)

    def _place_members(self, item: Download, missing: list[str], part: Path, stage: Path) -> list[str]:
        folder = stage / item.target
        folder.mkdir(parents=True)
        names = [path.rpartition("/")[2] for path in self.dataset.files if item.yields(path)]
        unpacked = [f"{item.target}/{name}" for name in unpack(part, folder, names, self.dataset.max_bytes)]
        lacking = [path for path in missing if path not in unpacked]
        if lacking:
            raise TransferError(f"the archive lacks {lacking[0].rpartition('/')[2]}")
        return self._move_in(unpacked, stage)

    def _move_in(self, targets: Sequence[str], stage: Path) -> list[str]:
        """Check files, pin what has no checksum, and only then put in place those that are missing there."""
        staged = DataDir(stage)
        names = [target.removesuffix(".gz") for target in targets]
        try:
            digests = {name: content_sha256(stage / target) for name, target in zip(names, targets, strict=True)}
            for name, digest in digests.items():
                if digest != self.expected.get(name, digest):
                    is_known = name in self.dataset.checksums
                    remedy = "" if is_known else f"; to take it, remove the line of the first from {PINS_NAME}"
                    raise TransferError(f"sha256 of {name} is {digest}, expected {self.expected[name]}{remedy}")
            check_content(self.dataset, staged, [name for name in names if name not in self.dataset.checksums])
        except InputError as error:
            # Without what to do about a file that is kept.
            wrong = error.wrong if isinstance(error, FileError) else str(error).removesuffix(f"; {REMEDY}")
            reason = wrong.replace(f"{stage}/", "")
            raise TransferError(f"what came is not {self.dataset.name}: {reason}") from None
        absent = {name: target for name, target in zip(names, targets, strict=True) if self.data.find(name) is None}
        self._pin({name: digests[name] for name in absent})
        for target in absent.values():
            (stage / target).replace(self.data.root / target)
        return list(absent)

    def _pin(self, digests: Mapping[str, str]) -> list[str]:
        """Pins the checksums of the files that have none yet. Returns the names of these files."""
        fresh = sorted(digests.keys() - self.expected.keys())
        if fresh:
            # All sets of a data directory share the file.
            with locked(self.data.root / f".{PINS_NAME}.lock"):
                pins = {**read_pins(self.data), **{name: digests[name] for name in fresh}}
                with replacing(self.data.root / PINS_NAME) as file:  # an OSError is said with the data directory
                    file.write(checksum_lines(pins).encode())
        return fresh


def _refuse_page(file: Path) -> None:
    with file.open("rb") as stream:
        start = stream.read(1000).lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        raise TransferError("a web page came instead of the file")


def write_scored_pairs(copy: Path, table: Path) -> None:
    """Write JSON lines (gzip) with sentence1, sentence2 and score as the layout `sentence1 TAB sentence2 TAB score`.

    Raises:
        TransferError: what was downloaded has another form, or a sentence that does not fit the layout.
    """
    try:
        with gzip.open(copy) as packed, table.open("w", encoding="utf-8") as out:
            for number, line in enumerate(unpacked(packed, copy), start=1):
                record = json.loads(line)
                fields = (record["sentence1"], record["sentence2"], str(float(record["score"])))
                if any(separator in field for field in fields for separator in "\t\n\r"):
                    raise TransferError(f"line {number} of the copy holds a tab or a line end")
                out.write("\t".join(fields) + "\n")
    except (*DAMAGES, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise TransferError(f"the copy is not what was expected ({type(error).__name__}: {error})") from None


def _how_to_get(dataset: DataSet, item: Download, others: int, reason: str) -> str:
    folder = item.target if item.members else item.target.rpartition("/")[0]
    what = f"unpack {' '.join(item.members)} from it" if item.members else "put it"
    more = f" (and the other {others} that are missing; see {dataset.home})" if others else ""
    return (
        f"{dataset.name} was not fetched ({reason}): download {' or '.join(item.urls)}{more} by other means and {what} "
        f"into {folder}/ of the data directory, or give --mirror"
    )


def check_content(dataset: DataSet, data: DataDir, names: Iterable[str]) -> None:
    """Read files of a data set (relative to the data directory, without `.gz`) of which no checksum is known.

    Raises:
        InputError: a file is empty, or not one of this set; names it.
    """
    files = {name: path for name in names if (path := data.find(name)) is not None}
    for path in files.values():
        with open_content(path) as stream:
            if not stream.read(1):
                raise InputError(f"{path}: nothing in it; {REMEDY}")
    if corpus := parallel_corpora().get(dataset.name):
        for path in files.values():
            pairs = corpus.read(path)
            if next(pairs, None) is None:
                raise InputError(f"{path}: no pairs in it; {REMEDY}")
            deque(pairs, maxlen=0)
    elif read := _READERS.get(dataset.name):
        read(files)


def _bucc(paths: Mapping[str, Path]) -> None:
    """Reads the pairs of languages of which all three files are there."""
    for stem in dict.fromkeys(name.rpartition(".")[0] for name in paths):
        files = tuple(path for name, path in paths.items() if name.rpartition(".")[0] == stem)
        if len(files) == 3:
            load_bucc(Source(stem.rpartition("/")[2].partition(".")[0], "bucc2018", files))


def _each(read: Callable[[Path], object], paths: Mapping[str, Path]) -> None:
    for path in paths.values():
        read(path)


_READERS: Mapping[str, Callable[[Mapping[str, Path]], None]] = {
    "sts17-extended": partial(_each, lambda path: load_sts(Source(subset_of(path.name), "sts17-extended", (path,)))),
    "bucc2018": _bucc,
    "korsts": partial(_each, lambda path: deque(read_korsts(path), maxlen=0)),
    "allnli": partial(_each, read_nli),
    "kornli": partial(_each, read_nli),
}

"""Where the data is: a data directory, and the files of one subset of a data set in it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.core.errors import InputError
from harness.core.files import user_path
from harness.core.names import SAMPLE, Subset
from harness.core.text import open_content

SAMPLE_DIR = Path(__file__).parent.parent / "sample"
_TAG = re.compile(r"[a-z0-9-]+")


@dataclass(frozen=True)
class DataDir:
    """A folder with data sets in their published layouts.

    Attributes:
        root: the folder.
        stand_in: tags every subset read from it: "sample" for the bundled sample, None for real data.
        sets: of the user's own (see `harness.data.own`): then these are all, and nothing is looked for in the folder.
    """

    root: Path
    stand_in: str | None = None
    sets: tuple[Source, ...] = ()

    def find(self, relative: str) -> Path | None:
        """The file at `relative`, plain or with `.gz` added; None if neither is there."""
        plain = self.root / relative
        for path in (plain, plain.with_name(plain.name + ".gz")):
            if path.is_file():
                return path
        return None

    def find_all(self, *relative: str) -> tuple[Path, ...]:
        """The files at these places, which belong together, or none. Raises InputError if some of them are missing."""
        files = {name: path for name in relative if (path := self.find(name)) is not None}
        for name in relative:
            if files and name not in files:
                there = next(iter(files.values())).name
                raise InputError(f"{self.root / name} is missing, but {there} is there; add it or remove the others")
        return tuple(files.values())

    def stand_ins(self, folder: str, taken: Iterable[str] = ()) -> dict[str, str]:
        """The folders `FOLDER-TAG` beside `folder`, which hold stand-ins for its sets: folder names by tag, sorted.

        Raises:
            InputError: a tag that is not made of `a-z`, `0-9` and `-`, or that means another set already: `sample`,
                and those in `taken`.
        """
        folders: dict[str, str] = {}
        for path in sorted(self.root.glob(f"{folder}-*")):
            tag = path.name.removeprefix(f"{folder}-")
            if not path.is_dir():
                continue
            if not _TAG.fullmatch(tag):
                raise InputError(f"{path}: the tag {tag!r} is not made of a-z, 0-9 and -; give the folder another name")
            if tag in (SAMPLE[1:], *taken):
                raise InputError(f"{path}: the tag {tag!r} is that of another set; give the folder another name")
            folders[tag] = path.name
        return folders


def bundled_sample() -> DataDir:
    """The sample that ships with the harness (for demonstration and tests)."""
    return DataDir(SAMPLE_DIR, stand_in=SAMPLE[1:])


def open_data_dir(path: str | Path) -> DataDir:
    """The data directory at `path`. Raises InputError if it is not a folder."""
    root = user_path(path, "data directory")
    try:
        is_folder = root.is_dir()
    except OSError:  # too long a name
        is_folder = False
    if not is_folder:
        raise InputError(f"data directory {path} is not a folder; give --data-dir or set HARNESS_DATA to one that is")
    return DataDir(root)


@dataclass(frozen=True)
class Source:
    """The files behind one subset, not yet read.

    Attributes:
        subset: its name.
        dataset: the name of the data set that the files come from.
        files: where they are.
        parts: the sources that a joined subset is made of.
        protocol: what is measured otherwise on it than the task's signature says, `key:value|key:value`.
        languages: ISO 639 codes; empty where the task tells them by the subset's name, or nobody does.
    """

    subset: str
    dataset: str
    files: tuple[Path, ...]
    parts: tuple[Source, ...] = ()
    protocol: str = ""
    languages: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the files without `.gz`; where some have one name, their paths from the folder of all files."""
        names = [path.name.removesuffix(".gz") for path in self.files]
        if len(set(names)) < len(names):
            paths = [str(path.absolute()).removesuffix(".gz") for path in self.files]
            names = [Path(os.path.relpath(path, os.path.commonpath(paths))).as_posix() for path in paths]
        return names

    @cached_property
    def checksums(self) -> dict[str, str]:
        """sha256 of each file's uncompressed content, by the name of the file (see `names`)."""
        return {name: content_sha256(path) for name, path in zip(self.names, self.files, strict=True)}

    @cached_property
    def sha256(self) -> str:
        """One checksum for all the files, in their order; see `joint_sha256`."""
        return joint_sha256(self.checksums)

    @cached_property
    def is_published(self) -> bool | None:
        """Whether the files are those of the data sets in the catalogue, by their checksums.

        True if all are, False if one differs from its known checksum, else None: for some no checksum is known (the
        original BUCC, the extended STS sets), or the set is one of the user's own or the bundled sample.
        """
        # Imported here: only a run needs the catalogue, and this module is imported by everything that reads data.
        from harness.data.catalogue import catalogue

        # The sample has the layouts of the published sets, and so their names.
        if Subset.parse(self.subset).is_sample:
            return None
        sets = [catalogue()[name] for name in self.dataset.split("+") if name in catalogue()]
        known = {path.rpartition("/")[2]: digest for dataset in sets for path, digest in dataset.checksums.items()}
        if any(digest != known.get(name, digest) for name, digest in self.checksums.items()):
            return False
        return True if known.keys() >= self.checksums.keys() else None


def checksum_lines(checksums: Mapping[str, str]) -> str:
    """The lines "checksum  name" in the order of the mapping from names to checksums, as `sha256sum` prints them."""
    return "".join(f"{digest}  {name}\n" for name, digest in checksums.items())


def joint_sha256(checksums: Mapping[str, str]) -> str:
    """One checksum for several files: sha256 over their `checksum_lines`."""
    return hashlib.sha256(checksum_lines(checksums).encode()).hexdigest()


def content_sha256(path: Path) -> str:
    """sha256 of a file's content, uncompressed if its name ends in `.gz`.

    Raises:
        InputError: the file cannot be read, or its gzip data is damaged; names the file.
    """
    digest = hashlib.sha256()
    with open_content(path) as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()

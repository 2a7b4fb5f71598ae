"""Where the data is: a data directory, and the files of one subset of a data set in it."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.errors import InputError

SAMPLE_DIR = Path(__file__).parent.parent / "sample"


@dataclass(frozen=True)
class DataDir:
    """A folder with data sets in their published layouts.

    `stand_in` tags every subset read from it: "sample" for the bundled sample, None for real data.
    """

    root: Path
    stand_in: str | None = None

    def find(self, relative: str) -> Path | None:
        """The file at `relative`, plain or with `.gz` added; None if neither is there."""
        plain = self.root / relative
        for path in (plain, plain.with_name(plain.name + ".gz")):
            if path.is_file():
                return path
        return None


def bundled_sample() -> DataDir:
    """The sample that ships with the harness (for demonstration and tests)."""
    return DataDir(SAMPLE_DIR, stand_in="sample")


def open_data_dir(path: str | Path) -> DataDir:
    """The data directory at `path`. Raises InputError if it is not a folder."""
    root = Path(path).expanduser()
    if not root.is_dir():
        raise InputError(f"data directory {path} is not a folder; give --data-dir or set HARNESS_DATA to one that is")
    return DataDir(root)


@dataclass(frozen=True)
class Source:
    """The files behind one subset, not yet read. `dataset` names the data set they come from.

    `parts` are the sources that a joined subset is made of.
    """

    subset: str
    dataset: str
    files: tuple[Path, ...]
    parts: tuple[Source, ...] = ()

    @cached_property
    def checksums(self) -> dict[str, str]:
        """sha256 of each file's uncompressed content, by file name without `.gz`."""
        return {path.name.removesuffix(".gz"): content_sha256(path) for path in self.files}

    @cached_property
    def sha256(self) -> str:
        """One checksum for all the files: sha256 over the lines "checksum  name" in order, as `sha256sum` prints."""
        lines = "".join(f"{digest}  {name}\n" for name, digest in self.checksums.items())
        return hashlib.sha256(lines.encode()).hexdigest()


def content_sha256(path: Path) -> str:
    """sha256 of a file's content, uncompressed if its name ends in `.gz`."""
    digest = hashlib.sha256()
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: cannot be read ({error}); fetch it again") from None
    return digest.hexdigest()

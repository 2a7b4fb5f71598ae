"""What `report` would change, and the change itself; which files of a results folder are its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.files import refuse_way_out, write_atomically
from harness.report.encoder_page import FOLDER as ENCODERS
from harness.report.pictures import FOLDER as PICTURES
from harness.report.pictures import is_own_picture

GENERATED = "<!-- Made by `leaderboard report` from the records; edits are lost. -->"
"""The first line of every page; a file without it is never removed."""


@dataclass(frozen=True)
class Changes:
    """What would change.

    Attributes:
        written: by file, its new content.
        removed: files of `report` on what is no longer there.
        notes: what could not be made or compared, a line each.
    """

    written: Mapping[Path, bytes] = field(default_factory=dict)
    removed: Sequence[Path] = ()
    notes: Sequence[str] = ()

    def __add__(self, other: Changes) -> Changes:
        return Changes({**self.written, **other.written}, [*self.removed, *other.removed], [*self.notes, *other.notes])


def apply(changes: Changes) -> None:
    """Writes and removes the files.

    Raises:
        InputError: a file cannot be written.
        OSError: a file cannot be removed.
    """
    for path, content in changes.written.items():
        write_atomically(path, content)
    for path in changes.removed:
        path.unlink(missing_ok=True)


def stale(root: Path, made: Collection[str], *, has_charts: bool) -> list[Path]:
    """The pages and pictures of a results folder that are of `report` and not among those it makes now, sorted.

    Args:
        root: the results folder.
        made: files, by their names below it.
        has_charts: whether pictures can be drawn; if not, they stay as they are.
    """
    own = [*_pages(root), *_pages(root / ENCODERS), *(_pictures(root) if has_charts else ())]
    return [path for path in sorted(own) if path.relative_to(root).as_posix() not in made]


def _pages(folder: Path) -> Iterator[Path]:
    for path in folder.glob("*.md"):
        if _is_plain(path):
            with path.open("rb") as stream:
                if stream.readline(200).rstrip(b"\r\n") == GENERATED.encode():
                    yield path


def _pictures(root: Path) -> Iterator[Path]:
    for path in (root / PICTURES).glob("*.svg"):
        if is_own_picture(path.stem) and _is_plain(path):
            yield path


def _is_plain(path: Path) -> bool:
    """Whether it is a file and in its place: nothing is removed through a link."""
    return path.is_file() and not path.is_symlink() and not path.parent.is_symlink()


def new_content(root: Path, made: Mapping[str, str]) -> dict[Path, bytes]:
    """By file, the content of those that would change. Raises InputError for a link that leads out of the folder."""
    return differing({refuse_way_out(root / name, root): text.encode() for name, text in made.items()})


def differing(files: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """Those that are not there, or with another content."""
    return {path: text for path, text in files.items() if not path.is_file() or path.read_bytes() != text}

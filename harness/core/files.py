"""Files and folders that are whole or not there, whatever happens to the process that writes them; locks; paths."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from harness.core.errors import InputError
from harness.core.escaping import visible

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed, nor renamed
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".part"
"""Ends the names of temporary files."""

_IN_USE = ".in-use"  # a file in a folder, locked by the processes that use the folder
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_TEMPORARY = "leaderboard-"  # begins the names of temporary folders
_READ_AT_ONCE = 1 << 20
_PATIENCE = 2.0  # seconds for which another process may hold a lock before it is said


def user_path(path: str | Path, what: str = "") -> Path:
    """A path as a user has written it, `~` expanded; `what` it is of.

    Raises:
        InputError: there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{what} {path}: no such home folder; write it out".lstrip()) from None


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write in a `with` block; it takes the place of `path` at the end, unless the block raises.

    A reader sees the old content or the new, never a part. Until then the file has a temporary name beside `path`, and
    is locked; what was left there by processes that were killed while they wrote the same `path` is removed.

    Raises:
        InputError: a folder, a fifo or a device is in its place.
        OSError: the folder cannot be written.
    """
    refuse_special(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(part for part in listed(path.parent, SUFFIX) if part.name.startswith(f".{path.name}."))
    stream, temporary = _open_locked(path)
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # mkstemp's 0600 would hide results from colleagues
            if fcntl is None:
                stream.close()
            temporary.replace(path)  # while it is locked: else it would seem abandoned for a moment
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part.

    Raises:
        InputError: it cannot be written.
    """
    with writing(path), replacing(path) as stream:
        stream.write(content)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError of a `with` block that writes `path` into an InputError that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = "name another folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy += " or free some space"
        elif error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST):
            remedy += " or move away what is in its place"
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); {remedy}") from None


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """The name of a folder to make and fill in a `with` block; it becomes `path` at the end, unless the block raises.

    Raises:
        InputError: it cannot be written, or `path` is there.
    """
    part = path.with_name(f".{path.name}{SUFFIX}")
    try:
        with writing(path):
            shutil.rmtree(part, ignore_errors=True)
            yield part
            part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def remove_abandoned(temporaries: Iterable[Path]) -> None:
    """Remove the temporary files among these whose processes are gone: those that nobody has locked."""
    for path in temporaries:
        with suppress(OSError):  # gone, locked, or another user's
            if fcntl is None:
                path.unlink()
                continue
            with path.open("r+b") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def refuse_special(path: Path) -> None:
    """Raise InputError, naming it, if `path` is a folder, a fifo or a device, which would be waited for or overwritten.

    A file, and one that is not there, is let pass.
    """
    try:
        mode = path.stat().st_mode
    except OSError:  # not there, or not to be read: whoever opens it says so
        return
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a fifo" if stat.S_ISFIFO(mode) else "a device or socket"
        raise InputError(f"{path}: {what}, where a file should be; move it away")


def refuse_way_out(path: Path, root: Path) -> Path:
    """`path`, which is to be written below the folder `root`. Raises InputError if a link leads out of it."""
    if not Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(root)):
        raise InputError(
            f"{path.parent}: a link leads out of {root}, where nothing is written; put a folder in its place"
        )
    return path


def leads_out(member: str) -> bool:
    """Whether a member of an archive, by its name there, would be unpacked outside the folder that is meant for it."""
    parts = member.replace("\\", "/").split("/")
    return not parts[0] or ":" in parts[0] or ".." in parts


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which is made if need be, for the time of a `with` block.

    Waits for another process that holds it, and after two seconds says on stderr for which file.

    Raises:
        InputError: a folder or a fifo is in its place.
        OSError: it cannot be made.
    """
    from filelock import FileLock, Timeout  # not needed for reading

    refuse_special(path)
    lock = FileLock(path, is_singleton=True)  # so that a block may be in another one of the same thread
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        print(visible(f"waiting for {path}, which another process has locked"), file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


class Claim:
    """Keeps other processes from removing a folder (`remove_unclaimed`) for as long as this object, or process, lives.

    The folder is made if need be. On a file system without locks nothing is ever removed.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._descriptor = _claimed(folder)
        self.release = weakref.finalize(self, _released, folder, self._descriptor, os.getpid())

    @property
    def is_valid(self) -> bool:
        """Whether the folder is still the one that was claimed: `leaderboard cache clear`, say, asks nobody."""
        return self._descriptor is None or os.fstat(self._descriptor).st_nlink > 0


def remove_unclaimed(folder: Path) -> bool:
    """Remove a folder with all that is in it, unless a process has claimed it; tells whether it is gone.

    On a system without such locks (Windows) nothing is removed.
    """
    if fcntl is None or folder.is_symlink():  # a link to a folder elsewhere, in which nothing is changed
        return False
    descriptor = None
    try:
        descriptor = os.open(folder / _IN_USE, _OPEN, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # it is claimed, or another user's, or gone
        pass
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return not folder.exists()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for the time of a `with` block. Those that killed processes have left are removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*/{_IN_USE}"):
        remove_unclaimed(left.parent)
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as name:
        claim = Claim(Path(name))
        try:
            yield Path(name)
        finally:
            claim.release()


def _claimed(folder: Path) -> int | None:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            return None
        with suppress(FileNotFoundError):  # removed by another process in this moment
            descriptor = os.open(folder / _IN_USE, _OPEN, 0o666)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)


def _released(folder: Path, descriptor: int | None, owner: int) -> None:
    if descriptor is None:
        return
    with suppress(OSError):  # others use the folder too
        if os.getpid() == owner:  # not a copy of the process
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:  # else the folder has been removed, and its name may be another's
                (folder / _IN_USE).unlink()
    os.close(descriptor)


def listed(folder: Path, ending: str = "") -> list[Path]:
    """What is in a folder, by name; nothing if another process has just removed it. Raises OSError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(path for path in folder.iterdir() if path.name.endswith(ending))
    return []


def digest_of(file: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_READ_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()


def joint_digest(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256, in hexadecimal, over the names and contents of files below a folder, sorted by name. Raises OSError."""
    digest = hashlib.sha256()
    for parts in sorted(file.relative_to(folder).parts for file in files):
        digest.update(f"{'/'.join(parts)}\0{digest_of(folder.joinpath(*parts))}\n".encode())
    return digest.hexdigest()


def _open_locked(path: Path) -> tuple[IO[bytes], Path]:
    while True:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=SUFFIX)
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: nothing is ever removed there
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Before it was locked, another process may have taken it for abandoned.
        if os.name != "posix" or os.fstat(descriptor).st_nlink:
            return os.fdopen(descriptor, "wb"), Path(name)
        os.close(descriptor)

"""Getting one file over HTTP (resumed, with retries) and unpacking an archive without trusting it."""

from __future__ import annotations

import re
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from harness.errors import InputError

# Some servers refuse urllib's own name.
_USER_AGENT = "multilingual-embedding-harness"
_CHUNK = 1 << 16
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class TransferError(Exception):
    """One address did not give what was asked for; the message says why."""


class Progress(Protocol):
    """Told of a download as it goes: what is downloaded, bytes there so far, bytes in all if known."""

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """Called after each piece that arrives."""


def mirrored(url: str, mirror: str | None) -> str:
    """`url` with scheme and host replaced by those of `mirror` (whose path, if it has one, goes before the url's).

    Raises:
        InputError: the mirror is not an http or https address.
    """
    if not mirror:
        return url
    base = urlsplit(mirror)
    if base.scheme not in ("http", "https") or not base.netloc:
        raise InputError(f"mirror {mirror!r} is not an address such as http://mirror.example.org; set it right")
    own = urlsplit(url)
    return f"{base.scheme}://{base.netloc}{base.path.rstrip('/')}{own.path}" + (f"?{own.query}" if own.query else "")


def download(
    url: str,
    part: Path,
    *,
    attempts: int = 3,
    timeout: float = 30.0,
    wait: float = 1.0,
    progress: Progress | None = None,
) -> None:
    """Download `url` into `part`, going on where an earlier download into it stopped, if the server can do that.

    `timeout` is in seconds and for each single network operation. After a failed attempt it waits `wait` seconds,
    twice as long after each further one; an answer such as 404 is final.

    Raises:
        TransferError: it did not work after `attempts` attempts. What has arrived stays in `part`.
    """
    reason = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(wait * 2 ** (attempt - 1))
        try:
            _transfer(url, part, timeout, progress)
            return
        except HTTPError as error:
            reason = f"HTTP {error.code} {error.reason}"
            error.close()
            if error.code < 500 and error.code not in (408, 429):
                break
        except (OSError, HTTPException, TransferError) as error:
            # urllib wraps what the operating system said.
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    raise TransferError(reason)


def _transfer(url: str, part: Path, timeout: float, progress: Progress | None) -> None:
    done = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": _USER_AGENT} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code != 416:
            raise
        # Nothing lies beyond what is here: it is either all there or not a piece of this file.
        match = _CONTENT_RANGE.fullmatch(error.headers.get("Content-Range", ""))
        error.close()
        if match and match[2] == str(done):
            return
        part.unlink()
        raise TransferError("the server has less than was downloaded before") from None
    with closing(response):
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status == 206 and match and match[1] == str(done):
            total = int(match[2]) if match[2].isdigit() else None
        elif response.status == 206:
            part.unlink()
            raise TransferError("the server sent another part of the file than was asked for")
        else:
            done = 0
        with part.open("ab" if done else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(part.name.removesuffix(".part"), done, total)
    if total is not None and done != total:
        raise TransferError(f"the connection ended after {done} of {total} bytes")


def unpack(archive: Path, into: Path, patterns: Sequence[str]) -> list[str]:
    """Unpack the files of a zip or tar archive whose names match one of `patterns` into the folder `into`.

    The folders inside the archive are left off. Returns the names of the files.

    Raises:
        TransferError: not an archive or a damaged one; two members of one name; a member with an absolute name, a
            name with `..`, or that is a link or a device, even if it matches no pattern.
    """
    names: list[str] = []
    try:
        is_zip = zipfile.is_zipfile(archive)
        for member, content in _zip_members(archive) if is_zip else _tar_members(archive):
            name = PurePosixPath(member).name
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                continue
            if name in names:
                raise TransferError(f"the archive holds two files called {name}")
            names.append(name)
            with content() as source, (into / name).open("wb") as target:
                shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        # Only the operating system's errors have a number; bz2's "invalid data" has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise TransferError(f"not a zip or tar archive, or a damaged one ({error})") from None
    except (NotImplementedError, RuntimeError) as error:
        raise TransferError(f"the archive cannot be unpacked ({error})") from None
    return names


_Members = Iterator[tuple[str, Callable[[], IO[bytes]]]]


def _zip_members(path: Path) -> _Members:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            _refuse_unsafe(info.filename, is_link=stat.S_ISLNK(info.external_attr >> 16))
            if not info.is_dir():
                yield info.filename, partial(archive.open, info)


def _tar_members(path: Path) -> _Members:
    with tarfile.open(path) as archive:
        for info in archive:
            _refuse_unsafe(info.name, is_link=not (info.isfile() or info.isdir()))
            if info.isfile():
                yield info.name, partial(_open_file, archive, info)


def _open_file(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(info)
    if content is None:
        raise TransferError(f"{info.name!r} in the archive is not a file")
    return content


def _refuse_unsafe(name: str, *, is_link: bool) -> None:
    parts = name.replace("\\", "/").split("/")
    if is_link:
        raise TransferError(f"the archive is not safe to unpack: {name!r} is a link or a device")
    if not parts[0] or ":" in parts[0] or ".." in parts:
        raise TransferError(f"the archive is not safe to unpack: {name!r} lies outside it")

"""Getting one file over HTTP (resumed, with retries) and unpacking an archive without trusting it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import Message
from errno import EINVAL
from functools import cache, partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from harness.core.errors import InputError
from harness.core.files import leads_out
from harness.core.text import DAMAGES, Allowance

# Some servers refuse urllib's own name.
_USER_AGENT = "multilingual-embedding-harness"
_CHUNK = 1 << 16
_LEAST_RATE = 100  # bytes a second
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18}|\*)")
_VALIDATOR = re.compile(r'"[\x21\x23-\x7e]{1,200}"|[A-Za-z]{3}, [A-Za-z0-9: ]{1,40}')
_UNPACKERS: dict[bytes, Callable[[IO[bytes]], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


class TransferError(Exception):
    """One address did not give what was asked for; the message says why."""


class _TooLargeError(TransferError):
    def __init__(self, limit: int):
        super().__init__(f"the file has more than {limit:,} bytes")


@dataclass(frozen=True)
class Network:
    """How to download.

    Attributes:
        mirror: takes the place of scheme and host of every address, as in `http://mirror.example.org`; the mirror
            holds the files under the paths of the originals.
        attempts: for each address.
        timeout: seconds, for each single network operation; in that time some bytes must come, too.
        wait: seconds after the first failed attempt, doubled after each further one.
    """

    mirror: str | None = None
    attempts: int = 3
    timeout: float = 30.0
    wait: float = 1.0


Progress = Callable[[str, int, int | None], None]
"""Told of a download after each piece: what is downloaded, bytes there so far, bytes in all if known."""


def mirrored(url: str, mirror: str | None) -> str:
    """`url` with scheme and host replaced by those of `mirror` (whose path, if it has one, goes before the url's).

    Raises:
        InputError: the mirror is not an http or https address.
    """
    if not mirror:
        return url
    if not _is_address(mirror):
        raise InputError(f"mirror {mirror!r} is not an address such as http://mirror.example.org; set it right")
    base, original = urlsplit(mirror), urlsplit(url)
    path = f"{base.path.rstrip('/')}{original.path}"
    return urlunsplit((base.scheme, base.netloc, path, original.query, ""))


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and parts.port != 0 and bool((parts.hostname or "").encode("idna"))
    except ValueError:
        return False


def download(url: str, part: Path, limit: int, network: Network, progress: Progress | None = None) -> None:
    """Download `url` into `part`, going on where an earlier download of the same file stopped.

    It goes on where the server can tell that the file is still the same: by the strong ETag, or else the time of the
    last change, which is kept beside `part` (`discard` removes both). Otherwise it begins anew.

    An answer such as 404 is final, after other failures it is tried again.

    Raises:
        TransferError: it did not work after all attempts; what has arrived stays in `part`. Or the file has
            more than `limit` bytes, and nothing stays.
    """
    reason = ""
    for attempt in range(network.attempts):
        if attempt:
            time.sleep(network.wait * 2 ** (attempt - 1))
        try:
            _transfer(url, part, limit, network, progress)
            return
        except HTTPError as error:
            reason = _status(error.code)
            error.close()
            if error.code < 500 and error.code not in (408, 429):
                break
        except _TooLargeError:
            discard(part)
            raise
        # ValueError: an address that the server redirects to, or the size of a chunk, is none.
        except (OSError, HTTPException, TransferError, ValueError) as error:
            # urllib wraps what the operating system said.
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    raise TransferError("".join(character if character.isprintable() else "?" for character in reason[:200]))


def discard(part: Path) -> None:
    """Remove a download, whole or not, and what is kept beside it."""
    part.unlink(missing_ok=True)
    _origin_file(part).unlink(missing_ok=True)


def _status(code: int) -> str:
    """The error that a number stands for; a server's own words can hold anything."""
    with suppress(ValueError):
        return f"HTTP {code} {HTTPStatus(code).phrase}"
    return f"HTTP {code}"


def _transfer(url: str, part: Path, limit: int, network: Network, progress: Progress | None) -> None:
    validator = _kept_validator(url, part)
    done = part.stat().st_size if validator else 0
    headers = {"User-Agent": _USER_AGENT}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": validator}
    try:
        response: HTTPResponse = _opener().open(Request(url, headers=headers), timeout=network.timeout)
    except HTTPError as error:
        if error.code != 416:
            raise
        # Nothing lies beyond what is here: it is either all there or not a piece of this file.
        match = _CONTENT_RANGE.fullmatch(error.headers.get("Content-Range", ""))
        error.close()
        if done and match and match[2] == str(done) and _is_same(error.headers, validator):
            return
        discard(part)
        raise TransferError("the server has less than was downloaded before") from None
    with closing(response):
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status == 206 and match and match[1] == str(done) and _is_same(response.headers, validator):
            total = int(match[2]) if match[2] != "*" else None
        elif response.status == 206:
            discard(part)
            raise TransferError("the server sent another part of the file than was asked for")
        else:
            done, total = 0, response.length
            discard(part)
            if validator := _validator(response.headers):
                _origin_file(part).write_text(f"{url}\n{validator}", encoding="utf-8")
        if total is not None and total > limit:
            raise _TooLargeError(limit)
        with part.open("ab") as file:
            for chunk in _steadily(response, network.timeout):
                file.write(chunk)
                done += len(chunk)
                if done > limit:
                    raise _TooLargeError(limit)
                if progress:
                    progress(part.name.removesuffix(".part"), done, total)
    if total is not None and done != total:
        raise TransferError(f"the connection ended after {done} of {total} bytes")
    if not done:
        discard(part)
        raise TransferError("the answer was empty")


def _steadily(response: HTTPResponse, seconds: float) -> Iterator[bytes]:
    """The pieces of an answer as they come. Raises TimeoutError if they come so slowly that it would never end."""
    came, since = 0, time.monotonic()
    while chunk := response.read1(_CHUNK):
        yield chunk
        came += len(chunk)
        passed = time.monotonic() - since
        if passed > seconds:
            if came < _LEAST_RATE * passed:
                raise TimeoutError(f"{came} bytes came in {passed:.0f} seconds: too slow")
            came, since = 0, time.monotonic()


def _origin_file(part: Path) -> Path:
    """Beside a piece of a file: the address that it is from and the version of the file there, on a line each."""
    return part.with_name(f"{part.name}.origin")


def _kept_validator(url: str, part: Path) -> str:
    """What tells the version of the file that a piece is of; empty if there is none, or if it is from elsewhere."""
    origin = _origin_file(part)
    if not (part.is_file() and origin.is_file()):
        return ""
    kept, _, validator = origin.read_text(encoding="utf-8", errors="replace").partition("\n")
    return validator if kept == url and _VALIDATOR.fullmatch(validator) else ""


def _validator(headers: Message) -> str:
    """What tells the version of the file: its strong ETag, or else the time of its last change; empty if neither."""
    values = (headers.get("ETag", ""), headers.get("Last-Modified", ""))
    return next((value for value in values if _VALIDATOR.fullmatch(value)), "")


def _is_same(headers: Message, validator: str) -> bool:
    """Whether an answer speaks of the version of the file that a piece is of, as far as it says."""
    return _validator(headers) in ("", validator)


@cache
def _opener() -> OpenerDirector:
    """What opens addresses: of http and https, and nothing that they redirect to but these."""
    opener = OpenerDirector()
    kinds = (ProxyHandler, HTTPHandler, HTTPSHandler, UnknownHandler)
    for handler in (*kinds, HTTPDefaultErrorHandler, HTTPRedirectHandler, HTTPErrorProcessor):
        opener.add_handler(handler())
    return opener


def unpack(archive: Path, into: Path, names: Collection[str], limit: int) -> list[str]:
    """Unpack those files of a zip or tar archive that are called one of `names` into the folder `into`.

    The folders inside the archive are left off. Returns the names of the files. A tar archive is read to its end, as
    the checksum of what it is compressed with stands there.

    Raises:
        TransferError: not an archive or a damaged one; two members of one name; a member with an absolute name, a
            name with `..`, or that is a link or a device, even if it has none of the names; it unpacks to more than
            `limit` bytes, or to more than text does.
    """
    unpacked: list[str] = []
    try:
        is_zip = zipfile.is_zipfile(archive)
        allowance = Allowance(archive, limit)
        for member, content in _zip_members(archive) if is_zip else _tar_members(archive, limit):
            name = PurePosixPath(member).name
            if name not in names:  # it may be called anything: archives from macOS hold `Icon\\r`
                continue
            if name in unpacked:
                raise TransferError(f"the archive holds two files called {name}")
            unpacked.append(name)
            with content() as source, (into / name).open("wb") as target:
                shutil.copyfileobj(allowance.around(source), target)
    except (*DAMAGES, zipfile.BadZipFile, tarfile.TarError) as error:
        # Only the operating system's errors have a number; bz2's "invalid data" has none. A damaged archive can name a
        # place in itself that cannot be: EINVAL.
        if isinstance(error, OSError) and error.errno not in (None, EINVAL):
            raise
        reason = str(error) or type(error).__name__
        raise TransferError(f"not a zip or tar archive, or a damaged one ({reason})") from None
    return unpacked


_Members = Iterator[tuple[str, Callable[[], IO[bytes]]]]


def _zip_members(path: Path) -> _Members:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            _refuse_unsafe(info.filename, is_link=stat.S_ISLNK(info.external_attr >> 16))
            if not info.is_dir():
                yield info.filename, partial(archive.open, info)


def _tar_members(path: Path, limit: int) -> _Members:
    with path.open("rb") as file:
        magic = file.read(6)
        file.seek(0)
        opener = next((opener for start, opener in _UNPACKERS.items() if magic.startswith(start)), None)
        # What is passed over is unpacked too, and counts here; a sparse member gives more than stands in the stream.
        stream = Allowance(path, limit).around(opener(file)) if opener else file
        # As a stream, for the members are read in their order; so nothing is unpacked twice.
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for info in archive:
                _refuse_unsafe(info.name, is_link=not (info.isfile() or info.isdir()))
                if info.isfile():
                    yield info.name, partial(_open_in_tar, archive, info)
        while stream.read(_CHUNK):
            pass


def _open_in_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(info)
    if content is None:
        raise TransferError(f"{info.name!r} in the archive is not a file")
    return content


def _refuse_unsafe(name: str, *, is_link: bool) -> None:
    if is_link:
        raise TransferError(f"the archive is not safe to unpack: {name!r} is a link or a device")
    if leads_out(name):
        raise TransferError(f"the archive is not safe to unpack: {name!r} lies outside it")

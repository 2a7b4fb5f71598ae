"""Zip and tar archives in memory, with members that a well-behaved program would not write."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Mapping


def zipped(files: Mapping[str, bytes | str], links: tuple[str, ...] = (), method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = ((stat.S_IFLNK if name in links else stat.S_IFREG) | 0o644) << 16
            archive.writestr(info, content, compress_type=method)
    return buffer.getvalue()


def tarred(files: Mapping[str, bytes | str], links: dict[str, str] | None = None, mode: str = "w:bz2") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return buffer.getvalue()

"""Around an encoder's own code: what it prints and where it goes is not ours."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

_STDOUT, _STDERR = 1, 2
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)  # O_PATH: a folder may be unreadable

_lock = threading.Lock()
_blocks = 0  # that have begun and have not ended, in all threads
_way_back = ExitStack()  # of the process, while there are any


@contextmanager
def contained() -> Iterator[None]:
    """Around every call of an encoder's own code, loading included: what it prints and where it goes is not ours.

    What is written to stdout in the `with` block, where our data go, comes out on stderr: by `print`, by C libraries
    and by the processes that it starts. Afterwards the current folder is the same as before. Takes some microseconds.

    Stdout and the current folder belong to the process, not to a thread: of blocks that overlap or are nested, the
    first to begin diverts, and the last to end restores. What another thread prints meanwhile is on stderr too.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _blocks, _way_back
    with _lock:
        if _blocks == 0:
            with ExitStack() as stack:
                stack.enter_context(_same_folder())
                stack.enter_context(_stdout_on_stderr())
                _way_back = stack.pop_all()
        _blocks += 1


def _end() -> None:
    global _blocks
    with _lock:
        _blocks -= 1
        if _blocks == 0:
            _way_back.close()


@contextmanager
def _same_folder() -> Iterator[None]:
    here = _here()
    try:
        yield
    finally:
        try:
            if here is not None:
                os.chdir(here)
        finally:
            if isinstance(here, int):
                os.close(here)


def _here() -> int | Path | None:
    """The current folder: a descriptor, for it may have been deleted; else its name, if it has one."""
    with suppress(OSError):  # Windows
        return os.open(".", _FOLDER)
    with suppress(OSError):
        return Path.cwd()
    return None


@contextmanager
def _stdout_on_stderr() -> Iterator[None]:
    ours = sys.stdout
    is_flushed = _flush(ours)  # else what we have printed would come out on stderr too
    descriptor = _divert()
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = ours
        if is_flushed:
            _flush(ours)  # a logger, say, may have held it from before
        if descriptor is not None:
            _flush_c()
            os.dup2(descriptor, _STDOUT)
            os.close(descriptor)


def _flush(stream: IO[str] | None) -> bool:
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):  # its reader has gone, the disk is full; it is closed
        return False
    return True


def _divert() -> int | None:
    """Make descriptor 1 that of stderr; returns what it was. None, and no change, in a process without a stdout."""
    if sys.__stdout__ is None:  # descriptor 1 is some other file's, if anyone's
        return None
    try:
        before = os.dup(_STDOUT)
    except OSError:
        return None
    with suppress(OSError):
        if sys.__stderr__ is not None:
            os.dup2(_STDERR, _STDOUT)
        else:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STDOUT)
            os.close(nowhere)
    return before


def _flush_c() -> None:
    flush, stdout = _stdout_of_c()
    if flush is not None:
        flush(stdout)


@cache
def _stdout_of_c() -> tuple[Callable[[ctypes.c_void_p], int] | None, ctypes.c_void_p]:
    """`fflush` and the stream `stdout` of the C library, where they are to be had."""
    for name in ("stdout", "__stdoutp"):  # of macOS
        with suppress(OSError, TypeError, AttributeError, ValueError):
            library = ctypes.CDLL(None)
            return library.fflush, ctypes.c_void_p.in_dll(library, name)
    return None, ctypes.c_void_p()

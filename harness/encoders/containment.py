"""Calling an encoder's own code: what it prints, its folder, its threads, and what to do when memory runs out."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np

from harness.core.errors import HarnessError
from harness.core.escaping import terminal_line
from harness.core.threads import limited
from harness.encoders.encoder import Encoder, PartialError, check_vectors

_STDOUT, _STDERR = 1, 2
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)  # O_PATH: a folder may be unreadable
# The types of PyTorch's and TensorFlow's errors, by name: neither library may be installed.
_OUT_OF_MEMORY_TYPES = ("OutOfMemoryError", "ResourceExhaustedError")
_OUT_OF_MEMORY_MESSAGES = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "failed to allocate memory",
    "resource_exhausted",  # JAX
    "alloc_failed",  # cuBLAS and cuDNN
    "bad_alloc",
)

_lock = threading.Lock()
_n_blocks = 0  # the blocks of all threads that have begun and have not ended
_restoration = ExitStack()  # what the last block to end puts back


@contextmanager
def contained() -> Iterator[None]:
    """A `with` block for every call of an encoder's own code, loading included.

    It takes some microseconds, or some milliseconds where a number of threads is chosen: loaded libraries are looked
    for every time.

    Stdout is for the harness's data: what the block writes there, by `print`, by C libraries or by processes that it
    starts, comes out on stderr. After the block the current folder is the same as before. Where a number of threads is
    chosen (`using_threads`), libraries are limited to it, those too that were loaded since.

    Stdout, folder and limits belong to the process, not to a thread: of blocks that overlap or are nested, the
    first to begin diverts, and the last to end restores. What another thread prints meanwhile is on stderr too.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _n_blocks, _restoration
    with _lock:
        if _n_blocks == 0:
            with ExitStack() as stack:
                stack.enter_context(_same_folder())
                stack.enter_context(_stdout_on_stderr())
                stack.enter_context(limited())
                _restoration = stack.pop_all()
        _n_blocks += 1


def _end() -> None:
    global _n_blocks
    with _lock:
        _n_blocks -= 1
        if _n_blocks == 0:
            _restoration.close()


@contextmanager
def _same_folder() -> Iterator[None]:
    before = _current_folder()
    try:
        yield
    finally:
        try:
            if before is not None:
                os.chdir(before)
        finally:
            if isinstance(before, int):
                os.close(before)


def _current_folder() -> int | Path | None:
    """A descriptor of the current folder, which may have been deleted; else its name, if it has one."""
    with suppress(OSError):  # Windows
        return os.open(".", _FOLDER)
    with suppress(OSError):
        return Path.cwd()
    return None


@contextmanager
def _stdout_on_stderr() -> Iterator[None]:
    stdout = sys.stdout
    is_flushed = _flush(stdout)  # else what the harness has printed would come out on stderr too
    descriptor = _divert()
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = stdout
        if is_flushed:
            _flush(stdout)  # a logger, say, may have held it from before
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
    """Make descriptor 1 that of stderr, and return a copy of what it was; None, and no change, without a stdout."""
    if sys.__stdout__ is None:  # descriptor 1 may be another file's
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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, of whatever library, says that memory ran out."""
    if isinstance(error, MemoryError) or type(error).__name__ in _OUT_OF_MEMORY_TYPES:
        return True
    return any(text in str(error).lower() for text in _OUT_OF_MEMORY_MESSAGES)


class InParts:
    """Encodes all sentences at once, or by halves, quarters and so on where memory runs out.

    A warning tells of each size that is smaller than `smallest`. What the encoder prints is contained.
    """

    def __init__(self, encoder: Encoder):
        self._encoder = encoder
        self.smallest = sys.maxsize  # sentences at a time so far, where memory ran out

    def encode(
        self, sentences: Sequence[str], lang: str | None = None, rows: Sequence[int] | np.ndarray | None = None
    ) -> np.ndarray:
        """The vectors of `sentences`, checked, float32 (len(sentences), dim).

        rows: see `check_vectors`.

        Raises:
            PartialError: the encoder did, with what it gave before too.
            VectorError: the encoder returned something else than vectors.
            MemoryError: memory ran out at a single sentence.
            RuntimeError: the encoder raised what would end the process: `sys.exit`, a panic of Rust code.
        """
        rows = range(len(sentences)) if rows is None else rows
        parts: list[np.ndarray] = []
        done, size = 0, len(sentences)
        while done < len(sentences) or not parts:
            part = slice(done, done + size)
            try:
                vectors = _encode_if_it_fits(self._encoder, sentences[part], lang, rows[part])
            except PartialError as partial:
                given = np.concatenate([np.arange(done), done + partial.rows])
                if not len(given):
                    raise partial.error from None
                names = [int(rows[row]) for row in given]
                kept = np.concatenate([*parts, partial.vectors])
                kept = check_vectors(kept, [sentences[row] for row in given], self._encoder, names)
                raise PartialError(given, kept, partial.error) from partial.error
            if vectors is None:
                size = -(-min(size, len(sentences) - done) // 2)
                continue
            parts.append(vectors)
            done += size
            if size < min(len(sentences), self.smallest):
                self.smallest = size
                warning = f"warning: memory ran out; {self._encoder.name} encodes {size:,} sentences at a time"
                print(terminal_line(warning), file=sys.stderr)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _encode_if_it_fits(
    encoder: Encoder, sentences: Sequence[str], lang: str | None, rows: Sequence[int] | np.ndarray
) -> np.ndarray | None:
    """The vectors of `sentences`; None if memory ran out, and there is more than one to encode."""
    try:
        with contained():
            vectors = encoder.encode(sentences, lang=lang)
    except KeyboardInterrupt:
        raise
    except Exception as error:
        if isinstance(error, HarnessError) or not is_out_of_memory(error):
            raise
        if len(sentences) <= 1:
            why = str(error).partition("\n")[0]
            raise MemoryError(
                f"memory does not suffice for a sentence of {sum(map(len, sentences)):,} characters ({why})"
            ) from error
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    else:
        return check_vectors(vectors, sentences, encoder, rows)
    _free()  # not before: the error's traceback holds what did not fit
    return None


def _free() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # PyTorch keeps what it has reserved, in pieces that are too small

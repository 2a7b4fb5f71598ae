"""Ctrl-C that ends a command within two seconds, whatever it is doing.

Python raises KeyboardInterrupt between two steps of the main thread's Python code: not during a long call of compiled
code (an encoder's batch, a product of matrices), and what it then unwinds may wait for threads that are in such a call.
So a thread is told of the signal at once, and ends the process if that is still there after a moment. Nothing is lost
by it: files are whole or not there.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT
"""The exit code, as shells report it."""

_GRACE = 1.0  # seconds for the ordinary way


@contextmanager
def prompt_interruption(say: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C in the `with` block ends the process after a second at most, or at once when pressed again.

    say: called before the process is ended in this way.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    is_interrupted = threading.Event()
    threading.Thread(target=_watch, args=(reader, is_interrupted, say), daemon=True).start()
    try:
        yield
    finally:
        if not is_interrupted.is_set():  # else what is left to do, threads to be joined at exit, may take its time too
            signal.set_wakeup_fd(before)
            os.close(writer)


def _watch(reader: int, is_interrupted: threading.Event, say: Callable[[], None]) -> None:
    for number in iter(lambda: os.read(reader, 1), b""):
        if number[0] == signal.SIGINT:
            is_interrupted.set()
            select.select([reader], [], [], _GRACE)
            say()
            _end()
    os.close(reader)


def _end() -> NoReturn:
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # progress bars hide the cursor
        sys.stderr.flush()
    os._exit(INTERRUPTED)

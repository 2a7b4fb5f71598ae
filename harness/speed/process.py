"""A process of its own for one encoder: commands and answers as lines of JSON, which are data, over pipes."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, TypeVar

from harness.core.errors import HarnessError, one_line
from harness.core.schema import decoded

T = TypeVar("T")

# Not `-m`: the current folder is not where the harness's own modules are looked for.
_START = "import sys; sys.path[:] = [path for path in sys.path if path]; import harness.speed.child as c; c.main()"
_LONGEST_ANSWER = 1 << 20
_GRACE = 5.0  # seconds for a process that was told to end


class ChildError(HarnessError):
    """The process of an encoder failed, or the encoder in it: a fault of this encoder alone."""


class Child:
    """A process that `harness.speed.child` serves. What its encoder prints comes out on stderr.

    threads: for the encoder; None: as many as there are cores.
    patience: seconds in which every answer must come.
    """

    def __init__(self, threads: int | None, patience: float):
        self._patience = patience
        self._is_ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(threads or 0)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A group of its own, so that what the encoder has started ends with it.
            start_new_session=os.name == "posix",
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the process, and what it has started, whatever it is doing; after an error at once."""
        self.end(_GRACE if kind is None else 0.0)

    def end(self, grace: float = 0.0) -> None:
        """End the process, and what it has started, whatever it is doing; after so many seconds in which it may end."""
        if self._is_ended:  # another process may have its number now
            return
        with suppress(OSError, subprocess.TimeoutExpired):  # it has gone; it is doing something
            assert self._process.stdin
            self._process.stdin.close()
            if grace:
                self._process.wait(grace)
        if os.name == "posix":
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._is_ended = True

    def ask(self, kind: type[T], do: str, **arguments: Any) -> T:
        """The answer to a command, as a value of `kind`.

        Raises:
            ChildError: the encoder raised something, the process ended, the answer is none or came too late.
        """
        try:
            assert self._process.stdin
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=self._patience)
        except queue.Empty:
            raise ChildError(f"no answer in {self._patience:g} s (--timeout)") from None
        except (OSError, ValueError):  # it has gone, or was ended
            line = b""
        if not line:
            raise ChildError(self._ending())
        try:
            answer = decoded(line, dict[str, Any])
            if "error" in answer:
                raise ChildError(str(answer["error"]))
            return decoded(line, kind)
        except ValueError as error:
            raise ChildError(f"its process printed what is no answer ({one_line(error)})") from None

    def _read(self) -> None:
        """Put every line of the process, and at the end an empty one, where `ask` waits for it."""
        assert self._process.stdout
        line = b"begin"
        while line:
            try:
                line = self._process.stdout.readline(_LONGEST_ANSWER)
            except (OSError, ValueError):  # closed
                line = b""
            self._answers.put(line)

    def _ending(self) -> str:
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "its process closed its output"
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = next((known.name for known in signal.Signals if known == -code), str(-code))
        return f"its process was ended by {name}" + (" (memory ran out?)" if name == "SIGKILL" else "")

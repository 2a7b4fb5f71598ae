"""Commands as processes of their own that need not import everything anew: forks of a process that has done so.

A command has its own memory, streams, current folder and environment, and ends as every interpreter does. What an
interpreter or a library reads while it starts (`PYTHONPATH`, the number of threads) is fixed for all forks of a server.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")
_CAN_FORK = sys.platform == "linux"  # elsewhere, some system libraries do not work in a fork


class ForkServer:
    """Runs `leaderboard` in forks of one process; in new processes where the system cannot fork safely.

    Args:
        modules: what that process imports in addition to all of `harness`.
        environment: of that process.
    """

    def __init__(self, *modules: str, environment: Mapping[str, str] | None = None):
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules] if _CAN_FORK else [sys.executable, "-c", ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the tests, which then end this process
        )

    def run(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with captured output, and without input."""
        with tempfile.TemporaryDirectory() as folder:
            output, errors = Path(folder, "stdout"), Path(folder, "stderr")
            code = self.start(arguments, cwd, environment, output, errors).wait(timeout)
            return subprocess.CompletedProcess([LEADERBOARD, *arguments], code, output.read_text(), errors.read_text())

    def start(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        output: Path = Path(os.devnull),
        errors: Path = Path(os.devnull),
    ) -> Forked | subprocess.Popen[bytes]:
        """A command whose output goes to two files."""
        if not _CAN_FORK:
            with output.open("wb") as stdout, errors.open("wb") as stderr:
                command = [LEADERBOARD, *arguments]
                return subprocess.Popen(
                    command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
                )
        return Forked(self, self.ask([[*arguments], str(cwd), {**environment}, str(output), str(errors)]))

    def ask(self, request: object, timeout: float = 600) -> Any:
        """The server's answer.

        Raises:
            TimeoutError: there is none; the server and its forks are ended.
        """
        assert self._process.stdin and self._process.stdout
        print(json.dumps(request), file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        answer = self._process.stdout.readline() if ready else ""
        if not answer:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise TimeoutError(f"no answer to {request} in {timeout} s, or the server has ended")
        return json.loads(answer)

    def close(self) -> None:
        """End the server; forks that still run go on."""
        self._process.communicate()


class Forked:
    """A running command, as a `subprocess.Popen`."""

    def __init__(self, server: ForkServer, pid: int):
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def wait(self, timeout: float = 600) -> int:
        if self.returncode is None:
            self.returncode = self._server.ask([self.pid, 0], timeout)
        assert self.returncode is not None
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask([self.pid, os.WNOHANG])
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _serve(modules: Sequence[str]) -> None:
    import harness

    names = [module.name for module in pkgutil.walk_packages(harness.__path__, "harness.")]
    for name in [*names, *modules]:
        try:
            importlib.import_module(name)
        except ImportError:  # of an extra that is not installed
            continue
    gc.freeze()  # or the first collection in each fork would copy all of the memory
    while line := sys.stdin.readline():
        request = json.loads(line)
        answer: int | None
        if isinstance(request[0], int):  # how a fork has ended
            process, status = os.waitpid(*request)
            answer = os.waitstatus_to_exitcode(status) if process else None
        else:
            answer = os.fork() or _become(*request)
        print(json.dumps(answer), flush=True)


def _become(arguments: list[str], cwd: str, environment: dict[str, str], output: str, errors: str) -> NoReturn:
    """Run the command in this process."""
    os.chdir(cwd)
    old, new = (each.get("PYTHONPATH", "").split(os.pathsep) for each in (os.environ, environment))
    sys.path[:] = [*filter(None, new), *(folder for folder in sys.path if folder not in old)]
    os.environ.clear()
    os.environ.update(environment)
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, (path, access) in enumerate([(os.devnull, os.O_RDONLY), (output, writing), (errors, writing)]):
        descriptor = os.open(path, access, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = [LEADERBOARD, *arguments]
    _end(importlib.import_module("harness.cli").main)


def _end(main: Callable[[], NoReturn]) -> NoReturn:
    """End the process as an interpreter does, but without taking its modules apart: that is most of the time."""
    code: object = 1
    try:
        main()
    except SystemExit as exit:
        code = exit.code
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    sys.path[0] = str(Path(LEADERBOARD).parent)  # as the installed command has it
    _serve(sys.argv[1:])

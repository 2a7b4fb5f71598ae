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
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")


class ForkServer:
    """Runs `leaderboard` in forks of one process.

    Args:
        modules: what that process imports in addition to all of `harness`.
    """

    def __init__(self, *modules: str):
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the tests, which then end this process
        )

    def run(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with captured output, and without input."""
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] and pipes[1]
        with tempfile.TemporaryDirectory() as folder:
            streams = Path(folder, "stdout"), Path(folder, "stderr")
            request = [list(arguments), str(cwd), dict(environment), *map(str, streams)]
            print(json.dumps(request), file=pipes[0], flush=True)
            ready, _, _ = select.select([pipes[1]], [], [], timeout)
            answer = pipes[1].readline() if ready else ""
            output, errors = (path.read_text() if path.exists() else "" for path in streams)
        if not answer:
            os.killpg(self._process.pid, 9)
            raise RuntimeError(f"no answer from {arguments} after at most {timeout} s: {output}{errors}")
        return subprocess.CompletedProcess([LEADERBOARD, *arguments], int(answer), output, errors)

    def close(self) -> None:
        self._process.communicate()  # its input ends, and so does it


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
        arguments, cwd, environment, output, errors = json.loads(line)
        child = os.fork()
        if child == 0:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            for number, (path, access) in enumerate([(os.devnull, os.O_RDONLY), (output, writing), (errors, writing)]):
                descriptor = os.open(path, access, 0o600)
                os.dup2(descriptor, number)
                os.close(descriptor)
            sys.argv = [LEADERBOARD, *arguments]
            _end(harness.cli.main)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _end(main: Callable[[], NoReturn]) -> NoReturn:
    """Ends the process as an interpreter does, but does not take its modules apart: that is most of the time."""
    code: object = 1
    try:
        main()
    except SystemExit as exit:
        code = exit.code
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    sys.path[0] = str(Path(LEADERBOARD).parent)  # as the installed command has it
    _serve(sys.argv[1:])

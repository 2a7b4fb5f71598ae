"""What all tests share: a cache of their own, real data where it is, and the command line as a user runs it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fork_server import LEADERBOARD, ForkServer
from hypothesis import settings

# Read when a library with threads is imported. Threads that have nothing to do sleep, and where pytest-xdist has filled
# the cores with processes, each has one thread: on busy cores, waiting for another thread was most of a test's time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where the tests run in the background, a shell has them ignore Ctrl-C, and commands that they start would do so too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Thousands of tests and the libraries of their modules are here to stay: a full collection need not visit them."""
    gc.collect()
    gc.freeze()


# On a busy machine, any example may take long.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the user's cache, nor sees the user's data unless it asks for it (`real_data`)."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_RESULTS", "results")  # in the current folder, which is the test's own


_REAL_DATA = os.environ.get("HARNESS_DATA")


@pytest.fixture
def real_data() -> Path:
    """The data directory of the machine."""
    if not _REAL_DATA:
        pytest.skip("needs real data: set HARNESS_DATA")
    return Path(_REAL_DATA)


Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def fork_servers() -> Iterator[Iterator[ForkServer]]:
    """Two servers in turn: string hashes, and so the order of sets, differ between two commands of a test."""
    started: list[ForkServer] = []

    def in_turn() -> Iterator[ForkServer]:
        for _ in range(2):
            started.append(ForkServer("openai"))
            yield started[-1]
        while True:
            yield from started

    yield in_turn()
    for server in started:
        server.close()


@pytest.fixture
def leaderboard(tmp_path: Path, fork_servers: Iterator[ForkServer]) -> Leaderboard:
    """Runs the command line in an empty folder, as a user does: `leaderboard("show", "--format", "json")`.

    The process is forked from one that has imported the harness, unless the test gives a variable of the environment
    that may be read before that.
    """

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        everything = {**os.environ, **environment}
        if all(name.startswith("HARNESS_") or name == "COLUMNS" for name in environment):
            return next(fork_servers).run(arguments, tmp_path, everything)
        return subprocess.run(
            [LEADERBOARD, *arguments],
            cwd=tmp_path,
            env=everything,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.fixture(scope="session")
def torch_server() -> Iterator[ForkServer]:
    """A server that has imported torch, and what encodes and trains with it; its commands have one thread."""
    pytest.importorskip("torch")
    libraries = ("torch", "transformers", "sentence_transformers", "accelerate", "datasets", "altair")
    server = ForkServer(*libraries, environment={**os.environ, "OMP_NUM_THREADS": "1"})
    yield server
    server.close()


@pytest.fixture
def torch_leaderboard(tmp_path: Path, torch_server: ForkServer) -> Leaderboard:
    """As `leaderboard`, in forks of a process that has imported torch."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return torch_server.run(arguments, tmp_path, {**os.environ, **environment})

    return run

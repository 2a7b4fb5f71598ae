"""Whatever the command was started with: closed streams, encodings that lack characters, names that are no text."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import encoders
import pytest
from command_line import one_line_error

import harness.cli

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")
RUN = ["run", "--encoder", "python:noisy:letters", "--subset", "de@sample", "--results", "results"]
COMMITTED = str(Path(__file__).parents[3] / "results")
SHOW = ["show", "--results", COMMITTED, "--task", "tatoeba", "--subset", "avg-*"]

# It opens files, which get the lowest numbers that are free, and then writes to all standard streams by number.
NOISY = (
    inspect.getsource(encoders)
    + """
import os

opened = [open(f"own{number}.txt", "w") for number in range(4)]

class Noisy(Letters):
    def encode(self, sentences, *, lang=None):
        for number in (1, 2):
            try:
                os.write(number, b"noise")
            except OSError:
                pass
        return super().encode(sentences)

def letters(): return Noisy()
"""
)

needs_shell = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def by_shell(*arguments: str, streams: str) -> subprocess.CompletedProcess[str]:
    """The command with streams that are closed as a shell does it."""
    script = f'exec "$0" "$@" {streams}'
    return subprocess.run(["sh", "-c", script, LEADERBOARD, *arguments], capture_output=True, text=True, timeout=120)


@needs_shell
@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        ("2>&-", 0, ""),
        (">&-", 2, "error: output cannot be written (Bad file descriptor)"),
        ("<&- >&- 2>&-", 2, ""),
    ],
)
def test_a_run_measures_and_stores_with_closed_streams(streams: str, code: int, said: str) -> None:
    done = by_shell(*RUN, streams=streams)
    assert done.returncode == code and "Traceback" not in done.stderr + done.stdout
    assert done.stderr.splitlines()[-1:] == [said][: len(said)]
    assert ("accuracy" in done.stdout or "en->xx" in done.stdout) == (code == 0)
    (record,) = json.loads(Path("results/records/letters/tatoeba.json").read_text())
    assert record["subset"] == "deu@sample" and Path("results/rows/letters/tatoeba/deu@sample.npz").stat().st_size
    assert {path.read_text() for path in Path().glob("own*.txt")} == {""}  # nothing printed went into a file


@needs_shell
@pytest.mark.parametrize("arguments", [SHOW, ["--help"]])
def test_what_only_prints_says_that_it_cannot(arguments: list[str]) -> None:
    message = one_line_error(by_shell(*arguments, streams=">&-"))
    assert message == "output cannot be written (Bad file descriptor)"


def test_what_an_encoding_lacks_is_printed_as_an_escape() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([LEADERBOARD, *SHOW], env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u2013" in done.stdout and "\u2013".encode() not in done.stdout


@pytest.mark.parametrize("system", ["posix", "nt"])
def test_the_stream_of_a_console_stays(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    """Windows writes to a console in another way than to a file, so that it has all characters."""
    console = io.TextIOWrapper(io.BytesIO(), "ascii", "strict")
    for name in ("stderr", "__stderr__"):
        monkeypatch.setattr(sys, name, console)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", system)
        harness.cli._mend_streams()
    assert (sys.stderr is console) == (system == "nt")
    assert (sys.stderr.encoding, sys.stderr.errors) == ("ascii", "backslashreplace")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux alone")
def test_a_folder_whose_name_is_no_text() -> None:
    folder = b"res\xff"
    done = subprocess.run([LEADERBOARD, *RUN, "--results", folder], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for command, code, said in (
        (["show", "--encoder", "no"], 2, b"error: unknown encoder 'no'; known: letters"),
        (["report"], 0, b""),
    ):
        done = subprocess.run([LEADERBOARD, *command, "--results", folder], capture_output=True, timeout=120)
        assert (done.returncode, done.stderr.strip()) == (code, said)
    page = Path(os.fsdecode(folder), "README.md").read_text(encoding="utf-8")
    assert "--results 'res\\udcff'" in page

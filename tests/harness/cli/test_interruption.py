"""Runs that are killed at any moment, or stopped from the keyboard, and started again finish the work."""

from __future__ import annotations

import inspect
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import encoders
import numpy as np
import pytest

from harness.encoders.cache import VectorCache

pytestmark = pytest.mark.slow

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")

ENCODERS = (
    inspect.getsource(encoders)
    + """
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class Slow(Letters):
    name, fingerprint = "slow", "slow-v1"

    def encode(self, sentences, *, lang=None):
        with open("encoded.txt", "a") as log:
            log.write("".join(sentence + "\\n" for sentence in sentences))
        time.sleep(0.01)
        return super().encode(sentences)


class Busy(Letters):
    '''Arabic takes a minute of compiled code, which does not look at signals.'''
    name = fingerprint = "busy"

    def encode(self, sentences, *, lang=None):
        if lang == "ar":
            Path("busy").touch()
            self.work()
        return super().encode(sentences)

    def work(self):
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**8)


class Threads(Busy):
    '''So do its threads, for which the main thread waits.'''
    name = fingerprint = "threads"

    def work(self):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda i: super(Threads, self).work(), range(2)))


class Random(Letters):
    name, fingerprint, dim = "random", "random", 64

    def encode(self, sentences, *, lang=None):
        return np.random.default_rng(len(sentences)).standard_normal((len(sentences), 64), np.float32)


def letters(): return Letters()
def slow(): return Slow()
def busy(): return Busy()
def threads(): return Threads()
def random(): return Random()
"""
)

# Forks a process a run, after one of its own: a start takes no time then, and a kill meets the work. Reads how long to
# wait before the kill; answers what became of the process.
FORKS = """
import os, signal, sys, time
from harness.cli import _run

sys.stdout = open(os.devnull, "w")
assert _run([*sys.argv[1:], "--results", "warm", "--cache-dir", "warm"]) == 0
os.environ["HARNESS_CACHE"] = "cache"
sys.stdout = sys.__stdout__
print("ready", flush=True)
for delay in map(float, sys.stdin):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os._exit(_run(sys.argv[1:]))
    end = time.monotonic() + delay
    done = 0
    while not done and time.monotonic() < end:
        time.sleep(0.002)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""

SUBSETS = ["avg-same@sample", "en-de@sample", "deu@sample"]
RUN = ["run", "--suite", "sample", "--encoder", "python:mine:slow", "--encoder", "chargrams"]
RUN += [option for subset in SUBSETS for option in ("--subset", subset)]


def scores(folder: Path) -> dict[tuple[str, str, str], dict[str, float]]:
    """All that is stored, by encoder, task and subset."""
    found = {}
    for file in (folder / "results" / "records").rglob("*.json"):
        for record in json.loads(file.read_text(encoding="utf-8")):
            found[record["encoder"], record["task"], record["subset"]] = record["metrics"]
    return found


def check_files(folder: Path) -> None:
    """That every file there can be read, whole."""
    for file in (folder / "results").rglob("*.json"):
        json.loads(file.read_text(encoding="utf-8"))
    for file in (folder / "results").rglob("*.npz"):
        with np.load(file) as rows:
            assert len({len(rows[key]) for key in rows.files}) == 1
    for file in (folder / "cache").rglob("*.shard"):
        with file.open("rb") as stream:
            meta, keys, vectors = (np.load(stream) for _ in range(3))
            assert json.loads(meta.tobytes()) and len(keys) == len(vectors) and len(stream.read()) == 4


def left_over(folder: Path) -> list[Path]:
    return [*folder.rglob("*.part"), *folder.rglob("*.tmp")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(ENCODERS)
    return tmp_path


def start(folder: Path, *arguments: str, cache: str = "cache") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [LEADERBOARD, *arguments],
        cwd=folder,
        env={**os.environ, "HARNESS_CACHE": str(folder / cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("n_kills", [5, pytest.param(50, marks=pytest.mark.nightly)])
def test_killed_at_any_moment_and_run_again_gives_the_same_numbers(folder: Path, n_kills: int) -> None:
    undisturbed = start(folder, *RUN)
    errors = undisturbed.communicate(timeout=600)[1]
    assert undisturbed.returncode == 0, errors
    expected = scores(folder)
    assert ("slow", "sts17", "avg-same@sample") in expected and ("chargrams", "tatoeba", "deu@sample") in expected
    n_sentences = len((folder / "encoded.txt").read_text().splitlines())

    forks = subprocess.Popen(
        [sys.executable, "-c", FORKS, *RUN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "HARNESS_DATA": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr.txt").open("w"),
        text=True,
    )
    assert forks.stdin and forks.stdout

    def run(seconds: float) -> int:
        print(seconds, file=forks.stdin, flush=True)
        return int(forks.stdout.readline() if forks.stdout else "")

    def begin_anew() -> None:
        for name in ("results", "cache"):
            shutil.rmtree(folder / name)
        (folder / "encoded.txt").write_text("")

    assert forks.stdout.readline() == "ready\n", (folder / "stderr.txt").read_text()
    begin_anew()
    moments, latest, n_killed, n_finished, killed_now = random.Random(5), 0.5, 0, 0, 0
    while n_killed < n_kills or n_finished < 2:
        code = run(moments.uniform(0, latest))
        latest *= 1.1 if code else 0.8  # however fast the machine: about two kills a run that gets through
        if code == -signal.SIGKILL:
            n_killed, killed_now = n_killed + 1, killed_now + 1
            check_files(folder)
            assert scores(folder).items() <= expected.items()
            assert len(left_over(folder)) <= 3  # each run removes what those before it left
        else:
            assert code == 0, (folder / "stderr.txt").read_text()
            check_files(folder)
            assert scores(folder) == expected and not left_over(folder)
            # All but the parts that the kills cut off was encoded once.
            encoded = (folder / "encoded.txt").read_text().splitlines()
            assert len(set(encoded)) == n_sentences and len(encoded) - n_sentences <= killed_now * 240
            n_finished, killed_now = n_finished + 1, 0
            begin_anew()
    forks.communicate("", timeout=60)
    errors = (folder / "stderr.txt").read_text()
    assert "damaged" not in errors and "FAILED" not in errors and "Traceback" not in errors


def test_two_runs_at_once_lose_nothing(folder: Path) -> None:
    alone = start(folder, *RUN)
    assert alone.wait(600) == 0
    expected = scores(folder)
    for name in ("results", "cache"):
        shutil.rmtree(folder / name)
    runs = [start(folder, *RUN, *fresh) for fresh in ([], ["--fresh"], [])]
    for run in runs:
        errors = run.communicate(timeout=600)[1]
        assert run.returncode == 0 and "warning" not in errors, errors
    check_files(folder)
    assert scores(folder) == expected and not left_over(folder)
    assert set(VectorCache(folder / "cache").size()) == {"slow slow-v1", f"chargrams {chargrams_fingerprint(folder)}"}


def chargrams_fingerprint(folder: Path) -> str:
    (record, *_) = json.loads((folder / "results" / "records" / "chargrams" / "sts17.json").read_text())
    return record["fingerprint"]


def interrupt(run: subprocess.Popen[str], marker: Path) -> str:
    """Press Ctrl-C once `marker` is there; what the command says then. It has two seconds."""
    end = time.monotonic() + 60
    while not marker.exists():
        time.sleep(0.02)
        assert run.poll() is None and time.monotonic() < end, run.communicate()
    time.sleep(0.1)
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    errors = run.communicate(timeout=60)[1]
    assert time.monotonic() - began < 2
    assert run.returncode == 130 and "Traceback" not in errors, errors
    return errors


@pytest.mark.parametrize("encoder", ["slow", "busy", "threads"])
def test_interrupted_from_the_keyboard_says_how_to_go_on(folder: Path, encoder: str) -> None:
    command = ["run", "--suite", "sample", "--task", "sts17", "--encoder", f"python:mine:{encoder}?name=other"]
    run = start(folder, *command)
    errors = interrupt(run, folder / "results" if encoder == "slow" else folder / "busy")
    how = (
        f"run the same command again to go on: leaderboard {' '.join(command[:-1])} 'python:mine:{encoder}?name=other'"
    )
    assert errors.count(how) == 1
    if encoder != "slow":
        assert {subset for _, _, subset in scores(folder)} == {"en-en@sample", "es-es@sample"}
    check_files(folder)
    assert not left_over(folder)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "mine.py").write_text(ENCODERS)
    run = ["run", "--suite", "sample", "--encoder", "python:mine:letters?name=other", "--subset", "avg-same@sample"]
    assert start(folder, *run, "--results", "results").wait(60) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["check", "--suite", "sample", "--encoder", "python:mine:busy?name=other"],
        ["rerun", "other/sts17/ar-ar@sample", "--encoder", "python:mine:busy?name=other"],
        ["compare", "chargrams", "python:mine:busy?name=other", "--task", "sts17"],
    ],
)
def test_commands_that_store_nothing_do_not_say_that_they_do(stored: Path, tmp_path: Path, command: list[str]) -> None:
    folder = shutil.copytree(stored, tmp_path / "copy")
    before = scores(folder)
    errors = interrupt(start(folder, *command), folder / "busy")
    assert "what was finished" not in errors
    assert errors.count(f"stopped; nothing is stored, run the same command again: leaderboard {command[0]} ") == 1
    assert scores(folder) == before


def test_mining_is_interrupted_within_two_seconds(folder: Path) -> None:
    for name in ("a.de", "a.en"):
        (folder / name).write_text("".join(f"{name} {i}\n" for i in range(30_000)))
    run = start(
        folder,
        "mine",
        "a.de",
        "a.en",
        "--encoder",
        "python:mine:random",
        "--out",
        "pairs.tsv",
        "--backend",
        "numpy",
        "--work-dir",
        "state",
    )
    errors = interrupt(run, folder / "state" / "exact-k4.state" / "search.npz")
    assert "run the same command again to go on: leaderboard mine a.de a.en" in errors
    assert not (folder / "pairs.tsv").exists()


def test_a_second_ctrl_c_ends_it_at_once(folder: Path) -> None:
    run = start(folder, "run", "--suite", "sample", "--task", "sts17", "--encoder", "python:mine:busy")
    while not (folder / "busy").exists():
        time.sleep(0.02)
    time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    time.sleep(0.1)
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    errors = run.communicate(timeout=60)[1]
    assert time.monotonic() - began < 0.7 and run.returncode == 130 and errors.count("stopped") == 1

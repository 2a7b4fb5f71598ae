"""A run that is killed at any moment and started again finishes the work with the same numbers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

SLOW = """
import time
import numpy as np

class Slow:
    name, fingerprint, dim, uses_lang = "slow", "slow-v1", 16, False

    def encode(self, sentences, *, lang=None):
        with open("encoded.txt", "a") as log:
            log.write("".join(sentence + "\\n" for sentence in sentences))
        time.sleep(0.03)
        rows = [np.bincount([ord(c) % 16 for c in s], minlength=16) for s in sentences]
        return np.array(rows, np.float32).reshape(len(sentences), 16)

def slow(): return Slow()
"""


def scores(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    found = {}
    for file in (folder / "results" / "records").rglob("*.json"):
        for record in json.loads(file.read_text()):
            found[record["task"], record["subset"]] = record["metrics"]
    return found


def start(folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(SLOW)
    command = [str(Path(sys.executable).parent / "leaderboard"), "run", "--suite", "sample"]
    return subprocess.Popen(
        [*command, "--encoder", "python:mine:slow"],
        cwd=folder,
        env={**os.environ, "HARNESS_CACHE": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_killed_and_run_again_gives_the_same_numbers(tmp_path: Path) -> None:
    began = time.monotonic()
    undisturbed = start(tmp_path / "a")
    assert undisturbed.wait(60) == 0
    duration = time.monotonic() - began
    expected = scores(tmp_path / "a")
    assert ("sts17", "avg-cross@sample") in expected

    moments = random.Random(5)
    n_killed = 0
    for _ in range(8):
        run = start(tmp_path / "b")
        time.sleep(moments.uniform(0.2, 0.9) * duration)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            n_killed += 1
        run.communicate()
        assert scores(tmp_path / "b").items() <= expected.items()  # and every file that is there can be read
    assert n_killed > 0
    finished = start(tmp_path / "b")
    errors = finished.communicate(timeout=600)[1]
    assert finished.returncode == 0, errors
    assert scores(tmp_path / "b") == expected
    # All but the chunks that the kills cut off was encoded once.
    encoded = (tmp_path / "b" / "encoded.txt").read_text().splitlines()
    assert len(encoded) - len(set(encoded)) <= n_killed * 240


def test_interrupted_from_the_keyboard_says_how_to_go_on(tmp_path: Path) -> None:
    run = start(tmp_path)
    while not (tmp_path / "results").exists():
        time.sleep(0.02)
        assert run.poll() is None
    os.kill(run.pid, signal.SIGINT)
    errors = run.communicate(timeout=10)[1].decode()
    assert run.returncode == 130 and "run the same command again" in errors and "Traceback" not in errors

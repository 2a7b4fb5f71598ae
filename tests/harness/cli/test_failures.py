"""What goes wrong on a machine, met by the command line: memory, disks, damaged files, encoders that crash."""

from __future__ import annotations

import inspect
import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import encoders
import pytest
from command_line import one_line_error

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")

ENCODERS = (
    inspect.getsource(encoders)
    + """
import sys


class Failing(Letters):
    def __init__(self, fails, fingerprint):
        super().__init__()
        self.fails, self.name, self.fingerprint = fails, fingerprint, fingerprint

    def encode(self, sentences, *, lang=None):
        self.fails(sentences, lang)
        return super().encode(sentences)


def letters(): return Letters()


def small(kind: str, fits: int):
    errors = {
        "numpy": MemoryError("Unable to allocate 20.0 GiB for an array"),
        "torch": type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory. Tried to allocate 2.00 GiB"),
        "cpu": RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
    }

    def fails(sentences, lang):
        if len(sentences) > fits:
            raise errors[kind]
    return Failing(fails, f"small-{kind}-{fits}")


def crashing(kind: str):
    errors = {"error": ValueError("out of Arabic"), "exit": SystemExit(1), "memory": MemoryError("no room")}

    def fails(sentences, lang):
        if lang == "ar":
            raise errors[kind]
    return Failing(fails, f"crashing-{kind}")


def exits(): sys.exit("no weights")
"""
)

needs_linux = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and file size limits")


@pytest.fixture(autouse=True)
def encoders(tmp_path: Path) -> None:
    """A user's module in the current folder."""
    (tmp_path / "mine.py").write_text(ENCODERS)


def scores(results: Path, encoder: str) -> dict[tuple[str, str], dict[str, float]]:
    files = (results / "records" / encoder).glob("*.json")
    records = [record for file in files for record in json.loads(file.read_text(encoding="utf-8"))]
    return {(record["task"], record["subset"]): record["metrics"] for record in records}


def flip(file: Path, source: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[source.randrange(len(content))] ^= 1 << source.randrange(8)
    file.write_bytes(content)


@pytest.mark.parametrize(("kind", "fits"), [("numpy", 1), ("torch", 7), ("cpu", 100)])
def test_batches_that_do_not_fit_are_halved(leaderboard: Leaderboard, tmp_path: Path, kind: str, fits: int) -> None:
    spec = f"python:mine:small?kind={kind}&fits={fits}&name=small"
    options = ["--suite", "sample", "--subset", "avg-same@sample", "--subset", "deu@sample"]
    done = leaderboard("run", *options, "--encoder", spec, "--encoder", "python:mine:letters")
    assert done.returncode == 0, done.stderr
    assert "warning: memory ran out; small encodes" in done.stderr
    expected = scores(tmp_path / "results", "letters")
    assert scores(tmp_path / "results", "small") == expected and ("sts17", "avg-same@sample") in expected


@pytest.mark.parametrize("kind", [pytest.param("error", marks=pytest.mark.nightly), "exit", "memory"])
def test_a_crash_on_one_subset_leaves_a_hole_and_nothing_else(
    leaderboard: Leaderboard, tmp_path: Path, kind: str
) -> None:
    options = ["--task", "sts17", "--task", "tatoeba", "--suite", "sample"]
    done = leaderboard("run", *options, "--encoder", f"python:mine:crashing?kind={kind}", "--encoder", "chargrams")
    assert done.returncode == 3 and "Traceback" not in done.stderr
    failed = [line for line in done.stderr.splitlines() if "FAILED" in line]
    assert len(failed) == 3 and all("ar" in line for line in failed), done.stderr
    stored = scores(tmp_path / "results", "crashing")
    assert {("sts17", "en-de@sample"), ("tatoeba", "deu@sample")} <= stored.keys()
    assert {("sts17", "ar-ar@sample"), ("sts17", "avg-same@sample"), ("tatoeba", "ara@sample")}.isdisjoint(stored)
    sts, tatoeba = done.stdout.split("Tatoeba")
    assert sts.count("failed") == 2 + 1 and tatoeba.count("failed") == 2 + 1  # cells, and a legend
    again = leaderboard("run", *options, "--encoder", f"python:mine:crashing?kind={kind}")
    assert again.returncode == 3 and again.stderr.count("(stored)") == len([s for s in stored if "avg" not in s[1]])


def test_an_encoder_that_exits_while_it_is_loaded_is_one_that_fails(leaderboard: Leaderboard, tmp_path: Path) -> None:
    done = leaderboard("run", "--task", "korsts", "--encoder", "python:mine:exits", "--encoder", "chargrams")
    assert done.returncode == 3 and "no weights" in done.stderr
    assert scores(tmp_path / "results", "chargrams")


def test_flipped_bits_in_the_cache_are_noticed_and_mended(leaderboard: Leaderboard, tmp_path: Path) -> None:
    run = ["run", "--task", "sts17", "--suite", "sample", "--encoder", "chargrams"]
    command = [*run, "--fresh", "--cache-dir", "cache"]
    assert leaderboard(*command).returncode == 0
    expected = scores(tmp_path / "results", "chargrams")
    shards = sorted((tmp_path / "cache").rglob("*.shard"))
    flip(shards[0], random.Random(1))
    flip(shards[3], random.Random(2))
    done = leaderboard(*command)
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: cache file")]
    assert len(warnings) == 2 and all("is damaged" in line and "computed again" in line for line in warnings)
    assert scores(tmp_path / "results", "chargrams") == expected
    assert not shards[0].exists() and shards[1].exists()
    assert "warning: cache" not in leaderboard(*command).stderr


def limited(limit: int) -> Callable[[], None]:
    """For `preexec_fn`: writes beyond so many bytes a file fail, as on a full disk."""

    def limit_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return limit_files


@needs_linux
@pytest.mark.parametrize(
    ("command", "limit"), [("report --results results", 300), ("mine a.de a.en --encoder chargrams --out pairs.tsv", 4)]
)
def test_a_full_disk_leaves_what_was_written_before(
    leaderboard: Leaderboard, tmp_path: Path, command: str, limit: int
) -> None:
    for name in ("a.de", "a.en"):
        (tmp_path / name).write_text("eins\nzwei\ndrei\n")
    assert leaderboard("run", "--subset", "en-en@sample", "--encoder", "chargrams").returncode == 0
    assert leaderboard(*command.split()).returncode == 0
    written = [*(tmp_path / "results").glob("*.md"), *tmp_path.glob("*.tsv")]
    before = {file: file.read_bytes() for file in written}
    assert leaderboard("run", "--subset", "es-es@sample", "--encoder", "chargrams").returncode == 0
    done = subprocess.run(
        [LEADERBOARD, *command.split()],
        cwd=tmp_path,
        preexec_fn=limited(limit),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "cannot be written" in one_line_error(done)
    assert {file: file.read_bytes() for file in written} == before and not list(tmp_path.rglob("*.part"))


@needs_linux
def test_a_disk_that_fills_up_keeps_what_was_measured(leaderboard: Leaderboard, tmp_path: Path) -> None:
    """The records of some sets fit into a file, those of all do not."""
    run = ["run", "--task", "sts17", "--suite", "sample", "--encoder", "python:mine:letters"]
    done = subprocess.run(
        [LEADERBOARD, *run], cwd=tmp_path, preexec_fn=limited(12_000), capture_output=True, text=True, timeout=600
    )
    message = one_line_error(done)
    assert "sts17.json" in message and "cannot be written (File too large)" in message
    kept = scores(tmp_path / "results", "letters")
    n_kept = len([subset for _, subset in kept if "avg" not in subset])
    assert 1 < n_kept < 10
    healthy = leaderboard(*run)
    assert healthy.returncode == 0 and healthy.stderr.count("(stored)") == n_kept
    assert kept.items() <= scores(tmp_path / "results", "letters").items()


@pytest.mark.parametrize("place", ["/dev/null/below", "/proc/nowhere", "taken/below"])
@pytest.mark.parametrize("option", ["--results", "--cache-dir"])
def test_a_folder_that_cannot_be_written_gives_one_line(
    leaderboard: Leaderboard, tmp_path: Path, option: str, place: str
) -> None:
    (tmp_path / "taken").write_text("")
    done = leaderboard("run", "--encoder", "python:mine:letters", "--subset", "en-en@sample", option, place)
    message = one_line_error(done)
    assert "cannot be written" in message and place.partition("/below")[0] in message


@pytest.mark.parametrize("out", ["/proc/nowhere/a", "taken/a", "/dev/full"])
def test_output_that_cannot_be_written_gives_one_line(leaderboard: Leaderboard, tmp_path: Path, out: str) -> None:
    (tmp_path / "taken").write_text("")
    for name in ("a.de", "a.en"):
        (tmp_path / name).write_text("eins\n")
    assert out in one_line_error(leaderboard("mine", "a.de", "a.en", "--encoder", "chargrams", "--out", out))


@needs_linux
@pytest.mark.parametrize(("spec", "code"), [("python:mine:letters", 0), ("python:mine:crashing?kind=error", 3)])
def test_messages_that_cannot_be_written_stop_nothing(tmp_path: Path, spec: str, code: int) -> None:
    command = [LEADERBOARD, "run", "--task", "sts17", "--suite", "sample", "--encoder", spec]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ}, stdout=subprocess.PIPE, stderr=full, text=True, timeout=600
        )
    assert done.returncode == code and "STS" in done.stdout
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([LEADERBOARD, "run", "--suite", "x"], stderr=full, timeout=600).returncode == 2

"""`leaderboard mine` as a job: folders, kills, documents, what it says before it starts."""

from __future__ import annotations

import gzip
import importlib.util
import inspect
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import encoders
import numpy as np
import pytest
from command_line import one_line_error
from encoders import Letters

from harness.cli import main

pytestmark = pytest.mark.slow

# An encoder with short chunks, and a process that is killed within its n-th write to a file that grows.
OWN = (
    inspect.getsource(encoders)
    + """
class Chunked(Letters):
    chunk_size = 7

    def __init__(self, name):
        super().__init__()
        self.name = self.fingerprint = name

    def encode(self, sentences, *, lang=None):
        with open("encoded.txt", "a") as log:
            log.write("x" * len(sentences))
        return super().encode(sentences)

def chunked(*, fingerprint="chunked"):
    return Chunked(fingerprint)
"""
)
KILLED = """
import os, signal, sys, time
from harness.cli import main
from harness.mining import work

left = int(sys.argv[1])
write = work._write_at

def dying(file, offset, content):
    global left
    left -= 1
    if left == 0:
        write(file, offset, content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    write(file, offset, content)

work._write_at = dying
main(sys.argv[2:])
"""
SPEC = "python:own:chunked"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    rng = np.random.default_rng(0)
    for ending in ("de", "en"):
        letters = rng.integers(ord("a"), ord("f"), size=(60, 9), dtype=np.uint8)
        (tmp_path / f"a.{ending}").write_bytes(b"".join(row.tobytes() + b"\n" for row in letters))
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "killed.py").write_text(KILLED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("own", None)
    yield
    sys.modules.pop("own", None)


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exited:
        main(["mine", *arguments])
    assert isinstance(exited.value.code, int)
    return exited.value.code


def mined(*arguments: str, files: tuple[str, ...] = ("a.de", "a.en"), spec: str = SPEC) -> bytes:
    assert called(*files, "--encoder", spec, *arguments, "--out", "mined.tsv") == 0
    return Path("mined.tsv").read_bytes()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    code = called("a.de", "a.en", *arguments)
    printed = capsys.readouterr()
    last = printed.err.splitlines(keepends=True)[-1:]  # before it, what was read
    return one_line_error(subprocess.CompletedProcess([], code, printed.out, "".join(last)))


def n_encoded() -> int:
    log = Path("encoded.txt")
    n = log.stat().st_size if log.exists() else 0
    log.unlink(missing_ok=True)
    return n


def kill(n_writes: int, *command: str) -> int:
    return subprocess.run([sys.executable, "killed.py", str(n_writes), *command], capture_output=True).returncode


def test_killed_three_times_it_writes_the_same_bytes() -> None:
    whole = mined()
    command = ["mine", "a.de", "a.en", "--encoder", SPEC, "--work-dir", "work", "--out", "killed.tsv"]
    rng = random.Random()
    points = [rng.randint(1, 12) for _ in range(3)]
    for point in points:
        assert kill(point, *command) == -signal.SIGKILL, points
    assert called(*command[1:]) == 0
    assert Path("killed.tsv").read_bytes() == whole, points


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["numpy", "faiss", "float32"])
def test_killed_ten_times_at_any_moment_it_writes_the_same_bytes(backend: str) -> None:
    rng = np.random.default_rng(1)
    for ending in ("de", "en"):
        letters = rng.integers(ord("a"), ord("z"), size=(20_000, 12), dtype=np.uint8)
        Path(f"b.{ending}").write_bytes(b"".join(row.tobytes() + b"\n" for row in letters))
    whole = mined("--backend", backend, files=("b.de", "b.en"), spec="chargrams")
    arguments = ["mine", "b.de", "b.en", "--encoder", "chargrams", "--backend", backend, "--work-dir", "work"]
    command = [str(Path(sys.executable).parent / "leaderboard"), *arguments, "--out", "killed.tsv"]
    random.seed(backend)
    for _ in range(10):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            process.wait(random.uniform(1, 8))
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
    assert subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
    assert Path("killed.tsv").read_bytes() == whole


def test_what_is_kept_serves_another_threshold_margin_and_number_of_neighbours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for protocol in ([], ["--margin", "distance"], ["--retrieval", "forward"], ["-k", "2"], ["--top", "3"]):
        whole = mined(*protocol)
        n_encoded()
        assert mined(*protocol, "--work-dir", "work") == whole
        assert n_encoded() == (120 if not protocol else 0)
    assert "work keeps texts, vectors and neighbours" in capsys.readouterr().err


def test_without_a_folder_of_the_job_vectors_are_in_the_cache() -> None:
    mined()
    n_encoded()
    mined("--threshold", "0.9")
    assert n_encoded() == 0
    assert not list(Path.cwd().glob("**/*.float32"))


def test_what_belongs_to_another_job_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    mined("--work-dir", "work")
    job = ["--encoder", SPEC, "--work-dir", "work"]
    assert "another max_length; remove it" in refused(capsys, *job, "--max-length", "9")
    assert "another encoder" in refused(capsys, "--encoder", f"{SPEC}?fingerprint=2", "--work-dir", "work")
    assert "another kind of vectors" in refused(capsys, *job, "--vectors", "float16")
    with Path("a.de").open("a") as out:
        out.write("more\n")
    assert "another a.de (file 1 of side 1)" in refused(capsys, *job)
    os.mkfifo("pipe.en")
    assert called("a.de", "pipe.en", *job) == 2
    assert "pipe.en cannot be read again" in capsys.readouterr().err


def test_damage_is_mended(capsys: pytest.CaptureFixture[str]) -> None:
    whole = mined("--work-dir", "work")
    for path in sorted(Path("work").glob("[xye]*")):
        if not path.is_file():
            continue
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 8
        path.write_bytes(content)
        n_encoded()
        assert mined("--work-dir", "work") == whole, path
        is_of_vectors = path.name.startswith(("x.float32", "y.float32"))
        assert (n_encoded() > 0) == is_of_vectors, path
        assert not is_of_vectors or f"{path.name.removesuffix('.crc')} is damaged" in capsys.readouterr().err


def test_float16_finds_the_same_pairs_but_for_rounding() -> None:
    exact = {
        line.split(b"\t", 1)[1]: float(line.split(b"\t")[0]) for line in mined("--margin", "absolute").splitlines()
    }
    rounded = mined("--vectors", "float16", "--margin", "absolute", "--work-dir", "work").splitlines()
    shared = [line for line in rounded if line.split(b"\t", 1)[1] in exact]
    assert len(shared) > 0.8 * len(exact)
    for line in shared:
        assert float(line.split(b"\t")[0]) == pytest.approx(exact[line.split(b"\t", 1)[1]], abs=2e-3)


def test_several_files_and_folders_a_side(capsys: pytest.CaptureFixture[str]) -> None:
    whole = mined()
    lines = Path("a.de").read_bytes().splitlines(keepends=True)
    Path("german").mkdir()
    Path("german/1.de").write_bytes(b"".join(lines[:20]))
    Path("german/2.de.gz").write_bytes(gzip.compress(b"".join(lines[20:50])))
    Path("german/.hidden").write_bytes(b"\xff\t")
    Path("last.de").write_bytes(b"".join(lines[50:]))
    capsys.readouterr()
    assert mined("--src", "last.de", files=("german", "a.en")) == whole
    assert "1.de and 2 more (de): 60 lines, 60 sentences to mine" in capsys.readouterr().err


def test_documents_are_mined_alone(capsys: pytest.CaptureFixture[str]) -> None:
    sides = [Path(name).read_text().split() for name in ("a.de", "a.en")]
    wanted = []
    for start in (0, 20):
        part = slice(start, start + 20)
        for name, sentences in zip(("part.de", "part.en"), sides, strict=True):
            Path(name).write_text("".join(f"{sentence}\n" for sentence in sentences[part]))
        wanted += mined(files=("part.de", "part.en")).decode().splitlines()
    # In turns, and with documents that the other side does not have.
    for name, sentences, alone in zip(("d.de", "d.en"), sides, "pq", strict=True):
        documents = [[f"{start}\t{one}\n" for one in sentences[start : start + 20]] for start in (20, 0)]
        lines = [line for pair in zip(*documents, strict=True) for line in pair]
        Path(name).write_text("".join([*lines, *(f"{alone}\t{one}\n" for one in sentences[40:])]))
    capsys.readouterr()
    found = mined("--documents", files=("d.de", "d.en")).decode().splitlines()
    assert sorted(found) == sorted(wanted)
    scores = [float(line.split("\t")[0]) for line in found]
    assert scores == sorted(scores, reverse=True)
    errors = capsys.readouterr().err
    assert (
        "60 lines, 40 sentences to mine in 2 documents (dropped: 20 of documents that the other side lacks)" in errors
    )
    assert "|documents)" in errors


def test_the_ids_of_documents_are_written() -> None:
    for ending in ("de", "en"):
        Path(f"d.{ending}").write_text("Ä 1\tabc\nq\taab\nÄ 1\tbcd\nq\tabe\n")
    for name in ("pairs.jsonl", "pairs.parquet"):
        assert called("d.de", "d.en", "--encoder", SPEC, "--documents", "--out", name) == 0
    records = [json.loads(line) for line in Path("pairs.jsonl").read_text().splitlines()]
    assert {(one["document"], one["src"], one["src_line"], one["src_file"]) for one in records} == {
        ("Ä 1", "abc", 1, "d.de"),
        ("Ä 1", "bcd", 3, "d.de"),
        ("q", "aab", 2, "d.de"),
        ("q", "abe", 4, "d.de"),
    }
    parquet = pytest.importorskip("pyarrow.parquet").read_table("pairs.parquet").to_pylist()
    assert [one | {"score": round(one["score"], 6)} for one in parquet] == records


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names of files have a Unicode form")
def test_a_file_whose_name_is_not_utf_8_is_mined() -> None:
    name = "x\udcff.de"
    Path(name).write_bytes(Path("a.de").read_bytes())
    whole = mined()
    assert mined("--work-dir", "work", files=(name, "a.en")) == whole
    assert mined("--work-dir", "work", files=(name, "a.en")) == whole
    assert mined("--format", "jsonl", files=(name, "a.en")).count(rb'"src_file": "x\\udcff.de"') == whole.count(b"\n")
    assert called(name, "a.en", "--encoder", SPEC, "--sample", "2", "--sheet", "sheet.tsv") == 0


def test_a_long_job_wants_yes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.mining.job._SMALL", 10)
    assert mined("--work-dir", "work")
    line = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("estimate: "))
    assert "120 sentences, about" in line and "of memory beside" in line and "of disk" in line
    monkeypatch.setattr("harness.mining.job.LONG", 1e-9)
    mined("--work-dir", "work", "--top", "1")  # nothing is left to do
    n_encoded()
    message = refused(capsys, "--encoder", SPEC, "--out", "new.tsv")
    assert message.startswith("120 sentences, about") and "give --yes to begin" in message
    if importlib.util.find_spec("faiss"):  # else it cannot be timed
        assert "--backend faiss: an approximate search of about" in message and "of the neighbours" in message
    assert not Path("new.tsv").exists()
    assert mined("--yes")
    monkeypatch.setattr("harness.mining.job.shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    monkeypatch.setattr("harness.mining.job.LONG", 1e9)
    assert "which has 1 MB free" in refused(capsys, "--encoder", SPEC, "--work-dir", "other")
    # Without a folder for the job, the cache of vectors takes as much.
    monkeypatch.setenv("HARNESS_CACHE", str(Path("another").absolute()))
    monkeypatch.setattr("harness.mining.job.estimate.search_bytes", lambda *sizes, is_approximate: 0)
    n_bytes = 2 * 4 * Letters().dim * 120
    for free, code in ((n_bytes - 1, 2), (n_bytes, 0)):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr("harness.mining.job.shutil.disk_usage", lambda folder, usage=usage: usage)
        assert called("a.de", "a.en", "--encoder", SPEC, "--out", "new.tsv") == code

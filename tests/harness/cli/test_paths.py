"""Paths that the system refuses, and what is in the place of a file: one line that names it, nothing waited for."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import one_line_error

from harness.cli import main
from harness.core.files import user_path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs links, fifos and alarms")

LONG = "x" * 300
RUN = ["run", "--encoder", "chargrams", "--subset", "de@sample", "--results", "results"]
MINE = ["mine", "a.de", "a.en", "--encoder", "chargrams"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder; a command that waits for ever fails."""

    def waits(*_: object) -> None:
        raise AssertionError("the command waits")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(60)
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("a.de").write_text("Berlin\nLissabon\n")
    Path("a.en").write_text("Berlin!\nLisbon!\n")
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    printed = capsys.readouterr()
    assert isinstance(exited.value.code, int)
    return subprocess.CompletedProcess([], exited.value.code, printed.out, printed.err)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([*RUN, "--results", LONG], [LONG, "File name too long"]),
        ([*RUN, "--cache-dir", LONG], [LONG, "File name too long"]),
        ([*RUN, "--data-dir", LONG], [LONG]),
        (["run", "--encoder", f"chargrams?name={LONG}"], ["encoder name 'xxx", "300 characters"]),
        (["run", "--encoder", f"static:{LONG}?name=a", "--subset", "de@sample"], ["no model folder"]),
        (["run", "--encoder", "static:~nobody-here/x", "--subset", "de@sample"], ["no model folder '~nobody-here/x'"]),
        (["show", "--results", "y/" * 3000], ["y/y/"]),
        (["import", LONG], [LONG]),
        (["audit-bucc", "--encoder", "chargrams", "--subset", "de-en@sample", "--out", LONG], [LONG]),
        (["data", "status", "--data-dir", LONG], [LONG]),
        ([*RUN, "--data-dir", "~nobody-here/x"], ["~nobody-here/x"]),
        (["mine", LONG, "a.en", "--encoder", "chargrams"], [LONG]),
        ([*MINE, "--out", LONG], [LONG, "too long"]),
        ([*MINE, "--out", "loop"], ["loop is no ordinary file"]),
        ([*MINE, "--out", "loop/pairs.tsv"], ["loop/pairs.tsv: cannot be written"]),
        ([*MINE, "--work-dir", "loop"], ["loop: cannot be written"]),
        (["check", "--against", "results", "--run", "loop"], ["no stored results in the folder results"]),
        (["show", "--results", "loop"], ["no stored results in the folder loop; run `leaderboard run` first"]),
        ([*RUN, "--results", "loop"], ["loop/", "symbolic links"]),
    ],
)
def test_a_path_that_the_system_refuses(
    capsys: pytest.CaptureFixture[str], arguments: list[str], parts: list[str]
) -> None:
    message = one_line_error(called(capsys, *arguments))
    assert all(part in message for part in parts), message
    assert sorted(path.name for path in Path().iterdir()) in (
        ["a.de", "a.en", "loop"],
        ["a.de", "a.en", "loop", "results"],
    )


def test_the_current_folder_is_gone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    mine = ["mine", str(tmp_path / "a.de"), str(tmp_path / "a.en"), "--encoder", "chargrams"]
    message = "the current folder is no longer there; change to another one"
    assert one_line_error(called(capsys, *mine, "--out", "x.tsv")) == message
    assert "module own cannot be imported" in one_line_error(called(capsys, "run", "--encoder", "python:own:encoder"))
    assert called(capsys, *mine, "--out", str(tmp_path / "x.tsv")).returncode == 0 and (tmp_path / "x.tsv").exists()


@pytest.mark.parametrize("kind", ["a folder", "a fifo", "a device or socket"])
def test_something_else_in_the_place_of_a_file(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert called(capsys, *RUN, "--encoder", "chargrams?name=other").returncode == 0

    def replaced(file: str, *command: str) -> str:
        """What a command says with something else at `file`, which is as before afterwards."""
        path = Path(file)
        content = path.read_bytes()
        path.unlink()
        if kind == "a folder":
            path.mkdir()
        elif kind == "a fifo":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        message = one_line_error(called(capsys, *command))
        path.rmdir() if kind == "a folder" else path.unlink()
        path.write_bytes(content)
        return message

    records, lock = "results/records/chargrams/tatoeba.json", "results/records/.lock"
    rerun = ["rerun", "chargrams/tatoeba/deu@sample"]
    for command in (["show"], ["report"], rerun, RUN[:-2]):
        assert replaced(records, *command, "--results", "results").startswith(
            f"{records}: {kind}, where a file should be; move it away"
        )
    assert replaced(records, "check", "--against", "results").startswith(f"{records}: {kind}")
    assert replaced(lock, *RUN, "--fresh") == f"{lock}: {kind}, where a file should be; move it away"
    statistics = "results/statistics/tatoeba.json"
    assert replaced(statistics, "show", "--results", "results").startswith(
        f"{statistics}: no statistics ({kind}, where a file should be"
    )


def test_a_folder_in_the_place_of_rows_is_no_fault_of_the_encoder(capsys: pytest.CaptureFixture[str]) -> None:
    """So is whatever else the system says there, of a file system that is read-only, say."""
    rows = Path("results/rows/chargrams/tatoeba/deu@sample.npz")
    rows.mkdir(parents=True)
    done = called(capsys, *RUN, "--fresh")
    reason = "(Is a directory); name another folder or move away what is in its place"
    assert one_line_error(done) == f"{rows}: cannot be written {reason}" and "FAILED" not in done.stderr


def test_a_lock_that_another_process_holds_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.core.files._PATIENCE", 0.05)
    Path("results/records").mkdir(parents=True)
    with Path("results/records/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(1.0, fcntl.flock, (lock, fcntl.LOCK_UN)).start()
        done = called(capsys, *RUN)
    assert done.returncode == 0 and "waiting for results/records/.lock, which another process has locked" in done.stderr


@pytest.mark.parametrize("name", ["mining.json", "x.float32", "y.float32.crc", "exact-k4.x"])
def test_a_fifo_in_the_place_of_what_mining_keeps(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert called(capsys, *MINE, "--work-dir", "state", "--out", "first.tsv").returncode == 0
    Path("state", name).unlink()
    os.mkfifo(Path("state", name))
    message = one_line_error(called(capsys, *MINE, "--work-dir", "state"))
    assert message == f"state/{name}: a fifo, where a file should be; move it away"


@pytest.mark.parametrize(
    "command",
    [
        ["report", "--results", "results", "--readme"],
        ["audit-bucc", "--encoder", "chargrams", "--subset", "de-en@sample", "--read"],
        ["import"],
    ],
)
def test_a_fifo_is_not_waited_for(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    os.mkfifo("pipe")
    assert one_line_error(called(capsys, *command, "pipe")) == "pipe: a fifo, where a file should be; move it away"


def test_pipes_are_mined_as_files_are(capsys: pytest.CaptureFixture[str]) -> None:
    """As in `leaderboard mine <(zcat a.de.gz) <(zcat a.en.gz)`."""
    assert called(capsys, *MINE, "--src-lang", "de", "--trg-lang", "en", "--out", "files.tsv").returncode == 0
    ends = []
    for file in ("a.de", "a.en"):
        reader, writer = os.pipe()
        os.write(writer, Path(file).read_bytes())
        os.close(writer)
        ends.append(reader)
    pipes = [f"/dev/fd/{reader}" for reader in ends]
    done = called(capsys, "mine", *pipes, *MINE[3:], "--src-lang", "de", "--trg-lang", "en", "--out", "pipes.tsv")
    for reader in ends:
        os.close(reader)
    assert done.returncode == 0, done.stderr
    assert Path("pipes.tsv").read_bytes() == Path("files.tsv").read_bytes() != b""


def test_memory_that_does_not_suffice_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*arguments: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("harness.mining.job.read_sentences", too_much)
    assert one_line_error(called(capsys, *MINE)) == "memory does not suffice"


def test_an_error_without_a_type_of_its_own_is_a_bug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("harness.running.suite.run_suite", fails)
    done = called(capsys, *RUN)
    assert done.returncode == 70 and "Traceback" in done.stderr
    monkeypatch.setattr("harness.running.suite.run_suite", lambda *_, **__: user_path("~nobody-here/x"))
    assert one_line_error(called(capsys, *RUN)).startswith("~nobody-here/x: ")

"""`leaderboard run` as a user drives it: good runs, exit codes, and one line for everything that is wrong."""

from __future__ import annotations

import inspect
import json
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import encoders
import pytest
from command_line import one_line_error
from fork_server import LEADERBOARD

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

ENCODERS = (
    inspect.getsource(encoders)
    + """
class Changed(Letters):
    def __init__(self, change):
        super().__init__()
        self.change, self.fingerprint = change, change.__name__

    def encode(self, sentences, *, lang=None):
        return self.change(super().encode(sentences), lang)

def letters(): return Letters()

def nan():
    def nan(vectors, lang):
        vectors[2, 1] = np.nan
        return vectors
    return Changed(nan)

def infinite(): return Changed(lambda vectors, lang: vectors + np.inf)

def narrow(): return Changed(lambda vectors, lang: vectors[:, :5])

def unloadable(): raise FileNotFoundError("no weights")

def crashing():
    def crash(vectors, lang):
        if lang == "ar":
            raise ValueError("out of Arabic")
        return vectors
    return Changed(crash)
"""
)


@pytest.fixture
def encoders(tmp_path: Path) -> None:
    """A user's module in the current folder."""
    (tmp_path / "mine.py").write_text(ENCODERS)


def shown(leaderboard: Leaderboard, *arguments: str) -> list[dict]:
    done = leaderboard("show", "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("encoders")
def test_sample_suite_from_run_to_show(leaderboard: Leaderboard, tmp_path: Path) -> None:
    done = leaderboard("run", "--suite", "sample", "--encoder", "python:mine:letters", "--encoder", "chargrams")
    assert done.returncode == 0, done.stderr
    rows = shown(leaderboard)
    bias = {row["metric"]: row["value"] for row in rows if (row["encoder"], row["subset"]) == ("letters", "ten@sample")}
    assert f"language-bias ten@sample: difference {bias['difference']:.2f} (" in done.stderr
    assert {row["encoder"] for row in rows} == {"letters", "chargrams"}
    assert {row["task"] for row in rows} == {"sts17", "language-bias", "bucc", "tatoeba", "korsts"}
    assert all("@sample" in row["subset"] and row["source"] == "measured" for row in rows)
    assert {"encoder", "task", "subset", "metric", "value", "n", "signature", "source"} <= set(rows[0])
    files = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")}
    again = leaderboard("run", "--suite", "sample", "--encoder", "python:mine:letters", "--encoder", "chargrams")
    assert again.returncode == 0 and "(stored)" in again.stderr
    assert {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")} == files


@pytest.mark.usefixtures("encoders")
def test_tasks_and_subsets_are_selected(leaderboard: Leaderboard) -> None:
    done = leaderboard("run", "--encoder", "python:mine:letters?name=abc", "--task", "tatoeba", "--subset", "de@sample")
    assert done.returncode == 0 and "abc: 1 subset\n" in done.stderr, done.stderr
    rows = shown(leaderboard)
    assert {(row["encoder"], row["task"], row["subset"]) for row in rows} == {("abc", "tatoeba", "deu@sample")}
    assert {row["metric"] for row in rows} == {"accuracy_en_xx", "accuracy_xx_en", "f1_weighted_xx_en"}


@pytest.mark.usefixtures("encoders")
def test_an_encoder_that_fails_does_not_take_the_others_down(leaderboard: Leaderboard) -> None:
    done = leaderboard(
        "run", "--task", "sts17", "--encoder", "python:mine:crashing", "--encoder", "python:mine:letters"
    )
    assert done.returncode == 3
    assert "FAILED" in done.stderr and "out of Arabic" in done.stderr
    rows = shown(leaderboard)
    assert "en-de@sample" in {row["subset"] for row in rows if row["encoder"] == "crashing"}
    assert "ar-ar@sample" not in {row["subset"] for row in rows if row["encoder"] == "crashing"}
    assert "avg-cross@sample" in {row["subset"] for row in rows if row["encoder"] == "letters"}


@pytest.mark.usefixtures("encoders")
@pytest.mark.parametrize("bad", ["python:mine:nan", "python:mine:unloadable"])
def test_an_encoder_that_is_none_does_not_take_the_others_down(leaderboard: Leaderboard, bad: str) -> None:
    done = leaderboard("run", "--task", "sts17", "--encoder", bad, "--encoder", "python:mine:letters")
    assert done.returncode == 3 and "FAILED" in done.stderr and "Traceback" not in done.stderr
    one_line_error(leaderboard("run", "--task", "sts17", "--encoder", bad))
    rows = shown(leaderboard)
    assert "avg-cross@sample" in {row["subset"] for row in rows if row["encoder"] == "letters"}
    assert "nan" not in {row["encoder"] for row in rows}


@pytest.mark.usefixtures("encoders")
def test_a_name_that_is_taken_is_told_once(leaderboard: Leaderboard, tmp_path: Path) -> None:
    run = ["run", "--subset", "en-en@sample", "--encoder", "python:mine:letters"]
    assert leaderboard(*run, "--encoder", "chargrams").returncode == 0
    for file in (tmp_path / "results/records").rglob("*.json"):
        file.write_text(file.read_text().replace('"fingerprint": "', '"fingerprint": "other '))
    done = leaderboard(*run)
    assert "of other weights or options" in one_line_error(done) and done.stderr.count("weights") == 1
    both = leaderboard(*run, "--encoder", "chargrams")
    assert both.returncode == 2 and both.stderr.count("of other weights or options") == 2
    one = leaderboard(*run, "--encoder", "python:mine:letters?name=new")
    assert one.returncode == 3 and one.stderr.count("of other weights or options") == 1


@pytest.mark.usefixtures("encoders")
@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--encoder", "muze"], ["unknown encoder 'muze'", "'muse'"]),
        (["--encoder", "chargrams?dimm=3"], ["option", "'dimm'", "'dim'"]),
        (["--encoder", "chargrams?dim=many"], ["dim", "number", "'many'"]),
        (["--encoder", "python:nowhere:factory"], ["nowhere"]),
        (["--encoder", "python:mine:lettres"], ["mine", "lettres"]),
        (["--encoder", "python:mine:nan"], ["'nan'", "NaN", "in row", "for the sentence"]),
        (["--encoder", "python:mine:infinite"], ["'infinite'", "infinity", "in row"]),
        (["--encoder", "python:mine:narrow"], ["'narrow'", "shape", "5)"]),
        (["--encoder", "chargrams", "--encoder", "chargrams"], ["one name", "name="]),
        (["--encoder", "chargrams", "--task", "sts18"], ["unknown task 'sts18'", "'sts17'"]),
        (["--encoder", "chargrams", "--subset", "en-dee@sample"], ["unknown subset", "'en-de@sample'"]),
        (["--encoder", "chargrams", "--task", "tatoeba", "--subset", "dee"], ["dee", "deu"]),
        (["--encoder", "chargrams", "--subset", "en-de"], ["en-de missing", "en-de@sample"]),
        (["--encoder", "chargrams", "--suite", "paper"], ["HARNESS_DATA"]),
        (["--encoder", "chargrams", "--data-dir", "nowhere"], ["nowhere", "not a folder"]),
        (["--encodr", "chargrams"], ["--encodr", "--encoder"]),
        (["--suite", "fast"], ["fast", "sample"]),
    ],
)
def test_wrong_use_gives_one_line_and_exit_code_2(
    leaderboard: Leaderboard, arguments: list[str], parts: list[str]
) -> None:
    message = one_line_error(leaderboard("run", *arguments))
    for part in parts:
        assert part in message


def test_an_empty_data_directory_is_no_sample(leaderboard: Leaderboard, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    message = one_line_error(leaderboard("run", "--encoder", "chargrams", "--data-dir", "data"))
    assert "no data set of" in message and "found in data" in message


def test_an_absent_set_is_said_and_no_failure(leaderboard: Leaderboard, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "sts17-extended"
    folder.mkdir(parents=True)
    # A byte order mark and Windows line ends are accepted.
    (folder / "STS.en-de.txt").write_bytes("\ufeffa b\tc d\t1.5\r\nabc\tabd\t4\r\nx\ty\t0\r\n".encode())
    done = leaderboard("run", "--encoder", "chargrams", HARNESS_DATA="data")
    assert done.returncode == 0, done.stderr
    assert "not in the data directory: sts17" in done.stderr and "bucc de-en fr-en ru-en zh-en" in done.stderr
    assert {row["subset"] for row in shown(leaderboard)} == {"en-de"}


@pytest.mark.parametrize("place", ["results", "cache"])
def test_a_file_in_a_folders_place_gives_one_line(leaderboard: Leaderboard, tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").write_text("")
    done = leaderboard(
        "run", "--encoder", "chargrams", "--task", "sts17", f"--{place}{'-dir' * (place == 'cache')}", "taken"
    )
    message = one_line_error(done)
    assert "cannot be written" in message
    if place == "results":
        assert done.stderr == f"error: {message}\n"  # at once: nothing has been loaded or encoded
        assert message == "taken: cannot be written (a file, not a folder); name another folder for the results"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file size limit as on Linux")
@pytest.mark.parametrize("limit", [0, 20_000, pytest.param(200_000, marks=pytest.mark.nightly)])
def test_a_full_disk_gives_one_line_and_loses_nothing(leaderboard: Leaderboard, tmp_path: Path, limit: int) -> None:
    """RLIMIT_FSIZE makes writes beyond `limit` bytes a file fail, as a full disk does."""
    command = ["run", "--encoder", "chargrams", "--suite", "sample"]
    environment = {**os.environ, "HARNESS_CACHE": str(tmp_path / "cache")}

    def limited() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [LEADERBOARD, *command],
        cwd=tmp_path,
        env=environment,
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=600,
    )
    message = one_line_error(done)
    assert "cannot be written" in message
    assert not list(tmp_path.rglob("*.part"))
    for file in tmp_path.rglob("records/*/*.json"):
        json.loads(file.read_text())
    healthy = leaderboard(*command, HARNESS_CACHE=environment["HARNESS_CACHE"])
    assert healthy.returncode == 0, healthy.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["encoders", "run --encoder chargrams --subset en-en@sample"])
def test_output_that_cannot_be_written_gives_one_line(tmp_path: Path, command: str) -> None:
    script = f"{Path(sys.executable).parent / 'leaderboard'} {command} > /dev/full"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "No space left" in one_line_error(done)


def test_no_command_shows_the_help(leaderboard: Leaderboard) -> None:
    done = leaderboard()
    assert done.returncode == 2 and "\n  run " in done.stderr and "error:" not in done.stderr


def test_a_bug_has_an_exit_code_of_its_own(leaderboard: Leaderboard, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import harness.running.plan as p\np.make_plan = None\n")
    done = leaderboard("run", "--encoder", "chargrams", PYTHONPATH=str(tmp_path))
    assert done.returncode == 70 and "Traceback" in done.stderr


def test_a_closed_pipe_is_no_failure(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "leaderboard"), "encoders", "--format", "json"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=600)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_api_reads_like_the_command_line(tmp_path: Path) -> None:
    script = """
        from harness import evaluate, load_encoder, tasks
        results = evaluate("chargrams", "sts17", subsets=["avg-same@sample"])
        assert [r.subset for r in results][-1] == "avg-same@sample"
        assert evaluate(load_encoder("chargrams"), tasks.get_task("sts17"), subsets=["en-en@sample"])[0].n == 60
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

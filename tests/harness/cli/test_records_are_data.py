"""What a record says is never run, nor taken for a path: `check` and `rerun` on records of others."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from gate_runs import leaderboard_here
from result_records import sts, write_records

from harness.encoders.registry import runs_code
from harness.encoders.spec import parse_spec
from harness.results.store import ResultStore

MODULE = """
from pathlib import Path

Path("imported").touch()

def letters():
    from baselines.adapters.chargrams import CharGrams
    Path("called").touch()
    return CharGrams(dim=64, name="letters")
"""
CODE = [
    "python:subprocess:getoutput?cmd=touch called",
    "python:os:system?command=touch called",
    "python:runpy:run_path?path_name=foreign.py",
    "python:foreign:letters",
    "tfhub:somebody/model/1",
    "tfhub:.",
    "tfhub:google/LaBSE/2?preprocessor=somebody/model/1",
    "labse-tfhub?preprocessor=.",
    "openai:tiny?base_url=http://127.0.0.1:9/v1",
    "sentence-transformers:somebody/model?trust_remote_code=true",
    "mean-pooling:somebody/model?trust_remote_code=1",
    "labse?trust_remote_code=True",
    "student?trust_remote_code=true",
    "mteb:somebody/model",
]
DATA = [
    *("student", "muse?name=other", "chargrams", "minilm", "student-transformer", "laser:somewhere", "labse"),
    *("static:somewhere", "compact:somewhere", "sentence-transformers:somebody/model", "mean-pooling:somebody/model"),
    *("mbert-mean?trust_remote_code=false", "muse-tfhub", "labse-tfhub", "tfhub:google/LaBSE/2"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "foreign.py").write_text(MODULE)
    (tmp_path / "saved_model.pb").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("spec", CODE)
def test_code_that_a_record_names_is_not_run(here: Path, capsys: pytest.CaptureFixture[str], spec: str) -> None:
    write_records(here, [sts("student", "en-en@sample", 80.0, spec=spec)])
    for command in (
        ["check", "--against", here, "--encoder", "student"],
        ["rerun", "student/sts17/en-en@sample", "--results", here],
    ):
        assert leaderboard_here(*command) == 2
        error = capsys.readouterr().err
        assert len(error.splitlines()) == 1 and "runs code" in error and "--encoder" in error and spec in error
    assert not (here / "called").exists() and not (here / "imported").exists()


@pytest.mark.parametrize("spec", CODE)
def test_kinds_that_run_code(here: Path, spec: str) -> None:
    assert runs_code(parse_spec(spec))


@pytest.mark.parametrize("spec", DATA)
def test_kinds_that_only_read(here: Path, spec: str) -> None:
    assert not runs_code(parse_spec(spec))


def test_a_folder_with_the_name_of_a_known_model_is_not_that_model(here: Path) -> None:
    (here / "google/LaBSE/2").mkdir(parents=True)
    assert runs_code(parse_spec("tfhub:google/LaBSE/2"))


def test_all_that_must_be_named_is_named_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = {"a": "python:foreign:letters?name=a", "b": "python:foreign:letters?name=b"}
    for name, spec in specs.items():
        write_records(here, [sts(name, "en-en@sample", 80.0, spec=spec)])
    write_records(here, [sts("c", "en-en", 80.0, spec="python:foreign:letters?name=c")])  # its data are not here
    assert leaderboard_here("check", "--against", here) == 2
    error = capsys.readouterr().err
    assert all(f"--encoder '{spec}'" in error for spec in specs.values()) and "name=c" not in error


def test_code_is_run_where_the_user_names_it(here: Path) -> None:
    spec = "python:foreign:letters"
    run = ["run", "--suite", "sample", "--subset", "en-en@sample", "--results", here]
    assert leaderboard_here(*run, "--encoder", spec) == 0
    (here / "called").unlink()
    assert leaderboard_here("check", "--against", here) == 2
    assert not (here / "called").exists()
    assert leaderboard_here("check", "--against", here, "--encoder", spec) == 0
    assert leaderboard_here("rerun", "letters/sts17/en-en@sample", "--results", here, "--encoder", spec) == 0
    assert (here / "called").exists()


NAMES = ["../../escaped", "..", "/tmp/escaped", "a/b", "a\nb", "a\0b", ".hidden", "x" * 101, "", "é", "a b", 7, None]


@pytest.mark.parametrize("field", ["encoder", "task", "subset"])
@pytest.mark.parametrize("name", NAMES)
def test_names_in_records_are_no_paths(here: Path, field: str, name: object) -> None:
    write_records(here, [sts("student", "en-en@sample", 80.0)])
    file = here / "records/student/sts17.json"
    file.write_text(json.dumps([{**json.loads(file.read_text())[0], field: name}]))
    refused(here, file)


def refused(folder: Path, file: Path, *commands: list[str]) -> None:
    """Every command that reads `file` names it and ends with 2; nothing is written beside the folder."""
    before = sorted(folder.parent.rglob("*"))
    for command in commands or (["show"], ["report"], ["export", "--out", str(folder / "out")], ["check"]):
        where = "--against" if command[0] == "check" else "--results"
        assert leaderboard_here(*command, where, folder) == 2, command
    assert sorted(folder.parent.rglob("*")) == before


def test_a_record_in_the_place_of_another_is_refused(here: Path) -> None:
    store = write_records(here, [sts("student", "en-en@sample", 80.0)])
    file = here / "records/student/sts17.json"
    (here / "records/other").mkdir()
    file.rename(here / "records/other/sts17.json")
    refused(here, here / "records/other/sts17.json")
    assert isinstance(store, ResultStore)


@pytest.mark.parametrize("part", ["encoder", "subset"])
def test_names_in_statistics_are_no_paths(here: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    write_records(here, [sts("student", "en-en@sample", 80.0)])
    names = {"encoder": "student", "subset": "en-en@sample", part: "../../escaped"}
    entry = {"of": "0" * 12, "interval": {}}
    content = {"level": 0.95, "signature": "", "statistics": {names["encoder"]: {names["subset"]: entry}}}
    (here / "statistics").mkdir()
    (here / "statistics/sts17.json").write_text(json.dumps(content))
    refused(here, here / "statistics/sts17.json", ["show"], ["report"])
    assert "statistics/sts17.json: no statistics" in capsys.readouterr().err


def test_a_spec_that_cannot_be_parsed_is_named_with_its_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(here, [sts("student", "en-en@sample", 80.0, spec=f"student?name={quote('a')}&x")])
    assert leaderboard_here("check", "--against", here) == 2
    assert "records/student/sts17.json: no list of result records" in capsys.readouterr().err

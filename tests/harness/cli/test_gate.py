"""`leaderboard gate` as a user drives it, on planted rows and on encoders whose truth is known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from gate_runs import findings, leaderboard_here
from measured_rows import store_measured, sts_rows
from result_records import sts, write_records
from scipy.stats import binomtest
from speeds import measurement

from harness.results.store import ResultStore
from harness.speed.store import SpeedStore

pytestmark = pytest.mark.slow

SETS = ("en-en", "es-es", "ar-ar")
FEW = ("--resamples", "1000")


def gate(*arguments: str | Path) -> int:
    return leaderboard_here("gate", *FEW, *arguments)


def judged(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int) -> dict[str, Any]:
    """The gate's JSON of one pair."""
    assert gate(*arguments, "--format", "json") == code, capsys.readouterr()
    (found,) = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == code
    return found


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {score["subset"]: score["outcome"] for score in found["scores"]}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`old`; `noisy` is `old` with a little noise, `broken` is far worse on one set, `fine` better on all."""
    monkeypatch.chdir(tmp_path)
    for name, errors in {"old": 1, "noisy": 1, "broken": 1, "fine": 0.3}.items():
        rows = {subset: sts_rows(subset, errors, seed=1) for subset in SETS}
        for of_set in rows.values():
            of_set["cosine"] = of_set["cosine"] + (name == "noisy") * 0.05 * np.random.default_rng(5).normal(size=80)
        if name == "broken":
            rows["es-es"] = sts_rows("es-es", 5, seed=1)
        store_measured(tmp_path / "results", name, rows)
    return tmp_path / "results"


def test_fails_where_it_is_worse_and_says_where(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate("old", "broken", "--format", "github", "--junit", "gate.xml", "--summary", "summary.md") == 1
    printed = capsys.readouterr().out
    assert findings(Path("gate.xml")) == {"broken/sts17/es-es": {"worse"}, "broken/sts17/avg-same": {"worse"}}
    root = ElementTree.parse("gate.xml").getroot()
    assert (root.get("name"), root.get("tests"), root.get("failures")) == ("leaderboard gate", "4", "2")
    annotations = [line for line in printed.splitlines() if line.startswith("::error ")]
    assert len(annotations) == 2 and "file=results/records/old/sts17.json,title=broken/sts17/es-es%3A worse" in printed
    assert max(map(len, [line for line in printed.splitlines() if not line.startswith("::")])) <= 100
    assert printed.splitlines()[-1] == "FAILED: broken against old: 2 significantly worse (4 scores compared)"
    assert Path("summary.md").read_text().startswith("### Gate: old → broken\n\n**FAILED: broken against old")
    (row,) = (line for line in printed.splitlines() if line.startswith("es-es "))
    assert row.endswith("worse")


@pytest.mark.parametrize("candidate", ["noisy", "fine"])
def test_never_fails_for_being_other_or_better(
    results: Path, candidate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = judged(capsys, "old", candidate, code=0)
    assert set(outcomes(found).values()) == ({"better"} if candidate == "fine" else {""})
    assert found["findings"] == [] and found["verdict"].startswith(f"passed: {candidate} against old: 4 scores")


def test_one_family_of_tests_corrected_by_holm(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The correction is over sets and averages together."""
    found = judged(capsys, "old", "broken", code=1)
    assert found["n_tests"] == 4
    ordered = sorted(found["scores"], key=lambda score: score["p"])
    highest = 0.0
    for rank, score in enumerate(ordered):
        highest = max(highest, min(1.0, (4 - rank) * score["p"]))
        assert score["p_holm"] == pytest.approx(highest)
        assert score["change"] == pytest.approx(score["candidate"] - score["baseline"])


def test_p_of_an_accuracy_is_that_of_the_sign_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n, lost, won = 400, 25, 8
    right = np.arange(n)

    def rows(wrong: range) -> dict[str, np.ndarray]:
        nearest = right.copy()
        nearest[list(wrong)] = (nearest[list(wrong)] + 1) % n
        return {"item": right, "found_en_xx": nearest, "found_xx_en": right}

    results = tmp_path / "results"
    store_measured(results, "old", {"deu": rows(range(won))}, "tatoeba")
    store_measured(results, "new", {"deu": rows(range(100, 100 + lost))}, "tatoeba")
    found = judged(capsys, "old", "new", "--results", results, "--resamples", "20000", code=1)
    (score,) = found["scores"]
    assert score["p"] == pytest.approx(binomtest(lost, lost + won).pvalue, abs=0.002)
    assert score["change"] == pytest.approx(-100 * (lost - won) / n)


def test_a_largest_drop(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(capsys, "old", "broken", "--max-drop", "200", code=1)
    assert {entry["kind"] for entry in found["findings"]} == {"worse"}
    drop = -min(score["change"] for score in judged(capsys, "old", "noisy", code=0)["scores"])
    assert drop > 0
    found = judged(capsys, "old", "noisy", "--max-drop", f"{drop / 2:.6f}", code=1)
    assert {entry["kind"] for entry in found["findings"]} == {"drop"}
    assert "the test finds a drop of" in found["findings"][0]["message"]
    assert all(0 < score["power"] <= 1 for score in found["scores"])
    assert judged(capsys, "old", "noisy", "--max-drop", f"{drop + 0.001:.6f}", code=0)["findings"] == []


def test_without_rows_there_is_a_hole_whatever_the_largest_drop(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(results / "rows/old")
    found = judged(capsys, "old", "broken", code=3)
    assert {entry["kind"] for entry in found["findings"]} == {"untested"}
    assert "leaderboard rows --pack --results results --encoder old" in found["findings"][0]["message"]
    assert gate("old", "broken") == 3
    out = capsys.readouterr().out
    assert " ".join(out.split()).count("rows --pack") == 1  # the same is said once of all sets
    assert "INCOMPLETE: broken against old: 4 scores compared, 4 not judged" in out
    found = judged(capsys, "old", "broken", "--max-drop", "5", code=1)
    assert {entry["kind"] for entry in found["findings"]} == {"drop", "untested"}
    found = judged(capsys, "old", "fine", "--max-drop", "5", code=3)
    assert outcomes(found) == dict.fromkeys(["avg-same", *SETS], "not tested")


def test_packed_rows_travel_with_the_records(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_files = judged(capsys, "old", "broken", code=1)
    assert leaderboard_here("rows", "--pack", "--encoder", "old") == 0
    shutil.rmtree(results / "rows/old")
    capsys.readouterr()
    assert judged(capsys, "old", "broken", code=1) == with_files


def test_what_cannot_be_compared_is_named(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = ResultStore(results).load("noisy")
    changed = {
        "es-es": {"signature": "task:sts17|version:1|similarity:dot"},
        "ar-ar": {"dataset": {"name": "sts17", "sha256": "f" * 64, "files": {}}},
    }
    file = results / "records/noisy/sts17.json"
    content = json.loads(file.read_text())
    file.write_text(
        json.dumps([{**one, **changed.get(one["subset"], {})} for one in content if one["subset"][0] != "w"])
    )
    found = judged(capsys, "old", "noisy", "--subset", "es-es", "--subset", "ar-ar", "--subset", "en-en", code=3)
    kinds = {entry["subset"]: entry["kind"] for entry in found["findings"]}
    assert kinds == {"es-es": "signature", "ar-ar": "data"} and [s["subset"] for s in found["scores"]] == ["en-en"]
    assert all(entry["message"].startswith("not compared: ") for entry in found["findings"])
    assert len(records) == 4

    write_records(results, [r for r in ResultStore(results).load("fine") if r.subset == "en-en"])
    found = judged(capsys, "old", "fine", code=3)
    assert {e["subset"]: e["kind"] for e in found["findings"]} == dict.fromkeys(
        ["avg-same", "es-es", "ar-ar"], "missing"
    )
    # A regression counts more than a hole.
    write_records(results, [r for r in ResultStore(results).load("broken") if r.subset == "es-es"])
    judged(capsys, "old", "broken", code=1)


def test_folders_and_names(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A colleague's folder has an encoder of the same name."""
    other = tmp_path / "theirs"
    store_measured(other, "old", {subset: sts_rows(subset, 4, seed=3) for subset in SETS}, fingerprint="theirs")
    both = ("--results", "results", "--results", "theirs")
    found = judged(capsys, "results/old", "theirs", code=1)
    assert (found["baseline"], found["candidate"]) == ("results/old", "theirs/old")
    assert gate("results/old", "theirs", "--format", "github") == 1
    assert "::error file=results/records/old/sts17.json," in capsys.readouterr().out
    assert judged(capsys, *both, "results/old", "theirs/old", code=1)["candidate"] == "theirs/old"
    assert judged(capsys, *both, "theirs/old", "fine", code=0)["baseline"] == "theirs/old"
    assert (
        judged(capsys, "theirs", "results", code=0)["candidate"] == "results/old"
    )  # of several, the one of the same name
    for arguments, words in [
        (("old", "fine", *both), "several of the results folders have 'old'"),
        (("results", "theirs", "x"), "BASELINE CANDIDATE"),
        (("old",), "BASELINE CANDIDATE"),
        (("old", "olden"), "unknown encoder 'olden'; did you mean 'old'"),
        (("old", "old"), "are the same results"),
        (("old", "fine", "--metric", "bleu"), "has the metric 'bleu'; known: pearson, spearman"),
        (("old", "fine", "--subset", "xx"), "xx"),
        (("old", "fine", "--max-size", "much"), "is no size"),
        (("old", "fine", "--alpha", "0.001"), "1,000 resamples are too few for any of 4 corrected tests"),
        (("theirs", "fine", "--results", "theirs", "--results", "theirs"), "same results folder twice"),
    ]:
        assert gate(*arguments) == 2, arguments
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error: ", "Error"))]
        assert words in line, line


def test_a_reference_is_held_against_each(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate("old", "fine", "--reference", "noisy", "--format", "json") == 1
    pairs = [(one["baseline"], one["candidate"], one["exit_code"]) for one in json.loads(capsys.readouterr().out)]
    assert pairs == [("old", "noisy", 0), ("fine", "noisy", 1)]
    store_measured(Path("others"), "strong", {subset: sts_rows(subset, 0.2, seed=1) for subset in SETS})
    store_measured(Path("others"), "weak", {subset: sts_rows(subset, 5, seed=1) for subset in SETS})
    assert gate("others", "--reference", "noisy", "--format", "json", "--junit", "gate.xml") == 1
    pairs = [(one["baseline"], one["exit_code"]) for one in json.loads(capsys.readouterr().out)]
    assert pairs == [("strong", 1), ("weak", 0)]
    assert {name.split("/")[0] for name in findings(Path("gate.xml"))} == {"noisy against strong"}


def test_names_that_are_empty_and_limits_that_limit_nothing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(Path("one?"), [sts("a", "en-en", 50.0, spec="chargrams?name=a")])
    for arguments, words in [
        (("old", "--reference", ""), "the name of an encoder is empty"),
        (("old", "fine", "--reference", " "), "the name of an encoder is empty"),
        (("", "fine"), "the name of an encoder is empty"),
        (("old", "fine", "--max-drop", "inf"), "--max-drop"),
        (("old", "fine", "--max-slowdown", "inf"), "--max-slowdown"),
        (("old", "fine", "--resamples", "1000001"), "--resamples"),
        (("results/old", "--reference", "old"), "are the same results"),
        (
            ("chargrams?name=new", "--reference", "old"),
            "to judge the new one: leaderboard gate old 'chargrams?name=new'",
        ),
        (
            ("chargrams?name=b", "--reference", "chargrams?name=a", "--results", "one?", "--results", "results"),
            "leaderboard gate 'chargrams?name=a' 'chargrams?name=b' --results 'one?' --results results",
        ),
    ]:
        assert gate(*arguments) == 2, arguments
        assert words in capsys.readouterr().err


def test_files_that_cannot_be_written_are_refused_before_anything_is_judged(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.reproduction.judge.judge", lambda *_: pytest.fail("judged"))
    for option in ("--summary", "--junit"):
        assert gate("old", "noisy", option, ".") == 2
        assert "error: .: " in capsys.readouterr().err


def test_a_reference_in_a_folder_is_not_held_against_itself(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for reference in ("results/noisy", "noisy"):
        assert gate("results", "--reference", reference, "--format", "json") == 1
        found = json.loads(capsys.readouterr().out)
        assert sorted(one["baseline"] for one in found) == ["broken", "fine", "old"]
    store_measured(Path("lone"), "only", {subset: sts_rows(subset, 1, seed=1) for subset in SETS})
    assert gate("lone", "--reference", "lone/only") == 2
    assert "has no other results than those of lone/only" in capsys.readouterr().err


def test_sides_of_folders_that_end_alike_have_names_of_their_own(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("main/scores", "pr/scores"):
        store_measured(Path(place), "old", {subset: sts_rows(subset, 1, seed=1) for subset in SETS})
    found = judged(capsys, "main/scores", "pr/scores", code=0)
    assert (found["baseline"], found["candidate"]) == ("main/scores/old", "pr/scores/old")
    assert found["baseline_is"] == "stored, measured 2025-01-02, in main/scores"
    assert gate("main/scores", "pr/scores", "--reference", "fine", "--junit", "gate.xml") == 0
    root = ElementTree.parse("gate.xml").getroot()
    cases = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(cases)) == len(cases) == 8 and [suite.get("name") for suite in root] == [
        "fine against main/scores/old",
        "fine against pr/scores/old",
    ]
    capsys.readouterr()
    monkeypatch.chdir("main/scores")
    found = judged(capsys, ".", "../../results/old", code=0)
    assert (found["baseline"], found["candidate"]) == ("scores/old", "results/old")


def test_annotations_name_the_baseline_of_several(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate("old", "fine", "--reference", "broken", "--format", "github") == 1
    printed = capsys.readouterr().out
    assert "title=broken against old/sts17/es-es" in printed and "title=broken against fine/sts17/es-es" in printed


def test_every_name_of_joined_folders_may_have_the_folder(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store_measured(Path("theirs"), "unique", {subset: sts_rows(subset, 1, seed=1) for subset in SETS})
    here = Path.cwd()
    monkeypatch.chdir("/")
    both = ("--results", here / "results", "--results", here / "theirs")
    assert judged(capsys, *both, "theirs/unique", "results/noisy", code=0)["candidate"] == "noisy"


def test_sets_are_chosen_by_language_and_suite(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(capsys, "old", "fine", "--language", "es", code=0)
    assert {score["subset"] for score in found["scores"]} == {"en-en", "es-es"}  # English is of every choice
    for name in ("old", "fine"):
        store_measured(results, name, {"en-en@sample": sts_rows("en-en", 1, seed=2)})
    for suite, chosen in (("sample", {"en-en@sample"}), ("paper", {"avg-same", *SETS})):
        found = judged(capsys, "old", "fine", "--suite", suite, code=0)
        assert {score["subset"] for score in found["scores"]} == chosen


def test_intervals_are_of_the_level_of_the_tests(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide, narrow = (
        judged(capsys, "old", "noisy", "--alpha", alpha, "--subset", "es-es", code=0)["scores"][0]
        for alpha in ("0.01", "0.3")
    )
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]


def test_speed_and_size(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SpeedStore(results)
    limits = ("--max-slowdown", "1.5", "--max-size", "1MB")
    found = judged(capsys, "old", "noisy", *limits, code=3)
    assert [(e["task"], e["subset"], e["kind"]) for e in found["findings"]] == [
        ("cost", "speed", "missing"),
        ("cost", "size", "missing"),
    ]
    store.merge(measurement("old", 9.0, size_bytes=1, fingerprint="of other weights"))
    store.merge(measurement("noisy", 1.0, size_bytes=1, fingerprint="of other weights"))
    assert judged(capsys, "old", "noisy", *limits, code=3)["findings"] == found["findings"]
    command = "leaderboard speed old noisy --results results"
    assert all(f"`{command}`" in entry["message"] for entry in found["findings"])
    for name, times, size in (("old", 1, 10**6), ("noisy", 2, 2 * 10**6)):
        store.merge(measurement(name, float(times), size_bytes=size))
    found = judged(capsys, "old", "noisy", *limits, code=1)
    assert [e["kind"] for e in found["findings"]] == ["slower", "larger"]
    assert "2.00 times as long as old" in found["findings"][0]["message"]
    assert judged(capsys, "old", "noisy", "--max-slowdown", "2.1", "--max-size", "2MB", code=0)["findings"] == []
    assert gate("old", "noisy", *limits, "--junit", "gate.xml") == 1
    assert findings(Path("gate.xml")) == {"noisy/cost/speed": {"slower"}, "noisy/cost/size": {"larger"}}


ENCODERS = """
from baselines.adapters.chargrams import CharGrams

class Letters(CharGrams):
    def encode(self, sentences, *, lang=None):
        if lang == "tr" and self.breaks:
            raise ValueError("no Turkish")
        return super().encode([text[:self.kept] for text in sentences])

def letters(kept: int = 1000, breaks: int = 0):
    encoder = Letters(dim=256)
    encoder.size_bytes = 3_000_000
    encoder.kept, encoder.breaks = kept, breaks
    encoder.fingerprint += f";kept={kept};breaks={breaks}"
    return encoder
"""


@pytest.mark.slow
def test_encoders_that_are_measured_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gate_encoders.py").write_text(ENCODERS)
    old, new = "python:gate_encoders:letters?name=old", "python:gate_encoders:letters?name=new&kept=5"
    assert leaderboard_here("run", "--encoder", old, "--task", "tatoeba", "--suite", "sample") == 0
    capsys.readouterr()
    before = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")}
    found = judged(capsys, "old", new, code=1)
    assert found["candidate"] == "new" and found["n_tests"] == 10
    same = judged(capsys, "old", "python:gate_encoders:letters?name=same", code=0)
    assert {score["change"] for score in same["scores"]} == {0} and same["notes"]
    # What is loaded says its size itself.
    larger = judged(capsys, "old", "python:gate_encoders:letters?name=same", "--max-size", "1MB", code=1)
    assert [e["message"] for e in larger["findings"]] == ["larger: files of 3.00 MB; at most 1.00 MB are allowed"]
    # Both measured now: the same, whatever data there are beside the sample.
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    few = ("--task", "tatoeba", "--subset", "avg-student@sample", "--suite", "sample")
    both = judged(capsys, old.replace("old", "again"), new, *few, code=1)
    assert {s["subset"]: s["p"] for s in both["scores"]}["avg-student@sample"] == next(
        s["p"] for s in found["scores"] if s["subset"] == "avg-student@sample"
    )
    assert before == {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")}
    # One language fails: the others are judged.
    failing = judged(capsys, "old", "python:gate_encoders:letters?name=part&breaks=1", code=3)
    assert {e["subset"]: e["kind"] for e in failing["findings"]} == {
        "tur@sample": "failed",
        "avg-student@sample": "failed",
    }
    assert len(failing["scores"]) == 8

"""The result store: merges per subset, never shrinks, never half-written."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import InputError
from harness.results.records import Dataset, Result
from harness.results.store import ResultStore

BASE = Result(
    task="sts17",
    task_version="1",
    subset="en-en",
    encoder="muse",
    fingerprint="f1",
    metrics={"spearman": 79.9},
    n=250,
    signature="s",
    dataset=Dataset("sts17", "0", {}),
)


def test_round_trip_and_layout(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.merge([BASE, replace(BASE, subset="es-es"), replace(BASE, task="bucc", subset="de-en")])
    assert store.load("muse", "sts17") == [BASE, replace(BASE, subset="es-es")]
    records = json.loads((tmp_path / "records" / "muse" / "sts17.json").read_text())
    assert [record["subset"] for record in records] == ["en-en", "es-es"]
    assert records[0]["metrics"] == {"spearman": 79.9}
    assert list(records[0]) == sorted(records[0])


@pytest.mark.parametrize("folder", ["", "sample", "nli-baselines"])
def test_what_is_stored_is_written_back_byte_for_byte(tmp_path: Path, folder: str) -> None:
    stored = ResultStore(Path(__file__).parents[3] / "results" / folder)
    ResultStore(tmp_path).merge(stored.load())
    files = sorted(stored.records.rglob("*.json"))
    assert files
    for file in files:
        assert (tmp_path / "records" / file.relative_to(stored.records)).read_bytes() == file.read_bytes()


def test_a_run_on_one_subset_does_not_erase_the_others(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.merge([BASE, replace(BASE, subset="es-es")])
    changed = replace(BASE, metrics={"spearman": 12.0})
    store.merge([changed])
    assert store.load() == [changed, replace(BASE, subset="es-es")]


def test_an_average_of_other_vectors_is_dropped(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    average = replace(BASE, subset="avg-same", parts=["en-en", "es-es"])
    store.merge([BASE, replace(BASE, subset="es-es"), average])
    assert average in store.load()
    store.merge([replace(BASE, fingerprint="f2")])
    assert [result.subset for result in store.load()] == ["en-en", "es-es"]


def test_an_average_of_other_scores_is_dropped(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.merge([BASE, replace(BASE, subset="es-es"), replace(BASE, subset="avg-same", parts=["en-en", "es-es"])])
    store.merge([replace(BASE, metrics={"spearman": 1.0})])  # the same vectors and protocol, on corrected data
    assert [result.subset for result in store.load()] == ["en-en", "es-es"]


@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"task": "sts17"}]', '{"a": 1}'])
def test_a_file_that_holds_no_records_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "records" / "muse" / "sts17.json"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with pytest.raises(InputError, match=r"sts17\.json"):
        ResultStore(tmp_path).load()


@pytest.mark.parametrize("change", [{"n": "60"}, {"subset": None}, {"dataset": {}}, {"metrics": {"spearman": "high"}}])
def test_a_record_with_fields_of_another_kind_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    ResultStore(tmp_path).merge([BASE])
    (file,) = tmp_path.glob("records/*/*.json")
    file.write_text(json.dumps([{**json.loads(file.read_text())[0], **change}]))
    with pytest.raises(InputError, match="no list of result records"):
        ResultStore(tmp_path).load()


def test_a_file_in_the_folders_place_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        ResultStore(tmp_path / "results").merge([BASE])


def test_what_another_process_has_changed_is_seen(tmp_path: Path) -> None:
    ours, theirs = ResultStore(tmp_path), ResultStore(tmp_path)
    ours.merge([BASE])
    assert theirs.load() == [BASE]
    theirs.merge([replace(BASE, n=7), replace(BASE, subset="es-es")])
    assert ours.load() == [replace(BASE, n=7), replace(BASE, subset="es-es")]
    ours.merge([replace(BASE, subset="ar-ar")])
    assert [result.subset for result in theirs.load()] == ["ar-ar", "en-en", "es-es"]
    assert ours.load() is not ours.load()  # a caller may change the list
    (file,) = tmp_path.glob("records/*/*.json")
    file.write_text("[]")
    assert ours.load() == theirs.load() == []
    file.unlink()
    assert ours.load() == []


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from dataclasses import replace\n"
        "from test_results import BASE; from harness.results.store import ResultStore\n"
        "for i in range(20): ResultStore(sys.argv[2]).merge([replace(BASE, subset=f'{sys.argv[3]}-{i}')])"
    )
    arguments = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path)]
    workers = [subprocess.Popen([*arguments, name]) for name in ("a", "b")]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert len(ResultStore(tmp_path).load()) == 40

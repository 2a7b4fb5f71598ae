"""Several results folders as one: `best` and `export` on them, and what is stored of their tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from gate_runs import leaderboard_here
from measured_rows import store_measured, sts_rows

from harness.core.errors import InputError
from harness.results.joined import JoinedResults, named_results
from harness.results.statistics import StatisticsStore
from harness.results.store import ResultStore
from harness.statistics.update import update_statistics
from harness.tasks import get_task

pytestmark = pytest.mark.slow

SETS = ("en-en", "es-es", "ar-ar")
BOTH = ("--results", "ours", "--results", "theirs")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`ours` has a, b and zed; `theirs` another a, and c, which is on other data on one set."""
    monkeypatch.chdir(tmp_path)
    for folder, name, error in (
        ("ours", "a", 0.5),
        ("ours", "b", 2),
        ("ours", "zed", 1),
        ("theirs", "a", 4),
        ("theirs", "c", 1),
    ):
        rows = {subset: sts_rows(subset, error, seed=len(folder)) for subset in SETS}
        store_measured(tmp_path / folder, name, rows, fingerprint=f"{folder}-{name}")
    file = tmp_path / "theirs/records/c/sts17.json"
    records = json.loads(file.read_text())
    for record in records:
        if record["subset"] == "es-es":
            record["dataset"]["sha256"] = "f" * 64
    file.write_text(json.dumps([record for record in records if not record.get("parts")]))
    return tmp_path


def best(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    capsys.readouterr()
    assert leaderboard_here("best", *arguments, "--format", "json") == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    return task


def test_equal_names_are_told_apart_and_other_data_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = best(capsys, *BOTH)
    assert [c["encoder"] for c in found["encoders"]][:2] == ["ours/a", "zed"]
    assert {c["encoder"] for c in found["encoders"]} >= {"ours/a", "theirs/a", "b", "zed"}
    assert found["not_comparable"] == {"c": ["es-es"]}
    assert leaderboard_here("best", *BOTH) == 0
    assert "not compared, for other data or another protocol: c on es-es" in " ".join(capsys.readouterr().out.split())


def test_a_reference_against_each(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = best(capsys, "ours", "theirs/a", "--reference", "zed")
    against = {other["encoder"]: other for other in found["against"]}
    values = {c["encoder"]: c["value"] for c in found["encoders"]}
    assert list(against) == ["ours/a", "b", "theirs/a"] and "c" not in values
    for name, other in against.items():
        assert other["difference"] == pytest.approx(values["zed"] - values[name])
    assert [other["result"] for other in found["against"]] == ["worse", "better", "better"]
    assert leaderboard_here("best", *BOTH, "--reference", "nobody") == 2
    assert "known: b, c, ours/a, theirs/a, zed" in capsys.readouterr().err


def test_names_folders_and_specs_choose(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def names(*texts: str, folders: tuple[str, ...] = ()) -> list[str]:
        return named_results(texts, list(map(Path, folders)), lambda: Path("ours"))[1]

    assert names() == ["a", "b", "zed"]
    assert names("b") == ["b"] and names("ours/b") == ["b"] and names("theirs") == ["a", "c"]
    assert names("b", "theirs") == ["b", "theirs/a", "c"]
    assert names("b", "c", folders=("ours", "theirs")) == ["b", "c"]
    for texts, words in [
        (("a", "theirs"), "several"),
        (("d",), "'d'"),
        (("chargrams?name=x",), "has no stored results"),
    ]:
        with pytest.raises(InputError, match=words):
            names(*texts)
    with pytest.raises(InputError, match="neither stored results nor an encoder"):
        names("what:ever")
    assert leaderboard_here("best", "--results", "nothing") == 2
    assert "no stored results in the folder nothing" in capsys.readouterr().err


def test_stored_tests_are_kept_under_the_joined_names(here: Path) -> None:
    """`zed` comes after `ours/a` as after `a`, but `b` before it: the p-value of a pair changes its place."""
    task = get_task("sts17")
    for folder in ("ours", "theirs"):
        update_statistics(ResultStore(folder), [task])
    alone = StatisticsStore("ours").load("sts17")
    joined = JoinedResults([Path("ours"), Path("theirs")])
    records = {(r.encoder, r.subset): r for r in joined.records}
    found = joined.statistics("sts17", joined.records)
    own = {(r.encoder, r.subset): r for r in JoinedResults([Path("ours")]).records}
    for first, second in (("a", "b"), ("a", "zed"), ("b", "zed")):
        new = [f"ours/{name}" if name == "a" else name for name in (first, second)]
        expected = alone.p(own[first, "en-en"], own[second, "en-en"], "spearman")
        assert expected is not None
        assert found.p(records[new[0], "en-en"], records[new[1], "en-en"], "spearman") == expected
    assert found.p(records["ours/a", "en-en"], records["theirs/a", "en-en"], "spearman") is None
    root, record = joined.origin(records["theirs/a", "en-en"])
    assert (root, record.encoder) == (Path("theirs"), "a")


def test_export_of_joined_folders(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard_here("export", "--out", "out", *BOTH) == 0
    files = {path.parts[-3] for path in Path("out").rglob("STS17.json")}
    assert {name.split("__", 1)[1] for name in files} == {"ours__a", "theirs__a", "b", "c", "zed"}
    shutil.rmtree("out")
    assert leaderboard_here("export", "theirs/a", "--out", "out") == 0
    assert {path.parts[-3].split("__", 1)[1] for path in Path("out").rglob("STS17.json")} == {"a"}


@pytest.mark.slow
def test_compare_takes_encoders_of_several_folders(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each folder has measured an encoder of the same name; nothing is loaded."""
    few = ("--suite", "sample", "--task", "tatoeba", "--subset", "deu@sample", "--subset", "tur@sample")
    for folder, spec in (("one", "chargrams"), ("two", "chargrams?dim=64"), ("two", "chargrams?dim=32&name=small")):
        assert leaderboard_here("run", "--encoder", spec, *few, "--results", folder) == 0
    both = ("--results", "one", "--results", "two", *few[2:], "--resamples", "200")
    capsys.readouterr()
    assert leaderboard_here("compare", "one/chargrams", "two/chargrams", *both, "--format", "json") == 0
    printed = capsys.readouterr()
    (first, _) = json.loads(printed.out)["differences"]
    assert (first["first"], first["second"]) == ("one/chargrams", "two/chargrams") and printed.err.count(
        "not loaded"
    ) == 2
    names = ("one/chargrams", "two/chargrams", "small")
    assert leaderboard_here("compare", *names, *both, "--reference", "small", "--format", "md") == 0
    out = capsys.readouterr().out
    assert "small against each" in out and "small - encoder" in out and ", against the best" not in out
    assert leaderboard_here("compare", *names[:2], *both, "--reference", "small") == 2
    assert leaderboard_here("compare", "chargrams", "small", *both) == 2
    assert "say one/chargrams or two/chargrams" in capsys.readouterr().err

"""`leaderboard tasks`: what can be measured, on what, and how much of it there is."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import one_line_error
from packages import offering

from harness.tasks import all_tasks, get_task

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]


def entries(leaderboard: Leaderboard, *arguments: str) -> list[dict[str, object]]:
    done = leaderboard("tasks", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    listed: list[dict[str, object]] = json.loads(done.stdout)
    return listed


def test_without_data_it_lists_what_is_to_be_had(leaderboard: Leaderboard) -> None:
    listed = entries(leaderboard)
    published = {(each["task"], each["subset"]) for each in listed if each["source"] == "published"}
    assert published == {(task.name, subset) for task in all_tasks() for subset in task.published}
    assert all(each["n"] is None for each in listed if each["source"] == "published")
    by_name = {(each["task"], each["subset"]): each for each in listed}
    assert by_name["bucc", "de-en"]["languages"] == ["de", "en"]
    assert by_name["sts17", "en-de"]["licence"] == "no licence stated; a translation of STS 2017 (CC BY-SA 4.0)"
    sample = by_name["tatoeba", "tur@sample"]
    assert (sample["n"], sample["source"], sample["licence"]) == (120, "sample", "CC0 1.0")
    assert sorted(sample["languages"]) == ["en", "tr"]  # type: ignore[call-overload]
    assert {each["task"] for each in listed if each["source"] == "own"} == {"pairs", "scored", "retrieval"}


def test_as_csv_it_is_the_same(leaderboard: Leaderboard) -> None:
    done = leaderboard("tasks", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    listed = entries(leaderboard)
    assert len(rows) == len(listed)
    for row, entry in zip(rows, listed, strict=True):
        assert row["languages"].split() == entry["languages"] and row["subset"] == entry["subset"]
        assert row["n"] == ("" if entry["n"] is None else str(entry["n"]))


def test_a_table_fits_a_hundred_columns(leaderboard: Leaderboard) -> None:
    shown = leaderboard("tasks").stdout
    assert max(map(len, shown.splitlines())) <= 100
    assert all(f"\n{task.name} " in shown for task in all_tasks())
    wrapped = " ".join(("subsets:", *get_task("tatoeba").published))
    assert wrapped in " ".join(shown.split())  # all of it, and nothing in between


def test_with_data_it_lists_and_counts_what_is_there(leaderboard: Leaderboard, tmp_path: Path) -> None:
    folder = tmp_path / "data/tatoeba/v1"
    folder.mkdir(parents=True)
    for side in ("tur", "eng"):
        (folder / f"tatoeba.tur-eng.{side}").write_text("a\nb\nc\n", "utf-8")
    (tmp_path / "data/tatoeba-shop/v1").mkdir(parents=True)
    (tmp_path / "data/tatoeba-shop/v1/tatoeba.deu-eng.deu").write_text("a\n\xe4", "latin-1")
    (tmp_path / "data/tatoeba-shop/v1/tatoeba.deu-eng.eng").write_text("a\nb\n", "utf-8")
    done = leaderboard("tasks", "--data-dir", "data", "--format", "json")
    found = [(each["task"], each["subset"], each["n"], each["licence"]) for each in json.loads(done.stdout)]
    assert found == [("tatoeba", "tur", 3, "CC BY 2.0 FR"), ("tatoeba", "deu@shop", None, "")]
    assert "warning: tatoeba deu@shop" in done.stderr and "tatoeba.deu-eng.deu:2" in done.stderr
    shown = leaderboard("tasks", "--data-dir", "data").stdout
    assert "subsets: deu@shop" in shown


def test_own_sets(leaderboard: Leaderboard, tmp_path: Path) -> None:
    (tmp_path / "faq.de-tr.tsv").write_text("eins\tbir\nzwei\tiki\n", "utf-8")
    (entry,) = entries(leaderboard, "--pairs", "faq.de-tr.tsv")
    assert (entry["task"], entry["subset"], entry["n"], entry["source"]) == ("pairs", "faq", 2, "own")
    assert sorted(entry["languages"]) == ["de", "tr"]  # type: ignore[call-overload]
    assert entry["licence"] == "your own"
    refused = one_line_error(leaderboard("tasks", "--task", "korsts", "--pairs", "faq.de-tr.tsv"))
    assert refused == "no data set of korsts is given"


def test_an_empty_folder_is_told_what_there_is_to_do(leaderboard: Leaderboard, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert "leave --data-dir" in one_line_error(leaderboard("tasks", "--data-dir", "data"))
    assert "did you mean 'korsts'" in one_line_error(leaderboard("tasks", "--task", "korst"))


FOREIGN = """
from dataclasses import replace
from harness.tasks.korsts import korsts

unknown = {"data_sets": lambda subset: (), "languages": lambda subset: ("fr",)}
other = replace(korsts, name="other", published=("one", "two"), **unknown)
faulty = replace(other, name="faulty", sources=lambda data: 1 / 0)
unread = replace(other, name="unread", load=lambda source: 1 / 0)
bare = replace(other, name="bare", published=(), sources=lambda data: {})
"""


@pytest.mark.slow
def test_another_packages_task_is_listed(leaderboard: Leaderboard, tmp_path: Path) -> None:
    offered = "".join(f"{name} = other_tasks:{name}\n" for name in ("other", "faulty", "unread", "broken", "bare"))
    data = tmp_path / "data/tatoeba/v1"
    data.mkdir(parents=True)
    for code in ("tur", "eng"):
        (data / f"tatoeba.tur-eng.{code}").write_text("a\nb\n", "utf-8")
    with offering(tmp_path / "site", "other_tasks", FOREIGN, f"[harness.tasks]\n{offered}"):
        done = leaderboard("tasks", "--format", "json", PYTHONHASHSEED="0")  # a new process, which sees the package
        there = leaderboard("tasks", "--data-dir", "data", PYTHONHASHSEED="0")
        alone = leaderboard("tasks", "--data-dir", "data", "--task", "bare", PYTHONHASHSEED="0")
    assert [each["source"] for each in json.loads(done.stdout) if each["task"] == "bare"] == ["absent"]
    assert "\nbare " in there.stdout and "absent: no data set of it is here; give a --data-dir" in there.stdout
    assert "\ntatoeba " in there.stdout and "\npairs " not in there.stdout and "own:" not in there.stdout
    assert one_line_error(alone).startswith("no data set of bare in data")
    assert done.returncode == 0, done.stderr
    for warning in ("'broken'", "task faulty fails: ZeroDivisionError", "unread ko-ko@sample: ZeroDivisionError"):
        assert warning in done.stderr
    found = [each for each in json.loads(done.stdout) if each["task"] == "other" and each["source"] == "published"]
    assert [(each["subset"], each["languages"], each["licence"]) for each in found] == [
        ("one", ["fr"], ""),
        ("two", ["fr"], ""),
    ]

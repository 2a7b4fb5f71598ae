"""`leaderboard audit-bucc` as a user drives it: write, review, read; F1 beside plain loops over the stored rows."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import one_line_error

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

# Spelled alike on both sides, so that chargrams mines them. The gold has the first three, and the fourth with another
# sentence.
ALIKE = [
    "international organisation",
    "religion programm",
    "november konzert",
    "moderne architektur",
    "minister konferenz",
    "universum galaxie",
    "elefant giraffe",
    "telefon computer",
    "demokratie parlament",
    "museum galerie",
]
GOLD = {(0, 9), (1, 8), (2, 7), (3, 11)}
ONLY_DE = ["ganz etwas anderes hier", "völlig ohne bezug dazu", "noch ein zeile übrig"]
ONLY_EN = ["wholly unlike the rest", "why would this match"]
SET = ["--encoder", "chargrams", "--subset", "de-en@mine", "--data-dir", "data"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ten translations, the English ones in reverse order."""
    folder = tmp_path / "data/bucc2018-mine/de-en"
    folder.mkdir(parents=True)
    english = [text.replace("k", "c").replace("ie", "y") for text in ALIKE]
    sides = {"de": ALIKE + ONLY_DE, "en": english[::-1] + ONLY_EN}
    for lang, sentences in sides.items():
        lines = (f"{lang}-{number:09}\t{text}\n" for number, text in enumerate(sentences, start=1))
        (folder / f"de-en.training.{lang}").write_text("".join(lines), encoding="utf-8")
    gold = "".join(f"de-{a + 1:09}\ten-{b + 1:09}\n" for a, b in sorted(GOLD))
    (folder / "de-en.training.gold").write_text(gold)
    return folder


def review(path: Path, choose: Callable[[dict[str, str]], str]) -> list[dict[str, str]]:
    """Fill in the verdicts; returns the lines."""
    rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines(), delimiter="\t"))
    start = next(i for i, row in enumerate(rows) if row[0] == "rank")
    lines = [dict(zip(rows[start], row, strict=True)) for row in rows[start + 1 :]]
    for row, line in zip(rows[start + 1 :], lines, strict=True):
        row[1] = line["verdict"] = choose(line)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter="\t").writerows(rows)
    return lines


def is_translation(line: dict[str, str]) -> str:
    number1, number2 = (int(line[key][3:]) for key in ("id1", "id2"))
    return "yes" if number1 + number2 == 11 else "no"


def f1_by_hand(mined: list[tuple[float, tuple[int, int]]], gold: set[tuple[int, int]], threshold: float) -> float:
    taken = [pair for score, pair in mined if score >= threshold]
    return 200 * sum(pair in gold for pair in taken) / (len(taken) + len(gold))


@pytest.mark.usefixtures("data")
def test_from_the_list_to_audited_scores(leaderboard: Leaderboard, tmp_path: Path) -> None:
    done = leaderboard("audit-bucc", *SET, "--out", "audit.tsv")
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert "mining" in done.stderr and "--read" in done.stderr
    lines = review(tmp_path / "audit.tsv", is_translation)
    assert sum(line["verdict"] == "yes" for line in lines) == 7
    assert [float(line["score"]) for line in lines] == sorted((float(line["score"]) for line in lines), reverse=True)

    shown = leaderboard("audit-bucc", *SET, "--read", "audit.tsv", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)

    run = leaderboard("run", *SET, "--task", "bucc", "--rows-format", "jsonl")
    assert run.returncode == 0, run.stderr
    (record,) = json.loads((tmp_path / "results/records/chargrams/bucc.json").read_text())
    stored = (tmp_path / "results/rows/chargrams/bucc/de-en@mine.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, stored) if row["score"] is not None]
    mined = [(row["score"], (row["row1"], row["row2"])) for row in rows]
    listed = [(f"de-{a + 1:09}", f"en-{b + 1:09}") for _, (a, b) in mined if (a, b) not in GOLD]
    assert [(line["id1"], line["id2"]) for line in lines] == listed
    threshold = record["metrics"]["threshold"]
    assert [line["above_threshold"] == "yes" for line in lines] == [
        score >= threshold for score, pair in mined if pair not in GOLD
    ]
    more = GOLD | {(i, 9 - i) for i in range(3, 10)}
    best = max(f1_by_hand(mined, more, score) for score, _ in mined)
    metrics = found["metrics"]
    assert metrics["f1_train"] == record["metrics"]["f1_train"] == pytest.approx(f1_by_hand(mined, GOLD, threshold))
    assert metrics["f1_train_audited"] == pytest.approx(best)
    assert metrics["f1_train_audited_kept"] == pytest.approx(f1_by_hand(mined, more, threshold))
    assert metrics["f1_train"] < metrics["f1_train_audited"]
    assert (metrics["n_gold"], metrics["n_gold_audited"]) == (4, 11)
    assert found["review"]["n_accepted"] == 7 and found["review"]["n_sharing"] == 1
    assert found["review"]["n_reviewed"] == len(lines)

    # From the stored rows, the same.
    again = leaderboard("audit-bucc", *SET, "--read", "audit.tsv", "--format", "json")
    assert again.stdout == shown.stdout and "mining" not in again.stderr
    table = leaderboard("audit-bucc", *SET, "--read", "audit.tsv").stdout
    printed = {line.split()[0]: line.split()[1] for line in table.splitlines() if line.startswith("f1_")}
    for name in ("f1_train", "f1_train_audited", "f1_train_audited_kept"):
        assert printed[name] == f"{metrics[name]:.1f}"
    assert f"{len(lines)} of {len(lines)} listed pairs reviewed: 7 accepted" in table
    assert "1 accepted pair has a sentence that the gold pairs with another" in table
    # A record is of the published gold, and stays so.
    assert json.loads((tmp_path / "results/records/chargrams/bucc.json").read_text()) == [record]


@pytest.mark.usefixtures("data")
def test_partners_and_rivals(leaderboard: Leaderboard, tmp_path: Path) -> None:
    assert leaderboard("audit-bucc", *SET, "--out", "a.tsv", "--rivals", "3").returncode == 0
    lines = review(tmp_path / "a.tsv", is_translation)
    for line in lines:
        for side, other in (("1", "2"), ("2", "1")):
            shown = [line[f"rival{side}{letter}"] for letter in "abc"]
            assert all(shown) and not any(line[f"id{other}"] in text for text in shown)
            scores = [float(text.split()[0].strip("'")) for text in shown]
            assert scores == sorted(scores, reverse=True)
    partners = {line["id1"]: line["gold1"] for line in lines if line["gold1"]}
    assert partners == {"de-000000004": "en-000000012 why would this match"}
    assert leaderboard("audit-bucc", *SET, "--out", "b.tsv", "--rivals", "0", "--top", "2").returncode == 0
    short = review(tmp_path / "b.tsv", is_translation)
    assert [line["id1"] for line in short] == [line["id1"] for line in lines[:2]]
    assert not [key for key in short[0] if key.startswith("rival")]


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
@pytest.mark.usefixtures("data")
def test_starts_from_stored_rows(leaderboard: Leaderboard, tmp_path: Path, file_format: str) -> None:
    if file_format == "parquet":
        pytest.importorskip("pyarrow")
    assert leaderboard("audit-bucc", *SET, "--out", "mined.tsv").returncode == 0
    run = leaderboard("run", *SET, "--task", "bucc", "--save-rows", "--rows-format", file_format)
    assert run.returncode == 0, run.stderr
    done = leaderboard("audit-bucc", *SET, "--out", "stored.tsv")
    assert done.returncode == 0 and "mining" not in done.stderr
    assert (tmp_path / "stored.tsv").read_bytes() == (tmp_path / "mined.tsv").read_bytes()
    # Rows of other vectors are not taken.
    other = leaderboard("audit-bucc", *SET[2:], "--encoder", "chargrams?dim=512", "--out", "other.tsv")
    assert other.returncode == 0 and "mining" in other.stderr
    # Rows that are not those of the record are refused.
    (rows,) = (tmp_path / "results/rows/chargrams/bucc").iterdir()
    content = rows.read_bytes()
    rows.write_bytes(content[: len(content) // 2])
    assert "not the rows of the stored result" in one_line_error(leaderboard("audit-bucc", *SET, "--out", "x.tsv"))
    if file_format == "jsonl":
        lines = content.decode().splitlines(keepends=True)
        rows.write_text("".join([lines[0].replace('"gold": true', '"gold": false'), *lines[1:]]))
        assert "not the rows of the stored result" in one_line_error(leaderboard("audit-bucc", *SET, "--out", "x.tsv"))
    assert not (tmp_path / "x.tsv").exists()


@pytest.mark.usefixtures("data")
def test_wrong_use_is_one_line(leaderboard: Leaderboard, tmp_path: Path, data: Path) -> None:
    def error(*arguments: str) -> str:
        return one_line_error(leaderboard("audit-bucc", *arguments))

    assert leaderboard("audit-bucc", *SET, "--out", "audit.tsv").returncode == 0
    assert "no verdict in it" in error(*SET, "--read", "audit.tsv")
    review(tmp_path / "audit.tsv", lambda line: "yes" if line["rank"] == "1" else "")
    before = (tmp_path / "audit.tsv").read_bytes()
    assert "audit.tsv exists" in error(*SET, "--out", "audit.tsv")
    assert (tmp_path / "audit.tsv").read_bytes() == before
    assert "either --out FILE" in error(*SET)
    assert "either --out FILE" in error(*SET, "--out", "a.tsv", "--read", "audit.tsv")
    assert "--top and --rivals are for --out" in error(*SET, "--read", "audit.tsv", "--top", "5")
    assert "missing.tsv: cannot be read" in error(*SET, "--read", "missing.tsv")
    assert "unknown encoder 'chargram'" in error("--encoder", "chargram", *SET[2:], "--out", "a.tsv")
    assert "subset 'de-en@min' is not in the data" in error(
        *SET[:2], "--subset", "de-en@min", *SET[4:], "--out", "a.tsv"
    )
    other = ["--encoder", "chargrams?dim=512", *SET[2:]]
    assert "audit.tsv:4: fingerprint is" in error(*other, "--read", "audit.tsv")
    shutil.copytree(data, tmp_path / "data/bucc2018-other/de-en")
    assert "audit.tsv:2: subset" in error(*SET[:2], "--subset", "de-en@other", *SET[4:], "--read", "audit.tsv")
    gold = data / "de-en.training.gold"
    gold.write_text("".join(gold.read_text().splitlines(keepends=True)[:3]))
    assert "audit.tsv:5: data is" in error(*SET, "--read", "audit.tsv")
    assert not (tmp_path / "a.tsv").exists()


def test_a_gold_that_lacks_nothing(leaderboard: Leaderboard, tmp_path: Path) -> None:
    folder = tmp_path / "data/bucc2018-mine/de-en"
    folder.mkdir(parents=True)
    for name, content in (("de", "d1\teins\n"), ("en", "e1\teins\n"), ("gold", "d1\te1\n")):
        (folder / f"de-en.training.{name}").write_text(content)
    done = leaderboard("audit-bucc", *SET, "--out", "a.tsv")
    assert "every mined pair is in the gold" in one_line_error(done)


def test_an_encoder_that_fails(leaderboard: Leaderboard, tmp_path: Path, data: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "class Broken:\n"
        "    name, fingerprint, dim, uses_lang = 'broken', 'b', 2, False\n"
        "    def encode(self, sentences, *, lang=None): raise RuntimeError('no weights')\n\n"
        "def broken(): return Broken()\n"
    )
    done = leaderboard("audit-bucc", "--encoder", "python:broken:broken", *SET[2:], "--out", "a.tsv")
    assert "encoder broken failed: RuntimeError: no weights" in one_line_error(done)

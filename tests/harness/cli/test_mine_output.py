"""`leaderboard mine` as far as it advises, filters, samples and writes, as a user drives it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from harness.cli import main

pytestmark = pytest.mark.slow

N, N_TRUE = 260, 130
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of each side has its counterpart, another spelling of the same words, at the same line of the other."""
    rng = np.random.default_rng(4)

    def sentence() -> list[str]:
        return ["".join(rng.choice(SYLLABLES, 4)) for _ in range(6)]

    first, second = [sentence() for _ in range(N)], [sentence() for _ in range(N)]
    second[:N_TRUE] = [[word + "o" for word in words] for words in first[:N_TRUE]]
    (tmp_path / "news.de").write_text("".join(f"{' '.join(words)}.\n" for words in first))
    (tmp_path / "news.en").write_text("".join(f"{' '.join(words)}.\n" for words in second))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def called(*arguments: str, files: tuple[str, str] = ("news.de", "news.en")) -> int:
    with pytest.raises(SystemExit) as exited:
        main(["mine", *files, "--encoder", "chargrams", *arguments])
    assert isinstance(exited.value.code, int)
    return exited.value.code


def error(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    return line


def lines(name: str) -> list[str]:
    return Path(name).read_text(encoding="utf-8").splitlines()


def n_correct(pairs: list[tuple[int, int]]) -> int:
    return sum(first == second and first <= N_TRUE for first, second in pairs)


def test_the_suggested_threshold_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("--threshold", "auto", "--report", "--report-json", "report.json", "--out", "auto.jsonl") == 0
    told = json.loads(Path("report.json").read_text())
    errors = capsys.readouterr().err
    threshold = told["suggested_threshold"]
    assert f"Suggested threshold: {threshold:g}" in errors and f"threshold {threshold:g}:" in errors
    assert "1.0600" in errors  # a row of the table
    assert "Recall: of the translations among the mined pairs" in errors
    pairs = [json.loads(line) for line in lines("auto.jsonl")]
    correct = n_correct([(pair["src_line"], pair["trg_line"]) for pair in pairs])
    assert 200 * correct / (len(pairs) + N_TRUE) > 95
    assert called("--threshold", str(threshold), "--out", "same.jsonl") == 0
    assert lines("same.jsonl") == lines("auto.jsonl")
    # What the report says of the pairs that there are is so.
    assert called("--out", "all.jsonl") == 0
    scores = [json.loads(line)["score"] for line in lines("all.jsonl")]
    assert told["pairs"] == len(scores)
    assert [entry["pairs"] for entry in told["thresholds"]] == [
        sum(score >= entry["threshold"] for score in scores) for entry in told["thresholds"]
    ]
    assert [entry["threshold"] for entry in told["thresholds"]] == sorted(
        {threshold, *(round(1 + step / 50, 2) for step in range(11))}
    )


def test_no_advice_where_there_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("news.de", "news.en"):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines(name)[:20]))
    assert called("--report", "--report-json", "few.json", "--out", "all.tsv") == 0
    told = json.loads(Path("few.json").read_text())
    assert {entry[key] for entry in told["thresholds"] for key in ("precision", "recall", "f1")} == {None}
    assert told["suggested_threshold"] is None and told["is_doubtful"] is False
    assert "No threshold is suggested: only" in capsys.readouterr().err
    assert called("--threshold", "auto", "--out", "none.tsv") == 2
    assert "no threshold can be suggested" in error(capsys) and not Path("none.tsv").exists()


def test_a_doubtful_threshold_is_said_to_be_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    second = [line[::-1] for line in lines("news.en")]  # nothing is a translation
    (tmp_path / "news.en").write_text("".join(f"{line}\n" for line in second))
    assert called("--threshold", "auto", "--report-json", "doubt.json", "--out", "auto.tsv") == 0
    assert "warning: Few pairs stand out from chance" in capsys.readouterr().err
    assert json.loads(Path("doubt.json").read_text())["is_doubtful"] is True
    assert called("--report", "--max-overlap", "0.9", "--out", "all.tsv") == 0
    told = capsys.readouterr().err
    assert "expected x 100 (doubtful)" in told and "Few pairs stand out" in told and "before filters" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threshold", "automatic"], "--threshold is a number, or auto"),
        (["--threshold", "nan"], "--threshold is a number, or auto"),
        (["--report", "--margin", "absolute"], "margin absolute"),
        (["--threshold", "auto", "-k", "2"], "needs 3 neighbours"),
        (["--threshold", "auto", "--top", "3"], "exclude each other"),
        (["--report", "--documents"], "within documents"),
        (["--format", "tmy"], "did you mean 'tmx'"),
        (["--format", "moses"], "not for standard output"),
        (["--format", "moses", "--out", ".."], "is a folder"),
        (["--out", "pairs.tsv.zst"], "only .gz is written"),
        (["--out", "pairs.parquet.xz"], "compressed in itself"),
        (["--out", "same", "--report-json", "same"], "--out and --report-json both name"),
        (["--out", "same", "--sample", "3", "--sheet", "same"], "--out and --sheet both name"),
        (["--out", "work/x.text", "--work-dir", "work"], "in the folder of --work-dir"),
        (["--verdicts", "news.de", "--out", "news.de"], "no column"),
        (["--sample", "3", "--sheet", "new.tsv", "--threshold", "auto"], "--threshold has no effect with --sample"),
        (["--sample", "3", "--sheet", "new.tsv", "--out", "-"], "--out - has no effect with --sample"),
        (["--verdicts", "news.de", "--top", "3"], "--top has no effect with --verdicts"),
        (["--format", "moses", "--out", "news"], "would replace a file that is mined"),
        (["--report-json", "news.de"], "--report-json /"),
        (["--report-json", "news.de"], "would replace a file that is mined"),
        (["--max-length-ratio", "0.5"], "1 or more"),
        (["--max-overlap", "2"], "from 0 to 1"),
        (["--sample", "3"], "--sheet"),
        (["--sheet", "new.tsv"], "--sample"),
        (["--sample", "3", "--sheet", "news.de"], "exists"),
        (["--sample", "3", "--verdicts", "news.de"], "leave out --sample"),
    ],
)
def test_what_is_refused_before_anything_is_read(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = lines("news.de"), lines("news.en")
    assert called(*options) == 2
    assert message in error(capsys)
    assert (lines("news.de"), lines("news.en")) == before


def test_every_format_has_the_same_pairs() -> None:
    for out in ("pairs.tsv", "pairs.jsonl", "pairs.tmx", "pairs.parquet"):
        assert called("--top", "50", "--out", out) == 0
    assert called("--top", "50", "--out", "pairs", "--format", "moses") == 0
    import pyarrow.parquet

    rows = [line.split("\t") for line in lines("pairs.tsv")]
    expected = [(source, target) for _, source, target in rows]
    assert len(expected) == 50 and all(len(row[0].partition(".")[2]) == 6 for row in rows)
    objects = [json.loads(line) for line in lines("pairs.jsonl")]
    assert [(one["src"], one["trg"]) for one in objects] == expected
    assert all(lines("news.de")[one["src_line"] - 1] == one["src"] for one in objects)
    units = ElementTree.parse("pairs.tmx").getroot().iter("tu")
    assert [tuple(each.text for each in unit.iter("seg")) for unit in units] == expected
    table = pyarrow.parquet.read_table("pairs.parquet").to_pylist()
    assert [(row["src"], row["trg"]) for row in table] == expected
    assert list(zip(lines("pairs.de"), lines("pairs.en"), strict=True)) == expected


def test_filters_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, second = lines("news.de"), lines("news.en")
    second[0] = second[0].replace(".", "?")
    second[1] = first[1]
    second[2] += " 17"
    second[3] = second[3].split()[0] + " " + second[3].split()[1]
    (tmp_path / "news.en").write_text("".join(line + "\n" for line in second))
    filters = ["--max-length-ratio", "2", "--max-overlap", "0.5", "--same-numbers", "--same-punctuation"]
    assert called("--out", "all.jsonl") == 0
    assert called(*filters, "--out", "kept.jsonl") == 0
    summary = capsys.readouterr().err.splitlines()[-2]
    assert summary == "left out: 1 by length ratio, 1 by punctuation, 1 by numbers, 1 by overlap"
    everything = [json.loads(line) for line in lines("all.jsonl")]
    kept = [json.loads(line) for line in lines("kept.jsonl")]
    assert kept == [pair for pair in everything if pair["trg_line"] > 4 or pair["src_line"] != pair["trg_line"]]
    assert called(*filters, "--top", "5", "--out", "top.jsonl") == 0
    assert lines("top.jsonl") == lines("kept.jsonl")[:5]


def test_a_sample_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("--sample", "8", "--sheet", "sheet.tsv") == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "pairs written to sheet.tsv" in captured.err
    with Path("sheet.tsv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.reader(stream, delimiter="\t"))
    head = next(number for number, row in enumerate(rows) if not row[0].startswith("#"))
    assert rows[head] == ["rank", "verdict", "score", "sentence1", "sentence2", "id1", "id2"]
    scores = [float(row[2]) for row in rows[head + 1 :]]
    assert scores != sorted(scores, reverse=True)
    for row in rows[head + 1 :]:
        numbers = [int(place.rpartition(":")[2]) for place in row[5:7]]
        row[1] = "yes" if n_correct([(numbers[0], numbers[1])]) else "no"
    with Path("sheet.tsv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter="\t").writerows(rows)

    assert called("--verdicts", "sheet.tsv") == 0
    row = r"^ +([\d.]+)\*? +(\d+) +\d+ +[\d.]+ +([\d.]+) +([\d.]+) "
    found = re.findall(row, capsys.readouterr().out, re.MULTILINE)
    assert len(found) >= 4
    assert called("--out", "all.jsonl") == 0
    pairs = [json.loads(line) for line in lines("all.jsonl")]
    for threshold, count, low, high in found:
        n = int(count)
        above = [(pair["src_line"], pair["trg_line"]) for pair in pairs[:n]]
        assert pairs[n - 1]["score"] == pytest.approx(float(threshold), abs=5.1e-5)
        assert float(low) - 0.1 <= 100 * n_correct(above) / n <= float(high) + 0.1

    capsys.readouterr()
    before = Path("sheet.tsv").read_bytes()
    assert called("--verdicts", "sheet.tsv", "--out", "sheet.tsv") == 2
    assert "would replace" in error(capsys) and Path("sheet.tsv").read_bytes() == before
    assert called("--verdicts", "sheet.tsv", "--same-numbers") == 2
    assert "protocol is" in error(capsys)
    assert called("--verdicts", "sheet.tsv", "--margin", "distance") == 2
    assert "protocol is" in error(capsys)
    assert called("--sample", "8", "--sheet", "sheet.tsv") == 2
    assert "exists" in error(capsys)


def test_the_sample_is_of_the_pairs_that_filters_leave(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    second = [line + (" 17" if number % 2 else "") for number, line in enumerate(lines("news.en"))]
    (tmp_path / "news.en").write_text("".join(f"{line}\n" for line in second))
    options = ["--same-numbers", "--max-overlap", "0.5"]
    assert called(*options, "--sample", "1000", "--sheet", "sheet.tsv") == 0
    assert re.search(r"^left out: \d\d+ by numbers, 0 by overlap$", capsys.readouterr().err, re.MULTILINE)
    sheet = Path("sheet.tsv").read_text("utf-8-sig")
    assert "|max_overlap:0.5|same_numbers\n" in sheet
    assert called(*options, "--out", "pairs.tsv") == 0
    in_sheet = {tuple(row.split("\t")[3:5]) for row in sheet.splitlines() if row[0].isdigit()}
    assert in_sheet == {tuple(line.split("\t")[1:]) for line in lines("pairs.tsv")}
    # Of one run, the sheet and the pairs.
    assert called(*options, "--sample", "3", "--sheet", "few.tsv", "--threshold", "1.2", "--out", "both.tsv") == 0
    assert lines("both.tsv") == [line for line in lines("pairs.tsv") if float(line.split("\t")[0]) >= 1.2]


def test_languages_are_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("py3langid.modelio")
    (tmp_path / "own.de").write_text(
        "Die Katze Mimi schläft heute den ganzen Tag.\nThe weather in Berlin is very nice.\n"
    )
    (tmp_path / "own.en").write_text("The cat Mimi sleeps all day long today.\nThe weather in Berlin was very nice.\n")
    assert called("--check-languages", "--out", "kept.jsonl", files=("own.de", "own.en")) == 0
    assert "left out: 1 by language" in capsys.readouterr().err
    assert [json.loads(line)["src_line"] for line in lines("kept.jsonl")] == [1]

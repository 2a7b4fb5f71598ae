"""The file of a review: there and back, as an editor or a spreadsheet leaves it, and one line for what is wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from harness.core.errors import InputError
from harness.review.sheet import Candidate, check_origin, match_verdicts, read_review, write_review

SENTENCES = [
    ("Ein Satz.", "A sentence."),
    ('"Zitat", sagte er.', 'He said "quote".'),
    ("=1+1", "-5 degrees\tat\u2028night"),
    ("# kein Kommentar", "'Tis  so "),
    ("Ключ 鍵 \U0001f511", ""),
]
CANDIDATES = [
    Candidate(
        position=10 * i,
        score=2 - i / 10,
        above_threshold=i < 3,
        ids=(f"de-{i}", f"en-{i}"),
        sentences=sentences,
        gold=("en-9 Else.", "") if i == 1 else ("", ""),
        rivals=(("1.1000 (cosine 0.5000) en-7 R.",) * min(i, 2), ("-0.1000 (cosine -0.2000) de-7 R.",)),
    )
    for i, sentences in enumerate(SENTENCES)
]
ORIGIN = {"subset": "de-en@mine", "fingerprint": "f|prompt: a\tb", "pairs": str(len(CANDIDATES))}


@pytest.fixture
def review(tmp_path: Path) -> Path:
    path = tmp_path / "review.tsv"
    write_review(path, "Pairs.", ORIGIN, CANDIDATES)
    return path


def table(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines(), delimiter="\t"))


def write(path: Path, rows: list[list[str]], quoting: int = csv.QUOTE_MINIMAL, encoding: str = "utf-8") -> None:
    with path.open("w", encoding=encoding, newline="") as stream:
        csv.writer(stream, delimiter="\t", quoting=quoting).writerows(rows)


def verdicts(path: Path) -> list[str]:
    return match_verdicts(read_review(path), ORIGIN, CANDIDATES)


def test_what_a_reviewer_sees(review: Path) -> None:
    rows = table(review)
    assert [row[0].split(":")[0] for row in rows[1:4]] == ["# subset", "# fingerprint", "# pairs"]
    head, lines = rows[4], [dict(zip(rows[4], row, strict=True)) for row in rows[5:]]
    assert head[:6] == ["rank", "verdict", "score", "above_threshold", "sentence1", "sentence2"]
    assert [line["rank"] for line in lines] == ["1", "2", "3", "4", "5"]
    assert not any(line["verdict"] for line in lines)
    assert [line["above_threshold"] for line in lines] == ["yes", "yes", "yes", "no", "no"]
    assert lines[1]["sentence1"] == '"Zitat", sagte er.' and lines[1]["gold1"] == "en-9 Else."
    assert (lines[0]["rival1a"], lines[4]["rival1b"]) == ("", "1.1000 (cosine 0.5000) en-7 R.")
    # Nothing is a formula, and nothing ends a line or a cell.
    assert not [cell for line in lines for cell in line.values() if cell.startswith(("=", "+", "-", "@"))]
    assert lines[2]["sentence1"] == "'=1+1" and lines[2]["sentence2"] == "'-5 degrees at night"


def filled_in(path: Path, values: list[str]) -> list[list[str]]:
    rows = table(path)
    for row, value in zip(rows[5:], values, strict=True):
        row[1] = value
    return rows


def test_verdicts_come_back(review: Path) -> None:
    write(review, filled_in(review, ["yes", " No", "UNSURE ", "", "yes"]))
    assert verdicts(review) == ["yes", "no", "unsure", "", "yes"]


def test_as_a_spreadsheet_saves_it(review: Path) -> None:
    """Every cell quoted, lines filled up, sorted by a column, other widths of numbers, a note of the reviewer's."""
    rows = filled_in(review, ["yes", "no", "unsure", "", "no"])
    for row in rows[5:]:
        row[2] = row[2].rstrip("0").replace(".", ",")
    saved = [row + [""] * (len(rows[4]) + 2 - len(row)) for row in rows[:5] + rows[:4:-1]]
    saved[4][-1], saved[6][-1] = "note", "twice in the text"
    write(review, saved, csv.QUOTE_ALL, "utf-8-sig")
    assert verdicts(review) == ["yes", "no", "unsure", "", "no"]


def test_cells_that_were_left_out(review: Path) -> None:
    rows = filled_in(review, ["yes", "no", "no", "no", "no"])
    short = [["# a note of my own"], *rows[:5], [], *(row[:8] for row in rows[5:])]
    write(review, short)
    assert verdicts(review) == ["yes", "no", "no", "no", "no"]


def test_a_file_that_is_there_is_not_touched(review: Path) -> None:
    before = review.read_bytes()
    with pytest.raises(InputError, match=r"review\.tsv exists"):
        write_review(review, "Pairs.", ORIGIN, CANDIDATES[:1])
    assert review.read_bytes() == before


def changed(row: int, column: int, value: str) -> object:
    def change(rows: list[list[str]]) -> list[list[str]]:
        rows[row][column] = value
        return rows

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(6, 1, "maybe"), r"review\.tsv:7: the verdict 'maybe' is none of yes, no, unsure"),
        (changed(6, 4, "Edited."), r"review\.tsv:7: sentence1 is 'Edited\.', not that of rank 2"),
        (changed(7, 5, "#NAME?"), r"review\.tsv:8: sentence2 is '#NAME\?'"),
        (changed(6, 6, "de-3"), r"review\.tsv:7: id1 is 'de-3'"),
        (changed(6, 0, "3"), r"review\.tsv:7: sentence1 is .* not that of rank 3"),
        (changed(6, 0, "6"), r"review\.tsv:7: '6' is not a rank from 1 to 5"),
        (changed(6, 0, "9" * 5000), r"review\.tsv:7: '9{60}' is not a rank"),
        (changed(6, 0, "1,0"), r"review\.tsv:7: '1,0' is not a rank"),
        (lambda rows: rows[:6] + rows[7:], r"review\.tsv: the pair of rank 2 \(de-1, en-1\) is missing"),
        (lambda rows: [*rows, rows[6]], r"review\.tsv:11: the pair of rank 2 is there already"),
        (lambda rows: rows[:5], r"review\.tsv: the pair of rank 1 .* is missing"),
        (changed(5, 1, ""), r"review\.tsv: no verdict in it"),
        (changed(1, 0, "# subset: fr-en"), r"review\.tsv:2: subset is fr-en in the file, but de-en@mine here"),
        (changed(2, 0, "# else: f"), r"review\.tsv:1: fingerprint is missing in the file"),
        (changed(4, 1, "Verdikt"), r"review\.tsv:5: no column verdict; expected a file of `leaderboard audit-bucc`"),
        (lambda rows: rows[:4], r"review\.tsv: no pairs in it"),
        (lambda rows: [], r"review\.tsv: no pairs in it"),
        (lambda rows: [["\t".join(row)] for row in rows], r"review\.tsv:5: no column rank or verdict"),
    ],
)
def test_what_is_wrong_is_one_line(review: Path, change: object, message: str) -> None:
    write(review, change(filled_in(review, ["yes", "", "", "", ""])))
    with pytest.raises(InputError, match=message) as caught:
        verdicts(review)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_encoding_or_none(review: Path) -> None:
    review.write_bytes(review.read_bytes().replace("ü".encode(), b"") + b"6\t\xff\n")
    with pytest.raises(InputError, match=r"review\.tsv:11: not UTF-8"):
        read_review(review)
    with pytest.raises(InputError, match=r"other\.tsv: cannot be read \(No such file"):
        read_review(review.with_name("other.tsv"))


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "9" * 5000])
def test_the_number_of_pairs(review: Path, text: str) -> None:
    assert read_review(review).n_pairs == 5
    write(review, changed(3, 0, f"# pairs: {text}")(table(review)))
    with pytest.raises(InputError, match=r"review\.tsv:4: expected the number of pairs"):
        read_review(review).n_pairs  # noqa: B018


def test_origin_is_checked_on_its_own(review: Path) -> None:
    file = read_review(review)
    check_origin(file, {"subset": "de-en@mine"})
    with pytest.raises(InputError, match=r"review\.tsv:3: fingerprint"):
        check_origin(file, {"subset": "de-en@mine", "fingerprint": "g"})

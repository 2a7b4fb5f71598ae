"""Reading one's own text, and writing pairs so that every reader gets them back."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.mining.bitext import language_of, n_best, read_sentences, to_tsv

# Few characters, so that blank and repeated lines come up; of Python's line ends all but the line feed.
LINES = st.lists(st.text(st.sampled_from("ab \r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\u00a0é\U0001f600"), max_size=4))


@settings(max_examples=300, deadline=None)
@given(lines=LINES, min_length=st.integers(1, 3), max_length=st.integers(3, 5) | st.none(), dedup=st.booleans())
def test_what_is_read_and_left_out(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], min_length: int, max_length: int | None, dedup: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "text.de"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    # A carriage return before the line feed is part of the line end; what else Python ends lines at becomes a blank.
    flat = [
        "".join(" " if len(f"a{character}a".splitlines()) == 2 else character for character in line.removesuffix("\r"))
        for line in lines
    ]
    written = [line for line in flat if not line.isspace() and line]
    fitting = [line for line in written if min_length <= len(line) <= (max_length or 10)]
    expected = list(dict.fromkeys(fitting)) if dedup else fitting
    if not expected:
        with pytest.raises(InputError, match=r"no sentence in it|is empty"):
            read_sentences(path, min_length=min_length, max_length=max_length, dedup=dedup)
        return
    read = read_sentences(path, min_length=min_length, max_length=max_length, dedup=dedup)
    assert read.sentences == expected and read.n_lines == len(lines)
    assert [flat[number - 1] for number in read.lines] == expected
    assert read.n_blank == len(flat) - len(written) and read.n_length == len(written) - len(fitting)
    assert read.n_repeated == len(fitting) - len(expected)


def test_gz_and_byte_order_mark(tmp_path: Path) -> None:
    text = "\ufeffeins\r\nzwei\r\neins"
    (tmp_path / "a.de").write_bytes(text.encode())
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.de", "a.de.gz"):
        read = read_sentences(tmp_path / name)
        assert read.sentences == ["eins", "zwei"] and read.lines.tolist() == [1, 2] and read.n_repeated == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "text.de: the file is empty"),
        (b"\n \n", r"text.de: no sentence in it to mine \(2 blank lines"),
        (b"ein\n", r"text.de: no sentence in it to mine \(0 blank lines, 1 shorter"),
        (b"ein Satz\nid-2\tein Satz\n", "text.de:2: a tab in the line"),
        (b"ein Satz\n\xff\n", "text.de:2: not UTF-8"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "text.de"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_sentences(path, min_length=4)


def test_lengths_that_leave_room_for_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="9 characters or more and 8 or fewer"):
        read_sentences(tmp_path / "text.de", min_length=9, max_length=8)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("news.de", "de"),
        ("news.2024.ceb.gz", "ceb"),
        ("news.txt", None),
        ("news.DE", None),
        ("news.gz", None),
        ("news", None),
        (".de", None),
        ("de", None),
        ("news.de.tsv2", None),
    ],
)
def test_language_of_a_file(name: str, language: str | None) -> None:
    assert language_of(Path("some.fr") / name) == language


def test_how_many_pairs_are_kept() -> None:
    scores = np.array([1.5, 1.25, 1.25, 0.5])
    assert [n_best(scores), n_best(scores, top=2), n_best(scores, top=9)] == [4, 2, 4]
    assert [n_best(scores, threshold=value) for value in (2.0, 1.25, 1.2500001, -1.0)] == [0, 3, 1, 4]
    assert n_best(scores[:0], threshold=0.0) == 0


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
    st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1),
)
def test_every_reader_gets_the_pairs_back(scores: list[float], sentence: str) -> None:
    assume(sys.version_info >= (3, 11) or "\0" not in sentence)  # which csv of 3.10 refuses to read
    pairs = np.array([[i, 0] for i in range(len(scores))], np.int64).reshape(-1, 2)
    sources = [f"{sentence} {i}" for i in range(len(scores))]
    text = b"".join(to_tsv(pairs, np.array(scores), sources, [sentence])).decode()
    expected = [(score, source, sentence) for score, source in zip(scores, sources, strict=True)]

    def parsed(rows: list[list[str]]) -> list[tuple[float, str, str]]:
        return [(float(score), source, target) for score, source, target in rows]

    assert parsed([line.split("\t") for line in text.splitlines()]) == expected
    assert parsed([line.rstrip("\n").split("\t") for line in io.StringIO(text, newline=None)]) == expected
    assert parsed(list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))) == expected

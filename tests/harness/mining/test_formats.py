"""Every format is read back by something that did not write it."""

from __future__ import annotations

import csv
import gzip
import inspect
import io
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.cli.mine import mine
from harness.core.errors import InputError
from harness.mining.formats import FORMATS, Bitext, chosen_format, stream_of, to_jsonl, to_tmx, to_tsv, write_bitext
from harness.mining.texts import Sentences

NO_LINE_ENDS = st.characters(codec="utf-8", exclude_characters="\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")


def bitext(scores: list[float], source: list[str], target: list[str], *, files: int = 1) -> Bitext:
    """Pair i is (row i, last row - i); the lines are the tenfold rows, from 10."""
    sides = []
    for name, sentences in (("news.de", source), ("news.en", target)):
        lines = 10 * np.arange(1, len(sentences) + 1)
        parts = ((name, 10), (f"more.{name}", 1000)) if files == 2 else ((name, 1000),)
        sides.append(Sentences(sentences, lines, parts))
    rows = np.column_stack([np.arange(len(scores)), len(target) - 1 - np.arange(len(scores))])
    return Bitext(rows, np.array(scores), sides, ("de", "en"))


SMALL = bitext([1.5, 1.25], ['Ja & <nein> "gut"', "Zwei"], ["Two", "Yes\u00ad \u200b\x01"])


def test_the_help_and_the_page_name_every_format() -> None:
    """The command's module types them by hand, as it may not import NumPy."""
    (option,) = inspect.get_annotations(mine, eval_str=True)["format"].__metadata__
    assert option.metavar == f"<{'|'.join(FORMATS)}>"
    page = (Path(__file__).parents[3] / "docs/mining.md").read_text("utf-8")
    section = page.split("\n## Formats\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(FORMATS)


@given(st.lists(st.floats(-9, 9), max_size=5), st.lists(st.text(NO_LINE_ENDS, min_size=1), min_size=5, max_size=5))
def test_every_reader_gets_the_lines_back(scores: list[float], sentences: list[str]) -> None:
    assume(sys.version_info >= (3, 11) or not any("\0" in one for one in sentences))  # 3.10's csv refuses to read it
    pairs = bitext(scores, sentences, sentences)
    text = b"".join(to_tsv(pairs)).decode()
    expected = [(sentences[i], sentences[4 - i]) for i in range(len(scores))]

    def check(rows: list[list[str]]) -> None:
        assert [(source, target) for _, source, target in rows] == expected
        assert [float(row[0]) for row in rows] == pytest.approx(scores, abs=5.1e-7)

    check([line.split("\t") for line in text.splitlines()])
    check([line.rstrip("\n").split("\t") for line in io.StringIO(text, newline=None)])
    check(list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)))
    objects = [json.loads(line) for line in b"".join(to_jsonl(pairs)).splitlines()]
    check([[str(one["score"]), one["src"], one["trg"]] for one in objects])


@given(st.lists(st.text(NO_LINE_ENDS, min_size=1), min_size=2, max_size=2))
def test_tmx_is_xml(sentences: list[str]) -> None:
    root = ElementTree.fromstring(b"".join(to_tmx(bitext([1.5, 1.25], sentences, sentences))))
    has_no_xml = dict.fromkeys([*range(0x20), 0xFFFE, 0xFFFF], "\ufffd")
    expected = [one.translate(has_no_xml) for one in (*sentences, *sentences[::-1])]
    assert sorted(each.text or "" for each in root.iter("seg")) == sorted(expected)


def test_tmx_in_full() -> None:
    root = ElementTree.fromstring(b"".join(to_tmx(SMALL)))
    header = root.find("header")
    assert (root.tag, root.get("version")) == ("tmx", "1.4") and header is not None
    # All that TMX 1.4b asks of a header.
    wanted = {"creationtool", "creationtoolversion", "segtype", "o-tmf", "adminlang", "srclang", "datatype"}
    assert set(header.attrib) == wanted and header.get("srclang") == "de"
    units = [
        (unit.findtext("prop"), *(f"{tuv.attrib}: {tuv.findtext('seg')}" for tuv in unit.iter("tuv")))
        for unit in root.iter("tu")
    ]
    key = "{http://www.w3.org/XML/1998/namespace}lang"
    of = [{key: "de"}, {key: "en"}]
    assert units == [
        ("1.500000", f'{of[0]}: Ja & <nein> "gut"', f"{of[1]}: Yes\u00ad \u200b\ufffd"),
        ("1.250000", f"{of[0]}: Zwei", f"{of[1]}: Two"),
    ]
    unknown = Bitext(SMALL.rows, SMALL.scores, SMALL.texts, (None, "en"))
    assert b'xml:lang="und"' in b"".join(to_tmx(unknown))


def test_lines_and_files_are_named() -> None:
    first = json.loads(next(iter(to_jsonl(SMALL))).splitlines()[0])
    assert list(first) == ["score", "src", "trg", "src_line", "src_file", "trg_line", "trg_file"]
    assert (first["src_file"], first["src_line"], first["trg_line"]) == ("news.de", 10, 20)
    parts = bitext([1.5], ["eins", "zwei"], ["one", "two"], files=2)
    one = json.loads(next(iter(to_jsonl(parts))))
    assert (one["src_file"], one["src_line"], one["trg_file"], one["trg_line"]) == ("news.de", 10, "more.news.en", 10)


def test_moses_is_two_aligned_files(tmp_path: Path) -> None:
    name, files = chosen_format("moses", tmp_path / "pairs.gz", ("de", "en"))
    assert [path.name for path in files] == ["pairs.de.gz", "pairs.en.gz"]
    write_bitext(name, files, SMALL)
    read = [gzip.decompress(path.read_bytes()).decode().splitlines() for path in files]
    assert read == [['Ja & <nein> "gut"', "Zwei"], ["Yes\u00ad \u200b\x01", "Two"]]


def test_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet

    name, files = chosen_format(None, tmp_path / "pairs.parquet", ("de", "en"))
    write_bitext(name, files, SMALL)
    rows = pyarrow.parquet.read_table(files[0]).to_pylist()
    assert [(row["score"], row["src"], row["trg"]) for row in rows] == [
        (1.5, 'Ja & <nein> "gut"', "Yes\u00ad \u200b\x01"),
        (1.25, "Zwei", "Two"),
    ]
    assert [(row["src_file"], row["src_line"], row["trg_line"]) for row in rows] == [
        ("news.de", 10, 20),
        ("news.de", 20, 10),
    ]


def test_the_name_says_the_format() -> None:
    def named(out: str | None, name: str | None = None) -> tuple[str, list[str]]:
        chosen, files = chosen_format(name, None if out is None else Path(out), ("de", "en"))
        return chosen, [path.name for path in files]

    assert named(None) == ("tsv", [])
    assert named("a.tmx.gz") == ("tmx", ["a.tmx.gz"])
    assert named("a.jsonl") == ("jsonl", ["a.jsonl"])
    assert named("a.moses") == ("tsv", ["a.moses"])
    assert named("a.tmx", "tsv") == ("tsv", ["a.tmx"])
    assert named("a", "moses") == ("moses", ["a.de", "a.en"])
    assert chosen_format("moses", Path("a"), (None, None))[1] == (Path("a.src"), Path("a.trg"))
    assert chosen_format("moses", Path("a"), ("en", "en"))[1] == (Path("a.src"), Path("a.trg"))
    packed = [("a.parquet.gz", "parquet"), ("a.parquet.zst", None), ("a.xz", "moses"), ("a.tsv.zst", None)]
    for wrong in ((None, "moses"), (None, "parquet"), ("a", "tmy"), *packed):
        with pytest.raises(InputError):
            named(*wrong)


def test_all_files_or_none(tmp_path: Path) -> None:
    """A sentence that cannot be read leaves what was there."""
    files = (tmp_path / "a.de", tmp_path / "a.en")
    for path in files:
        path.write_text("old\n")
    rows = np.array([[0, 0], [1, 7]])  # there is no row 7
    broken = Bitext(rows, SMALL.scores, SMALL.texts, SMALL.langs)
    with pytest.raises(IndexError):
        write_bitext("moses", files, broken)
    assert [path.read_text() for path in files] == ["old\n", "old\n"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]


def test_nothing_mined_is_still_a_file() -> None:
    nothing = bitext([], ["eins"], ["one"])
    assert [b"".join(stream_of(name, nothing)) for name in ("tsv", "jsonl")] == [b"", b""]
    assert not list(ElementTree.fromstring(b"".join(to_tmx(nothing))).iter("tu"))

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from distill.corpora import find_corpora
from harness.core.errors import InputError
from harness.data.corpora import Corpus, open_corpus, read_pairs

Write = Callable[[str, "bytes | str"], Path]

PAIRS = [("A dog runs.", "Ein Hund rennt."), ("“A” cat\u2028", "Eine Katze")]
EN, DE = ("".join(f"{pair[side]}\n" for pair in PAIRS) for side in (0, 1))
TSV = "".join(f"{one}\t{two}\n" for one, two in PAIRS)
SWAPPED = "".join(f"{two}\t{one}\n" for one, two in PAIRS)
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="de-AT"><seg>Ein <hi>Hund</hi>
  rennt<ph>&lt;br&gt;</ph>.</seg></tuv><tuv xml:lang="EN"><seg>A dog runs.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English &amp; French</seg></tuv><tuv xml:lang="fr"><seg>et</seg></tuv></tu>
<tu><tuv lang="en"><seg>A cat</seg></tuv><tuv lang="de"><seg>Eine Katze</seg></tuv></tu>
</body></tmx>
"""
TMX_PAIRS = [("A dog runs.", "Ein Hund rennt."), ("A cat", "Eine Katze")]


def zipped(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


MOSES = zipped(**{"README": "read me", "LICENSE": "", "X.de-en.de": DE, "X.de-en.en": EN, "X.de-en.xml": "<a/>"})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.en-de.tsv": TSV}, PAIRS),
        ({"a.en-de.tsv.gz": TSV}, PAIRS),
        ({"a.de-en.tsv": SWAPPED}, PAIRS),
        ({"sub/a.en-de.tsv": TSV.replace("\n", "\r\n")}, PAIRS),
        ({"a.de-en.de": DE, "a.de-en.en": EN}, PAIRS),
        ({"a.en-de.de.gz": DE, "a.en-de.en": EN}, PAIRS),
        ({"a.de-en.txt.zip": MOSES}, PAIRS),
        ({"a.en-de.zip": MOSES}, PAIRS),
        ({"a.en-de.tmx": TMX}, TMX_PAIRS),
        ({"a.de-en.tmx.gz": TMX}, TMX_PAIRS),
        ({"a.de-en.tmx.zip": zipped(**{"d/a.tmx": TMX})}, TMX_PAIRS),
    ],
)
def test_formats(write: Write, tmp_path: Path, files: dict[str, bytes | str], expected: list[tuple[str, str]]) -> None:
    for name, content in files.items():
        write(f"parallel/{name}", content)
    write("parallel/README.md", "no corpus")
    write("parallel/notes.fr-it.tsv", "Non\tNo\n")
    found = find_corpora(tmp_path / "data")
    assert [corpus.name for corpus in found] == ["a.en-de"]
    assert (found[0].source_lang, found[0].target_lang) == ("en", "de")
    assert list(read_pairs(found[0])) == expected
    location = ",".join(str(tmp_path / "data/parallel" / name) for name in files)
    assert list(read_pairs(open_corpus(location, source_lang="en"))) == expected
    assert open_corpus(location, source_lang="en").name == "a.en-de"


def test_corpora_with_a_format_of_their_own(write: Write, tmp_path: Path) -> None:
    scored = "1.2\tein\tone\n1.05\tzwei\ttwo\n1.0499\tdrei\tthree\n"
    write("parallel/WikiMatrix/WikiMatrix.de-en.tsv.gz", scored)
    write("parallel/MUSE/MUSE.en-de.txt", "dog Hund\ncat\tKatze\n")
    write("parallel/other.en-de.txt", "is no corpus")
    cn = {"OpenSubtitles.en-zh_cn.en": "One.\n", "OpenSubtitles.en-zh_cn.zh_cn": "一。\n"}
    write("parallel/OpenSubtitles2018/OpenSubtitles2018.en-zh.txt.zip", zipped(**cn))
    muse, subtitles, wiki = find_corpora(tmp_path / "data")
    assert list(read_pairs(wiki)) == [("one", "ein"), ("two", "zwei")] and wiki.licence == "CC BY-SA 4.0"
    assert list(read_pairs(muse)) == [("dog", "Hund"), ("cat", "Katze")] and muse.licence == "CC BY-NC 4.0"
    assert list(read_pairs(subtitles)) == [("One.", "一。")] and subtitles.target_lang == "zh"
    assert open_corpus(wiki.files[0], source_lang="en") == wiki


def test_training_part_of_stsb(write: Write, tmp_path: Path) -> None:
    write("stsb/stsb-en-train.csv.gz", 'A dog runs.,"A cat, too",2.5\nOne,Two,0\n')
    write("stsb/stsb-de-train.csv", 'Ein Hund rennt.,"Eine Katze, auch",2.5\nEins,Zwei,0\n')
    write("stsb/stsb-fr-train.csv", "Un chien,Un chat,1\n")
    write("stsb/stsb-en-test.csv", "Not,This,1\n")
    german, french = find_corpora(tmp_path / "data", ["stsb-train"])
    assert german.name == "stsb-train.en-de" and german.licence.startswith("scores CC BY-SA 4.0")
    rows = [("A dog runs.", "Ein Hund rennt."), ("One", "Eins"), ("A cat, too", "Eine Katze, auch"), ("Two", "Zwei")]
    assert list(read_pairs(german)) == rows
    with pytest.raises(InputError, match=r"stsb-fr-train\.csv has 1 lines, .*stsb-en-train\.csv\.gz has more"):
        list(read_pairs(french))


def test_choosing(write: Write, tmp_path: Path) -> None:
    for name in ("a.en-de", "a.en-sw", "b.c.en-de", "b.c.en-tt"):
        write(f"parallel/{name}.tsv.gz", TSV)
    write("SOURCES.md", "| file | licence |\n|---|---|\n| parallel/a.en-sw.tsv.gz | many | CC0 (nearly) |\n")

    def names(*arguments: list[str]) -> list[str]:
        return [corpus.name for corpus in find_corpora(tmp_path / "data", *arguments)]

    assert names() == ["a.en-de", "a.en-sw", "b.c.en-de", "b.c.en-tt"]
    assert names(["b.c", "a.en-sw"]) == ["a.en-sw", "b.c.en-de", "b.c.en-tt"]
    assert names([], ["de"]) == ["a.en-de", "b.c.en-de"] and names(["a"], ["sw"]) == ["a.en-sw"]
    assert [corpus.licence for corpus in find_corpora(tmp_path / "data", ["a"])] == ["", "CC0 (nearly)"]
    for arguments, message in (
        ([["zzz"]], "unknown corpus 'zzz'; known: a, b.c"),
        ([["b.d"]], "unknown corpus 'b.d'; did you mean 'b.c'"),
        ([["TED2020"], ["de", "ar"]], "`leaderboard data fetch TED2020 --languages de,ar` gets it"),
        ([["JW300"]], "JW300 has been withdrawn"),
        ([[], ["fr"]], r"no such corpus with en and fr in .*\(languages there: de, sw, tt\)"),
        ([["a"], ["tt"]], r"\(languages there: de, sw\)"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            names(*arguments)
        assert "\n" not in str(caught.value)
    write("parallel/b.c.de-en.tsv", SWAPPED)
    with pytest.raises(InputError, match=r"are both b\.c\.en-de; remove one of them"):
        names()


def test_no_corpora(tmp_path: Path) -> None:
    assert find_corpora(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.en-de.tsv", "", r"a\.en-de\.tsv: no pairs in it; correct it or leave it out, or if .* fetch it again"),
        ("a.en-de.tsv", "one\teins\ntwo\n", r"a\.en-de\.tsv:2: 1 column, expected 2"),
        ("a.en-de.tsv", "one\teins\tun\n", r"a\.en-de\.tsv:1: 3 columns, expected 2"),
        ("a.en-de.tsv", b"one\teins\ntwo\tf\xfcr\n", r"a\.en-de\.tsv:2: not UTF-8 \(byte 0xfc"),
        ("a.en-de.tsv.gz", b"no gzip", "cannot be read"),
        ("a.en-de.tmx", TMX.replace("</seg>", "", 1), r"a\.en-de\.tmx:5: not TMX \(mismatched tag\)"),
        ("a.en-es.tmx", TMX, "no pairs in it"),
        ("a.en-de.tmx", TMX.replace("UTF-8", "bogus"), r"a\.en-de\.tmx: not TMX \(.*bogus"),
        ("a.en-de.tmx", TMX.replace("UTF-8", "gb2312"), r"a\.en-de\.tmx: not TMX \("),
        ("a.en-de.tmx.zip", zipped(**{"a.tmx": TMX.replace("UTF-8", "bogus")}), r"a\.en-de\.tmx\.zip: not TMX \("),
        ("a.en-de.tmx.gz", gzip.compress(TMX.encode())[:-20], "cannot be read"),
        ("a.en-de.tmx.zip", MOSES, "expected one .tmx file in it, found 0"),
        ("a.en-de.txt.zip", b"no zip", "not a zip file that can be read"),
        ("a.en-de.txt.zip", zipped(**{"X.en-de.en": EN}), "expected two files .* found 1"),
        ("a.en-fr.txt.zip", zipped(**{"X.es-it.es": EN, "X.es-it.it": DE}), "it holds es and it, its name says"),
        (
            "a.de-en.txt.zip",
            zipped(**{"X.de-en.de": DE[:15], "X.de-en.en": EN}),
            r"X\.de-en\.de has 1 lines, .*X\.de-en\.en has more",
        ),
        ("WikiMatrix.de-en.tsv", "1.1\teins\n", r":1: 2 columns, expected 3 or more \(score"),
        ("WikiMatrix.de-en.tsv", "1.1\teins\tone\nbest\tzwei\ttwo\n", ":2: 'best' is not a number"),
        ("WikiMatrix.de-en.tsv", "1.01\teins\tone\n", "no pairs with a score of at least 1.05 in it"),
        ("MUSE.en-de.txt", "dog\n", ":1: 1 words, expected 2"),
    ],
)
def test_bad_files(write: Write, tmp_path: Path, name: str, content: bytes | str, message: str) -> None:
    path = write(f"parallel/{name}", content)
    (corpus,) = find_corpora(tmp_path / "data")
    assert corpus.files == (path,)
    with pytest.raises(InputError, match=message) as caught:
        list(read_pairs(corpus))
    assert "\n" not in str(caught.value)


def test_mark_up_may_be_nested_to_any_depth(write: Write, tmp_path: Path) -> None:
    depth = 100_000
    deep = f"A {'<hi>dog<ph>{}</ph>' * depth} {'</hi>' * depth}runs."
    write("parallel/a.en-de.tmx", TMX.replace("A dog runs.", deep))
    (corpus,) = find_corpora(tmp_path / "data")
    assert next(read_pairs(corpus)) == (f"A {'dog' * depth} runs.", "Ein Hund rennt.")


def test_names_that_tell_too_little(write: Write, tmp_path: Path) -> None:
    for side, other in (("en", "de"), ("de", "en")):
        path = write(f"parallel/a.en-de.{side}.gz", EN)
        with pytest.raises(InputError, match=rf"a\.en-de\.{other} is missing, but a\.en-de\.{side}\.gz is there"):
            find_corpora(tmp_path / "data")
        path.unlink()
    for name in ("mine.tsv", "a.en-de.doc", "a.en-de.txt", "x", "y.123"):
        write(f"own/{name}", "one eins\n")
    own = tmp_path / "data/own"
    for location, message in (
        ("none.en-de.tsv", "no file "),
        ("mine.tsv", "the name does not tell the languages; expected NAME.en-de.tsv"),
        ("a.en-de.doc", "the name does not tell languages and format"),
        ("a.en-de.txt", "a .txt file holds no pairs"),
        (f"x,{own}/y.123", "the names do not tell the languages"),
        (f"x,{own}/x,{own}/x", "3 files"),
    ):
        with pytest.raises(InputError, match=message):
            open_corpus(f"{own}/{location}")


def test_own_files_need_no_english(write: Write) -> None:
    path = write("own/a.fr-it.tsv", "Non\tNo\n")
    corpus = open_corpus(path)
    assert corpus == Corpus("a.fr-it", (path,), "fr", "it") and list(read_pairs(corpus)) == [("Non", "No")]
    swapped = open_corpus(path, source_lang="it")
    assert swapped.name == "a.it-fr" and list(read_pairs(swapped)) == [("No", "Non")]
    fr, it = write("own/b.fr", "Non\n"), write("own/b.it", "No\n")
    assert list(read_pairs(open_corpus(f"{it},{fr}"))) == [("No", "Non")]


def test_real_corpora(real_data: Path) -> None:
    if not (real_data / "parallel").is_dir():
        pytest.skip("$HARNESS_DATA has no parallel/")
    found = find_corpora(real_data)
    assert {"tatoeba-manythings.en-de", "lafand-mt.en-sw", "stsb-train.en-fr"} <= {corpus.name for corpus in found}
    assert all(corpus.licence for corpus in found)
    for corpus in found[:3]:
        source, target = next(read_pairs(corpus))
        assert source and target

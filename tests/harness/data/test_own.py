"""Data sets of the user's own: what files say, and what is wrong with them, in one line."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import pytest

import harness.core.text
from harness.core.errors import InputError
from harness.data.beir import load_retrieval
from harness.data.languages import standard_language
from harness.data.own import Options, OwnSet, load_pairs, load_scored, open_set, own_data
from harness.data.set_files import read_sets

Write = Callable[[str, str], Path]
DE_TR = Options(languages=("de", "tr"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("faq.de-tr.tsv", "eins\tbir\nzwei\tiki\n", Options()),
        ("faq.tsv", "eins\tbir\nzwei\tiki\n", DE_TR),
        ("faq.de-tr.csv", "tr,id,de\nbir,1,eins\niki,2,zwei\n", Options()),
        ("faq.csv", "source,target\neins,bir\nzwei,iki\n", DE_TR),
        (
            "faq.csv",
            'frage,soru\n"eins",bir\n\n"zwei",iki\n',
            Options(languages=("de", "tr"), columns=("frage", "soru")),
        ),
        ("faq.de-tr.jsonl", '{"de": "eins", "tr": "bir"}\n{"tr": "iki", "de": "zwei", "x": [1]}\n', Options()),
        # As spreadsheets and editors leave them: a byte order mark, line ends of Windows, blank lines, a header, `;`.
        ("faq.de-tr.tsv", "\ufeffeins\tbir\r\nzwei\tiki\r\n\r\n\n", Options()),
        ("faq.tsv", "\ufeffDE\ttr \neins\tbir\n\nzwei\tiki\n", DE_TR),
        ("faq.tsv", "Source\tTarget\r\neins\tbir\r\nzwei\tiki\r\n", DE_TR),
        ("faq.de-tr.csv", '\ufeff"de";"tr"\r\n"eins";"bir"\r\n"zwei";"iki"\r\n\r\n', Options()),
        ("faq.de-tr.csv", "id\tde\ttr\n1\teins\tbir\n2\tzwei\tiki\n", Options()),
    ],
)
def test_pairs_of_any_two_languages(write: Write, name: str, text: str, options: Options, ending: str) -> None:
    own = open_set("pairs", write(name + ending, text), options)
    assert (own.subset, own.languages, own.kind) == ("faq", ("de", "tr"), "pairs")
    pairs = load_pairs(own)
    assert (pairs.sources, pairs.targets) == (["eins", "zwei"], ["bir", "iki"])


@pytest.mark.parametrize(
    ("names", "options", "name"),
    [
        (("faq.de", "faq.tr.gz"), Options(), "faq"),
        (("fragen.txt", "sorular.txt"), DE_TR, "fragen"),
        (("a/text.txt", "b/text.txt"), Options("help", ("de", "tr")), "help"),
    ],
)
def test_two_aligned_files(write: Write, names: tuple[str, str], options: Options, name: str) -> None:
    files = [write(file, text) for file, text in zip(names, ("eins\nzwei\n", "bir\niki\n"), strict=True)]
    own = open_set("pairs", ",".join(map(str, files)), options)
    assert own.subset == name and own.languages == ("de", "tr") and len(own.checksums) == 2
    assert load_pairs(own).targets == ["bir", "iki"]


def test_blank_lines_at_the_end_of_two_files_are_no_pairs(write: Write) -> None:
    files = [write(name, f"{text}\n\n\r\n") for name, text in (("faq.de", "eins\n\nzwei"), ("faq.tr", "bir\n\niki"))]
    pairs = load_pairs(open_set("pairs", ",".join(map(str, files))))
    assert (pairs.sources, pairs.targets) == (["eins", "", "zwei"], ["bir", "", "iki"])  # aligned lines stay aligned


def test_text_that_looks_special_stays_as_it_is(write: Write) -> None:
    rows = [('"zitat"', "'alıntı'"), ("a,b;c", '"'), ("=1+1", "  iki "), ("de", "iki")]
    own = open_set("pairs", write("faq.de-tr.tsv", "".join(f"{de}\t{tr}\n" for de, tr in rows)))
    pairs = load_pairs(own)
    assert list(zip(pairs.sources, pairs.targets, strict=True)) == rows


def test_scored_pairs_of_any_scale(write: Write) -> None:
    table = write("sim.de-tr.tsv.gz", "eins\tbir\t-3\nzwei\tbir\t0.5\n")
    own = open_set("scored", table)
    assert load_scored(own).gold.tolist() == [-3, 0.5] and own.languages == ("de", "tr")
    named = write("sim.jsonl", '{"a": "x", "b": "y", "s": 1}\n{"a": "x", "b": "z", "s": 0.25}\n')
    own = open_set("scored", named, Options(languages=("de", "de"), columns=("a", "b", "s")))
    pairs = load_scored(own)
    assert (pairs.sentences2, pairs.gold.tolist()) == (["y", "z"], [1, 0.25])


def test_a_decimal_comma_where_semicolons_separate_columns(write: Write) -> None:
    # As a spreadsheet in German or Turkish writes it.
    table = write(
        "sim.csv", '\ufeffNr;Satz A;Satz B;Punkte\r\n1;a;"b, c";2,5\r\n2;a;d;-0,25\r\n3;a;e;5\r\n4;a;f;1.5\r\n'
    )
    options = Options(languages=("de", "de"), columns=("Satz A", "Satz B", "Punkte"))
    pairs = load_scored(open_set("scored", table, options))
    assert pairs.gold.tolist() == [2.5, -0.25, 5, 1.5] and pairs.sentences2[0] == "b, c"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.csv", 'text1,text2,score\na,b,"2,5"\na,c,1\n'),  # 2,500 may be a large number here
        ("s.tsv", "a\tb\t2,5\na\tc\t1\n"),
        ("s.csv", "text1;text2;score\na;b;1,000,000\na;c;1\n"),
        ("s.csv", "text1;text2;score\na;b;1.000,5\na;c;1\n"),
        ("s.jsonl", '{"text1": "a", "text2": "b", "score": "2,5"}\n'),
    ],
)
def test_a_comma_elsewhere_is_no_number(write: Write, name: str, text: str) -> None:
    with pytest.raises(InputError, match=rf"{name}:[12]: '[^']*' is not a number.*decimal point"):
        load_scored(open_set("scored", write(name, text), DE_TR))


def beir(write: Write, **changes: str) -> Path:
    """A folder with two queries that are answered, one that is not, and one whose only grade is 0."""
    files = {
        "corpus": '{"_id": "d1", "title": "Title", "text": "one"}\n{"_id": "q1", "text": "two"}\n'
        '{"_id": 3, "text": ""}\n',
        "queries": "".join(f'{{"_id": "q{i}", "text": "query {i}"}}\n' for i in (1, 2, 3, 4)),
        "qrels/test": "query-id\tcorpus-id\tscore\nq1\tq1\t0\nq1\td1\t2\nq2\t3\t1\nq2\td1\t0\nq4\td1\t0\n",
    }
    for name, text in (files | changes).items():
        write(f"kb/{name}.{'tsv' if 'qrels' in name else 'jsonl'}", text)
    return write("kb/x", "").parent


def test_retrieval_in_the_layout_of_beir(write: Write) -> None:
    items = load_retrieval(open_set("retrieval", beir(write), DE_TR))
    assert items.documents == ["Title one", "two", ""]
    assert items.queries == ["query 1", "query 2"] and items.n_left_out == 2
    assert items.answers == [{0: 2}, {2: 1}]
    assert items.own == [1, -1]
    kept = open_set("retrieval", beir(write), Options(languages=("de", "tr"), keep_own_id=True))
    assert load_retrieval(kept).own == [-1, -1] and kept.protocol == "own-id:kept"


def test_an_answer_that_would_be_left_out_is_refused(write: Write) -> None:
    """Questions and answers of one list often have the same ids: every score would be 0."""
    folder = beir(write, **{"qrels/test": "q2\td1\t1\nq1\tq1\t1\n"})
    with pytest.raises(
        InputError, match=r"test\.tsv:2: document 'q1' answers the query with the same id.*--keep-own-id"
    ):
        load_retrieval(open_set("retrieval", folder, DE_TR))
    kept = load_retrieval(open_set("retrieval", folder, Options(languages=("de", "tr"), keep_own_id=True)))
    assert kept.answers == [{1: 1}, {0: 1}]


def test_a_comma_in_a_folder(write: Write) -> None:
    files = [write(f"a,b/{name}", text) for name, text in (("faq.de", "eins\n"), ("faq.tr", "bir\n"))]
    assert load_pairs(open_set("pairs", files)).targets == ["bir"]
    sets = write("a,b/sets.toml", '[faq]\nkind = "pairs"\nfiles = ["faq.de", "faq.tr"]\n')
    assert load_pairs(read_sets(sets)[0]).sources == ["eins"]


def test_files_of_one_name_have_a_checksum_each(write: Write) -> None:
    files = [write(f"{folder}/x/text", text) for folder, text in (("a", "eins\n"), ("b", "bir\n"))]
    own = open_set("pairs", files, DE_TR)
    assert own.names == ["a/x/text", "b/x/text"] and len(own.checksums) == 2
    with pytest.raises(InputError, match="the same file on both sides"):
        open_set("pairs", files[:1] * 2, DE_TR)


def test_encoders_are_told_the_usual_code_of_a_language(write: Write) -> None:
    pairs = load_pairs(open_set("pairs", write("faq.csv", "deu,zh_cn\neins,yi\n"), Options(languages=("deu", "zh_cn"))))
    assert pairs.languages == ("de", "zh") and (pairs.sources, pairs.targets) == (["eins"], ["yi"])


def test_tmx_in_utf_16_and_one_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = '<tu><tuv xml:lang="de"><seg>eins</seg></tuv><tuv xml:lang="tr"><seg>bir</seg></tuv></tu>'
    text = f'<?xml version="1.0" encoding="UTF-16"?><tmx version="1.4"><header/><body>{unit}</body></tmx>'
    (tmp_path / "faq.de-tr.tmx").write_bytes(text.encode("utf-16"))
    assert load_pairs(open_set("pairs", tmp_path / "faq.de-tr.tmx")).sources == ["eins"]
    monkeypatch.setattr(harness.core.text, "_NO_MATTER", 1000)
    (tmp_path / "bomb.de-tr.tmx.gz").write_bytes(gzip.compress(f"<tmx><body>{unit * 10_000}</body></tmx>".encode()))
    with pytest.raises(InputError, match=r"bomb\.de-tr\.tmx\.gz: cannot be read \(it unpacks to more"):
        load_pairs(open_set("pairs", tmp_path / "bomb.de-tr.tmx.gz"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("near.de-tr.tsv", "Sentence1\tsentence2\tScore\neins\tbir\t1\nzwei\tiki\t0.5\n"),
        ("near.de-tr.csv", "tr,score,de\nbir,1,eins\niki,0.5,zwei\n"),
    ],
)
def test_scored_pairs_with_names_of_columns(write: Write, name: str, text: str) -> None:
    scored = load_scored(open_set("scored", write(name, text)))
    assert (scored.sentences1, scored.sentences2, scored.gold.tolist()) == (["eins", "zwei"], ["bir", "iki"], [1, 0.5])


@pytest.mark.parametrize("name", ["tatoeba", "mine+sts17"])
def test_the_name_of_a_published_set_is_refused(write: Write, name: str) -> None:
    with pytest.raises(InputError, match=r"published data set; rename the file, or .*--set-name.*several.*--sets"):
        open_set("pairs", write(f"{name}.de-tr.tsv", "eins\tbir\n"))


@pytest.mark.parametrize("read", [load_pairs, attrgetter("sha256")])
def test_of_a_damaged_file_of_ones_own_nothing_is_said_of_fetching(
    read: Callable[[OwnSet], object], tmp_path: Path
) -> None:
    path = tmp_path / "faq.de-tr.tsv.gz"
    path.write_bytes(gzip.compress(b"eins\tbir\n" * 1000)[:-9])
    with pytest.raises(InputError, match=r"faq\.de-tr\.tsv\.gz: cannot be read") as raised:
        read(open_set("pairs", path))
    assert "fetch" not in str(raised.value)


def test_the_checksum_of_a_compressed_file_has_the_name_without_gz(write: Write) -> None:
    write("faq.de-tr.tsv.gz", "eins\tbir\n")
    sets = '[faq]\nkind = "pairs"\nfiles = ["faq.de-tr.tsv.gz"]\nsha256 = {"faq.de-tr.tsv.gz" = "00"}\n'
    with pytest.raises(InputError, match=r"\[faq\]: sha256 names 'faq\.de-tr\.tsv\.gz'.* \(faq\.de-tr\.tsv\)$"):
        read_sets(write("sets.toml", sets))


def test_a_folder_is_called_as_the_user_calls_it(write: Write, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(beir(write))
    assert open_set("retrieval", tmp_path / "mine", DE_TR).subset == "mine"


def test_a_file_of_sets(write: Write, tmp_path: Path) -> None:
    beir(write)
    write("data/faq.de", "eins\n")
    write("data/faq.tr", "bir\n")
    write("s.csv", "a,b,c\nx,y,1\nx,z,2\n")
    file = write(
        "sets.toml",
        '[faq]\nkind = "pairs"\nfiles = ["data/faq.de", "data/faq.tr"]\n'
        '[near]\nkind = "scored"\nfiles = ["s.csv"]\nlanguages = ["deu", "tr"]\ncolumns = ["a", "b", "c"]\n'
        '[help]\nkind = "retrieval"\nfiles = ["kb"]\nlanguages = ["de", "tr"]\nkeep_own_id = true\n',
    )
    sets = read_sets(file)
    assert [(each.subset, each.kind) for each in sets] == [("faq", "pairs"), ("near", "scored"), ("help", "retrieval")]
    assert load_pairs(sets[0]).sources == ["eins"] and sets[2].keep_own_id
    assert own_data(sets).sets == tuple(sets)


PAIRS, SCORED = "de-tr.tsv", "s.de-tr.tsv"


@pytest.mark.parametrize(
    ("kind", "name", "text", "message"),
    [
        (
            "pairs",
            "a.de-tr.tsv",
            "eins\tbir\nzwei\n",
            r"a\.de-tr\.tsv:2: 1 column, expected 2 \(sentence TAB translation\); separate the columns by tabs$",
        ),
        ("pairs", "a.de-tr.tsv", "1\teins\tbir\n", r":1: 3 columns, .*give a table with more columns as \.csv, with"),
        ("scored", "a.de-tr.tsv", "1\teins\tbir\t1\n", r":1: 4 columns, .*give a table with more columns as \.csv"),
        ("pairs", "a.de-tr.tsv", "", r"a\.de-tr\.tsv: no pairs"),
        ("pairs", "a.de-xx.tsv", "a\tb\n", "'xx' is no code of ISO 639"),
        ("pairs", "a.tsv", "a\tb\n", "does not tell the languages; .* or give --src-lang and --trg-lang"),
        ("pairs", "a.de-tr.doc", "a\tb\n", "does not tell languages and format"),
        ("pairs", "a.de-tr.csv", "x,y\n1,2\n", r"a\.de-tr\.csv:1: no column 'de' or 'source'.*there: x, y.*--columns"),
        ("pairs", "a.de-tr.csv", "de,de\n1,2\n", r":1: two columns have one name"),
        ("pairs", "a.de-tr.csv", "de,tr\neins\n", r":2: 1 columns, the header has 2"),
        ("pairs", "a.de-tr.csv", 'de,tr\n"eins" x,y\n', r":2: not CSV"),
        ("pairs", "a.de-tr.jsonl", '{"de": "x", "tr": "y"}\n{"de": "x"\n', r":2: not JSON"),
        ("pairs", "a.de-tr.jsonl", '{"de": "x", "tr": null}\n', r":1: no text in column 'tr'"),
        ("pairs", "a.de-tr.jsonl", "[1]\n", r":1: no JSON object"),
        ("pairs", "a@b.de-tr.tsv", "a\tb\n", "'a@b': @ marks stand-ins"),
        ("scored", "s.de-tr.tsv", "a\tb\t1\nc\td\n", r"s\.de-tr\.tsv:2: 2 columns, expected 3"),
        ("scored", "s.de-tr.tsv", "a\tb\t1\n", "1 sentence pairs have no correlation"),
        ("scored", "s.de-tr.tsv", "a\tb\tgood\nc\td\t1\n", r":1: 'good' is not a number"),
        ("scored", "s.de-tr.tsv", "a\tb\t1e7\nc\td\t1\n", r":1: the score 1e7 is outside"),
        ("scored", "s.de-tr.tsv", "a\tb\tnan\nc\td\t1\n", r":1: 'nan' is not a number"),
        ("scored", "s.tsv", "a\tb\t1\nc\td\t2\n", r"nothing tells its languages; give --src-lang and --trg-lang$"),
        ("pairs", "cümle çift.de-tr.tsv", "a\tb\n", r"'cümle çift' .*\(--set-name\) with letters of a to z"),
        ("scored", "s.txt", "a\tb\t1\n", "expected .tsv"),
    ],
)  # fmt: skip
def test_what_is_wrong_gets_file_and_line(write: Write, kind: str, name: str, text: str, message: str) -> None:
    path = write(name, text)
    with pytest.raises(InputError, match=message) as caught:
        own = open_set(kind, path)  # type: ignore[arg-type]
        {"pairs": load_pairs, "scored": load_scored}[kind](own)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": '{"_id": "a", "text": "x"}\n' * 2}, r"corpus\.jsonl:2: the id 'a' is there twice"),
        ({"corpus": '{"_id": "a"}\n'}, r"corpus\.jsonl:1: no text in the field text"),
        ({"corpus": '{"text": "a"}\n'}, r"corpus\.jsonl:1: no text in the field _id"),
        ({"corpus": ""}, r"corpus\.jsonl: nothing in it"),
        ({"queries": ""}, r"queries\.jsonl: nothing in it"),
        ({"qrels/test": "query-id\tcorpus-id\tscore\n"}, r"test\.tsv: no answers in it"),
        ({"qrels/test": "q1\tnone\t1\n"}, r"test\.tsv:1: no document 'none' in corpus\.jsonl"),
        ({"qrels/test": "none\td1\t1\n"}, r"test\.tsv:1: no query 'none' in queries\.jsonl"),
        ({"qrels/test": "q1\td1\t1\nq1\td1\t1\n"}, r"test\.tsv:2: 'q1' and 'd1' are there twice"),
        ({"qrels/test": "q1\td1\t1\nq2\td1\t0.5\n"}, r"test\.tsv:2: the score '0.5' is no whole number"),
        ({"qrels/test": "q1\td1\t0\n"}, "no query has an answer"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_beir_gets_file_and_line(write: Write, changes: dict[str, str], message: str) -> None:
    own = open_set("retrieval", beir(write, **changes), DE_TR)
    with pytest.raises(InputError, match=message):
        load_retrieval(own)


def test_a_folder_that_nearly_has_the_layout_is_told_what_was_expected(write: Write, tmp_path: Path) -> None:
    folder = beir(write)
    with pytest.raises(InputError, match=r"qrels/dev\.tsv missing; expected corpus\.jsonl.*with test: .* --split"):
        open_set("retrieval", folder, Options(languages=("de", "tr"), split="dev"))
    (folder / "corpus.jsonl").rename(folder / "docs.jsonl")
    with pytest.raises(InputError, match=r"corpus\.jsonl missing; expected corpus\.jsonl, queries\.jsonl"):
        open_set("retrieval", folder, DE_TR)
    with pytest.raises(InputError, match="no folder"):
        open_set("retrieval", tmp_path / "none", DE_TR)
    with pytest.raises(InputError, match="split name"):
        open_set("retrieval", folder, Options(languages=("de", "tr"), split="../x"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[faq\n", "no file of sets"),
        ("", "no sets in it"),
        ('[faq]\nkind = "else"\nfiles = ["a"]\n', "no file of sets"),
        ("a = " + "[" * 100_000, r"no file of sets \(nested too deeply\)"),
        (
            '[faq]\nkind = "pairs"\nfiles = ["one.de-tr.tsv"]\nsha256 = {"eins.tsv" = "00"}\n',
            r"\[faq\]: sha256 names 'eins\.tsv', which is no file of it \(one\.de-tr\.tsv\)",
        ),
        ('[faq]\nkind = "pairs"\nfiles = []\n', "no file of sets"),
        (
            '[kb]\nkind = "beir"\nfiles = ["kb"]\n',
            r".*\[kb\].*'beir'.*kind \(pairs, scored or retrieval\), files \(a list\)",
        ),
        ('[faq]\nkind = "pairs"\nfiles = ["none.de-tr.tsv"]\n', r"\[faq\]: no file"),
        ('[faq]\nkind = "pairs"\nfiles = ["~no-such-user/none.de-tr.tsv"]\n', r"\[faq\]: .*no such home folder"),
    ],
)
def test_a_file_of_sets_that_is_wrong(write: Write, text: str, message: str) -> None:
    write("one.de-tr.tsv", "eins\tbir\n")
    with pytest.raises(InputError, match=rf"sets\.toml: {message}"):
        read_sets(write("sets.toml", text))


def test_a_fifo_in_place_of_a_file_of_sets_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sets.toml")
    with pytest.raises(InputError, match=r"sets\.toml: a fifo"):
        read_sets(tmp_path / "sets.toml")


def test_two_files_of_one_name_are_told_apart_by_their_languages(write: Write, tmp_path: Path) -> None:
    german, turkish = (write(f"questions.en-{lang}.tsv", "a\tb\n") for lang in ("de", "tr"))
    other, scored = write("faq.en-de.tsv", "a\tb\n"), write("a/questions.en-de.tsv", "a\tb\t1\n")
    sets = [*(open_set("pairs", path) for path in (german, turkish, other)), open_set("scored", scored)]
    names = ["questions.en-de", "questions.en-tr", "faq", "questions"]
    found = own_data(sets)
    assert [each.subset for each in found.sets] == [each.dataset for each in found.sets] == names
    assert [each.subset for each in own_data(sets[1:]).sets] == ["questions", "faq", "questions"]
    # A name that the user gave stays.
    write("sets.toml", '[questions]\nkind = "pairs"\nfiles = ["questions.en-tr.tsv"]\n')
    given = [open_set("pairs", german), *read_sets(tmp_path / "sets.toml")]
    assert [each.subset for each in own_data(given).sets] == ["questions.en-de", "questions"]


def test_two_sets_of_one_name_are_refused(write: Write) -> None:
    one, other = (open_set("pairs", write(f"{folder}/faq.de-tr.tsv", "a\tb\n")) for folder in "ab")
    with pytest.raises(InputError, match=r"both called faq.de-tr; rename one of them, or name them in a file of sets"):
        own_data([one, other])


@pytest.mark.parametrize(
    ("code", "standard"), [("de", "de"), ("deu", "de"), ("cmn", "zh"), ("zh_TW", "zh"), ("kab", "kab")]
)
def test_codes_of_one_language(code: str, standard: str) -> None:
    assert standard_language(code) == standard


@pytest.mark.parametrize("code", ["xx", "german", "", "x", "1", "../de"])
def test_codes_of_no_language(code: str) -> None:
    with pytest.raises(InputError, match="no code of ISO 639"):
        standard_language(code)

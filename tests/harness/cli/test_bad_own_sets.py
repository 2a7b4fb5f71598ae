"""Every kind of bad input among own data sets: one line with file and line, exit code 2, and nothing is stored."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from command_line import one_line_error

from harness.cli import main

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]
Files = Mapping[str, "str | bytes | None"]

DE_TR = ("--src-lang", "de", "--trg-lang", "tr")
ALIGNED = ("--pairs", "faq.de,faq.tr")
TSV = ("--pairs", "faq.de-tr.tsv")
CSV = ("--pairs", "faq.de-tr.csv")
JSONL = ("--pairs", "faq.de-tr.jsonl")
SCORED = ("--scored", "near.de-tr.tsv")
BEIR = ("--beir", "kb", *DE_TR)
SETS = ("--sets", "sets.toml")

CORPUS = '{"_id": "d1", "title": "Rechnung", "text": "eins"}\n{"_id": "d2", "text": "zwei"}\n'
QUERIES = '{"_id": "q1", "text": "bir"}\n{"_id": "q2", "text": "iki"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n"
GOOD: Files = {
    "faq.de": "eins\nzwei\ndrei\n",
    "faq.tr": "bir\niki\nüç\n",
    "faq.de-tr.tsv": "eins\tbir\nzwei\tiki\ndrei\tüç\n",
    "faq.de-tr.csv": "de,tr\neins,bir\nzwei,iki\n",
    "faq.de-tr.jsonl": '{"de": "eins", "tr": "bir"}\n{"de": "zwei", "tr": "iki"}\n',
    "near.de-tr.tsv": "eins\tbir\t1\nzwei\tiki\t0.5\n",
    "kb/corpus.jsonl": CORPUS,
    "kb/queries.jsonl": QUERIES,
    "kb/qrels/test.tsv": QRELS,
    "sets.toml": '[faq]\nkind = "pairs"\nfiles = ["faq.de-tr.tsv"]\n',
}
PACKED = gzip.compress(b"eins\tbir\n" * 1000)


def write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


COMMAND = ("run", "--encoder", "chargrams")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Leaderboard:
    """The command in this process: a hundred processes would take ten seconds."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as ended:
            main([*COMMAND, *arguments])
        said = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.mark.parametrize("arguments", [(*ALIGNED, *SCORED, *BEIR), TSV, CSV, JSONL, SETS], ids=" ".join)
def test_good_files_are_measured(run: Leaderboard, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write(tmp_path, GOOD)
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "results/records").glob("*/*.json"))


# What is changed of the good files, the command, and what the line must name: the file, its line, what is wrong.
BAD: dict[str, tuple[Files, tuple[str, ...], tuple[str, ...]]] = {
    "one line less": ({"faq.tr": "bir\niki\n"}, ALIGNED, ("faq.tr has 2 lines", "faq.de has more")),
    "one line more": ({"faq.tr": "bir\niki\nüç\ndört\n"}, ALIGNED, ("faq.de has 3 lines", "faq.tr has more")),
    "one side empty": ({"faq.tr": ""}, ALIGNED, ("faq.tr", "0 lines")),
    "both sides empty": ({"faq.de": "", "faq.tr": ""}, ALIGNED, ("faq.de: no pairs",)),
    "empty TSV": ({"faq.de-tr.tsv": ""}, TSV, ("faq.de-tr.tsv: no pairs",)),
    "empty CSV": ({"faq.de-tr.csv": ""}, CSV, ("faq.de-tr.csv: no pairs",)),
    "CSV of a header": ({"faq.de-tr.csv": "de,tr\n"}, CSV, ("faq.de-tr.csv: no pairs",)),
    "empty JSONL": ({"faq.de-tr.jsonl": ""}, JSONL, ("faq.de-tr.jsonl: no pairs",)),
    "only a byte order mark": ({"faq.de-tr.tsv": b"\xef\xbb\xbf"}, TSV, ("faq.de-tr.tsv: no pairs",)),
    "empty scores": ({"near.de-tr.tsv": ""}, SCORED, ("near.de-tr.tsv", "0 sentence pairs")),
    "empty corpus": ({"kb/corpus.jsonl": ""}, BEIR, ("corpus.jsonl: nothing in it",)),
    "empty queries": ({"kb/queries.jsonl": "\n"}, BEIR, ("queries.jsonl: nothing in it",)),
    "empty qrels": ({"kb/qrels/test.tsv": ""}, BEIR, ("test.tsv: no answers",)),
    "one column in line 3": ({"faq.de-tr.tsv": "a\tb\nc\td\ne\n"}, TSV, ("faq.de-tr.tsv:3", "1 column")),
    "three columns": ({"faq.de-tr.tsv": "a\tb\nc\td\te\n"}, TSV, ("faq.de-tr.tsv:2", "3 columns")),
    "latin-1": ({"faq.de-tr.tsv": "a\tb\nfür\tç\n".encode("latin-1")}, TSV, ("faq.de-tr.tsv:2", "UTF-8", "0xfc")),
    "UTF-16": ({"faq.de": "eins\nzwei\ndrei\n".encode("utf-16")}, ALIGNED, ("faq.de:1", "UTF-8")),
    "NUL byte": ({"faq.de-tr.tsv": b"a\tb\nc\0\td\n"}, TSV, ("faq.de-tr.tsv:2", "NUL")),
    "NUL byte in JSON": ({"faq.de-tr.jsonl": '{"de": "a\0", "tr": "b"}\n'}, JSONL, ("faq.de-tr.jsonl:1",)),
    "NUL byte in CSV": ({"faq.de-tr.csv": "de,tr\na,b\nc\0,d\n"}, CSV, ("faq.de-tr.csv:3", "NUL")),
    "CSV without the columns": ({"faq.de-tr.csv": "frage,soru\na,b\n"}, CSV, ("csv:1", "'de'", "there: frage, soru")),
    "CSV, a row too short": ({"faq.de-tr.csv": "de,tr\na,b\nc\n"}, CSV, ("faq.de-tr.csv:3", "1 column")),
    "CSV, an open quote": ({"faq.de-tr.csv": 'de,tr\na,b\n"c,d\n'}, CSV, ("faq.de-tr.csv:3", "not CSV")),
    "CSV, a column twice": ({"faq.de-tr.csv": "de,tr,de\na,b,c\n"}, CSV, ("faq.de-tr.csv:1", "one name")),
    "columns that are not there": ({}, (*CSV, "--columns", "q,a"), ("faq.de-tr.csv:1", "'q'", "there: de, tr")),
    "one column is named": ({}, (*CSV, "--columns", "de"), ("faq.de-tr.csv", "1 columns are named")),
    "columns of scores": ({}, (*SCORED, "--columns", "a,b,c"), ("near.de-tr.tsv", "leave --columns out")),
    "--split without --beir": ({}, (*TSV, "--split", "dev"), ("--split goes with --beir",)),
    "languages of nothing": ({}, (*DE_TR, "--task", "pairs"), ("--src-lang goes with --pairs or --scored",)),
    "a name that is none": ({"für.de-tr.tsv": "a\tb\n"}, ("--pairs", "für.de-tr.tsv"), ("'für'", "--set-name")),
    "columns of a TSV": ({}, (*TSV, "--columns", "de,tr"), ("faq.de-tr.tsv", "leave --columns out")),
    "broken JSON": ({"faq.de-tr.jsonl": '{"de": "a", "tr": "b"}\n{"de": "a",\n'}, JSONL, ("jsonl:2", "not JSON")),
    "JSON, a number for a text": ({"faq.de-tr.jsonl": '{"de": [1], "tr": "b"}\n'}, JSONL, ("jsonl:1", "'de'")),
    "JSON, a field too few": ({"faq.de-tr.jsonl": '{"de": "a", "tr": "b"}\n{"de": "a"}\n'}, JSONL, ("jsonl:2", "'tr'")),
    "broken gzip": ({"x.de-tr.tsv.gz": PACKED[:-9]}, ("--pairs", "x.de-tr.tsv.gz"), ("x.de-tr.tsv.gz",)),
    "no gzip": ({"x.de-tr.tsv.gz": b"a\tb\n"}, ("--pairs", "x.de-tr.tsv.gz"), ("x.de-tr.tsv.gz", "cannot be read")),
    "no score": ({"near.de-tr.tsv": "a\tb\t1\nc\td\tgut\n"}, SCORED, ("near.de-tr.tsv:2", "'gut' is not a number")),
    "score NaN": ({"near.de-tr.tsv": "a\tb\tnan\nc\td\t1\n"}, SCORED, ("near.de-tr.tsv:1", "'nan' is not a number")),
    "score infinite": ({"near.de-tr.tsv": "a\tb\t1\nc\td\tinf\n"}, SCORED, ("near.de-tr.tsv:2", "'inf'")),
    "score out of range": ({"near.de-tr.tsv": "a\tb\t1\nc\td\t1e9\n"}, SCORED, ("near.de-tr.tsv:2", "outside")),
    "score with a comma": ({"near.de-tr.tsv": "a\tb\t1,5\nc\td\t1\n"}, SCORED, ("near.de-tr.tsv:1", "'1,5'")),
    "one scored pair": ({"near.de-tr.tsv": "a\tb\t1\n"}, SCORED, ("near.de-tr.tsv", "1 sentence pairs")),
    "equal scores": ({"near.de-tr.tsv": "a\tb\t1\nc\td\t1\n"}, SCORED, ("near.de-tr.tsv", "all scores are equal")),
    "unknown language": ({"x.de-xx.tsv": "a\tb\n"}, ("--pairs", "x.de-xx.tsv"), ("'xx'", "ISO 639")),
    "unknown --trg-lang": ({}, ("--beir", "kb", "--src-lang", "de", "--trg-lang", "türkçe"), ("'türkçe'", "ISO 639")),
    "no language": ({"x.tsv": "a\tb\n"}, ("--pairs", "x.tsv"), ("x.tsv", "--src-lang and --trg-lang")),
    "one language": ({}, ("--beir", "kb", "--src-lang", "de"), ("give both --src-lang and --trg-lang",)),
    "document twice": ({"kb/corpus.jsonl": CORPUS + CORPUS}, BEIR, ("corpus.jsonl:3", "'d1' is there twice")),
    "query twice": ({"kb/queries.jsonl": QUERIES + QUERIES}, BEIR, ("queries.jsonl:3", "'q1' is there twice")),
    "no such query": ({"kb/qrels/test.tsv": QRELS + "q9\td1\t1\n"}, BEIR, ("test.tsv:4", "no query 'q9'")),
    "no such document": ({"kb/qrels/test.tsv": QRELS + "q1\td9\t1\n"}, BEIR, ("test.tsv:4", "no document 'd9'")),
    "no overlap": ({"kb/qrels/test.tsv": "q8\td8\t1\nq9\td9\t1\n"}, BEIR, ("test.tsv:1", "no query 'q8'")),
    "no grade above 0": ({"kb/qrels/test.tsv": "q1\td1\t0\n"}, BEIR, ("test.tsv", "no query has an answer")),
    "grade is no number": ({"kb/qrels/test.tsv": QRELS + "q1\td2\tja\n"}, BEIR, ("test.tsv:4", "'ja'")),
    "grade NaN": ({"kb/qrels/test.tsv": QRELS + "q1\td2\tnan\n"}, BEIR, ("test.tsv:4", "'nan'")),
    "grade out of range": ({"kb/qrels/test.tsv": QRELS + "q1\td2\t99999999999\n"}, BEIR, ("test.tsv:4", "99999999999")),
    "graded twice": ({"kb/qrels/test.tsv": QRELS + "q1\td1\t2\n"}, BEIR, ("test.tsv:4", "there twice")),
    "qrels of two columns": ({"kb/qrels/test.tsv": "q1\td1\nq2\td2\n"}, BEIR, ("test.tsv:1", "2 columns")),
    "no qrels": ({"kb/qrels/test.tsv": None}, BEIR, ("kb: qrels/test.tsv missing", "corpus.jsonl")),
    "no such split": ({}, (*BEIR, "--split", "dev"), ("kb: qrels/dev.tsv missing", "there is qrels/ with test")),
    "a split that is a path": ({}, (*BEIR, "--split", "../x"), ("'../x'",)),
    "nearly the layout": (
        {"kb/corpus.jsonl": None, "kb/docs.jsonl": CORPUS, "kb/queries.jsonl": None, "kb/queries.json": QUERIES},
        BEIR,
        ("kb: corpus.jsonl and queries.jsonl missing", "expected corpus.jsonl, queries.jsonl, qrels/test.tsv"),
    ),
    "a file for a folder": ({}, ("--beir", "faq.de", *DE_TR), ("no folder faq.de", "corpus.jsonl")),
    "a folder for a file": ({}, ("--pairs", "kb"), ("no file kb",)),
    "broken JSON in a corpus": ({"kb/corpus.jsonl": CORPUS + "{\n"}, BEIR, ("corpus.jsonl:3", "not JSON")),
    "no id": ({"kb/corpus.jsonl": '{"id": "d1", "text": "x"}\n'}, BEIR, ("corpus.jsonl:1", "_id")),
    "no text": ({"kb/queries.jsonl": '{"_id": "q1", "query": "x"}\n'}, BEIR, ("queries.jsonl:1", "text")),
    "no TOML": ({"sets.toml": "[faq\n"}, SETS, ("sets.toml",)),
    "empty file of sets": ({"sets.toml": ""}, SETS, ("sets.toml: no sets in it",)),
    "unknown key": (
        {"sets.toml": '[faq]\nkind = "pairs"\nfiles = ["faq.de-tr.tsv"]\nlanguage = "de"\n'},
        SETS,
        ("sets.toml", "[faq]", "'language'"),
    ),
    "unknown kind": ({"sets.toml": '[faq]\nkind = "pair"\nfiles = ["faq.de"]\n'}, SETS, ("sets.toml", "[faq]", "kind")),
    "no kind": ({"sets.toml": '[faq]\nfiles = ["faq.de"]\n'}, SETS, ("sets.toml", "[faq]", "kind")),
    "a name inside": (
        {"sets.toml": '[faq]\nname = "x"\nkind = "pairs"\nfiles = ["faq.de-tr.tsv"]\n'},
        SETS,
        ("sets.toml", "[faq]", "'name'"),
    ),
    "no table": ({"sets.toml": 'kind = "pairs"\n'}, SETS, ("sets.toml", "[NAME]")),
    "a path that is not there": (
        {"sets.toml": '[faq]\nkind = "pairs"\nfiles = ["none.de-tr.tsv"]\n'},
        SETS,
        ("sets.toml: [faq]", "no file none.de-tr.tsv"),
    ),
    "a name of a path": (
        {"sets.toml": '["../x"]\nkind = "pairs"\nfiles = ["faq.de-tr.tsv"]\n'},
        SETS,
        ("sets.toml", "'../x'"),
    ),
    "--set-name with @": ({}, (*TSV, "--set-name", "faq@mine"), ("'faq@mine'", "without it")),
    "--set-name with /": ({}, (*TSV, "--set-name", "a/b"), ("'a/b' cannot name a folder",)),
    "empty --set-name": ({}, (*TSV, "--set-name", ""), ("''",)),
    "--set-name avg": ({}, (*TSV, "--set-name", "avg"), ("'avg'", "average")),
    "two sets of one name": (
        {},
        (*ALIGNED, *TSV),
        ("faq.de and faq.de-tr.tsv are both called faq", "name them in a file of sets (--sets)"),
    ),
    "the same set twice": ({}, (*TSV, *TSV), ("both called faq",)),
    "a name for two": ({}, (*TSV, *SCORED, "--set-name", "x"), ("--set-name names one set",)),
    "own and published sets": ({}, (*TSV, "--suite", "sample"), ("--suite chooses among published sets",)),
    "another task": ({}, (*TSV, "--task", "sts17"), ("none of the given sets is for sts17",)),
    "no such file": ({}, ("--pairs", "faq.de,none.tr"), ("no file none.tr",)),
    "no such file of sets": ({}, ("--sets", "none.toml"), ("none.toml: cannot be read",)),
    "no language of a folder": ({}, ("--beir", "kb"), ("kb: nothing tells its languages", "--src-lang")),
    "three files": ({}, ("--pairs", "faq.de,faq.tr,faq.de"), ("3 files",)),
    "one of two files": ({}, ("--pairs", "faq.de"), ("faq.de",)),
}


@pytest.mark.parametrize(("change", "arguments", "parts"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_one_line(
    run: Leaderboard, tmp_path: Path, change: Files, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    write(tmp_path, {**GOOD, **change})
    done = run(*arguments)
    message = one_line_error(done)
    said = [line for line in done.stderr.splitlines() if not line.startswith("results folder: ")]
    assert len(said) == 1 and not done.stdout, done.stderr
    for part in parts:
        assert part in message, message
    assert not list((tmp_path / "results").rglob("*"))

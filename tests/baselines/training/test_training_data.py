"""Reading NLI and STS files, and leaving out what is in STS 2017."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from baselines.training.training_data import load_nli, load_sts, read_sts
from harness.core.errors import InputError
from harness.data import DataDir, open_data_dir
from harness.data.nli import read_nli
from harness.tasks.leakage import normal_form

SNLI = "gold_label\tsentence1_parse\tsentence1\tsentence2\tlabel1\n"
ALLNLI = "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"
EXPECTED = [("a man", 'he "sleeps', 0), ("a cat", "an animal", 1)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "snli.txt",
            SNLI + 'contradiction\t(a)\ta man\the "sleeps\tx\nentailment\t(a)\ta cat\tan animal\n-\t(a)\ta\tb\n',
        ),
        (
            "kornli.tsv",
            'sentence1\tsentence2\tgold_label\r\na man\the "sleeps\tcontradiction\r\na cat\tan animal\tentailment',
        ),
        (
            "AllNLI.tsv.gz",
            ALLNLI + 'train\tSNLI\tf\ta man\the "sleeps\tcontradiction\ndev\tSNLI\tf\tx\ty\tneutral\n'
            "train\tMultiNLI\tf\ta cat\tan animal\tentailment\n",
        ),
        (
            "snli.jsonl",
            '{"gold_label": "contradiction", "sentence1": "a man", "sentence2": "he \\"sleeps", "x": 1}\n'
            '{"gold_label": "-", "sentence1": "a", "sentence2": "b"}\n'
            '{"gold_label": "entailment", "sentence1": "a cat", "sentence2": "an animal"}\n',
        ),
    ],
)
def test_nli_formats(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    pairs = read_nli(path)
    assert list(zip(pairs.sentences1, pairs.sentences2, pairs.labels, strict=True)) == EXPECTED
    assert pairs.unlabelled == (1 if name.startswith("snli") else 0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "premise\thypothesis\tlabel\n", r"a\.tsv:1: no column sentence1: expected a header"),
        ("a.tsv", SNLI + "neutral\tp\ta\n", r"a\.tsv:2: 3 columns, expected 4 to 5"),
        ("a.tsv", SNLI + "neutral\tp\ta\tb\tc\td\n", r"a\.tsv:2: 6 columns, expected 4 to 5"),
        ("a.tsv", SNLI + "neutral\tp\ta\tb\nmaybe\tp\ta\tb\n", r"a\.tsv:3: label 'maybe', expected contradiction, ent"),
        ("a.tsv", SNLI + "-\tp\ta\tb\n", r"a\.tsv: no labelled pairs"),
        ("a.tsv", "", r"a\.tsv:1: no column label"),
        ("a.jsonl", '{"gold_label": "neutral", "sentence1": "a"}\n', r"a\.jsonl:1: not a JSON object with gold_label"),
        ("a.jsonl", '{"gold_label": null, "sentence1": "a", "sentence2": "b"}\n', r"a\.jsonl:1: not a JSON object"),
        ("a.jsonl", "[" * 200_000, r"a\.jsonl:1: not a JSON object .*\(nested too deeply\)"),
        ("a.jsonl", "[1]\n", r"a\.jsonl:1: not a JSON object"),
    ],
)
def test_bad_nli_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as raised:
        read_nli(tmp_path / name)
    assert "\n" not in str(raised.value)


ORIGINAL = (
    'main-news\theadlines\t2015\t0001\t2.500\tsay "no\tyes, no\tlicence\tmore\n'
    "main-captions\ttrack5.en-en\t2017\t2\t5\tc\td\n"
)
KORSTS = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n" + "\n".join(
    "\t".join(line.split("\t")[:7]) for line in ORIGINAL.splitlines()
)


@pytest.mark.parametrize(
    ("name", "content", "origins"),
    [
        ("sts-dev.csv", ORIGINAL, ["headlines", "track5.en-en"]),
        ("sts-dev.tsv", KORSTS, ["headlines", "track5.en-en"]),
        ("stsb-en-dev.csv", '"say ""no","yes, no",2.5\r\nc,d,5.0\r\n', []),
    ],
)
def test_sts_formats(tmp_path: Path, name: str, content: str, origins: list[str]) -> None:
    (tmp_path / name).write_bytes(content.encode())
    pairs = read_sts(tmp_path / name)
    assert (pairs.sentences1, pairs.sentences2) == (['say "no', "c"], ["yes, no", "d"])
    assert (pairs.scores, pairs.origins) == ([2.5, 5.0], origins)
    first = pairs.without({1})
    assert (first.sentences1, first.sentences2, first.scores) == (['say "no'], ["yes, no"], [2.5])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n", r"a\.csv:1: 2 columns, expected 3"),
        ('a,b,1\n"a\nb",c,2\nd,e\n', r"a\.csv:4: 2 columns"),
        ('a,b,1\nc,"d,2\ne,f,3\n', r"a\.csv:2: not comma-separated values \(unexpected end of data\)"),
        ("a,b,5.5\n", r"a\.csv:1: the score 5\.5 is outside 0 to 5"),
        ("sentence1,sentence2,score\n", r"a\.csv:1: 'score' is not a number"),
        (ORIGINAL + "main\tf\t2015\t1\t2\ta\n", r"a\.csv:3: 6 columns, expected 7 or more"),
        ("score\tsentence1\tsentence2\n", r"a\.csv: no sentence pairs"),
        (KORSTS + "\nmain\tf\t2015\t1\t2\ta\tb\tc\n", r"a\.csv:4: 8 columns, expected 7;"),
        ("", r"a\.csv: no sentence pairs"),
    ],
)
def test_bad_sts_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        read_sts(tmp_path / "a.csv")


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """Three rows of the STS Benchmark a split, in English and German, and STS 2017 with two of their sentences."""
    files = {
        "sts17/STS.input.track5.en-en.txt": "A cat.\tTwo dogs!\n",
        "sts17/STS.gs.track5.en-en.txt": "1.0\n",
        "stsb/original-en/sts-train.csv": "".join(
            f"g\timages\t2015\t{row}\t{row}\t{one}\t{two}\n"
            for row, (one, two) in enumerate([("a man", "a woman"), ("x", "TWO DOGS"), ("cats", "dogs")])
        ),
        "stsb/stsb-de-train.csv": "ein Mann,eine Frau,0.0\nx,zwei Hunde,1.0\nKatzen,Hunde,2.0\n",
        "stsb/original-en/sts-dev.csv": (
            "g\timages\t2015\t1\t0\ta\tb\ng\ttrack5.en-en\t2017\t2\t1\ta cat\ttwo dogs\ng\tanswers\t2015\t3\t2\tc\td\n"
        ),
        "stsb/stsb-de-dev.csv": "ein a,ein b,0\neine Katze,zwei Hunde,1\nein c,ein d,2\n",
    }
    for name, content in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return DataDir(tmp_path / "data")


def test_rows_of_sts_2017_are_left_out_in_every_language(data: DataDir) -> None:
    train, files = load_sts("train", [], ["en", "de"], data)
    assert train["en"].sentences1 == ["a man", "cats"] and train["de"].sentences2 == ["eine Frau", "Hunde"]
    assert [(file.name, file.pairs) for file in files] == [("sts-train.csv", 2), ("stsb-de-train.csv", 2)]
    assert all(file.notes == ["1 rows with a sentence of STS 2017 are left out"] for file in files)
    dev, files = load_sts("dev", [], ["en", "de"], data)
    assert dev["en"].sentences1 == ["a", "c"] and dev["de"].sentences1 == ["ein a", "ein c"]
    assert all("CC BY-SA 4.0" in file.licence and file.notes[0].startswith("1 rows of STS 2017") for file in files)


def test_a_translation_with_other_rows_is_refused(data: DataDir) -> None:
    (data.root / "stsb/stsb-de-dev.csv").write_text("ein a,ein b,0\neine Katze,zwei Hunde,1\nein c,ein d,3\n")
    with pytest.raises(InputError, match="cannot tell which of its rows are in STS 2017"):
        load_sts("dev", [], ["de"], data)


def test_one_set_twice_is_refused(data: DataDir) -> None:
    with pytest.raises(InputError, match="de is given twice"):
        load_sts("dev", [], ["de", "de"], data)


def test_files_of_the_users_own(data: DataDir, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("a cat,b,1\nc,d,2\n")
    for split in ("train", "dev"):
        loaded, files = load_sts(split, [own], ["en"], data)  # type: ignore[arg-type]
        assert loaded["own.csv"].sentences1 == ["c"] and files[0].licence == ""
    _, files = load_sts("train", [own], ["en"], None)
    assert files[0].pairs == 2 and "not compared with STS 2017" in files[0].notes[0]
    nli = tmp_path / "nli.tsv"
    nli.write_text("sentence1\tsentence2\tgold_label\nA CAT\tb\tneutral\nc\td\tneutral\n")
    pairs, used = load_nli([nli], ["en"], data)
    assert pairs.labels == [2, 2] and used[0].notes == ["1 pairs hold a sentence of STS 2017 and are used"]


def test_nli_of_the_data_directory(data: DataDir) -> None:
    with pytest.raises(InputError, match="leaderboard data fetch allnli"):
        load_nli([], ["en"], data)
    folder = data.root / "allnli"
    folder.mkdir()
    (folder / "snli_1.0_train.txt").write_text(SNLI + "neutral\tp\ta\tb\n")
    with pytest.raises(InputError, match="leaderboard data fetch allnli"):
        load_nli([], ["en"], data)  # one of two
    (folder / "multinli_1.0_train.txt").write_text(SNLI + "neutral\tp\tc\td\n")
    assert load_nli([], ["en", "de"], data)[0].sentences1 == ["a", "c"]
    (folder / "AllNLI.tsv").write_text(ALLNLI + "train\tSNLI\tf\te\tf\tneutral\n")
    assert load_nli([], ["en"], data)[0].sentences1 == ["e"]
    with pytest.raises(InputError, match="leaderboard data fetch kornli"):
        load_nli([], ["ko"], data)


@pytest.mark.parametrize("language", ["de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh"])
def test_exactly_the_125_rows_of_track_5_are_left_out(real_data: Path, language: str) -> None:
    if not (real_data / "stsb").is_dir() or not (real_data / "sts17").is_dir():
        pytest.skip("$HARNESS_DATA has no stsb/ or sts17/")
    dev, _ = load_sts("dev", [], [language], open_data_dir(real_data))
    assert len(dev[language].scores) == 1375
    if language == "en":
        # Against the set itself: what is left has no sentence of it, and what was left out is half of it.
        lines = (real_data / "sts17/STS.input.track5.en-en.txt").read_text(encoding="utf-8").splitlines()
        track5 = Counter(frozenset(map(normal_form, line.split("\t"))) for line in lines)
        everything = read_sts(real_data / "stsb/original-en/sts-dev.csv.gz")
        both = zip(everything.sentences1, everything.sentences2, strict=True)
        rows = [frozenset(map(normal_form, pair)) for pair in both]
        assert sum(row in track5 for row in rows) == 125
        sentences = {form for pair in track5 for form in pair}
        assert not any(normal_form(text) in sentences for text in dev["en"].sentences1 + dev["en"].sentences2)


def test_training_rows_in_sts_2017(real_data: Path) -> None:
    if not (real_data / "stsb").is_dir() or not (real_data / "sts17").is_dir():
        pytest.skip("$HARNESS_DATA has no stsb/ or sts17/")
    train, _ = load_sts("train", [], ["en", "de"], open_data_dir(real_data))
    assert {language: len(pairs.scores) for language, pairs in train.items()} == {"en": 5743, "de": 5743}

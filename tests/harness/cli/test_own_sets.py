"""Data sets of the user's own on the command line: measured, compared and checked without a file being renamed."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import one_line_error

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

WORDS = [
    "haus",
    "house",
    "baum",
    "tree",
    "hund",
    "dog",
    "katze",
    "cat",
    "strasse",
    "street",
    "wasser",
    "water",
    "feuer",
    "fire",
    "brot",
    "bread",
    "tisch",
    "table",
]
PAIRS = [(f"das {WORDS[i]} nummer {n}", f"the {WORDS[i + 1]} number {n}") for n in range(6) for i in range(0, 18, 2)]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two sets of pairs, one of scored pairs and one for retrieval, as they lie."""
    monkeypatch.chdir(tmp_path)
    german, english = zip(*PAIRS, strict=True)
    Path("faq.de").write_text("\n".join(german[:30]) + "\n", "utf-8")
    Path("faq.en").write_text("\n".join(english[:30]) + "\n", "utf-8")
    Path("shop.csv").write_text("id,q,a\n" + "".join(f"1,{de},{en}\n" for de, en in PAIRS[30:]), "utf-8")
    Path("near.de-en.tsv").write_text("".join(f"{de}\t{en}\t{i % 5}\n" for i, (de, en) in enumerate(PAIRS)), "utf-8")
    Path("kb/qrels").mkdir(parents=True)
    for name, texts in (("corpus", english), ("queries", german[:20])):
        lines = [json.dumps({"_id": f"{name[0]}{i}", "text": text}) for i, text in enumerate(texts)]
        Path(f"kb/{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    Path("kb/qrels/test.tsv").write_text("".join(f"q{i}\tc{i}\t1\n" for i in range(18)), "utf-8")
    Path("sets.toml").write_text(
        '[shop]\nkind = "pairs"\nfiles = ["shop.csv"]\nlanguages = ["de", "en"]\ncolumns = ["q", "a"]\n'
        '[help]\nkind = "retrieval"\nfiles = ["kb"]\nlanguages = ["de", "en"]\n',
        "utf-8",
    )
    return tmp_path


SETS = ("--pairs", "faq.de,faq.en", "--scored", "near.de-en.tsv", "--sets", "sets.toml")
ENCODERS = ("--encoder", "chargrams", "--encoder", "chargrams?dim=64&name=small")


@pytest.mark.slow
def test_sets_of_my_own(leaderboard: Leaderboard, mine: Path) -> None:
    done = leaderboard("run", *SETS, *ENCODERS)
    assert done.returncode == 0, done.stderr
    assert "not in the data directory" not in done.stderr and "published" not in done.stdout + done.stderr
    records = {(r["task"], r["subset"]): r for r in records_of(mine, "chargrams")}
    names = {("pairs", "faq"), ("pairs", "shop"), ("pairs", "avg"), ("scored", "near"), ("retrieval", "help")}
    assert records.keys() == names
    assert records["pairs", "faq"]["n"] == 30 and records["retrieval", "help"]["n"] == 18
    mean = sum(records["pairs", name]["metrics"]["accuracy_src_trg"] for name in ("faq", "shop")) / 2
    assert records["pairs", "avg"]["metrics"]["accuracy_src_trg"] == pytest.approx(mean, abs=1e-5)
    assert records["pairs", "faq"]["dataset"]["published"] is None

    again = leaderboard("run", *SETS, *ENCODERS)
    assert again.returncode == 0 and "stored" in again.stderr
    compared = leaderboard("compare", "chargrams", "small", *SETS, "--task", "pairs", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    sets = {entry["subset"] for entry in json.loads(compared.stdout)["differences"]}
    assert sets == {"faq", "shop", "avg"}
    checked = leaderboard("check", *SETS)
    assert checked.returncode == 0 and "10 agree" in checked.stdout, checked.stdout + checked.stderr
    shown = leaderboard("show", "--full")
    assert "Own retrieval: nDCG@10" in shown.stdout and "stand-in" not in shown.stdout


@pytest.mark.slow
def test_a_name_that_stands_for_other_files_is_refused(leaderboard: Leaderboard, mine: Path) -> None:
    for encoder in ("chargrams", "chargrams?dim=64&name=small"):
        assert leaderboard("run", *SETS[:2], "--encoder", encoder).returncode == 0
    before = (mine / "results/records/chargrams/pairs.json").read_bytes()
    german = (mine / "faq.de").read_text("utf-8")
    (mine / "faq.de").write_text(german.replace("nummer 1", "nummer eins"), "utf-8")
    refused = leaderboard("run", *SETS[:2], "--encoder", "chargrams")
    message = one_line_error(refused)
    assert "'faq' (pairs) are of other files" in message and "--set-name" in message and "--replace" in message
    assert (mine / "results/records/chargrams/pairs.json").read_bytes() == before
    other = leaderboard("run", *SETS[:2], "--set-name", "faq2", "--encoder", "chargrams")
    assert other.returncode == 0 and {r["subset"] for r in records_of(mine, "chargrams")} == {"faq", "faq2", "avg"}
    replaced = leaderboard("run", *SETS[:2], "--replace", "--encoder", "chargrams")
    assert replaced.returncode == 0 and "1 stored results on other files or columns removed" in replaced.stderr, (
        replaced.stderr
    )
    assert not records_of(mine, "small") and not (mine / "results/records/small/pairs.json").exists()


def records_of(folder: Path, encoder: str) -> list[dict[str, object]]:
    files = (folder / "results/records" / encoder).glob("*.json")
    return [record for file in files for record in json.loads(file.read_text("utf-8"))]


def test_a_data_directory_with_sets_of_my_own_is_told_how_to_give_them(
    leaderboard: Leaderboard, mine: Path, tmp_path: Path
) -> None:
    for folder, expected in (
        ("kb", "kb holds a set in BEIR's layout: give --beir kb"),
        (".", "give --pairs or --scored"),
    ):
        message = one_line_error(leaderboard("run", "--encoder", "chargrams", "--data-dir", folder))
        assert expected in message


@pytest.mark.slow
def test_repeats_and_headers_are_said_wherever_their_scores_stand(
    leaderboard: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["German\tEnglish\n", *(f"{de}\t{en}\n" for de, en in [*PAIRS[:10], *PAIRS[:6]])]
    Path("faq.de-en.tsv").write_text("".join(lines), "utf-8")
    Path("clean.de-en.tsv").write_text("".join(lines[1:11]), "utf-8")
    pairs = ("--pairs", "faq.de-en.tsv", "--pairs", "clean.de-en.tsv")
    done = leaderboard("run", *pairs, *ENCODERS)
    remarks = [
        "the first pair (German, English) looks like a header",
        "17 pairs, but 11 different source and 11 different",
    ]
    record, clean, average = (
        {r["subset"]: r for r in records_of(tmp_path, "chargrams")}[n] for n in ("faq", "clean", "avg")
    )
    assert len(record["remarks"]) == 2 and "remarks" not in clean and "remarks" not in average
    assert leaderboard("report", "--html", "board.html").returncode == 0
    places = {
        "run": done.stderr,
        "run's tables": done.stdout,
        "show": leaderboard("show").stdout,
        "show --task": leaderboard("show", "--task", "pairs").stdout,
        "show --record": leaderboard("show", "--record", "chargrams/pairs/faq").stdout,
        "best": leaderboard("best").stdout,
        "best, for programs": leaderboard("best", "--format", "json").stdout,
        "compare": leaderboard("compare", "chargrams", "small", *pairs, "--resamples", "1000").stdout,
        "compare without files": leaderboard(
            "compare", "chargrams", "small", "--task", "pairs", "--resamples", "1000"
        ).stdout,
        "gate": leaderboard("gate", "chargrams", "small", "--resamples", "1000").stdout,
        "the task's page": Path("results/pairs.md").read_text("utf-8"),
        "the board": Path("board.html").read_text("utf-8"),
    }
    for place, text in places.items():
        for remark in remarks:
            assert remark in " ".join(text.split()), (place, text)
        assert "10 pairs, but" not in text


@pytest.mark.slow
def test_what_is_printed_to_repeat_a_measurement_runs_as_it_is(
    leaderboard: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for lang, pairs in (("de", PAIRS[:20]), ("tr", PAIRS[20:])):
        Path(f"faq.en-{lang}.tsv").write_text("".join(f"{en}\t{de}\n" for de, en in pairs), "utf-8")
    Path("m.en").write_text("".join(f"{en}\n" for _, en in PAIRS[:20]), "utf-8")
    Path("m.de").write_text("".join(f"{de}\n" for de, _ in PAIRS[:20]), "utf-8")
    rows = [f"{de[::-1]};{en[::-1]};{PAIRS[i % 15][0]};{en}\n" for i, (de, en) in enumerate(PAIRS[:20])]
    Path("table.de-en.csv").write_text("".join(["source;target;Frage;Satz englisch\n", *rows]), "utf-8")
    both = ("--pairs", "faq.en-de.tsv", "--pairs", "faq.en-tr.tsv")
    assert leaderboard("run", *both, *ENCODERS).returncode == 0
    _run_what_is_printed(leaderboard, "faq.en-de", "faq.en-tr", "avg")
    # In the order in which they are given, and by the columns that are named.
    table = ("--pairs", "table.de-en.csv", "--columns", "Frage,Satz englisch")
    for given in (("--pairs", "m.en,m.de"), table):
        assert leaderboard("run", *given, *ENCODERS[:2]).returncode == 0
    _run_what_is_printed(leaderboard, "m", "table")
    message = one_line_error(leaderboard("run", *table[:2], *ENCODERS[2:]))
    assert "'table' (pairs) are of other columns ('Frage', 'Satz englisch')" in message
    compare = ("compare", "chargrams", "small", "--resamples", "1000")
    assert "20 pairs, but 15 different source" in leaderboard("show", "--task", "pairs").stdout
    done = leaderboard("compare", *ENCODERS[1::2], *compare[3:], *table[:2])  # the usual columns have no repeats
    assert done.returncode == 0 and "different source" not in done.stdout
    message = one_line_error(leaderboard("rerun", "chargrams/pairs/faq.en-de"))
    assert message.endswith("give --pairs faq.en-de.tsv --set-name faq.en-de")

    # Without the files, what is stored is compared all the same.
    for file in tmp_path.glob("faq.*"):
        file.unlink()
    for asked in (("--task", "pairs"), ("--task", "pairs", "--subset", "faq.en-tr")):
        done = leaderboard("compare", "chargrams", "small", *asked, "--resamples", "1000", "--format", "json")
        assert done.returncode == 0, done.stderr
        sets = {one["subset"] for one in json.loads(done.stdout)["differences"]}
        assert sets == ({"faq.en-tr"} if "--subset" in asked else {"faq.en-de", "faq.en-tr", "avg"})
        for subset in ("m", "table"):
            assert ("--subset" in asked) or f"pairs/{subset} is left out: small has no results on it" in done.stderr
    task = (*compare, "--task", "pairs")
    message = one_line_error(leaderboard(*task, "--subset", "m"))
    assert message.startswith("pairs/m: small has no results on it")
    assert "unknown subset 'other'" in one_line_error(leaderboard(*task, "--subset", "other"))
    assert one_line_error(leaderboard(*task, "--task", "sts17")).startswith("pairs is for data sets of your own")
    Path("m.de-en.tsv").write_text("".join(f"{de}\t{en}\t{i}\n" for i, (de, en) in enumerate(PAIRS)), "utf-8")
    assert leaderboard("run", "--scored", "m.de-en.tsv", *ENCODERS).returncode == 0
    done = leaderboard(*task, "--task", "scored", "--subset", "m")
    assert done.returncode == 0 and "pairs/m is left out: small has no results on it" in done.stderr
    # Without --task, a name means a published set.
    message = one_line_error(leaderboard("compare", "chargrams", "small", "--subset", "faq.en-tr"))
    assert "unknown subset 'faq.en-tr'" in message
    shutil.rmtree(tmp_path / "results/rows/small")
    message = one_line_error(leaderboard("compare", "chargrams", "small", "--task", "pairs"))
    assert message.startswith("small has no stored rows") and "--pairs" in message


def _run_what_is_printed(leaderboard: Leaderboard, *subsets: str) -> None:
    for subset in subsets:
        shown = leaderboard("show", "--record", f"chargrams/pairs/{subset}").stdout.splitlines()
        for line in shown[1:3]:
            done = leaderboard(*shlex.split(line.partition("leaderboard ")[2]))
            assert done.returncode == 0, (line, done.stderr)

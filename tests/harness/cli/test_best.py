"""`leaderboard best` and `leaderboard rows` as a user calls them: own sets, and the results of this checkout."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import one_line_error
from result_records import record, small_board, sts, write_records
from speeds import measurement

from harness.speed.store import SpeedStore

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]
COMMITTED = Path(__file__).parents[3] / "results"
NOUNS = ["Haus", "Baum", "Hund", "Katze", "Wasser", "Feuer", "Brot", "Tisch", "Strasse", "Berg", "Fluss", "Garten"]
COLOURS = ["rot", "blau", "klein", "schnell", "alt"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sets of pairs, German with Turkish and with English, whose sides share some words; an encoder that errs."""
    monkeypatch.chdir(tmp_path)
    texts = [f"{noun} {colour}" for noun in NOUNS for colour in COLOURS]
    for name, lang in (("faq", "tr"), ("shop", "en")):
        # Up to six letters of a translation differ, so that some are hard to find.
        lines = [
            f"{text}\t{''.join('x' if (i + j) % 7 < i % 6 else c for j, c in enumerate(text))} {lang}\n"
            for i, text in enumerate(texts)
        ]
        Path(f"{name}.de-{lang}.tsv").write_text("".join(lines), "utf-8")
    return tmp_path


SETS = ("--pairs", "faq.de-tr.tsv", "--pairs", "shop.de-en.tsv")
ENCODERS = ("chargrams", "chargrams?dim=128&name=small", "chargrams?dim=3&name=tiny")


def answer(leaderboard: Leaderboard, *arguments: str) -> dict[str, Any]:
    done = leaderboard("best", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


@pytest.mark.slow
def test_which_is_best_on_my_sets(leaderboard: Leaderboard, mine: Path) -> None:
    done = leaderboard("run", *SETS, *(word for spec in ENCODERS for word in ("--encoder", spec)))
    assert done.returncode == 0, done.stderr
    shown = leaderboard("best", "--language", "de", "--language", "tr")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == "Own pairs, src->trg x 100; mean of 2 sets: faq, shop; 120 items"
    assert lines[1].startswith("  highest: ") or lines[1].startswith("  best of 3: ")
    assert "tiny" in lines[1] and "usually unseen: below" in shown.stdout and "languages not known" in shown.stdout

    content = answer(leaderboard, "--language", "de", "--language", "tr")
    (pairs,) = content["tasks"]
    assert (pairs["task"], pairs["subsets"], pairs["n"]) == ("pairs", ["faq", "shop"], 120)
    assert pairs["is_tested"] and pairs["n_tests"] == 2 and pairs["mde_50"][0] < pairs["mde_80"][0]
    records = {
        e: {r["subset"]: r["metrics"] for r in json.loads((mine / f"results/records/{e}/pairs.json").read_text())}
        for e in ("chargrams", "small", "tiny")
    }
    for one in pairs["encoders"]:
        of = records[one["encoder"]]
        mean = (of["faq"]["accuracy_src_trg"] + of["shop"]["accuracy_src_trg"]) / 2
        assert one["value"] == pytest.approx(mean, abs=1e-5) == of["avg"]["accuracy_src_trg"]
        assert one["low"] <= one["value"] <= one["high"]
    # The same tests as `compare` makes of the same rows: those of the stored average.
    compared = leaderboard("compare", "chargrams", "small", "tiny", *SETS, "--format", "json")
    differences = [d for d in json.loads(compared.stdout)["differences"] if d["subset"] == "avg"]
    (best,) = [b["encoders"] for b in json.loads(compared.stdout)["best"] if b["subset"] == "avg"]
    assert sorted(best) == sorted(pairs["best"])
    leader = pairs["encoders"][0]["encoder"]
    errors = [d["standard_error"] for d in differences if leader in (d["first"], d["second"])]
    found = [points / 2.2414 for points in pairs["mde_50"]]  # z(1 - 0.025 / 2), from the stored p-values
    assert all(min(errors) * 0.6 < error < max(errors) * 1.6 for error in found)

    # On German alone there is one set; a single encoder is not the best.
    (english,) = answer(leaderboard, "--language", "de")["tasks"]
    assert english["subsets"] == ["shop"]
    alone = leaderboard("best", "--licence", "MIT")
    refused = one_line_error(alone)
    assert "no encoder is what you wish for: chargrams (Apache-2.0)" in refused and "speed" not in refused
    unknown = one_line_error(leaderboard("best", "--max-size", "1GB"))
    assert "chargrams (size not known)" in unknown and "`leaderboard speed` measures sizes and speeds" in unknown
    assert unknown.endswith("(about a minute for a fast encoder; `--repeats 1` is quicker)")
    message = one_line_error(leaderboard("best", "--language", "fi"))
    assert message.startswith("no results on fi") and message.endswith("there are some on de en tr")

    # A choice that is no stored average needs rows; without them nothing is tested.
    for encoder in ("chargrams", "small"):
        file = mine / f"results/records/{encoder}/pairs.json"
        file.write_text(json.dumps([r for r in json.loads(file.read_text()) if not r["parts"]]))
    (with_rows,) = answer(leaderboard, "--language", "de", "--language", "tr")["tasks"]
    assert with_rows["best"] == pairs["best"] and with_rows["mde_level"] == 0.025
    assert with_rows["mde_50"][0] == pytest.approx(pairs["mde_50"][0], rel=0.3)
    shutil.rmtree(mine / "results/rows")
    untested = leaderboard("best", "--language", "de", "--language", "tr")
    assert "not tested, so none can be called the best" in untested.stdout
    command = untested.stdout.splitlines()[-1].strip()
    assert command.startswith("leaderboard run --save-rows --results results --pairs faq.de-tr.tsv --pairs ")
    given = shlex.split(command)[1:]
    assert leaderboard(*given).returncode == 0
    (again,) = answer(leaderboard, "--language", "de", "--language", "tr")["tasks"]
    assert again["is_tested"] and again["best"] == pairs["best"]


@pytest.mark.slow
def test_the_results_of_this_checkout(leaderboard: Leaderboard) -> None:
    results = ("--results", str(COMMITTED))
    start = time.monotonic()
    done = leaderboard("best", "--language", "de", "--language", "tr", *results)
    assert time.monotonic() - start < 10
    assert done.returncode == 0, done.stderr
    *lines, command = done.stdout.splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 100
    assert command.startswith("  leaderboard run --save-rows ") and "--language de --language tr" in command
    by_task = {one["task"]: one for one in answer(leaderboard, "--language", "de", *results)["tasks"]}
    tatoeba = by_task["tatoeba"]
    assert tatoeba["subsets"] == ["deu"] and tatoeba["is_tested"]
    long = json.loads(leaderboard("show", "--task", "tatoeba", "--subset", "deu", "--format", "json", *results).stdout)
    shown = {e["encoder"]: e for e in long if e["metric"] == tatoeba["metric"] and "@" not in e["encoder"]}
    for one in tatoeba["encoders"]:
        entry = shown[one["encoder"]]
        assert (one["value"], one["low"], one["high"]) == (entry["value"], entry["low"], entry["high"])
        p = one["p_holm"]
        assert (p if p is None else round(p, 6)) == entry["p_best"]  # six digits in the long form
        assert (one["encoder"] in tatoeba["best"]) is entry["is_best"]
    (average,) = answer(leaderboard, "--subset", "avg-student", *results)["tasks"]
    assert len(average["subsets"]) == 9 and average["is_tested"] and average["encoders"][0]["low"] is not None
    in_readme = leaderboard("best", "--language", "de", "--task", "bucc", *results).stdout
    in_readme = in_readme.replace(str(COMMITTED), "results")  # as where the page says it is run
    assert in_readme in (COMMITTED.parent / "docs" / "choosing.md").read_text("utf-8")
    norwegian = leaderboard("best", "--language", "nb", "--task", "tatoeba", *results).stdout
    assert "; nob; " in norwegian and "no set on" not in norwegian
    (alone,) = answer(leaderboard, "--language", "ko", *results)["tasks"]
    assert alone["task"] == "tatoeba" and alone["subsets"] == ["kor"]
    cheap = answer(leaderboard, "--task", "tatoeba", "--subset", "deu", "--licence", "commercial", *results)
    assert cheap["left_out"]["student"] == "CC-BY-NC-4.0"
    assert {one["encoder"] for one in cheap["tasks"][0]["encoders"]}.isdisjoint(cheap["left_out"])
    small = answer(leaderboard, "--subset", "deu", "--max-size", "100MB", "--min-speed", "500", *results)
    for one in small["tasks"][0]["encoders"]:
        assert one["size_bytes"] <= 1e8 and one["sentences_per_s"] >= 500
    assert small["left_out"]
    one = answer(leaderboard, "--task", "tatoeba", "--subset", "deu", "--licence", "CC-BY-NC-*", *results)
    assert [each["encoder"] for each in one["tasks"][0]["encoders"]] == ["student"]
    assert one["tasks"][0]["answer"].startswith("of what fits your wishes, only student (")


def test_wrong_questions(leaderboard: Leaderboard, tmp_path: Path) -> None:
    assert "no stored results" in one_line_error(leaderboard("best", "--language", "de"))
    write_records(tmp_path / "results", small_board())
    for arguments, message in (
        (("--language", "xx"), "'xx' is no code of ISO 639"),
        (("--language", "fi"), "no results on fi are stored; there are some on ar de en es"),
        (("--task", "sts71"), "unknown task 'sts71'; did you mean 'sts17'?"),
        (("--subset", "en-dee"), "unknown subset 'en-dee'; did you mean"),
        (("--max-size", "big"), "'big' is no size; give one such as 500MB"),
        (("--max-size", "1GB"), "(size not known)"),
        (("--format", "csv"), "'csv' is not one of 'table', 'json'"),
    ):
        assert message in one_line_error(leaderboard("best", *arguments)), arguments


def test_the_reference_is_named_as_the_arguments_are_and_what_lacks_is_said(
    leaderboard: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_records(Path("results"), [sts("ours", "en-en", 80.0), sts("small", "en-en", 70.0)])
    write_records(Path("theirs"), [sts("unique", "en-en", 75.0), sts("ours", "en-en", 60.0), sts("lone", "x-en", 9.0)])
    for arguments, name, others in [
        (("theirs", "--reference", "theirs/unique"), "unique", {"ours"}),
        (("results", "--reference", "theirs/unique"), "unique", {"results/ours", "small"}),
        (("--reference", "theirs/unique"), "unique", {"results/ours", "small"}),
        (("results", "--reference", "theirs/ours"), "theirs/ours", {"results/ours", "small"}),
        (("results", "--reference", "small"), "small", {"ours"}),
    ]:
        found = answer(leaderboard, *arguments)
        assert found["reference"] == name
        assert {one["encoder"] for one in found["tasks"][0]["against"]} == others, arguments
    done = leaderboard("best", "results", "--reference", "theirs")
    assert done.returncode == 2 and "theirs has results of 3 encoders; say which" in done.stderr

    done = leaderboard("best", "--reference", "small", "--licence", "commercial")
    assert done.returncode == 2  # nobody's licence is known
    SpeedStore(Path("results")).merge(measurement("ours", 1.0, size_bytes=10))
    SpeedStore(Path("results")).merge(measurement("small", 1.0, size_bytes=20))
    done = leaderboard("best", "--reference", "small", "--max-size", "15B")
    assert "small against each: left out (" in done.stdout and "not measured" not in done.stdout, done
    write_records(Path("alone"), [sts("one", "en-en", 80.0), record("two", "tatoeba", "deu", {"accuracy_en_xx": 9.0})])
    done = leaderboard("best", "--results", "alone", "--task", "sts17", "--reference", "one")
    assert "one against each: no other was measured on all of these sets" in " ".join(done.stdout.split()), done
    done = leaderboard("best", "--results", "alone", "--task", "sts17", "--reference", "two")
    assert "two against each: not measured on these sets" in done.stdout

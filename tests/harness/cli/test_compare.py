"""`leaderboard compare` as a user drives it: planted encoders whose truth is known, stored rows, what is wrong."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import one_line_error
from samples import correlation
from scipy.stats import spearmanr

from harness.cli import main
from harness.resampling.bootstrap import bca_interval, bootstrap
from harness.resampling.resamples import Resampling

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

# A sentence says at which angle its vector is; the noisy encoders turn the foreign one by a random angle.
ENCODERS = """
import sys
import zlib

import numpy as np


class Angles:
    dim, uses_lang = 2, True

    def __init__(self, name, noise, fails_in=""):
        self.name, self.noise, self.fails_in = name, noise, fails_in
        self.fingerprint = f"{name}-v1"

    def encode(self, sentences, *, lang=None):
        if lang == self.fails_in:
            raise ValueError(f"cannot read {lang}")
        print("encoding", self.name, lang, file=sys.stderr)
        angles = []
        for text in sentences:
            noise = np.random.default_rng(zlib.crc32(f"{self.name} {text}".encode())).normal() if lang != "en" else 0
            angles.append(float(text.split()[-1]) + self.noise.get(lang, 0) * noise)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def oracle(): return Angles("oracle", {})
def noisy(): return Angles("noisy", {"de": 0.5, "fr": 0})
def loud(): return Angles("loud", {"de": 0.5, "fr": 2})
def no_french(): return Angles("no_french", {}, "fr")
def nothing(): return Angles("nothing", {}, "en")
"""
ORACLE, NOISY, LOUD = ("python:planted:oracle", "python:planted:noisy", "python:planted:loud")
DATA = ["--task", "sts17", "--data-dir", "data", "--resamples", "500"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two sets of 60 pairs whose gold falls with the angle between the two sentences."""
    (tmp_path / "planted.py").write_text(ENCODERS)
    folder = tmp_path / "data/sts17-extended-mine"
    folder.mkdir(parents=True)
    for lang in ("de", "fr"):
        angles = np.random.default_rng(len(lang)).uniform(0, 1.5, 60).round(4)
        lines = (f"{lang} {angle}\ten{i} 0\t{5 - 3 * angle:.4f}\n" for i, angle in enumerate(angles))
        (folder / f"STS.{lang}-en.txt").write_text("".join(lines))
    return folder


def two_lines(text: str, subset: str) -> tuple[str, str]:
    """The row of a subset: values, and below them the intervals."""
    lines = text.splitlines()
    (place,) = (i for i, line in enumerate(lines) if line.startswith(f"{subset} "))
    return lines[place], lines[place + 1]


def shown(leaderboard: Leaderboard, *arguments: str, code: int = 0) -> dict:
    done = leaderboard("compare", *arguments, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("data")
def test_planted_encoders(leaderboard: Leaderboard, tmp_path: Path) -> None:
    found = shown(leaderboard, ORACLE, NOISY, *DATA)
    by_subset = {entry["subset"]: entry for entry in found["differences"]}
    german, french = by_subset["en-de@mine"], by_subset["en-fr@mine"]
    assert german["first_value"] == pytest.approx(100) and german["result"] == "win"
    assert 0 < german["low"] < german["difference"] < german["high"] and german["p_holm"] == pytest.approx(2 / 501)
    assert french["difference"] == 0 and french["result"] == "tie" and french["p"] == 1
    assert found["conclusion"].startswith(
        "oracle is better than noisy on 1 of 2 sets and worse on none; no claim can be made of the other one. With 60 "
        "items a set a difference below "
    )
    assert german["mde_level"] == 0.025 and german["mde_50"] < german["mde_80"] < 4 * german["standard_error"]
    assert french["mde_50"] is None  # two encoders that are equal on all items
    assert found["signatures"]["sts17"].endswith("|resamples:500|seed:12345")

    # The value is the one that `run` stores, the interval that of harness.statistics on the rows that it keeps.
    run = leaderboard("run", "--encoder", NOISY, *DATA[:4])
    assert run.returncode == 0, run.stderr
    columns = np.load(tmp_path / "results/rows/noisy/sts17/en-de@mine.npz")
    assert german["second_value"] == pytest.approx(100 * spearmanr(columns["gold"], columns["cosine"]).statistic)
    (interval,) = bca_interval(bootstrap(correlation([dict(columns)]), Resampling(500)))
    assert (german["second_low"], german["second_high"]) == pytest.approx((interval.low, interval.high))

    # Turned round, the other way round; another seed, other draws; a wider level, a wider interval.
    turned = shown(leaderboard, NOISY, ORACLE, *DATA)["differences"]
    assert [entry["result"] for entry in turned] == ["loss", "tie"]
    assert turned[0]["difference"] == -german["difference"]
    other = shown(leaderboard, ORACLE, NOISY, *DATA, "--seed", "1", "--level", "0.8")
    assert "level:0.8|" in other["signatures"]["sts17"] and other["signatures"]["sts17"].endswith("seed:1")
    assert 0 < other["differences"][0]["high"] - other["differences"][0]["low"] < german["high"] - german["low"]


@pytest.mark.usefixtures("data")
def test_tables_of_two_and_of_three(leaderboard: Leaderboard) -> None:
    done = leaderboard("compare", ORACLE, NOISY, *DATA, COLUMNS="160")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.search(r"oracle +noisy +oracle - noisy +p +p \(Holm\) +effect +units +result", lines[2])
    assert re.match(r"en-de@mine +100\.0\* +\d+\.\d  +\+.*win$", lines[4])
    assert re.match(r" +\[\d+\.\d, \d+\.\d\] +\[\+", lines[5])
    assert any(line.startswith("no interval: all items alike: oracle on en-de@mine, ") for line in lines)
    assert "oracle against noisy    1    1     0" in lines
    assert lines[-1].startswith("oracle is better than noisy on 1 of 2 sets")
    assert any(line.startswith("signature: task:sts17|") and line.endswith("seed:12345") for line in lines)

    three = shown(leaderboard, ORACLE, NOISY, LOUD, *DATA)
    assert {one["subset"]: one["encoders"] for one in three["best"]} == {
        "en-de@mine": ["oracle"],
        "en-fr@mine": ["oracle", "noisy"],
    }
    assert three["conclusion"].startswith(
        "Best or not significantly worse than the best: oracle on 2 of 2 sets, noisy on 1, loud on 0. With 60 items a "
        "set a difference below "
    )
    of_two = shown(leaderboard, ORACLE, NOISY, *DATA)["differences"]
    assert [e for e in three["differences"] if (e["first"], e["second"]) == ("oracle", "noisy")] == of_two
    board = leaderboard("compare", ORACLE, NOISY, LOUD, *DATA, "--format", "md").stdout
    french = next(line for line in board.splitlines() if line.startswith("| en-fr@mine"))
    assert [cell.strip().startswith("**100.0**") for cell in french.split("|")[2:5]] == [True, True, False]
    assert "against the best of each set" in board

    listed = leaderboard("compare", ORACLE, NOISY, LOUD, *DATA, "--format", "csv").stdout
    entries = list(csv.DictReader(listed.splitlines()))
    assert len(entries) == 6 and float(entries[0]["difference"]) == three["differences"][0]["difference"]


@pytest.mark.usefixtures("data")
def test_starts_from_stored_rows_of_the_same_vectors(leaderboard: Leaderboard, tmp_path: Path) -> None:
    pair = [ORACLE, NOISY, *DATA]
    done = leaderboard("compare", *pair, "--format", "json", "--cache-dir", "first")
    assert "encoding noisy de" in done.stderr and "(stored)" not in done.stderr
    assert not (tmp_path / "results").exists()  # nothing is stored but vectors
    run = leaderboard("run", "--encoder", NOISY, "--encoder", ORACLE, *DATA[:4], "--rows-format", "jsonl")
    assert run.returncode == 0, run.stderr
    again = leaderboard("compare", *pair, "--format", "json", "--cache-dir", "empty")
    assert again.stdout == done.stdout
    assert again.stderr.count("(stored)") == 4 and "encoding" not in again.stderr
    # Rows of another fingerprint do not count.
    (tmp_path / "planted.py").write_text(ENCODERS.replace("-v1", "-v2, other"))
    other = leaderboard("compare", *pair, "--format", "json", "--cache-dir", "empty")
    assert "encoding noisy de" in other.stderr and "(stored)" not in other.stderr
    # Rows that are not those of their record are refused.
    (tmp_path / "planted.py").write_text(ENCODERS)
    path = tmp_path / "results/rows/noisy/sts17/en-de@mine.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:50]))
    assert "en-de@mine.jsonl: not the rows of the stored result" in one_line_error(leaderboard("compare", *pair))


@pytest.mark.usefixtures("data")
def test_stored_encoders_are_compared_without_loading_them(leaderboard: Leaderboard, tmp_path: Path) -> None:
    done = leaderboard("compare", ORACLE, NOISY, *DATA, "--format", "json")
    aliases = ["chargrams", "chargrams?dim=16&name=small"]
    encoders = [option for spec in (ORACLE, NOISY, *aliases) for option in ("--encoder", spec)]
    assert leaderboard("run", *encoders, *DATA[:4]).returncode == 0
    (tmp_path / "planted.py").write_text("raise RuntimeError('its weights are gone')")
    again = leaderboard("compare", "oracle", "noisy", *DATA, "--format", "json", "--cache-dir", "empty")
    assert again.returncode == 0 and again.stdout == done.stdout
    assert "noisy: stored rows of all 2 sets; it is not loaded" in again.stderr and not (tmp_path / "empty").exists()
    by_spec = leaderboard("compare", "oracle", *aliases, *DATA, "--cache-dir", "empty")
    assert by_spec.returncode == 0 and by_spec.stderr.count("it is not loaded") == 3, by_spec.stderr
    # Code that a spec string names may have changed: it is loaded, whatever is stored.
    assert "its weights are gone" in one_line_error(leaderboard("compare", ORACLE, "noisy", *DATA))
    other = leaderboard("compare", "chargrams?dim=32", "chargrams?dim=16&name=small", *DATA)
    assert other.returncode == 0 and other.stderr.count("it is not loaded") == 1
    # Rows of other data, or of some of the sets alone, do not count.
    rows = tmp_path / "results/rows/small/sts17/en-de@mine.npz"
    rows.rename(tmp_path / "kept.npz")
    measured = leaderboard("compare", "oracle", "chargrams?dim=16&name=small", *DATA)
    assert measured.returncode == 0 and measured.stderr.count("it is not loaded") == 1
    assert "have no stored rows of small" in one_line_error(leaderboard("compare", "oracle", "small", *DATA))
    file = tmp_path / "data/sts17-extended-mine/STS.de-en.txt"
    file.write_text(file.read_text() + "de 1\ten 0\t3\n")
    assert "have no stored rows of oracle" in one_line_error(leaderboard("compare", "oracle", "noisy", *DATA))


@pytest.mark.usefixtures("data")
def test_a_set_that_one_encoder_lacks_is_said(leaderboard: Leaderboard) -> None:
    pair = [NOISY, "python:planted:no_french", *DATA]
    found = shown(leaderboard, *pair, code=3)
    french = next(entry for entry in found["differences"] if entry["subset"] == "en-fr@mine")
    assert french["difference"] is None and french["second_value"] is None and french["first_value"] is not None
    start = "noisy is worse than no_french on the one set; 1 more could not be compared. With 60 items (en-de@mine) "
    assert found["conclusion"].startswith(start)
    table = leaderboard("compare", *pair)
    assert table.returncode == 3
    assert "– no_french on en-fr@mine: ValueError: cannot read fr" in table.stdout
    nothing = leaderboard("compare", NOISY, "python:planted:nothing", *DATA)
    assert "no set that two of the encoders have: nothing on en-de@mine" in one_line_error(nothing)


def test_the_bundled_sample_end_to_end(leaderboard: Leaderboard) -> None:
    done = leaderboard("compare", "chargrams", "chargrams?dim=16&name=small", "--resamples", "200", COLUMNS="160")
    assert done.returncode == 0, done.stderr
    assert "the bundled sample is used" in done.stderr
    for title in ("STS 2017 (bundled sample)", "Language bias (bundled sample)", "BUCC", "Tatoeba", "Korean STS"):
        assert re.search(rf"^{re.escape(title)}", done.stdout, re.MULTILINE), title
    bias, its_intervals = two_lines(done.stdout, "ten@sample")
    assert re.search(r"-\d+\.\d\d ", bias) and re.search(r"\[-\d+\.\d\d, [-+]\d+\.\d\d\]", its_intervals)
    assert "win" not in bias and "loss" not in bias and "*" not in bias
    average = "{} {} ".format(*two_lines(done.stdout, "avg-cross@sample"))
    conclusion = done.stdout.splitlines()[-1]
    assert (
        "on avg-cross@sample the difference (chargrams - small) is" in conclusion
        and "Language bias on ten@sample: difference " in conclusion
    )
    stated = re.search(r"([-+]\d+\.\d) (\[.*?\])", conclusion)
    assert stated and all(f" {text} " in average for text in stated.groups())
    of_metric = shown(
        leaderboard, "chargrams", "chargrams?dim=16&name=small", "--metric", "pearson", "--resamples", "50"
    )
    assert {(e["task"], e["metric"]) for e in of_metric["differences"]} == {("sts17", "pearson"), ("korsts", "pearson")}


@pytest.mark.usefixtures("data")
def test_wrong_use_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, which spares a dozen starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted", raising=False)

    def error(*arguments: str) -> str:
        with pytest.raises(SystemExit) as exit:
            main(["compare", *arguments])
        return one_line_error(subprocess.CompletedProcess(arguments, exit.value.code, *capfd.readouterr()))

    assert "give two encoders or more" in error(ORACLE, *DATA)
    assert "two of the encoders are called 'oracle'; add name=..." in error(ORACLE, ORACLE, *DATA)
    assert "unknown encoder 'chargram'; did you mean 'chargrams'" in error(ORACLE, "chargram", *DATA)
    assert "planted has no oracl" in error(ORACLE, "python:planted:oracl", *DATA)
    assert "unknown task 'sts71'" in error(ORACLE, NOISY, "--task", "sts71", "--data-dir", "data")
    assert "subset 'en-de' is not in the data" in error(ORACLE, NOISY, *DATA, "--subset", "en-de")
    assert "unknown metric 'spearmann'; did you mean 'spearman'" in error(ORACLE, NOISY, *DATA, "--metric", "spearmann")
    assert "unknown metric 'threshold'" in error(ORACLE, NOISY, *DATA, "--metric", "threshold")
    assert "a threshold is no score" in error(ORACLE, NOISY, *DATA, "--task", "bucc", "--metric", "threshold")
    assert "level between 0 and 1, not" in error(ORACLE, NOISY, *DATA, "--level", "95")
    assert "resamples" in error(ORACLE, NOISY, "--resamples", "0")
    assert "resamples" in error(ORACLE, NOISY, "--resamples", "1000001")
    assert "no data set of" in error(ORACLE, NOISY, "--data-dir", ".")
    assert "missing is not a folder" in error(ORACLE, NOISY, "--data-dir", "missing")
    assert "Missing argument" in error()

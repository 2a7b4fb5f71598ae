"""`leaderboard sweep` as a user drives it, and what the other commands do with its records."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import one_line_error
from gate_runs import leaderboard_here
from packages import offering

from harness.encoders.cache import VectorCache
from harness.encoders.registry import load_encoder
from harness.results.store import ResultStore

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

SAME = ("--task", "sts17", "--subset", "avg-same@sample")
SWEEP = ("sweep", "--encoder", "chargrams", "--dims", "4096,256", *SAME, "--suite", "sample")
VARIANTS = {
    "chargrams@int8": (1024, "int8", 1024),
    "chargrams@binary": (1024, "binary", 128),
    "chargrams@256": (256, "none", 1024),
    "chargrams@256-int8": (256, "int8", 256),
    "chargrams@256-binary": (256, "binary", 32),
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep: `results`, `cache`, `out.json` and `err`."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        places = ["--results", "results", "--cache-dir", "cache"]
        assert leaderboard_here(*SWEEP, *places, "--format", "json") == 0
    return folder


@pytest.fixture
def here(swept: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(swept)
    return swept


def run(*arguments: str) -> int:
    return leaderboard_here(*arguments, "--results", "results")


def swept_again(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    capsys.readouterr()
    assert run(*SWEEP, "--cache-dir", "cache", *arguments) == 0
    return capsys.readouterr()


def test_records_name_the_full_encoder_and_what_was_done(here: Path) -> None:
    records = ResultStore("results").load()
    assert {record.encoder for record in records} == {"chargrams", *VARIANTS}
    full = load_encoder("chargrams").fingerprint
    for record in records:
        spec = load_encoder(record.spec)
        assert (spec.name, spec.fingerprint) == (record.encoder, record.fingerprint)
        if record.encoder == "chargrams":
            assert record.base is record.reduced is None and record.fingerprint == full
        else:
            assert record.base == "chargrams" and record.fingerprint.startswith(f"{full}|")
            assert record.reduced and record.reduced.full_dim == 1024
            assert (record.reduced.dim, record.reduced.quantize, record.reduced.vector_bytes) == VARIANTS[
                record.encoder
            ]


def test_sentences_are_encoded_once_and_nothing_is_measured_again(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(VectorCache("cache").size()) == 1
    before = {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()}
    monkeypatch.setattr("baselines.adapters.chargrams.CharGrams.encode", lambda *_, **__: pytest.fail("encoded"))
    monkeypatch.setenv("COLUMNS", "120")
    out, err = swept_again(capsys)
    assert "chargrams: 4,096 dimensions passed over, its vectors have 1,024" in err
    assert err.count("(stored)") == 6 * 3
    assert {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()} == before
    table = out.split("\n\n")[1].splitlines()
    assert table[0].split() == ["vectors", "dims", "type", "bytes", "score", "difference", "p", "(Holm)"]
    sizes = [(name, *VARIANTS[name]) for name in VARIANTS]
    rows = [line.split()[:4] for line in table if line.startswith("chargrams")]
    expected = [("chargrams", 1024, "none", 4096), *sizes]
    shown = [[n, f"{d:,}", {"none": "float32"}.get(q, q), f"{b:,}"] for n, d, q, b in expected]
    assert rows == shown


def test_scores_are_those_of_plainly_reduced_vectors(here: Path) -> None:
    """English, by NumPy and SciPy from the full vectors."""
    from scipy.stats import spearmanr

    from harness.data import bundled_sample
    from harness.data.sts import load_sts, sts_sources

    pairs = load_sts(sts_sources(bundled_sample())["en-en@sample"])
    full = load_encoder("chargrams")
    x, y = (full.encode(texts)[:, :256].astype(float) for texts in (pairs.sentences1, pairs.sentences2))
    for name, function in (("chargrams@256", lambda v: v), ("chargrams@256-binary", lambda v: np.where(v > 0, 1, -1))):
        a, b = function(x), function(y)
        cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        (record,) = [r for r in ResultStore("results").load(name) if r.subset == "en-en@sample"]
        assert record.metrics["spearman"] == pytest.approx(100 * spearmanr(cosines, pairs.gold).statistic, abs=0.01)


def test_differences_are_those_of_compare_with_holm_over_the_variants(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swept_json = json.loads(swept_again(capsys, "--format", "json")[0])
    entries = {(e["encoder"], e["subset"]): e for e in swept_json["variants"]}
    assert set(entries) == {(name, "avg-same@sample") for name in VARIANTS}
    p = {}
    for name in VARIANTS:
        assert run("compare", name, "chargrams", *SAME, "--format", "json") == 0
        (other,) = [d for d in json.loads(capsys.readouterr().out)["differences"] if d["kind"] == "average"]
        entry = entries[name, other["subset"]]
        p[name] = other["p"]
        for ours, theirs in [("value", "first_value"), ("difference", "difference"), ("p", "p")]:
            assert entry[ours] == pytest.approx(other[theirs], abs=1e-5)
        for end in ("low", "high"):
            assert entry[f"difference_{end}"] == pytest.approx(other[end], abs=1e-4)
    highest = 0.0
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):  # Holm (1979)
        highest = max(highest, min(1, (len(p) - rank) * p[name]))
        entry = entries[name, "avg-same@sample"]
        assert entry["p_holm"] == pytest.approx(highest, abs=1e-5)
        assert entry["is_worse"] is (highest < 0.05 and entry["difference"] < 0)
    assert len(swept_json["conclusion"]) == 1


def test_csv_has_the_same_entries(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines = swept_again(capsys, "--format", "csv")[0].splitlines()
    assert head.startswith("encoder,base,dim,quantize,bytes,task,subset,metric,value,low,high,difference,")
    assert len(lines) == len(VARIANTS)


def test_types_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = json.loads(swept_again(capsys, "--dims", "", "--format", "json")[0])["variants"]
    found = {entry["encoder"]: entry["dim"] for entry in entries if entry["encoder"] != entry["base"]}
    assert found == {"chargrams@int8": 1024, "chargrams@binary": 1024}


def test_an_alias_may_be_cut_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "from baselines.adapters.chargrams import chargrams\n"
        "from dataclasses import replace\n"
        "short = replace(chargrams, options={'truncate_dim': '64'})\n"
    )
    with offering(tmp_path / "packages", "cut_alias", text, "[harness.encoders]\ncut-chargrams = cut_alias:short\n"):
        assert leaderboard_here("sweep", "--encoder", "cut-chargrams", *SAME, "--suite", "sample") == 2
    assert "cut-chargrams is cut or quantised already, by truncate_dim" in capsys.readouterr().err


def test_boards_leave_them_to_a_page_of_their_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report") == 0 and run("report", "--check") == 0
    pages = {path.name: path.read_text() for path in Path("results").glob("*.md")}
    assert set(pages) == {"README.md", "sts17.md", "sweep.md"}
    assert "[Cut and quantised vectors](sweep.md)" in pages["README.md"]
    for name in ("README.md", "sts17.md"):
        assert "chargrams@" not in pages[name] and "not shown: cut or quantised vectors, 5 of chargrams" in pages[name]
    for name, (dim, _, size) in VARIANTS.items():
        assert re.search(rf"\| {name} +\| +{dim:,} \| \w+ +\| +{size:,} \|", pages["sweep.md"])
    assert "--encoder 'chargrams?truncate_dim=256&quantize=int8'" in pages["sweep.md"]
    capsys.readouterr()
    assert run("show", "--full") == 0
    out = capsys.readouterr().out
    assert "chargrams@" not in out and "5 of chargrams" in out and "*" not in out.split("not shown")[0]
    assert run("show", "--encoder", "chargrams*", "--subset", "avg-same@sample") == 0
    out = capsys.readouterr().out
    assert re.findall(r"^chargrams\S*", out, re.M)[0] == "chargrams"
    assert set(re.findall(r"^chargrams\S*", out, re.M)) == {"chargrams", *VARIANTS}
    assert "cut and quantised vectors are not ranked among the encoders" in out
    assert run("show", "--format", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert {entry["encoder"] for entry in shown} == {"chargrams", *VARIANTS}
    assert not any(entry["is_best"] for entry in shown)


def test_their_records_are_repeated_and_checked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rerun", "chargrams@256-int8/sts17/avg-same@sample", "--cache-dir", "cache") == 0
    assert "+0.0000" in capsys.readouterr().out
    checked = ("check", "--against", "results", "--subset", "avg-same@sample", "--cache-dir", "cache")
    assert leaderboard_here(*checked) == 0
    assert "passed: 24 agree, 0 fail" in capsys.readouterr().out
    assert leaderboard_here(*checked, "--cached") == 0


def test_other_full_vectors_in_the_cache_are_noticed_also_by_a_variant(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from baselines.adapters.chargrams import CharGrams

    encode = CharGrams.encode
    monkeypatch.setattr(CharGrams, "encode", lambda self, *a, **k: np.roll(encode(self, *a, **k), 1, axis=1))
    checked = ("check", "--against", "results", "--encoder", "chargrams@256", "--cache-dir", "cache")
    assert leaderboard_here(*checked) == 1
    assert re.search(r"[\d,]+ of [\d,]+ cached vectors are not what the encoder gives", capsys.readouterr().out)


def test_other_commands_take_them(here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.en", "b.de"):
        (tmp_path / name).write_text("the cat sat\non the mat\na house\n")
    files = [str(tmp_path / name) for name in ("a.en", "b.de")]
    spec = "chargrams?truncate_dim=256&quantize=int8"
    assert leaderboard_here("mine", *files, "--encoder", spec, "--top", "3", "--cache-dir", "cache") == 0
    mined = [line.split("\t")[1:] for line in capsys.readouterr().out.splitlines()]
    assert sorted(mined) == [[text, text] for text in sorted(["the cat sat", "on the mat", "a house"])]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dims", "512,x"], "--dims is a list of whole numbers such as 512,256,128, not '512,x'"),
        (["--dims", "-5"], "--dims is a list of whole numbers"),
        (["--dims", "0"], "truncate_dim must be 1 or more, not 0"),
        (["--quantize", "int8,int4"], "unknown value of --quantize 'int4'"),
        (
            ["--encoder", "chargrams?quantize=int8&name=x"],
            "is cut or quantised already, by quantize; name the full",
        ),
        (["--encoder", "no-such"], "unknown encoder 'no-such'"),
    ],
)
def test_wrong_use_gives_one_line(leaderboard: Leaderboard, arguments: list[str], message: str) -> None:
    assert message in one_line_error(leaderboard(*SWEEP, *arguments))

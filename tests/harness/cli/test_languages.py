"""`--language`, and marks on what an encoder was not made for, as a user meets them."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import one_line_error
from packages import install
from result_records import record, small_board, sts, write_records

from harness.results.records import Result

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]
ACCURACY = {"accuracy_en_xx": 50.0, "accuracy_xx_en": 40.0}


def board() -> list[Result]:
    """Of two encoders, sets in several languages; of two of the user's own the languages are not known."""
    return [
        *small_board(),
        *(record(e, "tatoeba", code, ACCURACY) for e in ("muse", "e5") for code in ("deu", "tur", "tat")),
        record("muse", "pairs", "notes", {"accuracy_src_trg": 50.0}),
        record("muse", "pairs", "faq", {"accuracy_src_trg": 60.0}, languages=["de", "tr"]),
    ]


def subsets(leaderboard: Leaderboard, *arguments: str) -> set[str]:
    done = leaderboard("show", "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return {entry["subset"] for entry in json.loads(done.stdout)}


def test_show(leaderboard: Leaderboard, tmp_path: Path) -> None:
    write_records(tmp_path / "results", board())
    assert subsets(leaderboard, "--language", "de") == {"en-en", "en-de@deepl", "deu"}
    assert subsets(leaderboard, "--language", "ger", "--language", "tr") == {
        "en-en", "en-de@deepl", "deu", "tur", "faq"
    }  # fmt: skip
    assert subsets(leaderboard, "--language", "de", "--task", "sts17", "--encoder", "m*") == {"en-en", "en-de@deepl"}
    done = leaderboard("show", "--language", "tr")
    unknown = [line for line in done.stderr.splitlines() if "not known" in line]
    assert len(unknown) == 1 and unknown[0].endswith("left out, since their languages are not known: pairs notes")
    assert "Tatoeba similarity search" in done.stdout and "deu" not in done.stdout and "tur" in done.stdout
    message = one_line_error(leaderboard("show", "--language", "ja"))
    assert message == "no results on ja alone are stored; there are some on ar de en es tr tt"
    assert "no code of ISO 639" in one_line_error(leaderboard("show", "--language", "german"))
    published = leaderboard("show", "--published", "--language", "de", "--format", "json", "--task", "sts17")
    assert {e["subset"] for e in json.loads(published.stdout)} == {"en-en", "en-de", "en-de@deepl"}


def test_report(leaderboard: Leaderboard, tmp_path: Path) -> None:
    write_records(tmp_path / "results", board())
    chosen = ("--language", "de", "--language", "tr")
    (tmp_path / "README.md").write_text("<!-- leaderboard:begin -->\n<!-- leaderboard:end -->\n")
    done = leaderboard("report", "--results", "results", *chosen)
    assert done.returncode == 0 and "README.md" not in done.stdout.split(), "a choice does not enter the README"
    page = (tmp_path / "results/tatoeba.md").read_text("utf-8")
    assert "deu" in page and "| tat " not in page and "--language de --language tr" in page
    assert "Only sets on these languages, and English: de, tr." in page
    overview = (tmp_path / "results/README.md").read_text("utf-8")
    assert "leaderboard report --results results --language de --language tr\n" in overview
    assert "es-es" not in (tmp_path / "results/sts17.md").read_text("utf-8")
    assert leaderboard("report", "--results", "results", "--check", *chosen).returncode == 0
    all_of_it = leaderboard("report", "--results", "results", "--check")
    assert all_of_it.returncode == 1 and "would change: results/tatoeba.md" in all_of_it.stdout


def test_compare_takes_stored_names(leaderboard: Leaderboard) -> None:
    two = ("--encoder", "chargrams?dim=64", "--encoder", "chargrams?dim=32&name=small")
    sets = [option for name in ("en-en", "en-tr", "en-de") for option in ("--subset", f"{name}@sample")]
    assert leaderboard("run", *two, "--task", "sts17", *sets).returncode == 0
    done = leaderboard(
        "compare", "chargrams", "small", "--task", "sts17", "--language", "tr", "--resamples", "50", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    found = {entry["subset"] for entry in json.loads(done.stdout)["differences"]}
    assert found == {"en-en@sample", "en-tr@sample"}
    assert "it is not loaded" in done.stderr


@pytest.mark.slow
def test_sweep(leaderboard: Leaderboard) -> None:
    chosen = ("--task", "tatoeba", "--language", "de", "--dims", "16", "--quantize", "none", "--format", "json")
    done = leaderboard("sweep", "--encoder", "chargrams?dim=32", *chosen)
    assert done.returncode == 0, done.stderr
    assert {entry["subset"] for entry in json.loads(done.stdout)["variants"]} == {"deu@sample"}


def test_marks(leaderboard: Leaderboard, tmp_path: Path) -> None:
    small = {"spec": "muse?truncate_dim=64", "base": "muse"}
    mine = {"spec": "sentence-transformers:muse"}
    results = [
        record("muse@64", "tatoeba", "tat", ACCURACY, **small),
        record("mine", "tatoeba", "tat", ACCURACY, **mine),
    ]
    write_records(tmp_path / "results", [*board(), *results])
    task = ("--task", "tatoeba", "--subset", "t*")
    table = leaderboard("show", *task).stdout.splitlines()
    rows = {line.split()[0]: line for line in table if line.startswith(("muse", "e5", "mine"))}
    assert rows["muse"].split()[1:] == ["†50.0", "†40.0", "50.0", "40.0"], "made for Turkish, not for Tatar"
    assert rows["muse@64"].split()[1:3] == ["†50.0", "†40.0"] and "†" not in rows["e5"] + rows["mine"]
    assert len({line.index("40.0") for line in rows.values()}) == 1, "decimals stay below each other"
    assert table.count("†: on a language that the encoder was not made for; an average, on one or more") == 1
    assert " †50.0 |" in leaderboard("show", *task, "--format", "md").stdout
    assert r"\textdagger{}50.0" in leaderboard("show", *task, "--format", "latex").stdout
    shown = leaderboard("show", *task, "--format", "csv").stdout
    made_for = {(e["encoder"], e["subset"]): e["made_for_language"] for e in csv.DictReader(io.StringIO(shown))}
    assert made_for["muse", "tat"] == "false" and made_for["muse", "tur"] == "true" and made_for["mine", "tat"] == ""
    ordered = leaderboard("show", "--task", "tatoeba", "--subset", "tat", "--encoder", "m*", "--sort", "tat xx->en")
    assert ordered.returncode == 0 and "†40.0" in ordered.stdout


@pytest.mark.parametrize("has_file", [True, False])
def test_encoders_of_other_packages_say_their_languages(
    leaderboard: Leaderboard, tmp_path: Path, has_file: bool
) -> None:
    """In a file of theirs, which costs no import; or in the `EncoderInfo`."""
    said = "" if has_file else "languages=('de', 'en'), "
    text = "import sys\nfrom harness.encoders.registry import EncoderInfo\nprint('IMPORTED', file=sys.stderr)\n"
    text += f"german = EncoderInfo(factory=print, description='d', {said}backend='b')\n"
    site = install(tmp_path / "site", "of_others", text, "[harness.encoders]\ngerman = of_others:german\n")
    if has_file:
        (site / "of_others").mkdir()
        (site / "of_others.py").rename(site / "of_others/__init__.py")
        (site / "of_others/encoder_languages.toml").write_text('[encoders]\ngerman = "de en"\n')
    write_records(tmp_path / "results", [sts("german", "en-de", 50.0), sts("german", "en-fr", 40.0)])
    done = leaderboard(
        "show", "--task", "sts17", PYTHONPATH=os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    )
    assert "  50.0" in done.stdout and "†40.0" in done.stdout and ("IMPORTED" in done.stderr) is not has_file


def test_show_on_one_screen(leaderboard: Leaderboard) -> None:
    """The results in the repository: six encoders."""
    committed = Path(__file__).parents[3] / "results"
    done = leaderboard("show", "--results", str(committed), COLUMNS="200")
    lines = done.stdout.splitlines()
    assert lines[0] == "All tasks, scores x 100" and len(lines) <= 24 and max(map(len, lines)) <= 100
    assert lines[3].split()[:3] == ["encoder", "overall", "rank"] and "--full" in lines[-1]
    full = leaderboard("show", "--results", str(committed), "--full").stdout.splitlines()
    assert len(full) > 500 and full[0] == "STS 2017: Spearman's rho x 100"

"""`leaderboard import`: results of mteb beside what was measured, as published figures."""

from __future__ import annotations

import json

from command_line import one_line_error
from mteb_files import LABSE, LABSE_REVISION, OLD_STS, OLD_TATOEBA, sts_entry, task_result, write
from result_records import sts, write_records


def test_imported_rows_are_shown_as_published(leaderboard, tmp_path):
    folder = tmp_path / "checkout" / "results" / LABSE / LABSE_REVISION
    write(folder / "STS17.json", OLD_STS)
    write(folder / "Tatoeba.json", OLD_TATOEBA)
    write_records(tmp_path / "results", [sts("labse", "ar-ar", 69.0)])
    done = leaderboard("import", "checkout")
    assert done.returncode == 0, done.stderr
    stored = [f"results/imported/{LABSE}/{LABSE_REVISION}/{task}.json" for task in ("STS17", "Tatoeba")]
    assert done.stdout.split() == stored
    assert str(tmp_path) not in (tmp_path / stored[0]).read_text()

    shown = leaderboard("show", "--published", "--format", "json", "--encoder", "labse", "--subset", "ar-ar")
    entries = [e for e in json.loads(shown.stdout) if e["metric"] == "spearman" and e["value"] == 69.066]
    assert [(e["measured"], e["difference"]) for e in entries] == [(69.0, -0.066)]
    assert entries[0]["source"].startswith(f"mteb results, sentence-transformers/LaBSE@{LABSE_REVISION}, mteb 0.0.2")
    measured = leaderboard("show", "--format", "json").stdout
    assert {entry["source"] for entry in json.loads(measured)} == {"measured"}  # never without --published

    assert leaderboard("report").returncode == 0
    page = (tmp_path / "results" / "sts17.md").read_text()
    assert "| *labse*" in page and "*mteb results e34fab6*" in page and f"LaBSE@{LABSE_REVISION}, mteb 0.0.2" in page
    assert leaderboard("report", "--check").returncode == 0
    (tmp_path / stored[0]).unlink()
    assert leaderboard("report", "--check").returncode == 1


def test_a_bad_file_is_named_and_nothing_is_stored(leaderboard, tmp_path):
    folder = tmp_path / "results-of-mteb" / LABSE
    write(folder / "1" / "STS17.json", task_result("STS17", [sts_entry("en-en", 0.5)]))
    bad = write(folder / "2" / "STS17.json", task_result("STS17", [sts_entry("en-en", 50)]))
    message = one_line_error(leaderboard("import", "results-of-mteb"))
    assert bad.relative_to(tmp_path).as_posix() in message and "`$.scores[...][0].cosine_spearman`" in message
    assert not (tmp_path / "results").exists()
    assert "no such file" in one_line_error(leaderboard("import", "nowhere"))
    assert "PATH" in one_line_error(leaderboard("import"))

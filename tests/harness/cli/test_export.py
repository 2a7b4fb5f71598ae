"""`leaderboard export`: files for mteb from stored records."""

from __future__ import annotations

import json

from command_line import one_line_error
from result_records import record, sts, write_records


def test_files_of_the_chosen_encoders_and_tasks(leaderboard, tmp_path):
    tatoeba = {"accuracy_en_xx": 1.0, "accuracy_xx_en": 90.0, "f1_weighted_xx_en": 89.0}
    records = [sts(name, "en-en", 80.0) for name in ("muse", "e5")] + [sts("muse", "en-de@deepl", 70.0)]
    write_records(tmp_path / "results", [*records, record("muse", "tatoeba", "deu", tatoeba)])
    done = leaderboard("export", "--format", "mteb", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "left out: 1 record: sts17 on a stand-in for the published data (@deepl)" in done.stderr.splitlines()
    files = done.stdout.split()
    assert sorted(file.split("/")[-1] for file in files) == [
        *("STS17.json", "STS17.json", "Tatoeba.json", "model_meta.json", "model_meta.json"),
    ]
    for file in files:
        content = json.loads((tmp_path / file).read_text())
        assert content["name"].startswith("multilingual-embedding-harness/") if "name" in content else content["scores"]

    done = leaderboard("export", "--out", "few", "--encoder", "mus*", "--task", "sts17")
    assert done.returncode == 0, done.stderr
    assert [file.split("/")[2] for file in done.stdout.split()] == ["multilingual-embedding-harness__muse"] * 2
    assert sorted(file.split("/")[-1] for file in done.stdout.split()) == ["STS17.json", "model_meta.json"]


def test_bad_use_is_one_line(leaderboard, tmp_path):
    assert "no stored results" in one_line_error(leaderboard("export", "--out", "out"))
    write_records(tmp_path / "results", [sts("muse", "en-de@deepl", 70.0)])
    done = leaderboard("export", "--out", "out")
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith("error: results: nothing in there means")
    assert "did you mean 'muse'" in one_line_error(leaderboard("export", "--out", "out", "--encoder", "muze"))
    assert "--out" in one_line_error(leaderboard("export"))
    write_records(tmp_path / "more", [sts("muse", "en-en", 70.0)])
    (tmp_path / "file").write_text("")
    done = leaderboard("export", "--results", "more", "--out", "file")
    assert "cannot be written" in one_line_error(done)
    assert not (tmp_path / "out").exists()

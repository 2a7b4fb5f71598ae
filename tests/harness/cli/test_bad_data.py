"""Every kind of bad data, met by `leaderboard run`: one line with file and line, exit code 2."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import one_line_error

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

TRACK5 = {"sts17/STS.input.track5.en-en.txt": "a b\tc d\ne f\tg h\n", "sts17/STS.gs.track5.en-en.txt": "1.0\n4.0\n"}
BUCC = {
    "bucc2018/de-en/de-en.training.de": "de-1\tEins.\nde-2\tZwei.\n",
    "bucc2018/de-en/de-en.training.en": "en-1\tOne.\nen-2\tTwo.\n",
    "bucc2018/de-en/de-en.training.gold": "de-1\ten-1\n",
}
TATOEBA = {"tatoeba/v1/tatoeba.deu-eng.deu": "Eins.\nZwei.\n", "tatoeba/v1/tatoeba.deu-eng.eng": "One.\nTwo.\n"}
GOOD = TRACK5 | BUCC | TATOEBA


def write(folder: Path, files: dict[str, str | bytes | None]) -> None:
    for name, content in files.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_good_data_is_measured(leaderboard: Leaderboard, tmp_path: Path) -> None:
    write(tmp_path / "data", GOOD)
    done = leaderboard("run", "--encoder", "chargrams", "--data-dir", "data")
    assert done.returncode == 0, done.stderr
    assert "[3/3]" in done.stderr


def test_track_6_may_have_500_lines_for_250_scores(leaderboard: Leaderboard, tmp_path: Path) -> None:
    pairs = "".join(f"sentence {i}\tcümle {i % 7}\n" for i in range(500))
    # Any 250 scores with the published mean.
    scores = "2.1336\n" * 248 + "0\n4.2672\n"
    write(tmp_path / "data", {"sts17/STS.input.track6.tr-en.txt": pairs, "sts17/STS.gs.track6.tr-en.txt": scores})
    done = leaderboard("run", "--encoder", "chargrams", "--data-dir", "data")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"sts17/STS.gs.track5.en-en.txt": None}, ["STS.gs.track5.en-en.txt", "missing"]),
        ({"sts17/STS.gs.track5.en-en.txt": "1.0\n"}, ["STS.gs.track5.en-en.txt", "1 scores", "2 pairs"]),
        ({"sts17/STS.gs.track5.en-en.txt": "1.0\nfour\n"}, ["STS.gs.track5.en-en.txt:2", "four"]),
        ({"sts17/STS.gs.track5.en-en.txt": "1.0\n5.5\n"}, ["STS.gs.track5.en-en.txt:2", "5.5"]),
        ({"sts17/STS.gs.track5.en-en.txt": "nan\n4.0\n"}, ["STS.gs.track5.en-en.txt:1", "nan"]),
        ({"sts17/STS.input.track5.en-en.txt": "a b\tc d\ne f\n"}, ["STS.input.track5.en-en.txt:2"]),
        ({"sts17/STS.input.track5.en-en.txt": b"a b\tc d\n\xff\xfe\tg h\n"}, ["STS.input.track5.en-en.txt:2", "UTF-8"]),
        ({"bucc2018/de-en/de-en.training.gold": None}, ["de-en.training.gold"]),
        ({"bucc2018/de-en/de-en.training.gold": "de-1\ten-9\n"}, ["de-en.training.gold:1", "en-9"]),
        ({"bucc2018/de-en/de-en.training.gold": "de-1\ten-1\nde-1\ten-1\n"}, ["de-en.training.gold:2"]),
        ({"bucc2018/de-en/de-en.training.de": "de-1\tEins.\nde-1\tZwei.\n"}, ["de-en.training.de:2", "de-1"]),
        ({"bucc2018/de-en/de-en.training.de": "de-1 Eins.\n"}, ["de-en.training.de:1"]),
        ({"tatoeba/v1/tatoeba.deu-eng.eng": "One.\n"}, ["tatoeba.deu-eng.eng", "2", "1"]),
        ({"tatoeba/v1/tatoeba.deu-eng.eng": b"One.\n\xe9\n"}, ["tatoeba.deu-eng.eng:2", "UTF-8"]),
    ],
)
def test_bad_data_is_named(leaderboard: Leaderboard, tmp_path: Path, change: dict, parts: list[str]) -> None:
    write(tmp_path / "data", GOOD | change)
    message = one_line_error(leaderboard("run", "--encoder", "chargrams", "--data-dir", "data"))
    for part in parts:
        assert part in message


def test_scores_of_another_track_are_noticed(leaderboard: Leaderboard, tmp_path: Path) -> None:
    pairs = "".join(f"sentence {i}\tother {i}\n" for i in range(250))
    write(tmp_path / "data", {"sts17/STS.input.track5.en-en.txt": pairs, "sts17/STS.gs.track5.en-en.txt": "3\n" * 250})
    message = one_line_error(leaderboard("run", "--encoder", "chargrams", "--data-dir", "data"))
    assert "2.2776" in message

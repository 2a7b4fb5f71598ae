"""Korean STS on a small file in KorSTS's format, against plain loops and SciPy, through the command line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command_line import one_line_error
from scipy.stats import spearmanr

from harness import load_encoder

HEADER = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2"
PAIRS = [
    (5.0, "한 남자가 기타를 치고 있다.", "남자가 기타를 치고 있다."),
    (3.25, '한 소녀가 "안녕"이라고 말한다.', "소녀가 머리를 빗고 있다."),
    (1.0, "고양이가 창가에서 잔다.", "기차가 역에 도착했다."),
    (0.0, "정부는 새 예산을 발표했다.", "아이들이 공원에서 논다."),
    (4.2, "비가 많이 내린다.", "비가 아주 많이 내리고 있다."),
]


@pytest.fixture
def korsts(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "korsts"
    folder.mkdir(parents=True)
    lines = [f"main-captions\tMSRvid\t2012test\t{i:04}\t{score}\t{a}\t{b}" for i, (score, a, b) in enumerate(PAIRS)]
    (folder / "sts-test.tsv").write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return folder.parent


Leaderboard = Callable[..., "CompletedProcess[str]"]


def run(leaderboard: Leaderboard, data: Path, *arguments: str) -> CompletedProcess[str]:
    return leaderboard("run", "--task", "korsts", "--encoder", "chargrams", "--data-dir", str(data), *arguments)


def test_spearman_through_the_command_line(leaderboard: Leaderboard, korsts: Path, tmp_path: Path) -> None:
    done = run(leaderboard, korsts, "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done.stderr
    (record,) = json.loads((tmp_path / "results/records/chargrams/korsts.json").read_text())
    encoder = load_encoder("chargrams")
    cosines = []
    for _, first, second in PAIRS:
        x, y = ([float(value) for value in encoder.encode([text], lang="ko")[0]] for text in (first, second))
        dot = math.fsum(a * b for a, b in zip(x, y, strict=True))
        cosines.append(dot / math.sqrt(math.fsum(a * a for a in x) * math.fsum(b * b for b in y)))
    expected = 100 * spearmanr(cosines, [score for score, _, _ in PAIRS]).statistic
    assert record["metrics"]["spearman"] == pytest.approx(expected, abs=1e-9)
    assert (record["subset"], record["n"], record["dataset"]["name"]) == ("ko-ko", 5, "korsts")
    assert record["dataset"]["published"] is None  # no checksum of the release is known


def test_a_set_of_ones_own_is_a_stand_in(leaderboard: Leaderboard, korsts: Path, tmp_path: Path) -> None:
    (korsts / "korsts").rename(korsts / "korsts-mine")
    assert run(leaderboard, korsts, "--results", str(tmp_path / "results")).returncode == 0
    (record,) = json.loads((tmp_path / "results/records/chargrams/korsts.json").read_text())
    assert record["subset"] == "ko-ko@mine"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\t1.0\n", r"sts-test.tsv:1: no column sentence1: expected a header"),
        (f"{HEADER}\ng\tf\ty\t1\t5.5\ta\tb\n", r"sts-test.tsv:2: .*5.5"),
        (f"{HEADER}\ng\tf\ty\t1\t5.0\ta\n", r"sts-test.tsv:2: 6 columns, expected 7"),
        (f"{HEADER}\n", "no sentence pairs in it"),
    ],
)
def test_bad_files(leaderboard: Leaderboard, korsts: Path, tmp_path: Path, content: str, message: str) -> None:
    (korsts / "korsts" / "sts-test.tsv").write_text(content)
    error = one_line_error(run(leaderboard, korsts, "--results", str(tmp_path / "results")))
    assert re.search(message, error)

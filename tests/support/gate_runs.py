"""Runs and checks in this process, where a test can plant a regression in the code."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli import main
from harness.data.sources import SAMPLE_DIR


def leaderboard_here(*arguments: str | Path) -> int:
    """The exit code of `leaderboard ARGUMENTS`."""
    with pytest.raises(SystemExit) as exited:
        main([str(argument) for argument in arguments])
    return int(exited.value.code or 0)


def copy_sample(folder: Path) -> Path:
    """The bundled sample as a data directory (its sets have no tag then), with a stand-in of 250 pairs."""
    shutil.copytree(SAMPLE_DIR, folder)
    lines = (folder / "sts17-extended" / "STS.en-de.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    firsts, seconds = [row[0] for row in rows], [row[1] for row in rows]
    made = [
        # Other pairs than the sample's: a sentence with one some lines further on, and a score between the two.
        f"{firsts[i % 60]}\t{seconds[(i + i // 60) % 60]}\t{(float(rows[i % 60][2]) + i % 7) / 2.2:.1f}"
        for i in range(250)
    ]
    (folder / "sts17-extended-made").mkdir()
    (folder / "sts17-extended-made" / "STS.en-de.txt").write_text("\n".join(made) + "\n", encoding="utf-8")
    return folder


def findings(junit: Path) -> dict[str, set[str]]:
    """By record (`ENCODER/TASK/SUBSET`) that fails, the kinds of what differs."""
    cases: Iterable[ElementTree.Element] = ElementTree.parse(junit).iter("testcase")
    found = {}
    for case in cases:
        failure = case.find("failure")
        if failure is not None:
            found["/".join([*case.get("classname", "").rsplit(".", 1), case.get("name", "")])] = set(
                failure.get("type", "").split()
            )
    return found

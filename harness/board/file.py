"""The board as a file: read from a results folder, and compared with what is there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from harness import charts
from harness.board.data import Shown
from harness.board.page import MADE, TITLE, WITH_CHARTS, Options, page, without_charts
from harness.core.errors import InputError
from harness.core.files import refuse_special
from harness.core.names import check_name
from harness.report.changes import Changes, differing
from harness.report.content import Content
from harness.results.records import Result
from harness.results.store import ResultStore

_SUFFIXES = (".html", ".htm")
_SUBSET = re.compile(r'\s*"subset": ("(?:[^"\\]|\\.)*")')
_LONGEST = 1000  # bytes of a line that is ours


def check_file(file: Path) -> None:
    """Raises InputError if `file` must not be written: its name is not that of a page, or what is there is no board."""
    if file.suffix.lower() not in _SUFFIXES:
        raise InputError(f"--html {file}: name a file that ends in .html, since what is there is written over")
    refuse_special(file)
    if file.is_file() and file.stat().st_size and not _second_line(file).startswith(MADE):
        raise InputError(f"--html {file}: not made by this command; name another file, or move it away")


def outdated_board(
    store: ResultStore,
    content: Content,
    file: Path,
    *,
    title: str = "",
    source_url: str = "",
    languages: Sequence[str] = (),
) -> Changes:
    """The page, if `file` has other content. Without the extra `board` it has no charts, and none are compared.

    Args:
        store: of the results folder.
        content: of that.
        file: where it goes.
        title: of the page.
        source_url: where the results folder can be read; by default, the folder itself, if it is beside or below
            `file`.
        languages: those that the content was chosen by, which the page says.

    Raises:
        InputError: `file` must not be written; `source_url` is not an address on the web.
    """
    check_file(file)
    link = _web_address(source_url) if source_url else _relative_link(store.root, file)
    lines = _lines(store, content.results) if source_url else {}
    shown = Shown(content.results, content.statistics, content.measured, content.folder, lines)
    note = f"Only sets on these languages, and English: {', '.join(languages)}." if languages else ""
    text = page(shown, Options(title or TITLE, content.scores, link, charts.is_available(), note))
    written = differing({file: text.encode()})
    if not written or charts.is_available() or not _second_line(file).startswith(MADE + WITH_CHARTS):
        return Changes(written)
    if _differs_in_charts_alone(file, text):
        return Changes(notes=[charts.needs(f"{file} stays as it is, and its charts are not compared; drawing them")])
    return Changes(written, notes=[charts.needs(f"{file} has charts, and the new page has none; drawing them")])


def _second_line(file: Path) -> str:
    """Empty if there is no such file."""
    if not file.is_file():
        return ""
    with file.open("rb") as stream:
        stream.readline(_LONGEST)
        return stream.readline(_LONGEST).decode(errors="replace")


def _differs_in_charts_alone(file: Path, text: str) -> bool:
    try:
        return without_charts(file.read_bytes().decode()) == without_charts(text)
    except ValueError:  # it was edited
        return False


def _web_address(source_url: str) -> str:
    try:
        parts = urlsplit(source_url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"--source-url {source_url}: not an address on the web; give one that begins with https://")
    if "?" in source_url or "#" in source_url:
        raise InputError(f"--source-url {source_url}: paths are appended to it; give one without ? and #")
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
        # Only line feeds end a line where it is looked up; a text may have other ends of lines in it.
        for number, line in enumerate(file.read_text("utf-8").split("\n"), start=1):
            if match := _SUBSET.match(line):
                with suppress(ValueError):
                    found[encoder, task, json.loads(match[1])] = number
    return found

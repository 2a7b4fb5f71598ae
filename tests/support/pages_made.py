"""Pages as `leaderboard report` makes them, from records or a results folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.report import pages
from harness.report.changes import Changes, apply
from harness.report.content import Content, content_of
from harness.results.records import Result
from harness.results.store import ResultStore


def make_pages(results: Sequence[Result], **more: Any) -> dict[str, str]:
    """The pages of records; `more`: what else is in the folder."""
    return pages.make_pages(Content(results, **more))


def changes(store: ResultStore, readme: Path | None = None) -> Changes:
    """What would change."""
    return pages.outdated(store.root, content_of(store), readme)


def outdated(store: ResultStore, readme: Path | None = None) -> dict[Path, bytes]:
    """The files that would be written."""
    return dict(changes(store, readme).written)


def report(store: ResultStore, readme: Path | None = None) -> list[Path]:
    """Writes and removes; returns the files that were written."""
    found = changes(store, readme)
    apply(found)
    return list(found.written)

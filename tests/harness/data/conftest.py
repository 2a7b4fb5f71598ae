from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from http_files import Site, serve

from harness.data import DataDir

Write = Callable[[str, "bytes | str"], Path]


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """An empty data directory."""
    root = tmp_path / "data"
    root.mkdir()
    return DataDir(root)


@pytest.fixture
def write(data: DataDir) -> Write:
    """Writes a file of the data directory."""

    def write(relative: str, content: bytes | str) -> Path:
        path = data.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def real_sets(request: pytest.FixtureRequest) -> Callable[[str], DataDir]:
    """The real data directory, for tests of the data set in the folder that is named."""

    def open_with(folder: str) -> DataDir:
        root: Path = request.getfixturevalue("real_data")
        if not (root / folder).is_dir():
            pytest.skip(f"$HARNESS_DATA has no {folder}/")
        return DataDir(root)

    return open_with


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A running HTTP server on this machine."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve(Site()) as running:
        yield running

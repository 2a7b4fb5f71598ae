"""What numbers come from, for the page: of each record all that repeats it, in lists where each thing stands once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from harness.protocol.languages import is_made_for
from harness.report.provenance import commit_text, hardware_text, versions_text
from harness.report.record import command
from harness.results.records import Result
from harness.statistics.board import Board

T = TypeVar("T", bound=Hashable)


class Places(dict[T, int]):
    """Distinct values with their places in the order of their coming."""

    def of(self, value: T) -> int:
        """The place of a value, which is the last one if it is new."""
        return self.setdefault(value, len(self))


class Records:
    """Records in the order of their coming; `lists` is what the page has of them."""

    def __init__(self, folder: str, lines: Mapping[tuple[str, str, str], int]):
        """`folder`: the name of the results folder, for commands; `lines`: by record, its line in its file."""
        self._folder, self._lines = Path(folder), lines
        self._places: dict[tuple[str, str, str], int] = {}
        self._records: list[list[Any]] = []
        self._origins: Places[tuple[str, ...]] = Places()
        self._data: Places[tuple[str, str]] = Places()
        self._commands: Places[tuple[str, ...]] = Places()
        self._protocols: Places[tuple[str, str | None]] = Places()
        self._times: Places[str] = Places()

    def place(self, result: Result, board: Board) -> int:
        """The place of a record in the list of them; `board`: with its statistics."""
        if result.key not in self._places:
            self._places[result.key] = len(self._records)
            self._records.append(self._row(result, board))
        return self._places[result.key]

    def _row(self, result: Result, board: Board) -> list[Any]:
        machine = hardware_text({**result.hardware, **({"threads": result.threads} if result.threads else {})})
        origin = (result.fingerprint, result.spec, commit_text(result.git), machine, versions_text(result.versions))
        # The subset is left open, so that the sets of a task share a command.
        line = tuple((command(result, self._folder) or "").rsplit(f" --subset {quote(result.subset)}", 1))
        return [
            self._origins.of(origin),
            self._times.of(result.created),
            result.n,
            self._data.of((result.dataset.name, result.dataset.sha256)),
            self._commands.of(line),
            self._lines.get(result.key, 0),
            self._protocols.of((result.signature, board.resampling(result))),
            is_made_for(result),
            len(result.parts),
        ]

    def lists(self) -> dict[str, list[Any]]:
        """By name: the records, and what the places in them are of."""
        return {
            "records": self._records,
            "origins": [list(origin) for origin in self._origins],
            "data": [list(data) for data in self._data],
            "commands": [list(line) for line in self._commands],
            "protocols": [list(protocol) for protocol in self._protocols],
            "times": list(self._times),
        }

"""The file that a reviewer of mined pairs fills in: `# key: value` lines, a line of column names, a line a pair.

The former say what the pairs come from, so that verdicts are not read for other vectors, data or another protocol.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import InputError
from harness.core.escaping import spreadsheet
from harness.core.files import refuse_special, write_atomically

VERDICTS = ("yes", "no", "unsure")
_HEADING = "Fill in the column verdict: yes (a good translation), no or unsure."
# What identifies a pair and must come back as it was written; see `match_verdicts`.
_IDENTITY = ("sentence1", "sentence2", "id1", "id2")
_COLUMNS = ("rank", "verdict", "score", *_IDENTITY)
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_RESTORE = "restore the file, only the column verdict is to be filled in"


@dataclass(frozen=True)
class Candidate:
    """A mined pair that is to be reviewed.

    Attributes:
        position: among the mined pairs.
        score: its margin score; `above_threshold`: whether it counts as extracted, None where that is not shown.
        ids, sentences: of both sides.
        gold: for each side, id and sentence of its partner in the gold, empty if it has none; None without gold.
        rivals: for each side, the best other candidates, best first, as text.
    """

    position: int
    score: float
    above_threshold: bool | None
    ids: tuple[str, str]
    sentences: tuple[str, str]
    gold: tuple[str, str] | None = None
    rivals: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def check_new(path: Path) -> None:
    """Raise InputError if there is something at `path`: a review may hold verdicts, which took hours."""
    if path.exists():
        raise InputError(f"{path} exists, and verdicts in it would be lost; name another file, or move it away")


def write_review(path: Path, what: str, origin: Mapping[str, str], candidates: Sequence[Candidate]) -> None:
    """Write a list of pairs for review: tab-separated, quoted as spreadsheets do, UTF-8 with a byte order mark.

    what: the pairs are.
    origin: what the pairs come from, to be checked when the file is read back.

    Raises:
        InputError: the file exists (it may hold verdicts), or cannot be written.
    """
    check_new(path)
    n_rivals = max((len(rivals) for candidate in candidates for rivals in candidate.rivals), default=0)
    letters = "abcd"[:n_rivals]
    has_threshold = any(candidate.above_threshold is not None for candidate in candidates)
    has_gold = any(candidate.gold is not None for candidate in candidates)
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerow([f"# {what} {_HEADING}"])
    writer.writerows([f"# {key}: {_shown(value)}"] for key, value in origin.items())
    columns = [*_COLUMNS[:3], *(["above_threshold"] if has_threshold else []), *_IDENTITY]
    columns += ["gold1", "gold2"] if has_gold else []
    writer.writerow([*columns, *(f"rival{side}{letter}" for side in (1, 2) for letter in letters)])
    for rank, candidate in enumerate(candidates, start=1):
        figures = [str(rank), "", f"{candidate.score:.6f}"]
        figures += ["yes" if candidate.above_threshold else "no"] if has_threshold else []
        gold = (candidate.gold or ("", "")) if has_gold else ()
        rivals = [text for side in candidate.rivals for text in (*side, *[""] * (n_rivals - len(side)))]
        texts = (*candidate.sentences, *candidate.ids, *gold, *rivals)
        writer.writerow([*figures, *map(_shown, texts)])
    write_atomically(path, stream.getvalue().encode("utf-8-sig"))


def _shown(text: str) -> str:
    """A text as one cell holds it: white space as single blanks, and nothing that a spreadsheet takes for a formula."""
    return spreadsheet(" ".join(text.split()))


@dataclass(frozen=True)
class ReviewFile:
    """A file of `write_review` as it came back: values and line numbers by key, and the pairs with theirs."""

    path: Path
    origin: dict[str, tuple[str, int]]
    records: list[tuple[dict[str, str], int]]

    @property
    def n_pairs(self) -> int:
        """How many pairs were written. Raises InputError if the file does not say so."""
        return self.number("pairs", "the number of pairs")

    def number(self, key: str, what: str) -> int:
        """The whole number under a key, from 1. Raises InputError, naming `what` it is, if there is none."""
        text, line = self.origin.get(key, ("", 1))
        if not _WHOLE_NUMBER.fullmatch(text):
            raise InputError(f"{self.path}:{line}: expected {what}, found {text!r}; {_RESTORE}")
        return int(text)


def read_review(path: Path) -> ReviewFile:
    """Read a file of `write_review`, as it was or as a spreadsheet has saved it with tabs between the columns.

    Raises:
        InputError: it cannot be read, is not UTF-8, or is no such file; names the line.
    """
    refuse_special(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8; save it as UTF-8 text with tabs between the columns") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t")
    origin: dict[str, tuple[str, int]] = {}
    columns: list[str] = []
    records = []
    try:
        for cells in reader:
            line = reader.line_num
            if not any(cells):
                continue
            if columns:
                cells += [""] * (len(columns) - len(cells))  # spreadsheets may leave out empty cells at the end
                records.append((dict(zip(columns, cells, strict=False)), line))
            elif cells[0].startswith("#"):
                key, _, value = cells[0].removeprefix("#").partition(":")
                origin[key.strip()] = (value.strip(), line)
            else:
                columns = cells
                if missing := [name for name in _COLUMNS if name not in columns]:
                    raise InputError(
                        f"{path}:{line}: no column {' or '.join(missing)}; expected a file of `leaderboard audit-bucc` "
                        "or `mine --sheet` with tabs between the columns"
                    )
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}; {_RESTORE}") from None
    if not columns:
        raise InputError(f"{path}: no pairs in it; expected a file of `leaderboard audit-bucc` or `mine --sheet`")
    return ReviewFile(path, origin, records)


def check_origin(file: ReviewFile, origin: Mapping[str, str]) -> None:
    """Raise InputError if the pairs of a file come from elsewhere; names the line. `origin` may be a part of it."""
    for key, value in origin.items():
        written, line = file.origin.get(key, ("missing", 1))
        if written != _shown(value):
            raise InputError(
                f"{file.path}:{line}: {key} is {written} in the file, but {_shown(value)} here; read it with the "
                "encoder and the data that it was written with, or write a new file"
            )


def match_verdicts(file: ReviewFile, origin: Mapping[str, str], candidates: Sequence[Candidate]) -> list[str]:
    """The verdict on each candidate, "" where there is none; the lines of the file may have been sorted.

    What names a pair (rank, ids, sentences) must be as it was written; figures, partners and rivals are not read.

    Raises:
        InputError: the file belongs to other vectors, data or another protocol, a verdict that is none, a line that was
            changed, added or taken out, or no verdict at all.
    """
    path = file.path
    check_origin(file, origin)
    verdicts: dict[int, str] = {}
    for cells, line in file.records:
        where, text = f"{path}:{line}", cells["rank"].strip()
        rank = int(text) if _WHOLE_NUMBER.fullmatch(text) else 0
        if not 1 <= rank <= len(candidates):
            raise InputError(f"{where}: {text[:60]!r} is not a rank from 1 to {len(candidates)}; {_RESTORE}")
        if rank in verdicts:
            raise InputError(f"{where}: the pair of rank {rank} is there already; {_RESTORE}")
        candidate = candidates[rank - 1]
        for column, expected in zip(_IDENTITY, (*candidate.sentences, *candidate.ids), strict=True):
            if " ".join(cells[column].split()) != _shown(expected):
                raise InputError(f"{where}: {column} is {cells[column][:60]!r}, not that of rank {rank}; {_RESTORE}")
        verdict = cells["verdict"].strip().lower()
        if verdict and verdict not in VERDICTS:
            known = ", ".join(VERDICTS)
            raise InputError(f"{where}: the verdict {verdict[:60]!r} is none of {known}; leave it empty for none")
        verdicts[rank] = verdict
    for rank, candidate in enumerate(candidates, start=1):
        if rank not in verdicts:
            raise InputError(f"{path}: the pair of rank {rank} ({', '.join(candidate.ids)}) is missing; {_RESTORE}")
    if not any(verdicts.values()):
        raise InputError(f"{path}: no verdict in it; fill in the column verdict with {', '.join(VERDICTS)}")
    return [verdicts[rank] for rank in range(1, len(candidates) + 1)]

"""What encoders cost, as tables: beside the scores, on a page of its own, and what `leaderboard speed` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

from harness.core import escaping
from harness.report.cells import Cell, CellKind, Column, Note, Row, Table
from harness.report.markdown import markdown
from harness.report.provenance import commit_text, hardware_text, versions_text
from harness.report.tables import short_fingerprint
from harness.results.records import Result
from harness.speed.store import Figure, Measurement, Way, choose, figure

_LENGTHS = ("short", "medium", "long")
_MB = 1e6


def speed_tables(measured: Sequence[Measurement]) -> list[Table]:
    """The tables of measurements, in their order: speeds, and what else an encoder costs.

    Times are compared with those of the first measurement of the same command.
    """
    return [_speeds(measured), _sizes(measured)] if measured else []


def long_speeds(measured: Sequence[Measurement]) -> list[dict[str, Any]]:
    """An entry a speed: encoder, length, way, batch, n, sentences_per_s with low and high, characters_per_s, ms.

    `times`: how many times as long a text takes as with the first encoder of the command. The other keys repeat what is
    of the encoder as a whole: load_s, memory_mb, size_bytes, n_parameters, dim, vector_bytes, max_length, threads,
    processor, device, texts, fingerprint, created.
    """
    entries = []
    for one in measured:
        for speed in one.cells:
            theirs = _first(one, measured).cell(speed.way, speed.length, _size(speed.way, speed.batch))
            times = figure(speed.ratios(theirs)) if theirs else None
            load, memory = figure(one.load_s), figure(one.memory_mb)
            entries.append(
                {
                    "encoder": one.encoder,
                    "length": speed.length,
                    "way": speed.way,
                    "batch": speed.batch,
                    "n": speed.n,
                    "sentences_per_s": round(speed.sentences_per_s.median, 3),
                    "low": round(speed.sentences_per_s.low, 3),
                    "high": round(speed.sentences_per_s.high, 3),
                    "characters_per_s": round(speed.characters_per_s, 1),
                    "ms": round(speed.ms, 4),
                    "times": round(times.median, 4) if times else None,
                    "load_s": load.median if load else None,
                    "memory_mb": memory.median if memory else None,
                    "size_bytes": one.size_bytes,
                    "n_parameters": one.n_parameters,
                    "dim": one.dim,
                    "vector_bytes": one.vector_bytes,
                    "max_length": one.max_length,
                    "threads": one.threads,
                    "processor": one.hardware.get("processor"),
                    "device": one.hardware.get("device"),
                    "texts": one.texts,
                    "fingerprint": one.fingerprint,
                    "created": one.created,
                }
            )
    return entries


def _speeds(measured: Sequence[Measurement]) -> Table:
    """A row an encoder and way of encoding; columns are lengths."""
    columns = (
        Column("encoder", is_number=False),
        Column("batch", is_number=False),
        *(Column(length) for length in _LENGTHS),
        Column("characters/s"),
        Column("time"),
    )
    rows = []
    for one in measured:
        ways = dict.fromkeys((speed.way, speed.batch) for speed in one.cells)
        for way, batch in ways:
            cells = [one.cell(way, length, batch) for length in _LENGTHS]
            medium = cells[1]
            label = "one text" if way == "alone" else f"{batch or 'all'} (its own)" if way == "own" else str(batch)
            speeds = [figure_cell(speed.sentences_per_s if speed else None) for speed in cells]
            characters = Cell(medium.characters_per_s if medium else None, "count")
            times = one.times(_first(one, measured), way, _size(way, batch))
            rows.append(Row((Cell(one.encoder), Cell(label), *speeds, characters, _times_cell(times))))
    firsts = {one.session: one.encoder for one in reversed(measured)}.values()
    repeats = sorted({len(speed.seconds) for one in measured for speed in one.cells})
    notes = (
        Note("short, medium, long: texts a second, the median of the rounds, [lowest, highest]"),
        Note("a text: one, two or ten sentences, in ten languages; characters/s: of medium texts"),
        Note("batch: one text a call; or many texts a call, and the texts that the encoder takes at a time"),
        Note(
            f"time: how many times as long texts take as with {' or '.join(firsts)} in the same round, the geometric "
            "mean over the lengths; the median of the rounds, [lowest, highest]"
        ),
        Note(f"rounds: {' or '.join(map(str, repeats))}, of all encoders in turn"),
    )
    return Table("Speed", columns, tuple(rows), notes, n_keys=2)


def _sizes(measured: Sequence[Measurement]) -> Table:
    """A row an encoder: loading, memory, sizes."""
    heads = ("load s", "memory MB", "disk MB", "parameters", "dim", "bytes", "max tokens")
    on_device = any(one.device_memory_mb for one in measured)
    rows = []
    for one in measured:
        cells = [
            Cell(one.encoder),
            figure_cell(figure(one.load_s), "score"),
            figure_cell(figure(one.memory_mb)),
            *([figure_cell(figure(one.device_memory_mb))] if on_device else []),
            disk_cell(one.size_bytes),
            Cell(one.n_parameters, "count"),
            Cell(one.dim, "count"),
            Cell(one.vector_bytes, "count"),
            Cell(one.max_length, "count"),
        ]
        rows.append(Row(tuple(cells)))
    columns = [Column("encoder", is_number=False), *map(Column, heads)]
    if on_device:
        columns.insert(3, Column("device MB"))
    notes = (
        Note("load: seconds from the start to the first vector, imports included; median, [lowest, highest]"),
        Note(
            "memory: what loading and encoding 64 texts of each length add to a fresh process at its peak; disk: the "
            "files that it is loaded from; MB are 10^6 bytes"
        ),
        Note("bytes: of a vector; max tokens: after which a text is cut"),
        *map(Note, sorted({f"measured on: {setup_text(one)}" for one in measured})),
        Note(f"texts: {', '.join(sorted({one.texts for one in measured}))}"),
    )
    return Table("Memory and size", tuple(columns), tuple(rows), notes)


def figure_cell(known: Figure | None, kind: CellKind | None = None) -> Cell:
    """A speed, or a size in MB, with its range: whole numbers from 100 on, one decimal below."""
    if known is None:
        return Cell(None)
    kind = kind or ("count" if known.median >= 100 else "score")
    interval = (known.low, known.high) if known.low < known.high else None
    return Cell(known.median, kind, interval=interval)


def _first(one: Measurement, measured: Sequence[Measurement]) -> Measurement:
    """The first encoder of the same command, with which others are compared."""
    return next(other for other in measured if other.session == one.session)


def _size(way: Way, batch: int | None) -> int | None:
    """The batch size that two encoders must share to be compared: of those that were set, not of their own."""
    return batch if way == "batch" else None


def _times_cell(times: Figure | None) -> Cell:
    if times is None:
        return Cell(None)
    middle, low, high = (f"{value:.3g}" if value < 100 else f"{value:,.0f}" for value in times)
    return Cell(times.median, shown=middle if low == high else f"{middle} [{low}, {high}]")


def ms_cell(ms: float | None) -> Cell:
    """Milliseconds: two digits below 10, whole numbers from there on."""
    return Cell(None) if ms is None else Cell(ms, shown=f"{ms:.2g}" if ms < 10 else f"{ms:,.0f}")


def disk_cell(size_bytes: int | None) -> Cell:
    """The MB of an encoder's files, as `figure_cell` has them."""
    size = None if size_bytes is None else size_bytes / _MB
    return Cell(size, "count" if size is None or size >= 100 else "score")


def setup_text(one: Measurement) -> str:
    """The machine, its device and the threads in one line."""
    return hardware_text({**one.hardware, "threads": one.threads})


def cost_columns(encoders: Sequence[str], results: Iterable[Result], measured: Iterable[Measurement]) -> Costs:
    """What stands beside the scores of encoders; see `Costs`."""
    fingerprints = {(result.encoder, result.fingerprint) for result in results}
    chosen, usual = choose((one for one in measured if one.encoder in encoders), fingerprints)
    marks: dict[str, str] = {}
    notes: list[Note] = []
    for encoder, one in sorted(chosen.items()):
        fingerprint = short_fingerprint(one.fingerprint)
        is_of_scores = (encoder, one.fingerprint) in fingerprints
        texts = [] if is_of_scores else [f"of other weights or options than the scores ({fingerprint})"]
        if usual and one.conditions != usual.conditions:
            texts.append(
                f"measured on {setup_text(one)}" + (f", texts {one.texts}" if one.texts != usual.texts else "")
            )
        if texts:
            marks[encoder] = f"[{ascii_lowercase[len(marks) % 26]}]"
            notes.append(Note(f"{marks[encoder]} {encoder}: speed and memory {'; '.join(texts)}"))
    return Costs(chosen, marks, setup_text(usual) if usual else "", notes)


class Costs:
    """Columns that stand beside the scores: speed, memory, size; one measurement an encoder.

    Of several measurements of an encoder the one counts that is of the weights of the scores, and then of the setup
    that most encoders have. Others have a mark and a note.

    Attributes:
        setup: that most encoders were measured on.
        footnotes: of the marks.
        notes: all that explains the columns.
    """

    columns = (
        Column("sentences/s"),
        Column("ms"),
        Column("memory MB"),
        Column("disk MB"),
        Column("dim"),
        Column("bytes"),
    )

    def __init__(self, chosen: Mapping[str, Measurement], marks: Mapping[str, str], usual: str, notes: Sequence[Note]):
        self._chosen, self._marks = chosen, marks
        self.setup, self.footnotes = usual, notes
        self.notes = [
            Note("sentences/s: of two sentences each, many at a time; ms: for one such text alone"),
            Note("memory: peak, added by loading and encoding; disk: files it is loaded from; bytes: of a vector"),
            Note(f"speed and memory: measured on {usual}"),
            *notes,
        ]

    def __bool__(self) -> bool:
        return bool(self._chosen)

    def beside(self, table: Table, encoders: Sequence[str]) -> Table:
        """The table, which has a row for each of the encoders in this order, with these columns and notes added.

        Marks stand in the first column, at the encoder's name: they are on speed and memory alike.
        """
        rows = []
        for row, encoder in zip(table.rows, encoders, strict=True):
            label, *others = row.cells
            rows.append(replace(row, cells=(self.marked(label, encoder), *others, *self.cells(encoder))))
        columns, notes = (*table.columns, *self.columns), (*table.notes, *self.notes)
        return replace(table, columns=columns, rows=tuple(rows), notes=notes)

    def marked(self, label: Cell, encoder: str) -> Cell:
        """The label of an encoder's row, with the mark of its footnote."""
        return replace(label, shown=f"{label.text} {self._marks[encoder]}") if encoder in self._marks else label

    def cells(self, encoder: str) -> tuple[Cell, ...]:
        """The cells of an encoder, one for each column."""
        one = self._chosen.get(encoder)
        if one is None:
            return tuple(Cell(None) for _ in self.columns)
        many, alone = one.cell("own"), one.cell("alone")
        speed = figure_cell(many.sentences_per_s if many else None)
        ms = ms_cell(alone.ms if alone else None)
        memory = figure_cell(figure(one.memory_mb))
        cells = (speed, ms, memory, disk_cell(one.size_bytes), Cell(one.dim, "count"), Cell(one.vector_bytes, "count"))
        return tuple(replace(cell, interval=None) for cell in cells)


def cost_table(results: Sequence[Result], measured: Sequence[Measurement]) -> Table | None:
    """A row an encoder of the results with what it costs; None if nothing of them was measured."""
    encoders = sorted({result.encoder for result in results})
    costs = cost_columns(encoders, results, measured)
    if not costs:
        return None
    rows = tuple(Row((Cell(encoder),)) for encoder in encoders)
    return costs.beside(Table("Cost", (Column("encoder", is_number=False),), rows), encoders)


def speed_page(measured: Sequence[Measurement], head: str, pictures: Sequence[str] = ()) -> str:
    """The page with all measurements, setup by setup; in each the fastest first.

    head: its first line. pictures: to stand before the tables, in Markdown.
    """
    by_setup: dict[str, list[Measurement]] = {}
    for one in sorted(measured, key=lambda one: one.encoder):
        by_setup.setdefault(setup_text(one), []).append(one)
    parts = [
        head,
        "# What encoders cost",
        "Measured by `leaderboard speed`; the files are in `speed/`. [Scores](README.md)",
        *pictures,
    ]
    for setup, of_setup in sorted(by_setup.items()):
        ordered = sorted(of_setup, key=_seconds_a_text)
        parts.append(f"## {escaping.markdown(setup)}")
        parts += [markdown(table, level=3) for table in speed_tables(ordered)]
        parts.append("\n".join(_origin(one) for one in ordered))
    return "\n\n".join(parts) + "\n"


def _seconds_a_text(one: Measurement) -> tuple[float, str]:
    many = one.cell("own")
    return (1 / many.sentences_per_s.median if many else float("inf"), one.encoder)


def _origin(one: Measurement) -> str:
    """A line of Markdown: when, with which code and which versions it was measured."""
    measured = f"{one.encoder}: {one.created[:10]}, commit {commit_text(one.git) or 'unknown'}, fingerprint "
    fingerprint = escaping.code(short_fingerprint(one.fingerprint))
    return f"- {escaping.markdown(measured)}{fingerprint}, {escaping.markdown(versions_text(one.versions))}"

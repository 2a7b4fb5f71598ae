"""The table over all tasks: for pages with all that stands there, and for a terminal on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.core.names import Subset, is_name
from harness.protocol.described import metric_of, tag_meaning, task_order
from harness.report.cells import Cell, Column, Note, Row, Table
from harness.report.figures import Figures, folded_note, other_language_note
from harness.report.headlines import one_each, short_column
from harness.report.speed import Costs, cost_columns
from harness.report.tables import encoder_labels, missing_note, rank_encoders, remarks, split_sample
from harness.report.terminal import plain_text, wrapped
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.speed.store import Measurement
from harness.statistics.board import Board, Key
from harness.statistics.ranks import OverallRanks, overall_ranks

WIDTH = 100
"""Columns of a terminal that the short form takes at most."""
MOST_COLUMNS = 7
"""Of the front page's table: what fits beside the encoders' names in the 830 pixels of a README."""
_NAME = 30
_REMARKED = 3
_RANK = "overall rank"
_COST = "sentences/s: texts of two sentences, many at a time; MB: files on disk; measured on "


@dataclass(frozen=True)
class Overview:
    """One row an encoder, the best overall rank first; columns are the averages of the tasks, speed and size.

    Attributes:
        results: all on real data, or all on the bundled sample.
        statistics: by task, those of these results.
        folded: results of cut and quantised vectors that are left out.
        measured: what encoders cost.
    """

    results: Sequence[Result]
    statistics: Mapping[str, Statistics]
    folded: Sequence[Result]
    measured: Sequence[Measurement]

    @cached_property
    def columns(self) -> list[tuple[Column, Key]]:
        """The columns with scores; there may be none."""
        return one_each(self.results)

    def front(self, pages: str = "", encoders: str = "") -> Table:
        """Seven columns at most, beside the encoder: of scores, of speed and of size. Intervals are on other pages.

        Where there are more scores, those columns are left out that say least, and a note names them.

        pages: their folder, from that of the table; with a `/` at its end, or empty.
        encoders: the folder, below that, of the encoders' pages; empty: no links.
        """
        room = MOST_COLUMNS - (2 if self._costs else 0)
        keys = list(self._keys)
        while len(keys) > room:
            keys.remove(_least(keys))
        figures = Figures(self._board)
        rows = []
        for encoder in self._encoders:
            link = f"{pages}{encoders}/{encoder}.md" if encoders and is_name(encoder) else ""
            scores = [replace(figures.cell(encoder, key), interval=None) for key in keys]
            speed, _, _, disk, *_ = self._costs.cells(encoder)
            costs = [speed, disk] if self._costs else []
            label = Cell(self._labels[encoder], link=link)
            rows.append(Row((self._costs.marked(label, encoder), *scores, *costs)))
        columns = [Column("encoder", is_number=False), *map(short_column, keys)]
        columns += [Column("sentences/s"), Column("MB")] if self._costs else []
        table = Table(self._title, tuple(columns), tuple(rows))
        left_out = [short_column(key).label for key in self._keys if key not in keys]
        notes = [
            *([Note(self._order_note)] if self._order_note else []),
            Note(_meaning(keys)),
            *(Note(text) for text in _stand_ins(keys)),
            *folded_note(self.folded),
            *self._marks,
            *map(Note, _few_remarks(self.results)),
            *self._licence_note,
            *missing_note(table),
            *(note for note in figures.legend() if not note.text.startswith("[low, high]")),
            *([Note(f"no room for: {', '.join(left_out)}; the pages of the tasks have them")] if left_out else []),
            *([Note(f"{_COST}{self._costs.setup}")] if self._costs else []),
            *self._costs.footnotes,
        ]
        return replace(table, notes=tuple(notes))

    @property
    def rank_table(self) -> Table | None:
        """The overall rank of each encoder with its interval, and its rank in each column; None if nobody has one."""
        ranks, keys = self._ranks.ranks, self._ranks.keys
        if not ranks:
            return None
        rows = []
        for encoder in (name for name in self._encoders if name in ranks):
            places = [Cell(self._ranks.of_column[key][encoder], "rank") for key in keys]
            rows.append(Row((Cell(encoder), *self._rank(encoder), *places)))
        heads = (Column("encoder", is_number=False), Column(_RANK), *map(short_column, keys))
        table = Table("Overall rank", heads, tuple(rows))
        absent = [name for name in self._encoders if name not in ranks]
        without = [Note(f"without a rank, since a column is missing: {', '.join(absent)}")] if absent else []
        return replace(table, notes=(*(Note(text) for text in self._rank_notes), *without))

    def short(self, width: int) -> str:
        """What fits on a screen of `width` characters, as plain text: no intervals of scores, and two of the costs.

        Columns that do not fit are left out, and a note says which: first those that rank nobody, then the last of the
        task that has the most.
        """
        keys = list(self._keys)
        table = self._short_grid(keys)
        while len(keys) > 1 and _width(table) > width:
            keys.remove(_least(keys))
            table = self._short_grid(keys)
        grid = plain_text(table, width)
        left_out = [key for key in self._keys if key not in keys]
        return "\n".join(
            [grid, "", *(line for text in self._short_notes(table, left_out) for line in wrapped(text, width))]
        )

    def _short_grid(self, keys: Sequence[Key]) -> Table:
        figures = Figures(self._board)
        rows = []
        for encoder in self._encoders:
            label = Cell(_cut(encoder) + self._labels[encoder].removeprefix(encoder))
            rank = [replace(c, interval=None, shown=f"{c.text} {c.interval_text}".strip()) for c in self._rank(encoder)]
            scores = [replace(figures.cell(encoder, key), interval=None) for key in keys]
            speed, _, _, disk, *_ = self._costs.cells(encoder)
            costs = [speed, disk] if self._costs else []
            rows.append(Row((self._costs.marked(label, encoder), *rank, *scores, *costs)))
        heads = [Column("encoder", is_number=False), *self._rank_head]
        n_of = Counter(key[:2] for key in keys)
        for task, subset, metric in keys:
            more = f" {metric_of(task, metric).heading}" if n_of[task, subset] > 1 else ""
            heads.append(Column(_cut(task), _untagged(subset) + more))
        heads += [Column("sent./s"), Column("MB")] if self._costs else []
        return Table(self._title, tuple(heads), tuple(rows))

    def _short_notes(self, table: Table, left_out: Sequence[Key]) -> list[str]:
        """One line for each thing that the short form does not say by itself."""
        cells = [cell for row in table.rows for cell in row.cells]
        metrics = dict.fromkeys(f"{task} {metric_of(task, metric).heading}" for task, _, metric in self._keys)
        notes = [f"scores: {', '.join(metrics)}"]
        if known := self._ranks.ranks:
            columns = f"{len(self._ranks.keys)} columns" if len(self._ranks.keys) > 1 else "one column"
            whose = (
                f"of the {len(known)} encoders that have all" if len(known) < len(self._encoders) else "of all encoders"
            )
            ends = f"[low, high]: {100 * self._ranks.level:g} %"
            notes += [f"{_RANK}: the mean rank in {columns}, {whose}; {ends}", *self._rank_gaps]
        if any(cell.is_best for cell in cells):
            notes.append("*: the best of a column, and all that are not significantly worse than it")
        if any(cell.is_other_language for cell in cells):
            notes.append(other_language_note().plain)
        notes += [note.plain for note in missing_note(table)]
        notes += _stand_ins(self._keys)
        notes += _few_remarks(self.results)
        if self._costs:
            notes.append(f"sent./s: sentences a second; MB: on disk; {self._costs.setup}")
            notes += [note.plain for note in self._costs.footnotes]
        if numbered := [note.plain.partition(" ")[0] for note in self._marks if note.plain.startswith("[")]:
            notes.append(f"{' '.join(numbered)}: leaderboard show --full has these notes")
        if left_out:
            columns = ", ".join(f"{task} {subset}" for task, subset, _ in left_out)
            notes.append(f"no room for: {columns}")
        if self.folded:
            notes.append(
                f"not shown: cut or quantised vectors ({len({r.encoder for r in self.folded})}); --encoder has them"
            )
        tasks = ", ".join(task_order(result.task for result in self.results))
        notes.append(f"more: leaderboard show --task NAME ({tasks}), or --full for all")
        return notes

    @property
    def _licence_note(self) -> list[Note]:
        """Names the encoders that a company may not use."""
        # Here, as it imports encoders' adapters, and with them NumPy; `show` has no such note.
        from harness.statistics.candidates import facts_of, not_commercial

        found = not_commercial(facts_of(self.results, self.measured))
        named = ", ".join(f"{name} ({licence})" for name, licence in found.items())
        return [Note(f"not free for commercial use, by the licence of the weights: {named}")] if named else []

    @property
    def _title(self) -> str:
        is_sample = Subset.parse(self.results[0].subset).is_sample
        return f"All tasks{' (bundled sample)' if is_sample else ''}, scores x 100"

    @cached_property
    def _keys(self) -> list[Key]:
        return [key for _, key in self.columns]

    @cached_property
    def _board(self) -> Board:
        return Board(self.results, self.statistics)

    @cached_property
    def _order(self) -> tuple[list[str], str]:
        """The encoders by overall rank, those without one by the first task; and a note on it."""
        task, _, metric = self._keys[0]
        encoders, note = rank_encoders(task, self.results, metric)
        ranks = self._ranks.ranks
        if not ranks:
            return encoders, note if len(encoders) > 1 else ""
        ordered = sorted(encoders, key=lambda name: ranks[name].mean if name in ranks else len(encoders) + 1)
        others = note.partition(": ")[2]
        return ordered, f"order of encoders: {_RANK}" + (f", then {others}" if len(ranks) < len(encoders) else "")

    @property
    def _encoders(self) -> list[str]:
        return self._order[0]

    @property
    def _order_note(self) -> str:
        return self._order[1]

    @cached_property
    def _labelled(self) -> tuple[dict[str, str], list[Note]]:
        return encoder_labels(self.results, self._encoders)

    @property
    def _labels(self) -> dict[str, str]:
        return self._labelled[0]

    @property
    def _marks(self) -> list[Note]:
        return self._labelled[1]

    @cached_property
    def _costs(self) -> Costs:
        return cost_columns(self._encoders, self.results, self.measured)

    @cached_property
    def _ranks(self) -> OverallRanks:
        return overall_ranks(self._board, self._keys)

    @property
    def _rank_head(self) -> list[Column]:
        return [Column(_RANK)] if self._ranks.ranks else []

    def _rank(self, encoder: str) -> list[Cell]:
        """The cell of the overall rank, if there is such a column."""
        if not self._ranks.ranks:
            return []
        rank = self._ranks.ranks.get(encoder)
        return [Cell(rank.mean, "rank", interval=(rank.low, rank.high)) if rank else Cell(None)]

    @property
    def _rank_notes(self) -> list[str]:
        known = self._ranks
        if not known.ranks:
            return []
        columns = f"the {len(known.keys)} columns by which" if len(known.keys) > 1 else "the column by which"
        n, m = len(known.ranks), len(self._encoders)
        some = f", among the {n} that have them all" if n < m else ""
        meaning = (
            f"{_RANK}: the mean of the ranks in {columns} encoders are ranked{some}; its intervals hold for all at "
            f"once ({100 * known.level:g} %; paired tests, corrected by Holm over all pairs and columns)"
        )
        return [meaning, *self._rank_gaps]

    @property
    def _rank_gaps(self) -> list[str]:
        """Why no interval of a rank says anything, if that is so."""
        known = self._ranks
        if known.n_separated:
            return []
        if not known.n_tests:
            return [f"{_RANK}: no two of these encoders were tested against each other"]
        smallest = f"of {known.n_tests:,} tests the smallest p is {known.smallest_p:.2g}, before the correction"
        return [f"{_RANK}: no two of these encoders are told apart; {smallest}"]


def overviews(
    results: Sequence[Result],
    statistics: Mapping[str, Statistics],
    folded: Sequence[Result],
    measured: Sequence[Measurement],
) -> list[Overview]:
    """That of real data and that of the bundled sample, each if it has a column; see `Overview` for the arguments."""
    found = []
    for part in split_sample(results):
        is_sample = Subset.parse(part[0].subset).is_sample
        left_out = [result for result in folded if Subset.parse(result.subset).is_sample is is_sample]
        found.append(Overview(part, statistics, left_out, measured))
    return [overview for overview in found if overview.columns]


def _stand_ins(keys: Sequence[Key]) -> list[str]:
    """What the `@` of a short heading stands for, a line a tag."""
    by_tag: dict[str, list[str]] = {}
    for subset in (subset for _, subset, _ in keys if Subset.parse(subset).tag):
        by_tag.setdefault(Subset.parse(subset).tag, []).append(subset)
    return [f"@: {', '.join(dict.fromkeys(subsets))}: {tag_meaning(tag)}" for tag, subsets in by_tag.items()]


def _meaning(keys: Sequence[Key]) -> str:
    """What short headings stand for: `BUCC: f1_train of bucc on avg@ntrex`."""
    subsets: dict[tuple[str, str, str], list[str]] = {}
    for key in keys:
        task, subset, metric = key
        subsets.setdefault((short_column(key).head, task, metric), []).append(subset)
    return "; ".join(
        f"{head}: {metric_of(task, metric).heading} of {task} on {', '.join(names)}"
        for (head, task, metric), names in subsets.items()
    )


def _least(keys: Sequence[Key]) -> Key:
    """The column that says least: one that ranks nobody, else the last of the task that has the most."""
    unranked = [key for key in keys if not metric_of(key[0], key[2]).is_ranked]
    n_of = Counter(task for task, _, _ in keys)
    return unranked[-1] if unranked else max(enumerate(keys), key=lambda item: (n_of[item[1][0]], item[0]))[1]


def _untagged(subset: str) -> str:
    """`avg-cross@` for a stand-in, which a note explains."""
    base, tag = Subset.parse(subset)
    return f"{_cut(base)}@" if tag else _cut(base)


def _cut(name: str) -> str:
    """A name of 30 characters at most; what is left out is in the middle, since ends tell variants apart."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 13]}...{name[-10:]}"


def _width(table: Table) -> int:
    return max(map(len, plain_text(table, 10**6).splitlines()))


def _few_remarks(results: Sequence[Result]) -> list[str]:
    """What is to be known of the items of the first sets, and how many other sets have such notes."""
    sets = list(dict.fromkeys(result.key[1:] for result in results if result.remarks))
    shown, left = sets[:_REMARKED], sets[_REMARKED:]
    lines = remarks((result for result in results if result.key[1:] in shown), with_task=True)
    if left:
        tasks = " --task ".join(task_order(task for task, _ in left))
        more = f"{len(left)} more set{'s have' if len(left) > 1 else ' has'} such notes"
        lines.append(f"{more}: leaderboard show --task {tasks}")
    return lines

"""From records to tables: the boards, a table per task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TypeVar

from harness.core.names import Subset
from harness.protocol.described import (
    board_title,
    described,
    is_average,
    metric_of,
    metric_order,
    subset_order,
    tag_meaning,
    task_order,
)
from harness.report.cells import MISSING, Cell, Column, Note, Row, Table
from harness.report.figures import P_ZERO, Figures, folded_note, shortened
from harness.results.records import Result
from harness.results.statistics import Statistics
from harness.statistics.board import Board, Key

FAILED, FLOOR = "failed", "chargrams"
K = TypeVar("K")


def boards(
    results: Sequence[Result],
    *,
    metrics: Collection[str] | None = None,
    failed: Collection[tuple[str, str, str]] = (),
    statistics: Mapping[str, Statistics] | None = None,
    folded: Sequence[Result] = (),
    reference: str = "",
) -> list[Table]:
    """A table per task, and another for its bundled sample: a row per encoder, columns are subsets.

    Cells are the task's main metrics, or `metrics`. A task with many subsets (Tatoeba) has a row per subset instead.
    Subsets that no encoder was measured on have no column, except those of `failed` (encoder, task, subset), whose
    cells say so. Intervals and bold values come from `statistics` (by task). `folded`: results of cut and quantised
    vectors that are left out; a note says so. `reference`: the encoder that the others are marked against.
    """
    tables = []
    for task in task_order(result.task for result in results):
        of_task = [result for result in results if result.task == task]
        for part in split_sample(of_task):
            is_sample = Subset.parse(part[0].subset).is_sample
            holes = {(e, s) for e, t, s in failed if t == task and Subset.parse(s).is_sample is is_sample}
            table = _board(task, part, metrics, holes, statistics or {}, reference)
            if table is not None:
                left_out = [r for r in folded if r.task == task and Subset.parse(r.subset).is_sample is is_sample]
                tables.append(replace(table, notes=(*folded_note(left_out), *table.notes)))
    return tables


def split_sample(results: Sequence[Result]) -> list[list[Result]]:
    """The results on real data and those on the bundled sample, each only if there are any."""
    parts = [[r for r in results if Subset.parse(r.subset).is_sample is of_sample] for of_sample in (False, True)]
    return [part for part in parts if part]


def _board(
    task: str,
    results: Sequence[Result],
    metrics: Collection[str] | None,
    holes: Collection[tuple[str, str]],
    statistics: Mapping[str, Statistics],
    reference: str,
) -> Table | None:
    known = described(task)
    present = metric_order(task, (metric for result in results for metric in result.metrics))
    wanted = [metric.name for metric in known.metrics if metric.is_main] if metrics is None else metrics
    shown = [metric for metric in present if metric in wanted or not wanted]
    if not shown:
        return None
    figures = Figures(
        Board(results, statistics),
        {(e, (task, subset, metric)): FAILED for e, subset in holes for metric in shown},
        reference,
    )
    subsets = subset_order(task, [*(result.subset for result in results), *(subset for _, subset in holes)])
    encoders, order_note = rank_encoders(task, results, shown[0])
    encoders += sorted({encoder for encoder, _ in holes}.difference(encoders))
    labels, marks = encoder_labels(results, encoders)
    title = board_title(task, shown, Subset.parse(subsets[0]).is_sample)
    limit = known.display.turn_above
    is_turned = limit is not None and len(subsets) > limit
    if is_turned:
        table = _turned(task, results, figures, encoders, labels, subsets, shown)
    else:
        keys = figures.present((task, subset, metric) for subset in subsets for metric in shown)
        columns = [
            Column(subset, _heading(task, metric) if len(shown) > 1 else "", is_average=is_average(subset))
            for _, subset, metric in keys
        ]
        table = Table("", (Column("encoder", is_number=False), *columns), encoder_rows(figures, encoders, labels, keys))
    legend = [
        *marks,
        *_legend(table, results),
        *([] if is_turned else _n_note(results)),
        *map(Note, remarks(results)),
        *([Note(f"{FAILED}: in this run")] if holes else []),
        *([Note(order_note, of=_ordered_by(order_note))] if order_note and len(encoders) > 1 else []),
        *figures.legend("row" if is_turned else "column"),
    ]
    resampling = figures.signature(task)
    signatures = sorted({result.signature + resampling for result in results})
    notes = (*legend, *(Note("signature: ", text) for text in signatures))
    return replace(table, title=title, notes=notes, task=task)


def _ordered_by(note: str) -> str:
    """The set of a note of `rank_encoders`."""
    return note.partition(": ")[2].partition(" (")[0]


def _heading(task: str, metric: str) -> str:
    return "p" if metric.startswith(P_ZERO) else metric_of(task, metric).heading


def _turned(
    task: str,
    results: Sequence[Result],
    figures: Figures,
    encoders: Sequence[str],
    labels: Mapping[str, str],
    subsets: Sequence[str],
    shown: Sequence[str],
) -> Table:
    """A row per subset; columns are encoders."""
    n = {result.subset: result.n for result in results}
    headings = [Column("subset", is_number=False), Column("language", is_number=False), Column("n")]
    columns = [
        Column(labels[e], metric_of(task, metric).heading if len(shown) > 1 else "")
        for e in encoders
        for metric in shown
    ]
    rows = []
    for subset in subsets:
        keys = [
            Cell(subset),
            Cell(described(task).display.names.get(Subset.parse(subset).base, "")),
            Cell(n.get(subset), "count"),
        ]
        cells = [figures.cell(encoder, (task, subset, metric)) for encoder in encoders for metric in shown]
        rows.append(Row((*keys, *cells), is_average(subset)))
    return Table("", (*headings, *columns), tuple(rows), n_keys=len(headings))


def values_of(results: Iterable[Result]) -> dict[tuple[str, Key], float]:
    """Every stored number, by encoder and key."""
    return {
        (result.encoder, (result.task, result.subset, metric)): value
        for result in results
        for metric, value in result.metrics.items()
    }


def encoder_rows(
    figures: Figures,
    encoders: Sequence[str],
    labels: Mapping[str, str],
    keys: Sequence[Key],
) -> tuple[Row, ...]:
    """A row per encoder: its label, then the numbers of `keys`."""
    return tuple(Row((Cell(labels[encoder]), *(figures.cell(encoder, key) for key in keys))) for encoder in encoders)


def rank_encoders(task: str, results: Sequence[Result], metric: str) -> tuple[list[str], str]:
    """Sorts the encoders by the task's main average, descending; those without it by name. Also returns a note on it.

    If several stand-ins of an average exist, the one that most encoders have counts. Without an average, the mean of
    `metric` over all subsets counts.
    """
    display, of_task = described(task).display, [result for result in results if result.task == task]
    metric = display.rank_by or metric
    values = values_of(of_task)
    names = sorted({result.encoder for result in results})

    def preference(average: str) -> tuple[int, int, str]:
        frequency = sum((name, (task, average, metric)) in values for name in names)
        return (display.ranking.index(Subset.parse(average).base), -frequency, average)

    measured = {result.subset for result in of_task}
    averages = sorted((name for name in measured if Subset.parse(name).base in display.ranking), key=preference)
    subsets = averages[:1] or sorted(measured)
    scores: dict[str, float] = {}
    for name in names:
        present = [values[key] for subset in subsets if (key := (name, (task, subset, metric))) in values]
        if present and len(present) == len(subsets):
            scores[name] = sum(present) / len(present)
    by = subsets[0] if len(subsets) == 1 else "the mean over the subsets"
    rest = ", then by name" if len(scores) < len(names) else ""
    note = f"order of encoders: {by} ({metric_of(task, metric).heading}){rest}"
    ranked = sorted(names, key=lambda name: (name not in scores, -scores.get(name, 0.0), name))
    base_of = {result.encoder: result.base for result in results if result.base in ranked}
    places = {name: place for place, name in enumerate(ranked)}
    # What is made from an encoder's vectors stands below it.
    ranked.sort(key=lambda name: (places[base_of.get(name) or name], name in base_of))
    return ranked, note if scores else ""


def encoder_labels(results: Sequence[Result], encoders: Sequence[str]) -> tuple[dict[str, str], list[Note]]:
    """By encoder, the label of its row with the marks of its footnotes; and the footnotes.

    Of cut or quantised vectors the label says how many bytes one takes.
    """
    sizes = {result.encoder: result.reduced.vector_bytes for result in results if result.reduced}
    labels: dict[str, str] = {}
    notes: list[Note] = []
    texts, of_encoder = footnotes(results), _by_encoder(results)
    floors = [encoder for encoder in encoders if is_floor(encoder, of_encoder.get(encoder, ()))]
    for encoder in encoders:
        label = encoder + (" (lexical floor)" if encoder in floors else "")
        label += f", {sizes[encoder]:,} bytes" if encoder in sizes else ""
        for text in texts.get(encoder, ()):
            notes.append(Note(f"[{len(notes) + 1}] {text}"))
            label += f" [{len(notes)}]"
        labels[encoder] = label
    if floors:
        notes.append(Note("lexical floor: compares spellings only; what an encoder has to beat"))
    return labels, notes


def _by_encoder(results: Iterable[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.encoder, []).append(result)
    return found


def is_floor(encoder: str, results: Iterable[Result]) -> bool:
    """Whether an encoder is the lexical floor, also under another name."""
    specs = {result.spec.partition("?")[0] for result in results if result.encoder == encoder}
    return encoder == FLOOR or FLOOR in specs


def _legend(table: Table, results: Sequence[Result]) -> list[Note]:
    notes = missing_note(table)
    usual = _most_frequent((r.subset, r.dataset.sha256) for r in results)  # footnotes name those with other data
    parts = {r.subset: r.parts for r in results if r.parts and r.dataset.sha256 == usual[r.subset]}
    for name in subset_order(results[0].task, parts):
        listed = ", ".join(parts[name]) if len(parts[name]) <= 12 else f"{len(parts[name])} subsets"
        notes.append(Note(f"{name}: unweighted mean of {listed}", of=name))
    if any(result.base for result in results):
        notes.append(Note("cut and quantised vectors are not ranked among the encoders"))
    return notes + tag_notes(result.subset for result in results)


def _n_note(results: Sequence[Result]) -> list[Note]:
    """One line with n of the sets."""
    order = subset_order(results[0].task, (result.subset for result in results))
    n_of = {result.subset: result.n for result in results if not result.parts and not is_average(result.subset)}
    by_n: dict[int, list[str]] = {}
    for subset in sorted(n_of, key=order.index):
        by_n.setdefault(n_of[subset], []).append(subset)
    if len(by_n) == 1 and len(n_of) > 1:
        return [Note(f"n: {min(by_n):,} a set")]
    if len(by_n) > 12:
        return [Note(f"n: {min(by_n):,} to {max(by_n):,} a set")]
    texts = [f"{n:,} ({', '.join(names)})" for n, names in by_n.items()]
    return [Note(f"n: {'; '.join(texts)}")] if texts else []


def remarks(results: Iterable[Result], *, with_task: bool = False) -> list[str]:
    """What the records say of the items of their sets, each once, after the name of the set."""
    of_sets = ((f"{r.task} {r.subset}" if with_task else r.subset, text) for r in results for text in r.remarks)
    return [f"{name}: {text}" for name, text in dict.fromkeys(of_sets)]


def missing_note(table: Table) -> list[Note]:
    """The note that explains "–", if the table has one."""
    is_missing = any(cell.value is None for row in table.rows for cell in row.cells)
    return [Note(f"{MISSING} not measured here")] if is_missing else []


def tag_notes(subsets: Iterable[str]) -> list[Note]:
    """Explains the stand-in tags among subset names."""
    tags = sorted({Subset.parse(subset).tag for subset in subsets} - {""})
    return [Note(code=tag, rest=f": {tag_meaning(tag)}") for tag in tags]


def sort_rows(table: Table, column: str) -> Table | None:
    """Sorts a table by a column: numbers descending, names ascending, missing cells last. None without such a column.

    A column is named by its whole heading (`de-en f1_test`) or by a part of it; the first that fits counts.
    """
    names = [(c.label, c.head, c.sub) for c in table.columns]
    place = next((i for level in range(3) for i, name in enumerate(names) if name[level] == column), None)
    if place is None:
        return None

    def rank(row: Row) -> tuple[bool, float, str]:
        value = row.cells[place].value
        return (value is None, 0.0 if value is None or isinstance(value, str) else -value, str(value))

    return replace(table, rows=tuple(sorted(table.rows, key=rank)))


def footnotes(results: Sequence[Result]) -> dict[str, list[str]]:
    """By encoder, what sets its records apart.

    That is several fingerprints, another protocol or other data than the rest, vectors that cannot be repeated.

    Signatures are compared within a task, data within a subset; the rest has the most frequent one.
    """
    notes: dict[str, list[str]] = {}
    usual_signature = _most_frequent((r.task, r.signature) for r in results)
    usual_data = _most_frequent(((r.task, r.subset), r.dataset.sha256) for r in results)
    for encoder, records in sorted(_by_encoder(results).items()):
        texts = []
        fingerprints = sorted({short_fingerprint(record.fingerprint) for record in records})
        if len(fingerprints) > 1:
            texts.append(f"{encoder}: measured with {len(fingerprints)} fingerprints: {', '.join(fingerprints)}")
        for signature in sorted({r.signature for r in records if r.signature != usual_signature[r.task]}):
            subsets = shortened((r.subset for r in records if r.signature == signature), 8)
            texts.append(f"{encoder}: another protocol than the rest on {subsets}: {signature}")
        if other := [r.subset for r in records if r.dataset.sha256 != usual_data[r.task, r.subset]]:
            texts.append(f"{encoder}: other data than the rest on {shortened(other, 8)}")
        if spread := {r.conditions.get("repeatability") for r in records if r.conditions.get("repeatable") == "no"}:
            listed = " and ".join(sorted(map(str, spread)))
            texts.append(f"{encoder}: equal requests give different vectors (1 - cosine up to {listed})")
        if texts:
            notes[encoder] = texts
    return notes


def short_fingerprint(fingerprint: str) -> str:
    """A fingerprint in at most 33 characters: its start and, after `#`, the start of its sha256, to keep it unique."""
    if len(fingerprint) <= 33:
        return fingerprint
    return f"{fingerprint[:24]}#{sha256(fingerprint.encode(errors='backslashreplace')).hexdigest()[:8]}"


def _most_frequent(pairs: Iterable[tuple[K, str]]) -> dict[K, str]:
    """By key, the most frequent value; of equally frequent ones the first in the alphabet."""
    counts: dict[K, Counter[str]] = {}
    for key, value in pairs:
        counts.setdefault(key, Counter())[value] += 1
    return {key: min(n.items(), key=lambda item: (-item[1], item[0]))[0] for key, n in counts.items()}

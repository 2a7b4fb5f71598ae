"""The generated pages below the results folder, and the table in a README.

They are made from the records, their statistics, and the published figures for comparison, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from harness import charts
from harness.core import escaping
from harness.core.errors import InputError
from harness.core.files import refuse_special, refuse_way_out, write_atomically
from harness.core.names import Subset, check_name
from harness.protocol.described import described, subset_order, task_order, title_of
from harness.protocol.task import Page, Picture, Task
from harness.published import PublishedScore
from harness.report.cells import Cell, Column, Row, Table
from harness.report.commands import commands
from harness.report.content import content_of
from harness.report.encoder_page import FOLDER as ENCODERS
from harness.report.encoder_page import encoder_pages
from harness.report.markdown import markdown, markdown_grid
from harness.report.overview import overviews
from harness.report.pictures import FOLDER as PICTURES
from harness.report.pictures import cost_pictures, draw, language_picture, markdown_picture
from harness.report.provenance import provenance
from harness.report.published import published_boards
from harness.report.speed import speed_page
from harness.report.sweep import EXPLANATION, curves
from harness.report.tables import boards, split_sample
from harness.results.records import Result
from harness.results.selection import fold
from harness.results.statistics import Statistics
from harness.results.store import ResultStore
from harness.speed.store import Measurement

BEGIN = "<!-- leaderboard:begin -->"
END = "<!-- leaderboard:end -->"
_SPEED = "speed.md"
_SWEEP = "sweep.md"
_GENERATED = "<!-- Made by `leaderboard report` from the records; edits are lost. -->"


def report(store: ResultStore, readme: Path | None = None, languages: Sequence[str] = ()) -> list[Path]:
    """Writes the pages of a results folder, and the table in `readme` if it has the two markers.

    languages: if given, of the results in these and English alone (see `harness.protocol.languages`).

    Returns:
        The files that changed; a file that would stay the same is not written.

    Raises:
        InputError: no records, a file that holds none, a README with broken markers, a folder that is not writable.
    """
    changed = outdated(store, readme, languages)
    for path, content in changed.items():
        write_atomically(path, content)
    return list(changed)


def outdated(store: ResultStore, readme: Path | None = None, languages: Sequence[str] = ()) -> dict[Path, bytes]:
    """The files that `report` would write, with their new content. Raises as `report`."""
    content = content_of(store, languages)
    results, statistics, measured = content.results, content.statistics, content.measured
    there = {path.relative_to(store.root).as_posix() for path in (store.root / PICTURES).glob("*.svg")}
    pages = make_pages(results, content.folder, content.scores, statistics, measured, languages, there)
    new = {refuse_way_out(store.root / name, store.root): text.encode() for name, text in pages.items()}
    if readme is not None:
        text = read_readme(readme)
        if BEGIN in text or END in text:
            relative = os.path.relpath(store.root, readme.parent).replace(os.sep, "/")
            block = _readme_block(results, statistics, relative, measured, there)
            new[readme] = _between_markers(readme, text, block).encode()
    return {path: text for path, text in new.items() if not path.is_file() or path.read_bytes() != text}


def has_markers(readme: Path) -> bool:
    """Whether a README has a marker of the table. Raises InputError if it cannot be read."""
    text = read_readme(readme)
    return BEGIN in text or END in text


def read_readme(readme: Path) -> str:
    """The text of a README with its line ends. Raises InputError if it cannot be read."""
    refuse_special(readme)
    try:
        return readme.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{readme}: cannot be read as UTF-8 text ({error}); name another file (--readme)") from None


def make_pages(
    results: Sequence[Result],
    folder: str = "results",
    scores: Sequence[PublishedScore] = (),
    statistics: Mapping[str, Statistics] | None = None,
    measured: Sequence[Measurement] = (),
    languages: Sequence[str] = (),
    there: Collection[str] = (),
) -> dict[str, str]:
    """By file name, the content of the overview (`README.md`), of each task's page (`TASK.md`) and of its pictures.

    Args:
        folder: name of the results folder, for the commands that repeat the measurements.
        scores: published figures. A task measured on more than the bundled sample has those of the sets that were
            measured on its page, and of sets that stand-ins stand in for.
        statistics: by task, those of these results.
        measured: what encoders cost; all of it goes to `speed.md`.
        languages: those that these results were chosen by, which the pages say.
        there: the files that the results folder has: pictures among them stay where none can be drawn.
    """
    known = statistics or {}
    everything = results
    results, folded = fold(everything)
    tasks = task_order(result.task for result in results)
    of_costs, pages = draw(cost_pictures(everything, known, measured), there)
    for task in tasks:
        check_name(task, "task")
        of_task = [result for result in results if result.task == task]
        published = of_measured(scores, of_task) if _is_real(of_task) else []
        page = make(of_task, known.get(task, Statistics())) if (make := _page_of(task)) else Page()
        by_language = language_picture(task, of_task, known)
        pictures, files = draw([*([by_language] if by_language else []), *page.pictures], there)
        parts = [*page.parts, *map(markdown_picture, pictures)]
        left_out = [result for result in folded if result.task == task]
        repeat = commands(of_task, [task], folder, languages)
        pages[f"{task}.md"] = _task_page(task, of_task, published, known, parts, left_out, repeat)
        pages |= files | dict(page.files)
    pages |= encoder_pages(results, known, measured, _GENERATED)
    if measured:
        pages[_SPEED] = speed_page(measured, _GENERATED, [markdown_picture(picture) for picture in of_costs])
    if folded:
        repeat = commands(folded, task_order(result.task for result in folded), folder, languages)
        pages[_SWEEP] = _sweep_page(everything, folded, known, repeat)
    more = {_SPEED: "What encoders cost", _SWEEP: "Cut and quantised vectors"}
    links = {file: title for file, title in more.items() if file in pages}
    repeat = commands(results, tasks, folder, languages)
    front = _front(results, known, folded, measured, of_costs[:1])
    return {"README.md": _overview_page(results, known, front, links, repeat), **pages}


def of_measured(scores: Iterable[PublishedScore], results: Sequence[Result]) -> list[PublishedScore]:
    """The published figures of one task's sets that were measured, or that a stand-in was measured for."""
    measured = {(result.task, Subset.parse(result.subset).base) for result in results}
    return [score for score in scores if (score.task, score.subset) in measured]


def _front(
    results: Sequence[Result],
    statistics: Mapping[str, Statistics],
    folded: Sequence[Result],
    measured: Sequence[Measurement],
    pictures: Sequence[Picture],
) -> Callable[[str, int], list[str]]:
    """What the front page and a README begin with, as a function of the folder of the pages and the level of headings.

    That is the table over all tasks, of real data if there is some, and a picture; without a column for that table the
    tables of the tasks.
    """
    found = overviews(results, statistics, folded, measured)

    def front(folder: str, level: int) -> list[str]:
        tables = [one.front(folder, ENCODERS) for one in found[:1]] or boards(
            results, statistics=statistics, folded=folded
        )
        return [
            *(markdown(table, level=level) for table in tables),
            *(markdown_picture(picture, folder) for picture in pictures),
        ]

    return front


def _page_of(task: str) -> Callable[[Sequence[Result], Statistics], Page] | None:
    """The function that makes the task-specific part of its page, if the task has one."""
    known = described(task)
    return known.page if isinstance(known, Task) else None


def _is_real(results: Sequence[Result]) -> bool:
    """Whether some result is not of the bundled sample."""
    return any(not Subset.parse(result.subset).is_sample for result in results)


def _sweep_page(
    results: Sequence[Result], variants: Sequence[Result], statistics: Mapping[str, Statistics], repeat: str
) -> str:
    """repeat: the commands that measure it again."""
    return _join(
        _GENERATED,
        "# Cut and quantised vectors",
        escaping.markdown(EXPLANATION),
        "[All tasks](README.md), with where the full vectors come from.",
        *(markdown(table, level=2) for table in curves(results, statistics)),
        "## How to repeat it",
        repeat,
        "## Provenance",
        *provenance(variants),
    )


def _overview_page(
    results: Sequence[Result],
    statistics: Mapping[str, Statistics],
    front: Callable[[str, int], list[str]],
    links: Mapping[str, str],
    repeat: str,
) -> str:
    """links: by file, the titles of the pages that are of no task. repeat: the commands that measure it again."""
    tasks = task_order(result.task for result in results)
    others = [f"- [{title}]({file})" for file, title in links.items()]
    found = overviews(results, statistics, [], [])
    ranks = [table for one in found[:1] if (table := one.rank_table)]
    samples = [markdown(one.table, level=2) for one in found[1:]]
    return _join(
        _GENERATED,
        "# Results",
        *front("", 2),
        "Every number was measured with this harness; the records are in `records/`. Intervals, other sets and metrics "
        "are on the pages of the tasks, and all of an encoder on its own:",
        "\n".join([*(f"- {_link(task)}" for task in tasks), *others]),
        *(markdown(table, level=2) for table in ranks),
        *samples,
        "## How to repeat it",
        repeat,
        "## Protocols",
        _signatures(results, statistics),
        "## Provenance",
        *provenance(results),
    )


def _task_page(
    task: str,
    results: Sequence[Result],
    scores: Sequence[PublishedScore],
    statistics: Mapping[str, Statistics],
    more: Sequence[str],
    folded: Sequence[Result],
    repeat: str,
) -> str:
    display = described(task).display
    return _join(
        _GENERATED,
        f"# {escaping.markdown(title_of(task))}",
        *([escaping.markdown(display.protocol)] if display.protocol else []),
        "[All tasks](README.md), with where the records come from.",
        *(markdown(table, level=2) for table in boards(results, statistics=statistics, folded=folded)),
        *more,
        *(markdown(table, level=2) for table in published_boards(results, scores, statistics=statistics)),
        "## Data",
        *(markdown_grid(_data_table(task, part)) for part in split_sample(results)),
        "sha256: the start of it; the records have all of it, and that of each file.",
        "## How to repeat it",
        repeat,
    )


def _data_table(task: str, results: Sequence[Result]) -> Table:
    """n and checksum of every subset; several rows if encoders were measured on different data."""
    order = subset_order(task, (result.subset for result in results))
    lines = {(order.index(r.subset), r.subset, r.n, r.dataset.name, r.dataset.sha256) for r in results if not r.parts}
    columns = (
        Column("subset", is_number=False),
        Column("n"),
        Column("data set", is_number=False),
        Column("sha256", is_number=False),
    )
    rows = (
        Row((Cell(subset), Cell(n, "count"), Cell(name or None), Cell(digest[:12] or None)))
        for _, subset, n, name, digest in sorted(lines)
    )
    return Table("Data", columns, tuple(rows))


def _signatures(results: Sequence[Result], statistics: Mapping[str, Statistics]) -> str:
    """The signatures of the scores, then those of the intervals and tests."""
    scores = sorted({result.signature for result in results})
    resampling = sorted({known.signature for known in statistics.values() if known.entries})
    return "\n".join(f"- {escaping.code(signature)}" for signature in [*scores, *resampling])


def _readme_block(
    results: Sequence[Result],
    statistics: Mapping[str, Statistics],
    folder: str,
    measured: Sequence[Measurement],
    there: Collection[str],
) -> str:
    everything = results
    results, folded = fold(everything)
    pages = ", ".join(_link(task, folder) for task in task_order(result.task for result in results))
    shown = [p for p in cost_pictures(everything, statistics, measured)[:1] if charts.is_available() or p.file in there]
    parts = _front(results, statistics, folded, measured, shown)(f"{folder}/", 3)
    if measured:
        pages += f", [what encoders cost]({escaping.link_target(f'{folder}/{_SPEED}')})"
    more = f"More: [all results and how to repeat them]({escaping.link_target(f'{folder}/README.md')}), {pages}."
    return _join(*parts, more).replace("<!--", "<! --")  # a marker in a name must not count


def _link(task: str, folder: str = "") -> str:
    """A link to a task's page."""
    path = f"{folder}/{task}.md" if folder else f"{task}.md"
    return f"[{escaping.markdown(title_of(task))}]({escaping.link_target(path)})"


def _between_markers(readme: Path, text: str, block: str) -> str:
    begin, end = text.find(BEGIN), text.find(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or end < begin:
        raise InputError(f"{readme}: needs {BEGIN} and after it {END}, once each; put them where the table should be")
    newline = "\r\n" if "\r\n" in text else "\n"
    return text[: begin + len(BEGIN)] + f"\n\n{block}".replace("\n", newline) + text[end:]


def _join(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"

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
from harness.core.files import refuse_special
from harness.core.names import Subset, check_name
from harness.protocol.described import described, subset_order, task_order, title_of
from harness.protocol.task import Page, Picture, Task
from harness.published import PublishedScore
from harness.report.cells import Cell, Column, Row, Table
from harness.report.changes import GENERATED, Changes, differing, new_content, stale
from harness.report.commands import commands
from harness.report.content import Content
from harness.report.encoder_page import FOLDER as ENCODERS
from harness.report.encoder_page import encoder_pages
from harness.report.markdown import markdown, markdown_grid
from harness.report.pictures import FOLDER as PICTURES
from harness.report.pictures import cost_pictures, drawn, language_pictures, markdown_picture, shown
from harness.report.provenance import provenance
from harness.report.published import published_boards
from harness.report.speed import speed_page
from harness.report.sweep import EXPLANATION, curves
from harness.report.tables import boards, split_sample
from harness.results.records import Result
from harness.results.statistics import Statistics

BEGIN = "<!-- leaderboard:begin -->"
END = "<!-- leaderboard:end -->"
_SPEED = "speed.md"
_SWEEP = "sweep.md"


def outdated(root: Path, content: Content, readme: Path | None = None, languages: Sequence[str] = ()) -> Changes:
    """What `report` would change in a results folder, and of the table in `readme`, if that has the two markers.

    languages: those that the content was chosen by (see `harness.protocol.languages`).

    Raises:
        InputError: a README with broken markers, a folder through a link that leads out of the results.
    """
    has_charts = charts.is_available()
    there = {path.relative_to(root).as_posix() for path in (root / PICTURES).glob("*.svg")}
    made = make_pages(content, languages, there)
    written = new_content(root, made)
    if readme is not None:
        text = read_readme(readme)
        if BEGIN in text or END in text:
            relative = os.path.relpath(root, readme.parent).replace(os.sep, "/")
            block = _readme_block(content, relative, there)
            written |= differing({readme: _between_markers(readme, text, block).encode()})
    notes = [charts.needs(f"{root / PICTURES} stays as it is; drawing it again")] if there and not has_charts else []
    return Changes(written, stale(root, made, has_charts=has_charts), notes)


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


def make_pages(content: Content, languages: Sequence[str] = (), there: Collection[str] = ()) -> dict[str, str]:
    """By file name, all pages and pictures: `README.md`, a page for each task (`TASK.md`) and each encoder, and more.

    A task measured on more than the bundled sample has, on its page, the published figures of the sets that were
    measured, and of sets that stand-ins stand in for.

    Args:
        content: of the results folder.
        languages: those that these results were chosen by, which the pages say.
        there: the files that the results folder has: pictures among them stay where none can be drawn.
    """
    results, folded, known, folder = content.full, content.folded, content.statistics, content.folder
    tasks = task_order(result.task for result in results)
    of_costs = _of_costs(content, there)
    pages = drawn(of_costs)
    by_language = language_pictures(content.results, known)
    for task in tasks:
        check_name(task, "task")
        of_task = [result for result in results if result.task == task]
        published = of_measured(content.scores, of_task) if _is_real(of_task) else []
        page = make(of_task, known.get(task, Statistics())) if (make := _page_of(task)) else Page()
        listed = [*([by_language[task]] if task in by_language else []), *page.pictures]
        pictures = shown(listed, there)
        parts = [*page.parts, *map(markdown_picture, pictures)]
        left_out = [result for result in folded if result.task == task]
        repeat = commands(of_task, [task], folder, languages)
        pages[f"{task}.md"] = _task_page(task, of_task, published, known, parts, left_out, repeat)
        pages |= drawn(pictures) | dict(page.files)
    pages |= encoder_pages(results, known, content.facts, GENERATED)
    if content.measured:
        pages[_SPEED] = speed_page(content.measured, GENERATED, [markdown_picture(picture) for picture in of_costs])
    if folded:
        repeat = commands(folded, task_order(result.task for result in folded), folder, languages)
        pages[_SWEEP] = _sweep_page(content.results, folded, known, repeat)
    more = {_SPEED: "What encoders cost", _SWEEP: "Cut and quantised vectors"}
    links = {file: title for file, title in more.items() if file in pages}
    repeat = commands(results, tasks, folder, languages)
    return {"README.md": _overview_page(content, of_costs, links, repeat), **pages}


def _of_costs(content: Content, there: Collection[str]) -> list[Picture]:
    return shown(cost_pictures(content.results, content.statistics, content.facts), there)


def of_measured(scores: Iterable[PublishedScore], results: Sequence[Result]) -> list[PublishedScore]:
    """The published figures of one task's sets that were measured, or that a stand-in was measured for."""
    measured = {(result.task, Subset.parse(result.subset).base) for result in results}
    return [score for score in scores if (score.task, score.subset) in measured]


def front_tables(content: Content, pages: str = "", encoders: str = "") -> list[Table]:
    """The table over all tasks, of real data if there is some; without a column for it, the tables of the tasks.

    pages, encoders: see `Overview.front`.
    """
    return [one.front(pages, encoders) for one in content.overviews[:1]] or boards(
        content.full, statistics=content.statistics, folded=content.folded
    )


def _front(content: Content, pictures: Sequence[Picture], folder: str = "", level: int = 2) -> list[str]:
    """What the front page and a README begin with: `front_tables`, and the first of the pictures.

    folder: of the pages, from that of the file; with a `/` at its end, or empty. level: of headings.
    """
    tables = [markdown(table, level=level) for table in front_tables(content, folder, ENCODERS)]
    return [*tables, *(markdown_picture(picture, folder) for picture in pictures[:1])]


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
        GENERATED,
        "# Cut and quantised vectors",
        escaping.markdown(EXPLANATION),
        "[All tasks](README.md), with where the full vectors come from.",
        *(markdown(table, level=2) for table in curves(results, statistics)),
        "## How to repeat it",
        repeat,
        "## Provenance",
        *provenance(variants),
    )


def _overview_page(content: Content, pictures: Sequence[Picture], links: Mapping[str, str], repeat: str) -> str:
    """links: by file, the titles of the pages that are of no task. repeat: the commands that measure it again."""
    tasks = task_order(result.task for result in content.full)
    others = [f"- [{title}]({file})" for file, title in links.items()]
    ranks = [table for one in content.overviews[:1] if (table := one.rank_table)]
    samples = [one.front() for one in content.overviews[1:]]
    return _join(
        GENERATED,
        "# Results",
        *_front(content, pictures),
        "Every number was measured with this harness; the records are in `records/`. Intervals, other sets and metrics "
        "are on the pages of the tasks, and all of an encoder on its own:",
        "\n".join([*(f"- {_link(task)}" for task in tasks), *others]),
        *(markdown(table, level=2) for table in [*ranks, *samples]),
        "## How to repeat it",
        repeat,
        "## Protocols",
        _signatures(content.full, content.statistics),
        "## Provenance",
        *provenance(content.full),
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
        GENERATED,
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


def _readme_block(content: Content, folder: str, there: Collection[str]) -> str:
    pages = ", ".join(_link(task, folder) for task in task_order(result.task for result in content.full))
    parts = _front(content, _of_costs(content, there), f"{folder}/", 3)
    if content.measured:
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

"""The generated pages below the results folder, and the table in a README.

They are made from the records and the statistics kept beside them, and from the published figures that task pages
set beside both, and nothing else.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.core import escaping
from harness.core.errors import InputError
from harness.core.files import refuse_special, refuse_way_out, write_atomically
from harness.core.names import Subset, check_name
from harness.protocol.described import described, subset_order, task_order, title_of
from harness.protocol.task import Page, Task
from harness.published import PublishedScore, published_scores
from harness.published.mteb_import import imported_scores
from harness.report.cells import Cell, Column, Row, Table
from harness.report.markdown import markdown, markdown_grid
from harness.report.overview import overview, provenance
from harness.report.published import published_boards
from harness.report.tables import boards, split_sample
from harness.results.records import Result, ResultStore
from harness.results.selection import stored
from harness.results.statistics import Statistics, StatisticsStore

BEGIN = "<!-- leaderboard:begin -->"
END = "<!-- leaderboard:end -->"
_PUBLISHED = "published.md"
_GENERATED = "<!-- Made by `leaderboard report` from the records; edits are lost. -->"


def report(store: ResultStore, readme: Path | None = None) -> list[Path]:
    """(Re)write the pages of a results folder, and the table in `readme` if that has the two markers.

    Returns:
        The files that changed; a file that would stay the same is not written.

    Raises:
        InputError: no records, a file that holds none, a README with broken markers, a folder that is not writable.
    """
    changed = outdated(store, readme)
    for path, content in changed.items():
        write_atomically(path, content)
    return list(changed)


def outdated(store: ResultStore, readme: Path | None = None) -> dict[Path, bytes]:
    """What `report` would write: the new content of every file that is not there or differs. Raises as `report`."""
    results = stored(store)
    # The name as it was given, also where it is a link's; `.` and `..` have none of their own.
    folder = store.root.name if store.root.name not in ("", "..") else store.root.resolve().name
    statistics = StatisticsStore(store.root).of(results)
    pages = make_pages(results, folder, [*published_scores(), *imported_scores(store.root)], statistics)
    new = {refuse_way_out(store.root / name, store.root): text.encode() for name, text in pages.items()}
    if readme is not None:
        text = read_readme(readme)
        if BEGIN in text or END in text:
            block = _readme_block(results, statistics, os.path.relpath(store.root, readme.parent).replace(os.sep, "/"))
            new[readme] = _between_markers(readme, text, block).encode()
    return {path: content for path, content in new.items() if not path.is_file() or path.read_bytes() != content}


def has_markers(readme: Path) -> bool:
    """Whether a README has a place for the table. Raises InputError if it cannot be read."""
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
) -> dict[str, str]:
    """File name -> content of the overview (`README.md`), of each task's page (`TASK.md`) and of the pictures on it.

    `folder`: name of the results folder, for the commands that repeat the work. `scores`: published figures, set beside
    what was measured on more than the bundled sample; those of other tasks go on a page of their own (`published.md`).
    `statistics`: by task, of these results.
    """
    known = statistics or {}
    tasks = task_order(result.task for result in results)
    pages = {}
    for task in tasks:
        check_name(task, "task")
        own = [result for result in results if result.task == task]
        beside = [score for score in scores if score.task == task] if _is_real(own) else []
        page = make(own, known.get(task, Statistics())) if (make := _page_of(task)) else Page()
        pages[f"{task}.md"] = _task_page(task, own, folder, beside, known, page.parts)
        pages |= page.files
    others = [score for score in scores if score.task not in tasks] if _is_real(results) else []
    if others:
        pages[_PUBLISHED] = _published_page(others)
    return {"README.md": _overview_page(results, folder, known, has_published=bool(others)), **pages}


def _page_of(task: str) -> Callable[[Sequence[Result], Statistics], Page] | None:
    """What makes the task's own part of its page."""
    known = described(task)
    return known.page if isinstance(known, Task) else None


def _is_real(results: Sequence[Result]) -> bool:
    """Whether some result is of more than the bundled sample."""
    return any(not Subset.parse(result.subset).is_sample for result in results)


def _published_page(scores: Sequence[PublishedScore]) -> str:
    return _join(
        _GENERATED,
        "# Published figures of what was not measured here",
        "[All tasks](README.md)",
        *(markdown(table, level=2) for table in published_boards([], scores)),
    )


def _overview_page(
    results: Sequence[Result], folder: str, statistics: Mapping[str, Statistics], *, has_published: bool
) -> str:
    tasks = task_order(result.task for result in results)
    source = provenance(results)
    others = [f"- [Published figures of what was not measured here]({_PUBLISHED})"] if has_published else []
    return _join(
        _GENERATED,
        "# Results",
        "Every number was measured with this harness; the records are in `records/`. The columns that are not shown "
        "here are on the pages of the tasks.",
        "\n".join([*(f"- {_link(task)}" for task in tasks), *others]),
        *(markdown(table, level=2) for table in overview(results, statistics)),
        "## How to repeat it",
        _commands(results, tasks, folder),
        "## Protocols",
        _signatures(results, statistics),
        "## Provenance",
        markdown_grid(source.table),
        "\n".join(
            [
                "- fingerprint: of weights and options; a long one is cut, and what follows `#` is from its sha256",
                "- commit: of the harness; (changed): its code was changed since",
                "- sentences/s: median over the subsets that were encoded",
                *(f"- H{i}: {escaping.markdown(text)}" for i, text in enumerate(source.hardware, start=1)),
                *(f"- V{i}: {escaping.markdown(text)}" for i, text in enumerate(source.versions, start=1)),
            ]
        ),
    )


def _task_page(
    task: str,
    results: Sequence[Result],
    folder: str,
    scores: Sequence[PublishedScore],
    statistics: Mapping[str, Statistics],
    more: Sequence[str],
) -> str:
    display = described(task).display
    return _join(
        _GENERATED,
        f"# {escaping.markdown(title_of(task))}",
        *([escaping.markdown(display.protocol)] if display.protocol else []),
        "[All tasks](README.md), with where the records come from.",
        *(markdown(table, level=2) for table in boards(results, statistics=statistics)),
        *more,
        *(markdown(table, level=2) for table in published_boards(results, scores, statistics=statistics)),
        "## Data",
        *(markdown_grid(_data_table(task, part)) for part in split_sample(results)),
        "sha256: the start of it; the records have all of it, and that of each file.",
        "## How to repeat it",
        _commands(results, [task], folder),
    )


def _data_table(task: str, results: Sequence[Result]) -> Table:
    """n and checksum of every subset; more than one line where encoders were measured on different data."""
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
    """Of the scores, then of the intervals and tests."""
    scores = sorted({result.signature for result in results})
    resampling = sorted({known.signature for known in statistics.values() if known.entries})
    return "\n".join(f"- {escaping.code(signature)}" for signature in [*scores, *resampling])


def _commands(results: Sequence[Result], tasks: Sequence[str], folder: str) -> str:
    """The commands that measure all of it again, for real data and for the bundled sample."""
    where = [f"--results {shlex.quote(escaping.visible(folder))}"]
    commands = [command for part in split_sample(results) for command in _run_commands(part, tasks, where)]
    block = escaping.code_block("\n".join([*commands, " ".join(["leaderboard report", *where])]), "sh")
    objects = ", ".join(sorted({result.encoder for result in results if not result.spec}))
    return block + (f"\n\nMeasured through the Python API: {escaping.markdown(objects)}." if objects else "")


def _run_commands(part: Sequence[Result], tasks: Sequence[str], where: Sequence[str]) -> list[str]:
    """A `leaderboard run` for each group of encoders; all of `part` is real data, or all of it the sample."""
    data = "--suite sample" if Subset.parse(part[0].subset).is_sample else '--data-dir "$HARNESS_DATA"'
    commands = []
    for of_group, specs in _groups(part, tasks):
        chosen = [f"--task {shlex.quote(task)}" for task in of_group]
        chosen += [f"--encoder {shlex.quote(escaping.visible(spec))}" for spec in specs]
        commands.append(" \\\n  ".join(["leaderboard run --fresh", data, *where, *chosen]))
    return commands


def _groups(part: Sequence[Result], tasks: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Tasks and the specs that were measured on just these; a spec whose encoder has another one too is alone.

    One run refuses two specs that are stored under one name.
    """
    measured: dict[tuple[str, str], set[str]] = {}
    for result in part:
        if result.spec:
            measured.setdefault((result.encoder, result.spec), set()).add(result.task)
    n_specs = Counter(encoder for encoder, _ in measured)
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (encoder, spec), done in sorted(measured.items(), key=lambda item: item[0]):
        of_group = tuple(task for task in tasks if task in done)
        groups.setdefault((of_group, spec if n_specs[encoder] > 1 else ""), []).append(spec)
    return [(list(of_group), specs) for (of_group, _), specs in groups.items()]


def _readme_block(results: Sequence[Result], statistics: Mapping[str, Statistics], folder: str) -> str:
    pages = ", ".join(_link(task, folder) for task in task_order(result.task for result in results))
    # The bundled sample only where there is nothing else.
    tables = (markdown(table, level=3) for table in overview(results, statistics)[:1])
    more = f"More: [all results and how to repeat them]({escaping.link_target(f'{folder}/README.md')}), {pages}."
    return _join(*tables, more).replace("<!--", "<! --")  # no markers but the two around it, in code neither


def _link(task: str, folder: str = "") -> str:
    """To a task's page."""
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

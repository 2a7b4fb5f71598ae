"""The command lines that measure results again, as a block for a page."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.core import escaping
from harness.core.names import Subset
from harness.protocol.described import is_own
from harness.report.tables import split_sample
from harness.results.records import Result

YOUR_SETS = "YOUR-SETS.toml"
"""Stands for the file that lists the user's own sets, where records do not tell how they were given."""


def sets_options(results: Iterable[Result]) -> list[str]:
    """The options that give the sets of these records, which are of the user's own: their files, as far as known."""
    from harness.data.given import Recorded, options_for

    recorded = [
        Recorded(
            r.task, tuple(r.parts or [r.subset]), r.dataset.files, tuple(r.languages), r.dataset.sha256, r.signature
        )
        for r in results
    ]
    return options_for(recorded) or ["--sets", YOUR_SETS]


def commands(results: Sequence[Result], tasks: Sequence[str], folder: str, languages: Sequence[str] = ()) -> str:
    """The commands that measure all results again, on real data and on the bundled sample.

    languages: of a choice, for which alone pages are made; by default all.
    """
    options = f"--results {shlex.quote(escaping.visible(folder))}"
    options += "".join(f" --language {shlex.quote(escaping.visible(code))}" for code in languages)
    parts = [
        [result for result in part if is_own(result.task) is own]
        for part in split_sample(results)
        for own in (False, True)
    ]
    commands = [command for part in parts if part for command in _run_commands(part, tasks, options)]
    block = escaping.code_block("\n".join([*commands, f"leaderboard report {options}"]), "sh")
    objects = ", ".join(sorted({result.encoder for result in results if not result.spec}))
    if any(YOUR_SETS in command for command in commands):
        block += f"\n\n{escaping.code(YOUR_SETS)}: a file that lists the sets; `leaderboard run --help` has other ways."
    if languages:
        block += f"\n\nOnly sets on these languages, and English: {escaping.markdown(', '.join(languages))}."
    return block + (f"\n\nMeasured through the Python API: {escaping.markdown(objects)}." if objects else "")


def _run_commands(part: Sequence[Result], tasks: Sequence[str], options: str) -> list[str]:
    """A `leaderboard run` for each group of encoders; `part`: of data sets of one kind (published, sample, own)."""
    data = "--suite sample" if Subset.parse(part[0].subset).is_sample else '--data-dir "$HARNESS_DATA"'
    if is_own(part[0].task):
        # An average adds nothing: it is over sets that are here, too.
        singles = [result for result in part if not result.parts]
        data = shlex.join(map(escaping.visible, sets_options(singles or part)))
    commands = []
    for of_group, specs in _groups(part, tasks):
        chosen = [f"--task {shlex.quote(task)}" for task in of_group]
        chosen += [f"--encoder {shlex.quote(escaping.visible(spec))}" for spec in specs]
        commands.append(" \\\n  ".join(["leaderboard run --fresh", data, options, *chosen]))
    return commands


def _groups(part: Sequence[Result], tasks: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Groups specs that were measured on the same tasks: the tasks and the specs of each group.

    A spec whose encoder has another spec too is alone, because a run refuses two specs that are stored under one name.
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

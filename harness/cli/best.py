"""`leaderboard best`: which encoder is best for my languages, from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.options import (
    LanguageOption,
    ResultsFoldersOption,
    filter_option,
    format_option,
    results_folder,
    size_in_bytes,
)

if TYPE_CHECKING:
    from harness.results.joined import JoinedResults
    from harness.results.records import Result
    from harness.speed.store import Measurement


def best(
    encoders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENCODER]...",
            show_default=False,
            help="Only these: names of stored encoders, results folders, FOLDER/NAME, or specs of stored encoders.",
        ),
    ] = None,
    language: LanguageOption = None,
    task: Annotated[list[str] | None, filter_option("task")] = None,
    subset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", show_default=False, help="Only this set, group, average or pattern. Repeatable."),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", show_default=False, help="Only encoders whose files have this size at most: 500MB."
        ),
    ] = None,
    min_speed: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, show_default=False, help="Only encoders with so many sentences/s or more."),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Only encoders with weights of this licence: commercial (open, and allows commercial use), or an SPDX "
            "identifier or pattern such as 'Apache-*'.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False, help="Hold this stored encoder against each of the others, too."
        ),
    ] = None,
    results: ResultsFoldersOption = None,
    format: Annotated[str, format_option("everything, in full precision", ("table", "json"))] = "table",
) -> None:
    """Say which encoder is best. The answer is for the chosen sets, task by task, from what is stored.

    Of each task the unweighted mean over the sets counts that the most encoders share, items resampled within each
    set; tasks are never averaged. All that may be the best stand with what they cost, as far as `speed` has measured
    it. An encoder is called the best where all others were tested against it and are worse (p < 0.05, corrected by Holm
    over the encoders of a task). The tests need per-item rows, unless the choice is one set or a stored average; a
    command that makes them is named where they are missing. Several results folders (--results a --results b) are
    joined; what was measured on other data or by another protocol is named and not compared.

    What is not known of an encoder (its size, speed or licence) leaves it out where that is asked for.

    Keys of json for each task: task, metric, subsets, n (items), answer, best (encoders), is_tested, alpha, n_tests,
    mde_50 and mde_80 (true differences that tests at mde_level find in 50 % and 80 % of cases: lowest and highest over
    the encoders; mde_is_upper_bound where only the scores' own intervals tell them), encoders (each with value, low,
    high, difference, p_holm, cheaper, what it costs, licence, not_made_for), against (with --reference: encoder,
    difference, p_holm, result), not_comparable, measured_on_some, not_measured, subsets_left_out, remarks (on items).

    Example: leaderboard best --language de --language tr
    """
    size = size_in_bytes(max_size)

    from harness.core.errors import InputError
    from harness.protocol.described import task_order, title_of
    from harness.protocol.languages import PIVOT, chosen_languages, languages_of, on_languages
    from harness.report.best import Question, as_json, text
    from harness.report.tables import split_sample
    from harness.results.joined import named_results, with_reference
    from harness.results.selection import select
    from harness.statistics.best import answer
    from harness.statistics.candidates import HOW_TO_MEASURE, MEASURABLE, Wishes, facts_of

    if reference is None:
        joined, asked_for = named_results(encoders or [], results, lambda: results_folder(None))
    else:
        joined, asked_for, reference = with_reference(encoders or [], reference, results, lambda: results_folder(None))
    meant = {*asked_for, *([reference] if reference else [])}
    full = [record for record in joined.records if record.base is None and record.encoder in meant]
    facts = facts_of(full, _speeds(joined))
    names, left_out = Wishes(size, min_speed, licence or "").choose(facts)
    if not names:
        reasons = ", ".join(f"{name} ({why})" for name, why in left_out.items())
        is_measurable = MEASURABLE & {*left_out.values()}
        hint = f"; `leaderboard speed` measures sizes and speeds ({HOW_TO_MEASURE})" if is_measurable else ""
        raise InputError(f"no encoder is what you wish for: {reasons}{hint}")
    everything = [record for record in full if record.encoder in names]
    chosen, _ = select(everything, task=task or ())
    averages = [record for record in chosen if record.parts]
    chosen = _on_subsets([record for record in chosen if not record.parts], averages, subset or ())
    asked = (chosen_languages(language or ()) or frozenset()) - {PIVOT}
    known = frozenset().union(*map(languages_of, everything))
    if asked and not asked & known:
        there = " ".join(sorted(known)) or "none that is known"
        raise InputError(f"no results on {' or '.join(sorted(asked))} are stored; there are some on {there}")
    chosen = on_languages(chosen, language or ())
    chosen = split_sample(chosen)[0] if chosen else []
    answers, notes = [], []
    for name in task_order(record.task for record in chosen):
        of_task = [record for record in chosen if record.task == name]
        if asked and not any(asked & languages_of(record) for record in of_task):  # on English alone
            notes.append(f"{title_of(name)}: no set on {' or '.join(sorted(asked))}")
            continue
        of_averages = [record for record in averages if record.task == name]
        statistics = joined.statistics(name, [*of_task, *of_averages])
        found = answer(name, of_task, of_averages, names, statistics, joined.origin, say, reference or "")
        if found is None:
            notes.append(f"{title_of(name)}: ranks no encoders; `leaderboard show --task {name}`")
        else:
            answers.append(found)
    if not answers:
        raise InputError(f"nothing that is stored answers this: {'; '.join(notes)}")
    folders = {name: one.root for name, one in joined.encoders.items()}
    chosen_sets = (tuple(language or ()), tuple(subset or ()))
    question = Question(*chosen_sets, joined.folders[0], facts, left_out, notes, reference or "", folders)
    typer.echo((as_json if format == "json" else text)(question, answers))


def _speeds(joined: JoinedResults) -> list[Measurement]:
    """What the folders have of speeds, under the joined names."""
    from dataclasses import replace

    from harness.speed.store import SpeedStore

    return [
        replace(one, encoder=joined.name_of(folder, one.encoder))
        for folder in joined.folders
        for one in SpeedStore(folder).load()
    ]


def _on_subsets(records: Sequence[Result], averages: Sequence[Result], names: Sequence[str]) -> list[Result]:
    """The records on these sets: by name or pattern, by the name of a stored average, or of a task's group.

    Raises:
        InputError: a name that stands for nothing that is stored.
    """
    from harness.core.errors import unknown_name
    from harness.results.selection import matches

    if not names:
        return list(records)
    chosen: set[tuple[str, str]] = set()
    known = {(record.task, record.subset) for record in records}
    for name in names:
        found = {key for key in known if matches(key[1], [name])}
        found |= {(a.task, part) for a in averages if a.subset == name for part in a.parts}
        found |= {(task, part) for task in {task for task, _ in known} for part in _group(task, name)}
        if not found & known:
            raise unknown_name("subset", name, {subset for _, subset in known} | {a.subset for a in averages})
        chosen |= found
    return [record for record in records if (record.task, record.subset) in chosen]


def _group(task: str, name: str) -> tuple[str, ...]:
    """The sets that a name stands for; none where the task knows no such name, or is not installed."""
    from harness.core.errors import HarnessError
    from harness.protocol import get_task

    try:
        return get_task(task).resolve(name)
    except HarnessError:
        return ()

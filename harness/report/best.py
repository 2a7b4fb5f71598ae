"""Which encoder is best, in words that are never stronger than the tests, and as JSON."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import isnan
from pathlib import Path

from harness.core.escaping import json_text, terminal
from harness.core.names import Subset
from harness.protocol.described import is_own, metric_of, title_of
from harness.protocol.languages import comparable, languages_of
from harness.report.cells import MISSING, p_is
from harness.report.commands import sets_options
from harness.report.detectable import points, reach
from harness.report.tables import remarks, tag_notes
from harness.resampling.power import Spread
from harness.statistics.best import Answer, Contender
from harness.statistics.candidates import HOW_TO_MEASURE, Facts

_WIDTH = 100
_LISTED, _ROWS = 6, 3
_FASTER = 1.1  # times; what is less may be the noise of measuring speed


@dataclass(frozen=True)
class Question:
    """What was asked, and what it was answered from.

    Attributes:
        languages, subsets: that were asked for; empty: all.
        results: the folder.
        facts: of all stored encoders.
        left_out: by encoder that is not what was wished for, why.
        notes: what else is to be said.
        reference: the encoder that is held against each of the others; empty: none.
        folders: by encoder, its results folder, where it is not `results`.
    """

    languages: Sequence[str]
    subsets: Sequence[str]
    results: Path
    facts: Mapping[str, Facts]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    reference: str = ""
    folders: Mapping[str, Path] = field(default_factory=dict)


def text(question: Question, answers: Sequence[Answer]) -> str:
    """The answers within 100 columns; commands may be longer."""
    lines = [line for answer in answers for line in _block(answer, question)]
    for part in _closing(question, answers):
        lines += _wrapped(part, "")
    # The tests of single sets are stored with the results, those of any mean of them are not.
    means = [answer.subsets[-1] for answer in answers if answer.without_rows and len(answer.subsets) > 1]
    try_one = f" (one set alone may be: --subset {shlex.quote(means[0])})" if means else ""
    for command in rows_commands(question, answers):
        lines += [f"not tested for want of per-item rows{try_one}; this makes them:", f"  {command}"]
    return terminal("\n".join(lines))


def _closing(question: Question, answers: Sequence[Answer]) -> list[str]:
    """What is said of all tasks together."""
    closing = []
    if question.left_out:
        closing.append(f"left out: {_listed(f'{name} ({why})' for name, why in question.left_out.items())}")
    closing.append("; ".join(note.plain for note in tag_notes(subset for a in answers for subset in a.subsets)))
    closing += question.notes
    closing += _remarks(answers)
    if any(question.facts[c.encoder].size_bytes is None for answer in answers for c in _shown(answer)[:_ROWS]):
        closing.append(
            f"{MISSING}: not known; `leaderboard speed` measures speed, size and bytes of a vector ({HOW_TO_MEASURE})"
        )
    lack = [c for answer in answers for c in answer.contenders if c.encoder in answer.without_rows]
    if objects := sorted({c.encoder for c in lack if not c.records[0].spec}):
        remedy = 'evaluate(..., save_rows="npz") keeps them'
        closing.append(f"measured through the Python API without rows: {_listed(objects)}; {remedy}")
    return closing


def _remarks(answers: Iterable[Answer]) -> list[str]:
    return remarks((r for a in answers for c in a.contenders for r in c.records), with_task=True)


def _shown(answer: Answer) -> list[Contender]:
    """Those that may be the best. Where nothing is known of that, all."""
    return [c for c in answer.contenders if not c.p < answer.alpha]


def verdict(answer: Answer, facts: Mapping[str, Facts], left_out: Collection[str] = ()) -> str:
    """What may be said of a task in one sentence; `left_out`: encoders that are not what was wished for."""
    leader, *others = answer.contenders
    first = f"{leader.encoder} ({leader.value:.1f})"
    if not others:
        if left_out:
            return f"of what fits your wishes, only {first} was measured on this: there is nothing to compare it with"
        return f"only {first} was measured on this: there is nothing to compare it with"
    found, alpha = answer.standing, answer.alpha
    equal = [c for c in others if c.encoder in found.equals]
    lower = [c for c in others if c not in equal]
    tied = [c for c in lower if c.p >= alpha]
    worse = [c for c in lower if c.p < alpha]
    untested = [c for c in lower if isnan(c.p)]
    if not answer.n_tests:
        why = "with fewer than three items there are no tests" if found.p else "not tested"
        return f"highest: {first}; {why}, so none can be called the best"
    parts = [f"highest: {first}"]
    if not (equal or tied or untested):
        return f"best of {len(answer.contenders)}: {first}, better than {_names(worse)} (p < {alpha:g})"
    if equal:
        parts.append(f"with the same value: {_names(equal)}")
    if tied:
        parts.append(f"cannot be told from it: {_listed(_with_price(c, leader, facts) for c in tied)}")
    if worse:
        parts.append(f"worse: {_names(worse)} (p < {alpha:g})")
    if untested:
        parts.append(f"not tested: {_names(untested)}")
    return "; ".join(parts)


def cheaper(encoder: str, than: str, facts: Mapping[str, Facts]) -> list[str]:
    """In what an encoder costs less than another, as far as it is known of both; speed by a tenth or more."""
    mine, other = facts[encoder], facts[than]
    words = []
    if mine.sentences_per_s and other.sentences_per_s and mine.sentences_per_s > _FASTER * other.sentences_per_s:
        words.append("faster")
    if mine.size_bytes is not None and other.size_bytes is not None and mine.size_bytes < other.size_bytes:
        words.append("smaller")
    if mine.vector_bytes and other.vector_bytes and mine.vector_bytes < other.vector_bytes:
        words.append("shorter vectors")
    return words


def lacking(contender: Contender, facts: Mapping[str, Facts]) -> list[str] | None:
    """The languages of the sets that an encoder was not made for; None where its languages are not known."""
    known = facts[contender.encoder].languages
    on = {code for record in contender.records for code in languages_of(record)}
    return None if known is None else sorted(on - known)


def rows_commands(question: Question, answers: Iterable[Answer]) -> list[str]:
    """The commands that make the rows which tests lack: one for published sets, one for the user's own."""
    commands = []
    lacks = [answer for answer in answers if answer.without_rows]
    folders = dict.fromkeys(question.folders.get(name, question.results) for a in lacks for name in a.without_rows)
    for own, folder in product((False, True), folders):
        of_kind = [a for a in lacks if is_own(a.task) is own]
        chosen = {
            c.encoder: c.records[0].spec
            for a in of_kind
            for c in a.contenders
            if c.encoder in a.without_rows and question.folders.get(c.encoder, question.results) == folder
        }
        specs = sorted(filter(None, chosen.values()))
        if not specs:
            continue
        is_sample = all(Subset.parse(s).is_sample for a in of_kind for s in a.subsets)
        records = [record for a in of_kind for c in a.contenders for record in c.records]
        data = sets_options(records) if own else ["--suite", "sample"] if is_sample else []
        options = [
            *(("--task", a.task) for a in of_kind),
            *(("--language", code) for code in question.languages),
            *(("--subset", name) for name in question.subsets),
            *(("--encoder", spec) for spec in specs),
        ]
        where = [] if own or is_sample else ['--data-dir "$HARNESS_DATA"']
        words = ["leaderboard", "run", "--save-rows", "--results", str(folder), *data]
        words += [word for option in options for word in option]
        commands.append(" ".join([shlex.join(words[:5]), *where, shlex.join(words[5:])]))
    return commands


def as_json(question: Question, answers: Sequence[Answer]) -> str:
    """The same as JSON: numbers in full precision, null where something is not known or was not tested."""
    content = {
        "languages": list(question.languages),
        "subsets": list(question.subsets),
        "results": str(question.results),
        "reference": question.reference or None,
        "tasks": [_entry(answer, question.facts, question.left_out) for answer in answers],
        "left_out": dict(question.left_out),
        "notes": list(question.notes),
        "commands": rows_commands(question, answers),
    }
    return json_text(content, indent=2)


def _entry(answer: Answer, facts: Mapping[str, Facts], left_out: Collection[str]) -> dict[str, object]:
    found = reach(map(Spread, answer.errors), answer.alpha, answer.n_tests)
    return {
        "task": answer.task,
        "metric": answer.metric,
        "subsets": list(answer.subsets),
        "n": answer.n,
        "answer": verdict(answer, facts, left_out),
        # As in tables: with untested encoders these are the best of those that were tested.
        "best": [c.encoder for c in answer.contenders if c.encoder in answer.standing.best],
        "is_tested": bool(answer.n_tests) and not answer.standing.untested,
        "alpha": answer.alpha,
        "n_tests": answer.n_tests,
        "mde_level": found.level if found else None,
        "mde_50": list(found.half) if found else None,
        "mde_80": list(found.most) if found else None,
        "mde_is_upper_bound": answer.is_bound if found else None,
        "encoders": [_contender(c, answer, facts) for c in answer.contenders],
        "against": [
            {
                "encoder": other.encoder,
                "difference": other.difference,
                "p_holm": None if isnan(other.p) else other.p,
                "result": other.outcome(answer.alpha),
            }
            for other in answer.against
        ],
        "not_comparable": {name: list(subsets) for name, subsets in answer.elsewhere.items()},
        "measured_on_some": {name: list(subsets) for name, subsets in answer.some.items()},
        "not_measured": list(answer.none),
        "subsets_left_out": list(answer.left_out),
        "remarks": _remarks([answer]),
    }


def _contender(c: Contender, answer: Answer, facts: Mapping[str, Facts]) -> dict[str, object]:
    of = facts[c.encoder]
    numbers = {"value": c.value, "low": c.low, "high": c.high, "difference": c.difference, "p_holm": c.p}
    return {
        "encoder": c.encoder,
        **{key: None if isnan(number) else number for key, number in numbers.items()},
        "cheaper": cheaper(c.encoder, answer.contenders[0].encoder, facts),
        "sentences_per_s": of.sentences_per_s,
        "size_bytes": of.size_bytes,
        "vector_bytes": of.vector_bytes,
        "licence": of.licence,
        "not_made_for": lacking(c, facts),
    }


def _block(answer: Answer, question: Question) -> list[str]:
    """The lines of one task."""
    facts = question.facts
    metric = metric_of(answer.task, answer.metric)
    sets = f"mean of {len(answer.subsets)} sets: " if len(answer.subsets) > 1 else ""
    measure = f"{title_of(answer.task)}, {metric.title or metric.heading} x 100"
    head = f"{measure}; {sets}{_listed(answer.subsets)}; {answer.n:,} items"
    lines = [*_wrapped(head, ""), *_wrapped(verdict(answer, facts, question.left_out), "  ")]
    shown = _shown(answer)
    lines += _rows(shown[:_ROWS], facts)
    if more := shown[_ROWS:]:
        lines += _wrapped(f"then {_listed(f'{c.encoder} {c.value:.1f}' for c in more)}", "  ")
    lines += _wrapped(_against(answer, question.reference, question.left_out), "  ")
    lines += _wrapped(_reach(answer), "  ")
    on = {code for contender in answer.contenders for record in contender.records for code in languages_of(record)}
    absent = [f"no set on {code}" for code in question.languages if not comparable([code]) & on]
    if answer.some:
        absent.append(f"on {_some(answer)}")
    for name, subsets in answer.elsewhere.items():
        absent.append(f"not compared, for other data or another protocol: {name} on {_listed(subsets)}")
    if answer.none:
        absent.append(f"not measured: {_listed(answer.none)}")
    if answer.left_out:
        absent.append(f"sets that too few have: {_listed(answer.left_out)}")
    lacks = [(c.encoder, lacking(c, facts)) for c in shown[:_ROWS]]
    if unfit := [f"{name} ({', '.join(codes)})" for name, codes in lacks if codes]:
        absent.append(f"not made for: {_listed(unfit)}")
    if unknown := [name for name, codes in lacks if codes is None]:
        absent.append(f"languages not known: {_listed(unknown)}")
    return [*lines, *_wrapped("; ".join(absent), "  ")]


def _against(answer: Answer, reference: str, left_out: Mapping[str, str]) -> str:
    """The encoder that was asked for, against each of the others."""
    if not reference:
        return ""
    if reference in left_out:
        return f"{reference} against each: left out ({left_out[reference]})"
    if not answer.against:
        is_alone = any(contender.encoder == reference for contender in answer.contenders)
        why = "no other was measured on all of these sets" if is_alone else "not measured on these sets"
        return f"{reference} against each: {why}"
    parts = [
        f"{other.encoder} {other.difference:+.1f} ({p_is(other.p)}, {other.outcome(answer.alpha)})"
        if not isnan(other.p)
        else f"{other.encoder} {other.difference:+.1f} (not tested)"
        for other in answer.against
    ]
    return f"{reference} against each: {'; '.join(parts)}"


def _reach(answer: Answer) -> str:
    found = reach(map(Spread, answer.errors), answer.alpha, answer.n_tests)
    if found is None:
        return ""
    tests = f"(tests at {found.level:.2g})"
    if answer.is_bound:
        # Of a range of bounds the widest holds for all.
        return f"a difference of {points((found.most[1],) * 2)} points is found in about 4 of 5 cases or more {tests}"
    usually = f"usually unseen: below {points(found.half)} points apart"
    return f"{usually}; found in 4 of 5 cases: {points(found.most)} {tests}"


def _some(answer: Answer) -> str:
    parts = [f"{len(subsets)} of these: {name}" for name, subsets in answer.some.items()]
    return _listed(parts)


def _rows(shown: Sequence[Contender], facts: Mapping[str, Facts]) -> list[str]:
    """A line an encoder: value, interval, test against the highest, and what it costs; columns as wide as need be."""
    lines = []
    for c in shown:
        of = facts[c.encoder]
        interval = "" if isnan(c.low) else f"[{c.low:.1f}, {c.high:.1f}]"
        test = "" if isnan(c.p) else p_is(c.p)
        speed = MISSING if of.sentences_per_s is None else f"{of.sentences_per_s:,.0f}/s"
        size = MISSING if of.size_bytes is None else f"{of.size_bytes / 1e6:,.0f} MB"
        vector = MISSING if of.vector_bytes is None else f"{of.vector_bytes:,} B"
        licence = of.licence or MISSING
        lines.append([c.encoder, f"{c.value:.1f}", interval, test, speed, size, vector, licence])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = (
        [
            cell.rjust(w) if i in (1, 4, 5, 6) else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    )
    return ["  " + "  ".join(text for text, w in zip(line, widths, strict=True) if w).rstrip() for line in texts]


def _with_price(contender: Contender, leader: Contender, facts: Mapping[str, Facts]) -> str:
    words = cheaper(contender.encoder, leader.encoder, facts)
    return contender.encoder + (f" ({', '.join(words)})" if words else "")


def _names(contenders: Sequence[Contender]) -> str:
    return _listed(c.encoder for c in contenders)


def _listed(texts: Iterable[str]) -> str:
    every = list(texts)
    return ", ".join(every[:_LISTED]) + (f" and {len(every) - _LISTED} more" if len(every) > _LISTED else "")


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )

"""What the gate has found: as text for a terminal, Markdown for a job summary, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import inf, isfinite, isnan
from typing import Any

from harness.core import escaping
from harness.protocol.described import metric_of, title_of
from harness.report.cells import MISSING, Cell, Column, Note, Row, Table, p_text
from harness.report.detectable import unseen
from harness.report.render import render
from harness.report.terminal import wrapped
from harness.reproduction.judge import REGRESSIONS, Judgement, Score
from harness.reproduction.render import skipped_lines

_WIDTH = 100
_MOST_ROWS = 30  # of a table in which every score is listed


def text(judgement: Judgement) -> str:
    """Tables of the scores, at most 100 columns wide; what was not judged; the verdict at the end."""
    parts = [render(table, width=_WIDTH) for table in _tables(judgement)]
    lines = [escaping.terminal("\n".join(wrapped(line, _WIDTH))) for line in _remarks(judgement)]
    last = escaping.terminal("\n".join(wrapped(verdict(judgement), _WIDTH)))
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else []), last])


def markdown(judgement: Judgement) -> str:
    """The same for the summary of a job on GitHub: the verdict first."""
    names = f"{escaping.markdown(judgement.baseline)} → {escaping.markdown(judgement.candidate)}"
    head = f"### Gate: {names}\n\n**{escaping.markdown(verdict(judgement))}**"
    remarks = "\n".join(f"- {escaping.markdown(line)}" for line in _remarks(judgement))
    return "\n\n".join(filter(None, [head, remarks, *(render(table, "md") for table in _tables(judgement))])) + "\n"


def as_json(judgements: Sequence[Judgement]) -> str:
    """Everything, in full precision; a list with an entry a baseline."""
    return escaping.json_text([_entry(judgement) for judgement in judgements], indent=2)


def verdict(judgement: Judgement) -> str:
    """One line."""
    names = f"{judgement.candidate} against {judgement.baseline}"
    n = len(judgement.scores)
    compared = f"{n} score{'' if n == 1 else 's'} compared"
    kinds = [finding.kind for finding in judgement.regressions]
    how = {
        "worse": "significantly worse",
        "drop": f"beyond --max-drop {judgement.limits.max_drop or 0:g}",
        "slower": "too slow",
        "larger": "too large",
    }
    parts = [
        f"{kinds.count(kind)} {what}" if kind in ("worse", "drop") else what
        for kind, what in how.items()
        if kind in kinds
    ]
    holes = len(judgement.holes)
    left = f"{holes} not judged" if holes else ""
    if judgement.regressions:
        return f"FAILED: {names}: {', '.join(filter(None, [*parts, left]))} ({compared})"
    alpha = f"alpha {judgement.limits.alpha:g}, Holm over {len(judgement.tested)}"
    better = sum(s.is_significant(judgement.limits.alpha) and s.drop < 0 for s in judgement.scores)
    found = [
        *(["none significantly worse"] if judgement.tested else []),
        *([f"none lower by more than {judgement.limits.max_drop:g}"] if judgement.limits.max_drop is not None else []),
        *([f"{better} significantly better"] if better else []),
    ]
    line = f"{names}: {compared}, {', '.join([*found, left] if left else found)}" + f" ({alpha})" * bool(
        judgement.tested
    )
    return f"INCOMPLETE: {line}" if holes else f"passed: {line}"


def _tables(judgement: Judgement) -> list[Table]:
    """A table for each task and metric. Of many scores those that say something: what differs, and averages."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in judgement.scores:
        groups.setdefault((score.key.task, score.metric), []).append(score)
    return [_table(judgement, task, metric, scores) for (task, metric), scores in groups.items()]


def _table(judgement: Judgement, task: str, metric: str, scores: Sequence[Score]) -> Table:
    limits = judgement.limits
    shown = list(scores)
    if len(scores) > _MOST_ROWS:
        failing = {(c.key, f.what) for c in judgement.checks for f in c.findings if f.kind in REGRESSIONS}
        fails = [s for s in scores if (s.key, s.metric) in failing]
        others = [
            s for s in scores if s not in fails and (s.is_average or s.is_significant(limits.alpha) or s.drop > 0)
        ]
        others.sort(key=lambda s: (not s.is_average, inf if isnan(s.p_holm) else s.p_holm, -s.drop))
        fails.sort(key=lambda s: (not s.is_average, inf if isnan(s.p_holm) else s.p_holm, -s.drop))
        shown = [*fails, *others[: max(_MOST_ROWS - len(fails), 0)]]  # all that fail, however many
    has_power = limits.max_drop is not None
    heads = ("baseline", "candidate", "change", "interval", "p", "finds", *(["power"] if has_power else []), "")
    columns = (Column("set", is_number=False), *(Column(head, is_number=bool(head)) for head in heads))
    rows = tuple(Row(tuple(map(Cell, _cells(score, judgement))), is_average=score.is_average) for score in shown)
    title = f"{title_of(task)}, {metric_of(task, metric).heading}: {judgement.baseline} -> {judgement.candidate}"
    left = len(scores) - len(shown)
    notes = (Note(f"{left} more scores are not shown; --format json has all"),) if left else ()
    return Table(title, columns, rows, notes)


def _cells(score: Score, judgement: Judgement) -> list[str]:
    limits, test = judgement.limits, score.test
    is_interval = test is not None and isfinite(test.low)
    power = score.power(limits.max_drop) if limits.max_drop is not None else None
    finds = score.detectable
    return [
        score.key.subset,
        f"{score.baseline:.2f}",
        f"{score.candidate:.2f}",
        f"{score.change:+.2f}",
        f"[{test.low:+.2f}, {test.high:+.2f}]" if test and is_interval else MISSING,
        p_text(score.p_holm),
        MISSING if finds is None else f"{'≥' * score.is_at_best}{finds:.2f}",
        *(
            [MISSING if power is None else f"{'≤' * score.is_at_best}{100 * power:.0f} %"]
            if limits.max_drop is not None
            else []
        ),
        outcome(score, judgement),
    ]


def outcome(score: Score, judgement: Judgement) -> str:
    """One or two words: worse, drop, better, not tested; empty where the two cannot be told apart."""
    limits = judgement.limits
    words = []
    if score.is_significant(limits.alpha):
        words.append("worse" if score.drop > 0 else "better")
    if any(
        f.kind == "drop" and f.what == score.metric for c in judgement.checks if c.key == score.key for f in c.findings
    ):
        words.append("drop")
    return ", ".join(words) or ("not tested" if score.untested else "")


def _remarks(judgement: Judgement) -> list[str]:
    """What is not in the tables: what was not judged and why, what the tests can find, what the verdict rests on."""
    both = zip((judgement.baseline, judgement.candidate), judgement.origins, strict=True)
    origins = [f"{name}: {origin}" for name, origin in both if origin]
    lines = [*origins, *judgement.notes]
    by_message: dict[str, list[str]] = {}
    for check in judgement.checks:
        for finding in check.findings:
            if finding.kind in ("slower", "larger"):
                lines.append(finding.message)
            elif finding.kind not in ("worse", "drop", "untested"):
                by_message.setdefault(finding.message, []).append("/".join(check.key[1:]))
    for score in judgement.scores:
        if score.untested:
            by_message.setdefault(f"not tested: {score.untested}", []).append("/".join(score.key[1:]))
    for message, places in by_message.items():
        names = list(dict.fromkeys(places))
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        lines.append(f"{listed}: {message}")
    lines += [f"not compared: {line}" for line in skipped_lines(judgement.checks)]
    return lines + _legend(judgement)


def _legend(judgement: Judgement) -> list[str]:
    """What the columns say, and how large a drop can be found; nothing where nothing was tested."""
    limits, n_tests = judgement.limits, len(judgement.tested)
    if not n_tests:
        return []
    power = f"; power: its probability of finding a drop of {limits.max_drop:g}" if limits.max_drop is not None else ""
    at_best = ""
    if any(score.is_at_best and score.detectable is not None for score in judgement.tested):
        at_best = "; ≥ and ≤: at best, from the error of the change that was seen; a larger change has a larger one"
    tests = [score.test for score in judgement.tested if score.test and not score.is_average]
    items = [f"{n:,}" for n in sorted({test.units for test in tests})]
    many = f"{items[0]} to {items[-1]}" if len(items) > 1 else "".join(items)
    reach = unseen(f"{many} items a set", [test.spread for test in tests], limits.alpha, n_tests)
    return [
        f"interval: {100 * (1 - limits.alpha):g} %, of the change, not corrected; p: two-sided, by randomisation of "
        f"the same items, corrected by Holm over {n_tests} test{'s' * (n_tests > 1)}; finds: the drop that the test "
        f"finds in four of five cases{power}{at_best}",
        *([reach] if reach else []),
    ]


def _entry(judgement: Judgement) -> dict[str, Any]:
    return {
        "baseline": judgement.baseline,
        "candidate": judgement.candidate,
        "baseline_is": judgement.origins[0],
        "candidate_is": judgement.origins[1],
        "verdict": verdict(judgement),
        "exit_code": judgement.exit_code,
        "limits": asdict(judgement.limits),
        "n_tests": len(judgement.tested),
        "resampling": judgement.resampling.signature,
        "scores": [_score_entry(score, judgement) for score in judgement.scores],
        "findings": [
            {"task": c.key.task, "subset": c.key.subset, "kind": f.kind, "what": f.what, "message": f.line}
            for c in judgement.checks
            for f in c.findings
        ],
        "not_compared": [
            {"task": c.key.task, "subset": c.key.subset, "why": c.skipped} for c in judgement.checks if c.skipped
        ],
        "notes": list(judgement.notes),
    }


def _score_entry(score: Score, judgement: Judgement) -> dict[str, Any]:
    test, limits = score.test, judgement.limits
    numbers = {
        "baseline": score.baseline,
        "candidate": score.candidate,
        "change": score.change,
        "low": test.low if test else None,
        "high": test.high if test else None,
        "p": test.p if test else None,
        "p_holm": score.p_holm,
        "standard_error": test.standard_error if test else None,
        "mde_80": score.detectable,
        "power": score.power(limits.max_drop) if limits.max_drop is not None else None,
    }
    return {
        "task": score.key.task,
        "subset": score.key.subset,
        "metric": score.metric,
        "is_average": score.is_average,
        "items": test.units if test else None,
        **{name: None if value is None or not isfinite(value) else value for name, value in numbers.items()},
        "mde_is_at_best": score.is_at_best,
        "outcome": outcome(score, judgement),
        "untested": score.untested,
    }

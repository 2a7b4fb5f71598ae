"""The gate: whether a candidate is worse than its baseline, from the rows of both. Measures nothing.

It asks another thing than `check`: weights may change, and scores too, as long as none is significantly lower. Every
score that both have is tested on the same items; p-values are corrected by Holm over all of them, sets and averages.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor, inf, isnan, nan

from harness.core.errors import HarnessError, InputError, one_line
from harness.protocol import get_task
from harness.protocol.described import described, metric_of, metric_order, subset_order, task_order
from harness.protocol.task import Rows, Task
from harness.report.cells import p_is
from harness.report.tables import remarks
from harness.reproduction.findings import Check, Finding, FindingKind, compare_records
from harness.reproduction.sides import Side
from harness.resampling.power import FOUR_OF_FIVE, minimum_detectable, power_of
from harness.resampling.resamples import Resampling
from harness.resampling.tests import PairedTest
from harness.results.records import RecordKey, Result
from harness.statistics.board import holm
from harness.statistics.evidence import Evidence
from harness.statistics.rows import has_rows, rows_of

REGRESSIONS: tuple[FindingKind, ...] = ("worse", "drop", "slower", "larger")
"""What makes the gate fail; findings of other kinds are holes: something could not be judged."""

_BASELINE, _CANDIDATE = "baseline", "candidate"
_ROUNDING = 1e-6
_RECORDED = 1e-4  # points; records are rounded, averages of them once more


@dataclass(frozen=True)
class Limits:
    """What a candidate may not be.

    Attributes:
        alpha: level of the tests, of the whole family.
        max_drop: points by which a score may be lower, significant or not; None: any.
        max_slowdown: how many times as long as the baseline it may take for the same texts; None: any.
        max_size: bytes of its files; None: any.
    """

    alpha: float = 0.05
    max_drop: float | None = None
    max_slowdown: float | None = None
    max_size: float | None = None


@dataclass(frozen=True)
class Score:
    """One metric of both on one set or average.

    Attributes:
        key: of the candidate's record.
        baseline, candidate: the values of the records, x 100.
        test: of candidate minus baseline; None without rows of both.
        p_holm: its p-value, corrected by Holm over all scores; NaN if it was not tested.
        level: the strictest level that Holm gives a test: alpha / number of tests.
        untested: why there is no p-value.
    """

    key: RecordKey
    metric: str
    baseline: float
    candidate: float
    is_average: bool = False
    test: PairedTest | None = None
    p_holm: float = nan
    level: float = nan
    untested: str = ""

    @property
    def change(self) -> float:
        """Candidate minus baseline, in points."""
        return self.candidate - self.baseline

    @property
    def drop(self) -> float:
        """By how many points the candidate is worse; below 0 where it is better."""
        return self.change if metric_of(self.key.task, self.metric).kind == "error" else -self.change

    @property
    def detectable(self) -> float | None:
        """The true drop that the test finds in four of five cases, see `is_at_best`; None where nothing tells it."""
        return minimum_detectable(self.test.spread, self.level, FOUR_OF_FIVE) if self.test else None

    def power(self, drop: float) -> float | None:
        """The probability with which the test finds a true drop of so many points; None where nothing tells it."""
        return power_of(drop, self.test.spread, self.level) if self.test else None

    @property
    def is_at_best(self) -> bool:
        """Whether drops may be found less often than these two say: of all that is no share of right items."""
        return self.test is not None and self.test.spread.is_at_best

    def is_significant(self, alpha: float) -> bool:
        """Whether the two differ, in either direction."""
        return self.p_holm < alpha


@dataclass(frozen=True)
class Judgement:
    """What the gate has found of one candidate and its baseline.

    Attributes:
        scores: all that were compared, in the order of the tables.
        checks: one for every set or average of the baseline, whether it could be compared or not; then one for speed
            and for size, where they are limited.
        notes: what else is to be said.
        origins: of baseline and candidate, whether what is judged is stored (since when, where) or measured now.
    """

    baseline: str
    candidate: str
    limits: Limits
    resampling: Resampling
    scores: tuple[Score, ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    origins: tuple[str, str] = ("", "")

    @property
    def tested(self) -> list[Score]:
        """The scores with a p-value."""
        return [score for score in self.scores if not isnan(score.p_holm)]

    @property
    def findings(self) -> list[Finding]:
        """All findings of all checks."""
        return [finding for check in self.checks for finding in check.findings]

    @property
    def regressions(self) -> list[Finding]:
        """What makes it fail."""
        return [finding for finding in self.findings if finding.kind in REGRESSIONS]

    @property
    def holes(self) -> list[Finding]:
        """What could not be judged though it should have been."""
        return [finding for finding in self.findings if finding.kind not in REGRESSIONS]

    @property
    def exit_code(self) -> int:
        """0 nothing is worse; 1 something is; 3 nothing is, as far as it could be judged."""
        return 1 if self.regressions else 3 if self.holes else 0


def judge(
    baseline: Side,
    candidate: Side,
    wanted: Sequence[Result],
    limits: Limits,
    metrics: Sequence[str] = (),
    resampling: Resampling | None = None,
) -> Judgement:
    """Compares both on each of these records of the baseline.

    metrics: names; by default the main metric of each task, if encoders are ranked by it.

    Raises:
        InputError: a metric that no record has, or that says nothing of better and worse; nothing can be compared; so
            many tests that with so few resamples none can be significant.
    """
    resampling = resampling or Resampling(level=1 - limits.alpha)
    chosen = _metrics(wanted, metrics)
    checks: dict[RecordKey, Check] = {}
    compared: list[tuple[RecordKey, Result, Result, list[str]]] = []
    for old in _ordered(wanted):
        if not (names := [name for name in chosen[old.task] if name in old.metrics]):
            continue
        key = old.key._replace(encoder=candidate.name)
        new = candidate.records.get((old.task, old.subset))
        check = _comparable(key, old, new, names, candidate)
        checks[key] = check
        if new is not None and not check.findings:
            compared.append((key, old, new, names))
    if checks and all(check.skipped for check in checks.values()):
        why = "; ".join(dict.fromkeys(check.skipped for check in checks.values()))
        raise InputError(
            f"nothing to compare: {why}; give --data-dir or your sets (--sets), or choose others (--suite)"
        )
    sides = (baseline, candidate)
    n_tests = sum(len(names) for _, old, _, names in compared if all(_has_rows(side, old) for side in sides))
    _refuse_too_few(resampling, n_tests, limits.alpha)  # before the tests, which may take minutes
    scores = _corrected([s for one in compared for s in _scores(*one, sides, resampling)], limits.alpha)
    for score in scores:
        found = checks[score.key]
        checks[score.key] = replace(found, findings=(*found.findings, *_findings(score, limits)))
    same = set(baseline.fingerprints) & set(candidate.fingerprints)
    notes = ["both have the same weights and options (fingerprint)"] if same else []
    if unranked := [task for task, names in chosen.items() if not names]:
        notes.append(f"not judged: {', '.join(unranked)} (a higher value is no better; --metric chooses another)")
    judged = {key.task for key in checks}
    lacking = [task for task, names in chosen.items() if names and task not in judged]
    notes += [f"not judged: {task} (has no {' or '.join(metrics)})" for task in lacking]
    places = [(old.task, subset) for _, old, _, _ in compared for subset in (old.subset, *old.parts)]
    records = [side.records[place] for place in places for side in sides if place in side.records]
    notes += remarks(records, with_task=True)
    everything = (*checks.values(), *candidate.caches)
    origins = (baseline.origin, candidate.origin)
    return Judgement(
        baseline.name, candidate.name, limits, resampling, tuple(scores), everything, tuple(notes), origins
    )


def _refuse_too_few(resampling: Resampling, n_tests: int, alpha: float) -> None:
    """Of T tests the smallest corrected p-value is T / (resamples + 1): a gate that cannot fail is none."""
    if n_tests and n_tests / (resampling.resamples + 1) >= alpha:
        raise InputError(
            f"{resampling.resamples:,} resamples are too few for any of {n_tests} corrected tests to be significant; "
            f"give --resamples {floor(n_tests / alpha + 1e-9)} or more"
        )


def _metrics(records: Iterable[Result], asked: Sequence[str]) -> dict[str, list[str]]:
    """By task, the metrics to compare."""
    by_task: dict[str, list[str]] = {}
    measured = {name for record in records for name in record.metrics}
    for name in asked:
        if name not in measured:
            raise InputError(f"no stored result of the baseline has the metric {name!r}; known: {_listed(measured)}")
    for task in task_order(record.task for record in records):
        known = described(task)
        having = metric_order(task, (name for record in records if record.task == task for name in record.metrics))
        main = known.main_metric if isinstance(known, Task) else next(iter(having), "")  # of a package that is not here
        names = list(dict.fromkeys(asked)) or [main] * (metric_of(task, main).kind in ("score", "error"))
        kinds = {name: metric_of(task, name).kind for name in names}
        unfit = [name for name, kind in kinds.items() if kind not in ("score", "error")]
        if unfit:
            raise InputError(f"a higher {unfit[0]} is neither better nor worse; choose another metric")
        by_task[task] = names
    return by_task


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:12]) + (", ..." if len(ordered) > 12 else "")


def _ordered(records: Sequence[Result]) -> list[Result]:
    by_place = {(record.task, record.subset): record for record in records}
    return [
        by_place[task, subset]
        for task in task_order(task for task, _ in by_place)
        for subset in subset_order(task, (s for t, s in by_place if t == task))
    ]


def _comparable(key: RecordKey, old: Result, new: Result | None, metrics: Sequence[str], candidate: Side) -> Check:
    """The check of a pair of records: without findings if they are of the same data and protocol."""
    if new is None:
        parts = [RecordKey(candidate.encoder, key.task, name) for name in (key.subset, *old.parts)]
        if why := next((candidate.skipped[part] for part in parts if part in candidate.skipped), ""):
            return Check(key, skipped=why)
        problem = next((candidate.problems[part] for part in parts if part in candidate.problems), None)
        absent = (
            f"missing: no result of {candidate.name}; measure it there too, or choose other sets (--task, --subset)"
        )
        return Check(key, (problem or Finding("missing", "record", absent, "stored", "–"),))
    findings = [
        replace(finding, message=f"not compared: {finding.message}")
        for finding in compare_records(old, new, dict.fromkeys(old.metrics, inf))
        if finding.kind in ("signature", "data", "n") or (finding.kind == "missing" and finding.what in metrics)
    ]
    return Check(key, tuple(findings), seconds=new.wall_time_s if not candidate.is_stored else 0.0)


def _scores(
    key: RecordKey, old: Result, new: Result, metrics: Sequence[str], sides: tuple[Side, Side], resampling: Resampling
) -> list[Score]:
    """The scores of a pair of records, tested if there are rows of both."""
    plain = [Score(key, m, old.metrics[m], new.metrics[m], bool(old.parts)) for m in metrics]
    try:
        task = get_task(key.task)
        rows = dict(zip((_BASELINE, _CANDIDATE), (_rows(side, task, old) for side in sides), strict=True))
        if without := [side for side, of_side in zip(sides, rows.values(), strict=True) if of_side is None]:
            return [replace(score, untested=_no_rows(without)) for score in plain]
        evidence = Evidence(task, {name: of_side or [] for name, of_side in rows.items()}, resampling)
        pair = (_CANDIDATE, _BASELINE)
        tests = {m: evidence.paired_tests(m, [pair])[pair] for m in metrics}
    except HarnessError as error:
        return [replace(score, untested=one_line(error)) for score in plain]
    except Exception as error:  # another package's task may fail in any way
        return [replace(score, untested=f"the task failed: {one_line(error)}") for score in plain]
    return [_with_test(score, tests[score.metric]) for score in plain]


def _with_test(score: Score, test: PairedTest) -> Score:
    """With its test, if that is of the change of the records: the record of an average is data beside its rows."""
    if abs(test.difference - score.change) > _RECORDED:
        of_rows = f"the rows of {'its sets' if score.is_average else 'both'} give {test.difference:+.2f}"
        return replace(score, untested=f"the records say {score.change:+.2f}, {of_rows}; measure again")
    return replace(score, test=test, untested=f"{test.units} items are too few" if isnan(test.p) else "")


def _has_rows(side: Side, like: Result) -> bool:
    """Whether there are rows of a set, or of each part of an average."""
    records = [side.records.get((like.task, subset)) for subset in like.parts or [like.subset]]
    try:
        return all(record is not None and has_rows(side.root, record.key) for record in records)
    except HarnessError:  # damaged; the test says so
        return False


def _rows(side: Side, task: Task, like: Result) -> list[Rows] | None:
    """The rows of a set, or of each part of an average; None unless all are there."""
    found = []
    for subset in like.parts or [like.subset]:
        record = side.records.get((like.task, subset))
        rows = rows_of(side.root, task, record) if record else None
        if rows is None:
            return None
        found.append(rows)
    return found


def _no_rows(sides: Sequence[Side]) -> str:
    """What lacks rows, and how they come here."""
    names = " and of ".join(side.name for side in sides)
    pack = " && ".join(
        shlex.join(["leaderboard", "rows", "--pack", "--results", side.root.as_posix(), "--encoder", side.encoder])
        for side in sides
    )
    return (
        f"no rows of {names}; `{pack}` where they are kept (`leaderboard run --save-rows` measures them again), and "
        "commit rows.zip with the records"
    )


def _corrected(scores: Sequence[Score], alpha: float) -> list[Score]:
    """With p-values corrected over all of them."""
    p = [score.test.p if score.test else nan for score in scores]
    n_tests = sum(not isnan(value) for value in p)
    adjusted = holm(p)
    return [replace(s, p_holm=q, level=alpha / max(n_tests, 1)) for s, q in zip(scores, adjusted, strict=True)]


def _findings(score: Score, limits: Limits) -> list[Finding]:
    values = f"{score.metric} {score.baseline:.2f} -> {score.candidate:.2f} ({score.change:+.2f})"
    found: list[tuple[FindingKind, str, str]] = []
    if score.drop > 0 and score.is_significant(limits.alpha) and score.test:
        ends = f"{100 * (1 - limits.alpha):g} % interval {score.test.low:+.2f} to {score.test.high:+.2f}"
        found.append(("worse", f"significantly worse: {values}", f"{p_is(score.p_holm)} (Holm), {ends}"))
    if limits.max_drop is not None and score.drop > limits.max_drop + _ROUNDING:
        found.append(("drop", f"more than {limits.max_drop:g} worse: {values}", _power_text(score, limits.max_drop)))
    if score.untested:
        found.append(("untested", f"not tested: {values}: {score.untested}", ""))
    return [
        Finding(kind, score.metric, message, score.baseline, score.candidate, limits.max_drop, significance)
        for kind, message, significance in found
    ]


def _power_text(score: Score, drop: float) -> str:
    """What a test would say of a drop of this size."""
    if score.untested:
        return f"not tested: {score.untested}"
    power = score.power(drop)
    if power is None:
        return p_is(score.p_holm)
    chance = f"{'at most ' * score.is_at_best}{100 * power:.0f} %"
    return f"{p_is(score.p_holm)} (Holm); the test finds a drop of {drop:g} with a probability of {chance}"

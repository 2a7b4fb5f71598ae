"""Compares records of a fresh run with stored ones and names each difference. Opens no file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

from harness.protocol.described import metric_of, metric_order, subset_order, task_order
from harness.results.records import RecordKey, Result

_Difference = Literal["score", "missing", "n", "data", "signature", "encoder", "cache", "failed"]
FindingKind = _Difference | Literal["worse", "drop", "slower", "larger", "untested"]
CACHE, SPEED, SIZE = ("cache", "vectors"), ("cost", "speed"), ("cost", "size")
"""Take the place of task and subset where not a record was checked, but an encoder's cached vectors or its cost."""

_DIGITS = 12  # of a checksum


@dataclass(frozen=True)
class Finding:
    """One difference from a stored record, or one thing that the gate does not let pass.

    Attributes:
        kind: score (beyond the tolerance); missing (no fresh record, or a metric that it lacks); n (number of
            items); data (checksums, or files that cannot be read); signature (protocol); encoder (fingerprint); cache
            (cached vectors that are not the encoder's); failed (encoder or task). Of the gate: worse (significantly);
            drop (more than is allowed); slower; larger; untested (there is no test, and no limit either).
        what: the metric, the file or whatever else differs.
        old, new: numbers of a score, else short texts.
        message: the whole finding in one line.
        tolerance, significance: of a score.
    """

    kind: FindingKind
    what: str
    message: str
    old: float | str | None = None
    new: float | str | None = None
    tolerance: float | None = None
    significance: str = ""

    @property
    def difference(self) -> float | None:
        """New minus old, of numbers."""
        if isinstance(self.old, str | None) or isinstance(self.new, str | None):
            return None
        return self.new - self.old

    @property
    def line(self) -> str:
        """The message, with the significance if there is one."""
        return f"{self.message}; {self.significance}" if self.significance else self.message


@dataclass(frozen=True)
class Check:
    """The result of checking one stored record, or the cached vectors of an encoder.

    Attributes:
        findings: what differs; empty if nothing does.
        skipped: why it could not be checked; empty if it was.
        seconds: duration of the fresh measurement.
        unheld: the metrics that the fresh record alone has: a stored one is not contradicted by what it does not hold.
    """

    key: RecordKey
    findings: tuple[Finding, ...] = ()
    skipped: str = ""
    seconds: float = 0.0
    unheld: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`ENCODER/TASK/SUBSET`."""
        return str(self.key)

    @property
    def is_cache(self) -> bool:
        """Whether cached vectors were checked, and not a record."""
        return self.key[1:] == CACHE

    @property
    def is_of_record(self) -> bool:
        """Whether a record was checked."""
        return self.key[1:] not in (CACHE, SPEED, SIZE)


def tolerances(record: Result, records: Mapping[RecordKey, Result]) -> dict[str, float]:
    """By metric, how far a repetition may differ: the record's own tolerance, else the default of the metric.

    The tolerance of an average is the mean of those of its parts, because it cannot move farther. `records` holds the
    parts.
    """
    defaults = {metric: metric_of(record.task, metric).tolerance for metric in record.metrics}
    parts = [records.get(record.key._replace(subset=part)) for part in record.parts]
    if parts and None not in parts:
        widths = [tolerances(part, records) for part in parts if part is not None]
        return {m: fsum(w.get(m, defaults[m]) for w in widths) / len(widths) for m in record.metrics}
    return {m: float(record.tolerance.get(m, defaults[m])) for m in record.metrics}


def compare_records(old: Result, new: Result, allowed: Mapping[str, float]) -> list[Finding]:
    """What differs between a stored record and a fresh one; `allowed` is the tolerance of each metric."""
    findings = []
    if new.fingerprint != old.fingerprint:
        findings.append(_changed("encoder", "fingerprint", old.fingerprint, new.fingerprint))
    if new.signature != old.signature:
        findings.append(_changed("signature", "signature", old.signature, new.signature))
    elif new.task_version != old.task_version:  # the signature has it too: by hand
        findings.append(_changed("signature", "task version", old.task_version, new.task_version))
    if _checksums(new) != _checksums(old):
        findings += _changed_files(old, new)
    if new.n != old.n:
        findings.append(Finding("n", "n", f"n {old.n:,} -> {new.n:,}", old.n, new.n))
    if not old.metrics:
        findings.append(Finding("missing", "scores", "missing: the stored record has no scores", "none"))
    for metric in metric_order(old.task, old.metrics):
        before, width = old.metrics[metric], allowed[metric]
        if metric not in new.metrics:
            findings.append(
                Finding("missing", metric, f"missing: {metric} is no longer measured (it was {before:.4f})", before)
            )
        # Records are rounded to six decimals: what is that far off by rounding alone is within.
        elif not abs(new.metrics[metric] - before) <= width + 1e-6:
            after = new.metrics[metric]
            how = f"{after - before:+.4f}, tolerance {width:g}"
            findings.append(
                Finding("score", metric, f"{metric} {before:.4f} -> {after:.4f} ({how})", before, after, width)
            )
    return findings


def check_records(
    stored: Sequence[Result],
    fresh: Iterable[Result],
    problems: Mapping[RecordKey, Finding] | None = None,
    skipped: Mapping[RecordKey, str] | None = None,
    everything: Iterable[Result] = (),
) -> list[Check]:
    """Compares each stored record with the fresh one of the same key, in the order of the tables.

    Args:
        problems: by key, why there is no fresh record.
        skipped: by key, why a record was not measured and need not be; an average is skipped with any of its parts.
        everything: further records, among which the parts of averages are looked up.
    """
    problems, skipped = problems or {}, skipped or {}
    records = {result.key: result for result in [*everything, *stored]}
    by_key = {result.key: result for result in fresh}
    checks = []
    for old in _ordered(stored):
        key = old.key
        new = by_key.get(key)
        parts = [key._replace(subset=part) for part in old.parts]
        why = next((skipped[k] for k in (key, *parts) if k in skipped), "")
        if new is not None:
            findings = compare_records(old, new, tolerances(old, records))
            unheld = metric_order(new.task, new.metrics.keys() - old.metrics.keys())
            checks.append(Check(key, tuple(findings), seconds=new.wall_time_s, unheld=tuple(unheld)))
        elif why and not any(part in problems for part in parts):
            checks.append(Check(key, skipped=why))
        else:
            checks.append(Check(key, (problems.get(key) or _missing(old, by_key),)))
    return checks


def with_significance(check: Check, texts: Mapping[str, str]) -> Check:
    """The check with the significance (`texts`, by metric) of each score that is beyond its tolerance."""
    findings = (replace(f, significance=texts.get(f.what, "")) if f.kind == "score" else f for f in check.findings)
    return replace(check, findings=tuple(findings))


def differing(old: str, new: str) -> tuple[str, str]:
    """The parts that two signatures or fingerprints do not share; `;` and `|` separate parts."""
    old_parts, new_parts = (re.split(r"[;|]", text) for text in (old, new))
    return (
        "|".join(part for part in old_parts if part not in new_parts) or "–",
        "|".join(part for part in new_parts if part not in old_parts) or "–",
    )


def _changed(kind: FindingKind, what: str, old: str, new: str) -> Finding:
    before, after = differing(old, new)
    return Finding(kind, what, f"{what} {old!r} -> {new!r}", before, after)


def _checksums(result: Result) -> tuple[str, dict[str, str]]:
    return result.dataset.sha256, result.dataset.files


def _changed_files(old: Result, new: Result) -> list[Finding]:
    before, after = old.dataset.files, new.dataset.files
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    if not names:  # an average with changed parts; the same files in another order
        return [_changed_file("dataset", old.dataset.sha256, new.dataset.sha256)]
    return [_changed_file(name, before.get(name), after.get(name)) for name in names]


def _changed_file(name: str, old: str | None, new: str | None) -> Finding:
    before, after = (text[:_DIGITS] if text else "not there" for text in (old, new))
    return Finding("data", name, f"data: {name}: sha256 {before} -> {after}", before, after)


def _missing(old: Result, fresh: Mapping[RecordKey, Result]) -> Finding:
    gone = [part for part in old.parts if old.key._replace(subset=part) not in fresh]
    message = "missing: no fresh record" + (f" of {', '.join(gone)}" if gone else "")
    return Finding("missing", "record", message, "stored", "–")


def _ordered(results: Sequence[Result]) -> list[Result]:
    tasks = task_order(result.task for result in results)
    place = {
        (task, subset): number
        for task in tasks
        for number, subset in enumerate(subset_order(task, (r.subset for r in results if r.task == task)))
    }
    return sorted(results, key=lambda r: (r.encoder, tasks.index(r.task), place[r.task, r.subset]))

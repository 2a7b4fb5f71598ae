"""The result of a check as text, as JUnit XML, and as annotations of GitHub Actions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from harness.core import escaping
from harness.report.cells import MISSING, Cell, Column, Note, Row, Table
from harness.report.render import render
from harness.reproduction.findings import Check, Finding

_HEADS = ("record", "kind", "what", "old", "new", "change", "significance")
_LOG_WIDTH = 200  # of a log, where a table in several blocks is hard to read
_NUMBERS = ("old", "new", "change")


def text(checks: Sequence[Check]) -> str:
    """A table of the findings, if there are any; then what was skipped or is not held; the verdict in the last line."""
    parts = []
    if failed := [check for check in checks if check.findings]:
        rows = tuple(_row(check, finding) for check in failed for finding in check.findings)
        columns = tuple(Column(head, is_number=head in _NUMBERS) for head in _HEADS)
        table = Table("What differs from the stored records", columns, rows, tuple(map(Note, _notes(failed))))
        parts.append(render(table, width=None if sys.stdout.isatty() else _LOG_WIDTH))
    if skipped := skipped_lines(checks):
        lines = ["Not checked:", *(f"  {escaping.visible(line)}" for line in skipped)]
        parts.append(escaping.terminal("\n".join(lines)))
    if unheld := _unheld_lines(checks):
        head = "Not in the stored records, so held against nothing (`leaderboard run --fresh` stores it):"
        parts.append(escaping.terminal("\n".join([head, *(f"  {escaping.visible(line)}" for line in unheld)])))
    return "\n\n".join([*parts, verdict(checks)])


def verdict(checks: Sequence[Check]) -> str:
    """One line: how many records agree, fail (with the number of findings of each kind), and were skipped."""
    failed = [check for check in checks if check.findings]
    n_agree = sum(not (check.findings or check.skipped or check.is_cache) for check in checks)
    n_skipped = sum(bool(check.skipped) for check in checks)
    if not failed:
        return f"passed: {n_agree} agree, 0 fail, {n_skipped} not checked"
    n_failed = sum(not check.is_cache for check in failed)
    kinds = Counter(finding.kind for check in failed for finding in check.findings)
    listed = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    fail = f"{n_failed} record{' fails' if n_failed == 1 else 's fail'} (findings: {listed})"
    return f"FAILED: {n_agree} agree, {fail}, {n_skipped} not checked"


def junit(checks: Sequence[Check], command: str = "leaderboard check") -> str:
    """A test suite per encoder, a test case per record (`classname` ENCODER.TASK, `name` the subset).

    It follows the schema that Jenkins and most other readers take: `failure` has the kinds as its `type`, `skipped`
    the reason.
    """
    root = ElementTree.Element("testsuites", {"name": command, **_counts(checks)})
    for encoder in dict.fromkeys(check.key.encoder for check in checks):
        of_encoder = [check for check in checks if check.key.encoder == encoder]
        suite = ElementTree.SubElement(root, "testsuite", {"name": escaping.visible(encoder), **_counts(of_encoder)})
        for check in of_encoder:
            name, task, subset = map(escaping.visible, check.key)
            case = {"classname": f"{name}.{task}", "name": subset, "time": f"{check.seconds:.3f}"}
            element = ElementTree.SubElement(suite, "testcase", case)
            if check.findings:
                lines = [escaping.visible(finding.line) for finding in check.findings]
                failure = ElementTree.SubElement(element, "failure", type=_kinds(check), message=lines[0])
                failure.text = "\n".join(lines)
            elif check.skipped:
                ElementTree.SubElement(element, "skipped", message=escaping.visible(check.skipped))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def github(checks: Sequence[Check], stored_in: Path | None, encoder: str = "") -> str:
    """An `::error` line per record that fails, at the file that holds it. (GitHub shows the first ten of a step.)

    encoder: whose records those are, if not those of the checks: what the gate finds is set beside the baseline's.
    """
    lines = []
    for check in checks:
        if check.findings:
            location = ""
            if stored_in and check.is_of_record:
                file = stored_in / "records" / (encoder or check.key.encoder) / f"{check.key.task}.json"
                location = f"file={escaping.annotation_property(file.as_posix())},"
            message = "\n".join(finding.line for finding in check.findings)
            title = escaping.annotation_property(f"{check.name}: {_kinds(check)}")
            lines.append(f"::error {location}title={title}::{escaping.annotation(message)}")
    return "\n".join(lines)


def _kinds(check: Check) -> str:
    return " ".join(dict.fromkeys(finding.kind for finding in check.findings))


def _row(check: Check, finding: Finding) -> Row:
    change = finding.difference
    signed = MISSING if change is None else f"{change:+.4f}" if finding.kind == "score" else f"{change:+,}"
    values = (_value(finding, finding.old), _value(finding, finding.new), signed)
    texts = (check.name, finding.kind, finding.what, *values, finding.significance or MISSING)
    return Row(tuple(map(Cell, texts)))


def _value(finding: Finding, value: float | str | None) -> str:
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value
    return f"{value:,}" if finding.kind == "n" else f"{value:.4f}"


def _notes(failed: Sequence[Check]) -> list[str]:
    """The messages that have no place in a cell, once each; then what the column `significance` says."""
    findings = [finding for check in failed for finding in check.findings]
    notes = list(dict.fromkeys(f.message for f in findings if f.kind in ("cache", "failed") or f.what == "files"))
    if any(finding.significance for finding in findings):
        notes.append(
            "significance: p of the paired test on the old and new per-item rows; without old rows, whether the old "
            "value is in the 95 % interval of the new one. A change can be insignificant and a regression all the same."
        )
    if any(finding.significance.startswith("p ") for finding in findings):
        notes.append("p-values are not corrected for their number")
    return notes


def skipped_lines(checks: Sequence[Check]) -> list[str]:
    """One line per encoder, task and reason, with the names of all subsets."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for check in checks:
        if check.skipped:
            groups.setdefault((check.key.encoder, check.key.task, check.skipped), []).append(check.key.subset)
    return [
        f"{encoder} {task}: {len(names)} record{'s' if len(names) > 1 else ''}, {why}: {' '.join(names)}"
        for (encoder, task, why), names in groups.items()
    ]


def _unheld_lines(checks: Sequence[Check]) -> list[str]:
    """One line per encoder, task and metric that stored records lack, with the number of these."""
    counts = Counter((check.key.encoder, check.key.task, metric) for check in checks for metric in check.unheld)
    return [
        f"{encoder} {task}: {metric}, {n} record{'s' if n > 1 else ''}" for (encoder, task, metric), n in counts.items()
    ]


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    return {
        "tests": str(len(checks)),
        "failures": str(sum(bool(check.findings) for check in checks)),
        "errors": "0",
        "skipped": str(sum(bool(check.skipped) for check in checks)),
        "time": f"{sum(check.seconds for check in checks):.3f}",
    }

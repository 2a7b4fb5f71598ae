"""The outcome of a check as text, as JUnit XML, and as annotations of GitHub Actions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from harness.core import escaping
from harness.report.cells import MISSING, Cell, Column, Note, Row, Table
from harness.report.render import render
from harness.reproduction.findings import Checked, Finding

_HEADS = ("record", "kind", "what", "old", "new", "change", "significance")
_LOG_WIDTH = 200  # of a log, where a table in several blocks is hard to read
_NUMBERS = ("old", "new", "change")


def text(checked: Sequence[Checked]) -> str:
    """A table of what differs, if something does; what was skipped; and the verdict in the last line."""
    parts = []
    if failed := [one for one in checked if one.findings]:
        rows = tuple(_row(one, finding) for one in failed for finding in one.findings)
        columns = tuple(Column(head, is_number=head in _NUMBERS) for head in _HEADS)
        table = Table("What differs from the stored records", columns, rows, tuple(map(Note, _notes(failed))))
        parts.append(render(table, width=None if sys.stdout.isatty() else _LOG_WIDTH))
    if skipped := _skipped(checked):
        lines = ["Not checked:", *(f"  {escaping.visible(line)}" for line in skipped)]
        parts.append(escaping.terminal("\n".join(lines)))
    return "\n\n".join([*parts, verdict(checked)])


def verdict(checked: Sequence[Checked]) -> str:
    """One line: how many records agree, fail, with how many findings of each kind, and were skipped."""
    failed = [one for one in checked if one.findings]
    agree = [one for one in checked if not one.findings and not one.skipped and not one.is_cache]
    n_skipped = sum(bool(one.skipped) for one in checked)
    kinds = Counter(finding.kind for one in failed for finding in one.findings)
    if not failed:
        return f"passed: {len(agree)} agree, 0 fail, {n_skipped} not checked"
    n = sum(not one.is_cache for one in failed)
    listed = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    fail = f"{n} record{' fails' if n == 1 else 's fail'} (findings: {listed})"
    return f"FAILED: {len(agree)} agree, {fail}, {n_skipped} not checked"


def junit(checked: Sequence[Checked]) -> str:
    """A test suite an encoder, a test case a record (`classname` ENCODER.TASK, `name` the subset).

    After the schema that Jenkins and most other readers take: `failure` with the kinds as its `type`, `skipped` with
    the reason.
    """
    root = ElementTree.Element("testsuites", {"name": "leaderboard check", **_counts(checked)})
    for encoder in dict.fromkeys(one.key[0] for one in checked):
        of_encoder = [one for one in checked if one.key[0] == encoder]
        suite = ElementTree.SubElement(root, "testsuite", {"name": escaping.visible(encoder), **_counts(of_encoder)})
        for one in of_encoder:
            _, task, subset = (escaping.visible(part) for part in one.key)
            names = {"classname": f"{escaping.visible(encoder)}.{task}", "name": subset, "time": f"{one.seconds:.3f}"}
            case = ElementTree.SubElement(suite, "testcase", names)
            if one.findings:
                kinds = " ".join(dict.fromkeys(finding.kind for finding in one.findings))
                lines = [escaping.visible(finding.line) for finding in one.findings]
                ElementTree.SubElement(case, "failure", type=kinds, message=lines[0]).text = "\n".join(lines)
            elif one.skipped:
                ElementTree.SubElement(case, "skipped", message=escaping.visible(one.skipped))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def github(checked: Sequence[Checked], against: Path) -> str:
    """An `::error` line a record that fails, at the file that holds it. (GitHub shows the first ten of a step.)"""
    lines = []
    for one in checked:
        if one.findings:
            encoder, task, _ = one.key
            kinds = " ".join(dict.fromkeys(finding.kind for finding in one.findings))
            file = (against / "records" / encoder / f"{task}.json").as_posix()
            at = f"file={escaping.annotation_property(file)}," if not one.is_cache else ""
            message = "\n".join(finding.line for finding in one.findings)
            title = escaping.annotation_property(f"{one.name}: {kinds}")
            lines.append(f"::error {at}title={title}::{escaping.annotation(message)}")
    return "\n".join(lines)


def _row(one: Checked, finding: Finding) -> Row:
    change = finding.difference
    signed = MISSING if change is None else f"{change:+.4f}" if finding.kind == "score" else f"{change:+,}"
    cells = (
        one.name,
        finding.kind,
        finding.what,
        _value(finding, finding.old),
        _value(finding, finding.new),
        signed,
        finding.significance or MISSING,
    )
    return Row(tuple(Cell(cell) for cell in cells))


def _value(finding: Finding, value: float | str | None) -> str:
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value
    return f"{value:,}" if finding.kind == "n" else f"{value:.4f}"


def _notes(failed: Sequence[Checked]) -> tuple[str, ...]:
    """What a table's cell cannot say, once each; and the words of the column `significance`."""
    found = [finding for one in failed for finding in one.findings]
    notes = list(dict.fromkeys(f.message for f in found if f.kind in ("cache", "failed") or f.what == "files"))
    if any(finding.significance for finding in found):
        notes.append(
            "significance: p of the paired test on the old and new per-item rows; without old rows, whether the old "
            "value is in the 95 % interval of the new one. A change can be insignificant and a regression all the same."
        )
    if any(finding.significance.startswith("p ") for finding in found):
        notes.append("p-values are not corrected for their number")
    return tuple(notes)


def _skipped(checked: Sequence[Checked]) -> list[str]:
    """One line an encoder, task and reason, with the names of all subsets."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in checked:
        if one.skipped:
            encoder, task, subset = one.key
            groups.setdefault((encoder, task, one.skipped), []).append(subset)
    return [
        f"{encoder} {task}: {len(names)} record{'s' if len(names) > 1 else ''}, {why}: {' '.join(names)}"
        for (encoder, task, why), names in groups.items()
    ]


def _counts(checked: Sequence[Checked]) -> dict[str, str]:
    return {
        "tests": str(len(checked)),
        "failures": str(sum(bool(one.findings) for one in checked)),
        "errors": "0",
        "skipped": str(sum(bool(one.skipped) for one in checked)),
        "time": f"{sum(one.seconds for one in checked):.3f}",
    }

"""Where records come from, in words: commits, machines, versions, dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.core import escaping
from harness.core.provenance import GitState
from harness.protocol.described import task_order
from harness.report.cells import Cell, Column, Row, Table
from harness.report.markdown import markdown_grid
from harness.report.tables import short_fingerprint
from harness.results.records import Result

_HARDWARE = {"processor": "{}", "cores": "{} cores", "memory_gib": "{} GiB", "device": "device {}"}


def provenance(results: Sequence[Result]) -> list[str]:
    """Weights, commit, machine and date: a table with a row for each way of measuring an encoder; its notes."""
    groups: dict[tuple[str, str, str, str, str, str], list[Result]] = {}
    for r in results:
        key = (
            r.encoder,
            r.fingerprint,
            r.spec,
            commit_text(r.git),
            hardware_text(r.hardware),
            versions_text(r.versions),
        )
        groups.setdefault(key, []).append(r)
    hardware = sorted({key[4] for key in groups} - {""})
    versions = sorted({key[5] for key in groups} - {""})
    rows = []
    for (encoder, fingerprint, spec, commit, machine, packages), group in sorted(groups.items()):
        cells = (
            Cell(encoder),
            Cell(short_fingerprint(fingerprint)),
            Cell(spec or None),
            Cell(", ".join(task_order(r.task for r in group))),
            Cell(commit or None),
            Cell(_days(r.created for r in group)),
            Cell(f"H{hardware.index(machine) + 1}" if machine else None),
            Cell(f"V{versions.index(packages) + 1}" if packages else None),
        )
        rows.append(Row(cells))
    heads = ("encoder", "fingerprint", "spec", "tasks", "commit", "created", "hardware", "versions")
    columns = tuple(Column(head, is_number=False) for head in heads)
    notes = [
        "- fingerprint: of weights and options; a long one is cut, and what follows `#` is from its sha256",
        "- commit: of the harness; (changed): its code was changed since",
        *(f"- H{i}: {escaping.markdown(text)}" for i, text in enumerate(hardware, start=1)),
        *(f"- V{i}: {escaping.markdown(text)}" for i, text in enumerate(versions, start=1)),
    ]
    return [markdown_grid(Table("Provenance", columns, tuple(rows))), "\n".join(notes)]


def commit_text(git: GitState | None) -> str:
    """The start of a commit, and whether the code was changed since; empty outside a checkout."""
    return git.commit[:7] + (" (changed)" if git.dirty else "") if git else ""


def hardware_text(hardware: Mapping[str, object]) -> str:
    """Processor, cores, memory and device in one line, then what else is known."""
    known = [form.format(hardware[key]) for key, form in _HARDWARE.items() if key in hardware]
    other = [f"{key} {hardware[key]}" for key in sorted(hardware.keys() - _HARDWARE.keys())]
    return ", ".join(known + other)


def versions_text(versions: Mapping[str, str]) -> str:
    """Names with versions, Python first."""
    names = sorted(versions, key=lambda name: (name != "python", name))
    return ", ".join(f"{name} {versions[name]}" for name in names)


def _days(created: Iterable[str]) -> str | None:
    days = sorted({moment[:10] for moment in created} - {""})
    if not days:
        return None
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"

"""One stored record: its name, and all it takes to trace and repeat it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from harness.errors import InputError, unknown_name
from harness.names import split_tag
from harness.report.layout import SAMPLE, metric_order
from harness.results import Result


def record_id(result: Result) -> str:
    """`ENCODER/TASK/SUBSET`, by which a record is named on the command line."""
    return f"{result.encoder}/{result.task}/{result.subset}"


def find_record(results: Iterable[Result], name: str) -> Result:
    """The record of that name. Raises InputError, with the nearest names, if there is none."""
    by_name = {record_id(result): result for result in results}
    if name not in by_name:
        raise unknown_name("record (ENCODER/TASK/SUBSET)", name, by_name)
    return by_name[name]


def show_record(results: Iterable[Result], name: str, format: str) -> str:
    """A record as text (`table`) or `json`. Raises InputError for another format, or if there is no such record."""
    if format not in ("table", "json"):
        raise InputError(f"a record is shown as table or json, not as {format}")
    found = find_record(results, name)
    return as_json(found) if format == "json" else as_text(found)


def command(result: Result) -> str | None:
    """The command line that measures it; None where the record names no spec string."""
    if not result.spec:
        return None
    words = ["leaderboard", "run", "--encoder", result.spec, "--task", result.task, "--subset", result.subset]
    if split_tag(result.subset)[1] == SAMPLE:
        words += ["--suite", "sample"]
    device = result.hardware.get("device", "cpu")
    if device != "cpu":
        words += ["--device", device]
    return shlex.join(words)


def as_json(result: Result) -> str:
    """The record with its `id` and `command`."""
    entry = {"id": record_id(result), "command": command(result), **asdict(result)}
    return json.dumps(entry, indent=2, ensure_ascii=False)


def as_text(result: Result) -> str:
    """The same as lines of a name and a value."""
    lines: list[tuple[str, object]] = [
        ("record", record_id(result)),
        ("command", command(result) or "none: an encoder object was measured from Python"),
        ("repeat", f"leaderboard rerun {shlex.quote(record_id(result))}"),
        ("measured", result.created or "unknown"),
        ("commit", commit(result)),
        *(("score", f"{name} {result.metrics[name]}") for name in metric_order(result.task, result.metrics)),
        ("n", result.n),
        ("signature", result.signature),
        ("fingerprint", result.fingerprint),
        *([("average of", " ".join(result.parts))] if result.parts else []),
        ("zero vectors", result.zero_vectors),
        ("data", f"{result.dataset.get('name', 'unknown')}, {_state(result)}"),
        ("data sha256", result.dataset.get("sha256", "unknown")),
        *(("file sha256", f"{digest}  {name}") for name, digest in result.dataset.get("files", {}).items()),
        *(("version", f"{name} {version}") for name, version in result.versions.items()),
        *(("hardware", f"{name} {value}") for name, value in result.hardware.items()),
        ("time", f"{result.wall_time_s} s, {_speed(result)}, peak memory {result.peak_memory_mb} MB"),
        *(("tolerance", f"{name} {value}") for name, value in result.tolerance.items()),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def commit(result: Result) -> str:
    """The commit of the harness that measured it."""
    if not result.git:
        return f"unknown, release {result.versions.get('multilingual-embedding-harness', 'unknown')}"
    return str(result.git.get("commit")) + (", with changes that are not in it" if result.git.get("dirty") else "")


def differences(old: Result, new: Result) -> list[tuple[str, str, str]]:
    """In what other ways than scores two measurements differ: (what, old, new), "–" for what one of them lacks."""
    pairs: list[tuple[str, Any, Any]] = [
        ("commit", commit(old), commit(new)),
        *_by_key("version of ", old.versions, new.versions),
        *_by_key("hardware: ", old.hardware, new.hardware),
        *_by_key("sha256 of ", old.dataset.get("files", {}), new.dataset.get("files", {})),
        ("signature", old.signature, new.signature),
        ("fingerprint", old.fingerprint, new.fingerprint),
        ("spec", old.spec, new.spec),
        ("zero vectors", old.zero_vectors, new.zero_vectors),
    ]
    return [(what, str(before), str(after)) for what, before, after in pairs if before != after]


def _by_key(prefix: str, old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(prefix + key, old.get(key, "–"), new.get(key, "–")) for key in dict.fromkeys([*old, *new])]


def _state(result: Result) -> str:
    published = result.dataset.get("published")
    return (
        "the published files" if published else "not the published files" if published is False else "no pinned files"
    )


def _speed(result: Result) -> str:
    return f"{result.sentences_per_s:,.0f} sentences/s" if result.sentences_per_s else "speed not recorded"

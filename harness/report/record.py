"""Shows one stored record with all that it takes to trace and repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import isnan
from pathlib import Path

from harness.core import escaping
from harness.core.errors import InputError, unknown_name
from harness.core.names import Subset
from harness.encoders.reduction import Reduced
from harness.protocol.described import is_own, metric_order, subset_order
from harness.report.commands import sets_options
from harness.results.records import Result
from harness.results.statistics import Statistics, StatisticsStore


def find_record(results: Iterable[Result], name: str) -> Result:
    """The record of that name. Raises InputError, with the nearest names or the task's subsets, if there is none."""
    by_name = {str(result.key): result for result in results}
    if name in by_name:
        return by_name[name]
    subsets = [result.subset for result in by_name.values() if f"{result.encoder}/{result.task}" == name.rstrip("/")]
    if subsets:
        listed = ", ".join(subset_order(name.rstrip("/").split("/")[1], subsets))
        raise InputError(f"unknown record (ENCODER/TASK/SUBSET) {name!r}; add one of its subsets: {listed}")
    raise unknown_name("record (ENCODER/TASK/SUBSET)", name, by_name)


def show_record(results: Iterable[Result], name: str, format: str, root: Path) -> str:
    """A record as text (`table`) or `json`, with the intervals of its scores.

    root: the results folder that `results` are from.

    Raises:
        InputError: another format, no such record, or a file of statistics that holds something else.
    """
    if format not in ("table", "json"):
        raise InputError(f"a record is shown as table or json, not as {format}")
    record = find_record(results, name)
    statistics = StatisticsStore(root).of([record])[record.task]
    return as_json(record, statistics, root) if format == "json" else as_text(record, statistics, root)


def command(result: Result, root: Path) -> str | None:
    """The command line that measures a record again into `root`; None if the record names no spec string.

    Of a set of the user's own it names the files, as far as the record tells them, and not where they are.
    """
    if not result.spec:
        return None
    words = ["leaderboard", "run", "--encoder", result.spec, "--task", result.task, "--subset", result.subset]
    if Subset.parse(result.subset).is_sample:
        words += ["--suite", "sample"]
    words += _own_sets(result)
    device = result.hardware.get("device", "cpu")
    if device not in ("cpu", "remote"):  # a server's is not chosen here
        words += ["--device", str(device)]
    if result.threads not in (None, result.hardware.get("cores")):  # they were chosen
        words += ["--threads", str(result.threads)]
    return shlex.join([*words, "--results", str(root), "--fresh"])


def _own_sets(result: Result) -> list[str]:
    return sets_options([result]) if is_own(result.task) else []


def as_json(result: Result, statistics: Statistics, root: Path) -> str:
    """The record as JSON, with `id`, `command` and the `intervals` by metric."""
    intervals = _intervals(result, statistics)
    entry = {"id": str(result.key), "command": command(result, root), **asdict(result), "intervals": intervals}
    return escaping.json_text(entry, indent=2)


def as_text(result: Result, statistics: Statistics, root: Path) -> str:
    """The record as lines of a name and a value."""
    intervals = {
        metric: f", {100 * statistics.level:g} % interval [{low}, {high}]"
        for metric, (low, high) in _intervals(result, statistics).items()
    }
    lines: list[tuple[str, object]] = [
        ("record", str(result.key)),
        ("command", command(result, root) or "none: an encoder object was measured from Python"),
        ("repeat", shlex.join(["leaderboard", "rerun", str(result.key), *_own_sets(result), "--results", str(root)])),
        ("measured", result.created or "unknown"),
        ("commit", commit(result)),
        *(
            ("score", f"{name} {result.metrics[name]}{intervals.get(name, '')}")
            for name in metric_order(result.task, result.metrics)
        ),
        ("n", result.n),
        *(("left out", f"{n:,} {what}") for what, n in result.left_out.items()),
        *(("note", text) for text in result.remarks),
        ("signature", result.signature),
        ("fingerprint", result.fingerprint),
        *((f"of {side}", text) for side, text in (asdict(result.sides) if result.sides else {}).items()),
        *([("vectors", _reduced(result.base, result.reduced))] if result.base and result.reduced else []),
        *([("average of", " ".join(result.parts))] if result.parts else []),
        ("zero vectors", result.zero_vectors),
        ("data", f"{result.dataset.name}, {_state(result)}"),
        ("data sha256", result.dataset.sha256),
        *(("file sha256", f"{digest}  {name}") for name, digest in result.dataset.files.items()),
        *(("version", f"{name} {version}") for name, version in result.versions.items()),
        *(("hardware", f"{name} {value}") for name, value in result.hardware.items()),
        *([("threads", result.threads)] if result.threads else []),
        *(("condition", f"{name} {value}") for name, value in result.conditions.items()),
        *(("usage", f"{name} {value:,.12g}") for name, value in result.usage.items()),
        ("time", f"{result.wall_time_s} s, {_speed(result)}"),
        *(("tolerance", f"{name} {value}") for name, value in result.tolerance.items()),
    ]
    width = max(len(name) for name, _ in lines)
    return escaping.terminal("\n".join(f"{name:<{width}}  {escaping.visible(str(value))}" for name, value in lines))


def commit(result: Result) -> str:
    """The commit of the harness that measured it."""
    if not result.git:
        return f"unknown, release {result.versions.get('multilingual-embedding-harness', 'unknown')}"
    return result.git.commit + (", with changes that are not in it" if result.git.dirty else "")


def differences(old: Result, new: Result) -> list[tuple[str, str, str]]:
    """What differs between two measurements other than scores: (what, old, new), "–" for a missing value."""
    pairs: list[tuple[str, object, object]] = [
        ("commit", commit(old), commit(new)),
        *_by_key("version of ", old.versions, new.versions),
        *_by_key("hardware: ", old.hardware, new.hardware),
        ("threads", old.threads or "–", new.threads or "–"),
        *_by_key("condition: ", old.conditions, new.conditions),
        *_by_key("sha256 of ", old.dataset.files, new.dataset.files),
        ("signature", old.signature, new.signature),
        ("fingerprint", old.fingerprint, new.fingerprint),
        *_by_key("fingerprint of ", *(asdict(result.sides) if result.sides else {} for result in (old, new))),
        ("spec", old.spec, new.spec),
        ("zero vectors", old.zero_vectors, new.zero_vectors),
    ]
    return [(what, str(before), str(after)) for what, before, after in pairs if before != after]


def _by_key(prefix: str, old: Mapping[str, object], new: Mapping[str, object]) -> list[tuple[str, object, object]]:
    return [(prefix + key, old.get(key, "–"), new.get(key, "–")) for key in dict.fromkeys([*old, *new])]


def _intervals(result: Result, statistics: Statistics) -> dict[str, tuple[float, float]]:
    entry = statistics.entry(result)
    known = entry.interval if entry else {}
    return {metric: ends for metric, ends in known.items() if metric in result.metrics and not isnan(ends[0])}


def _reduced(base: str, done: Reduced) -> str:
    return (
        f"{done.dim:,} of {done.full_dim:,} dimensions of {base}, quantize {done.quantize}, {done.vector_bytes:,} bytes"
    )


def _state(result: Result) -> str:
    """Describes its data files. For a stand-in, `published` means that the files have the pinned checksums."""
    published = result.dataset.published
    if published is None:
        return "no pinned files"
    tags = {Subset.parse(name).tag for name in result.parts or [result.subset]}
    stand_ins = ", ".join(sorted(tags - {""}))
    if not stand_ins:
        files = "the published files"
    else:
        # A joined set has several data sets and one tag.
        is_mixed = "" in tags or (not result.parts and "+" in result.dataset.name)
        files = ("the published files and " if is_mixed else "") + f"pinned files of a stand-in ({stand_ins})"
    return files if published else f"not {files}"


def _speed(result: Result) -> str:
    return f"{result.sentences_per_s:,.0f} sentences/s" if result.sentences_per_s else "speed not recorded"

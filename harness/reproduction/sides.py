"""The two sides of the gate: an encoder's records, and where its rows are; from a results folder, or measured now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core.errors import InputError, one_line
from harness.encoders.registry import check_spec, failures_in_one_line
from harness.encoders.spec import Spec
from harness.reproduction.findings import Check, Finding
from harness.reproduction.repeat import Options, measure_again
from harness.results.named import StoredEncoder
from harness.results.records import RecordKey, Result
from harness.running.plan import Progress
from harness.running.suite import Request, load, measure_and_store, prepare


@dataclass(frozen=True)
class Side:
    """What is known of one of the two encoders.

    Attributes:
        name: as it is printed.
        root: the results folder, with rows.
        records: by task and subset; `encoder` of each is the name in the folder.
        is_stored: whether the folder is the user's, and not a temporary one of this command.
        spec: the spec string that was loaded, if it is not stored.
        problems: by key, why a set that was to be measured has no record.
        skipped: by key, why it need not have one.
        caches: checks of cached vectors.
    """

    name: str
    root: Path
    records: Mapping[tuple[str, str], Result]
    is_stored: bool = True
    problems: Mapping[RecordKey, Finding] = field(default_factory=dict)
    skipped: Mapping[RecordKey, str] = field(default_factory=dict)
    caches: tuple[Check, ...] = ()
    spec: str = ""

    @property
    def encoder(self) -> str:
        """The name in the folder."""
        return next((record.encoder for record in self.records.values()), self.name)

    @property
    def origin(self) -> str:
        """Whether its results are stored, since when and where, or measured now."""
        if not self.is_stored:
            return "measured now"
        days = sorted({record.created[:10] for record in self.records.values()} - {""})
        when = f"measured {' to '.join(dict.fromkeys((days[0], days[-1])))}, " if days else ""
        return f"stored, {when}in {self.root.as_posix()}"

    @property
    def fingerprints(self) -> Collection[str]:
        """Of the weights and options of its records."""
        return {record.fingerprint for record in self.records.values()}


def stored_side(found: StoredEncoder) -> Side:
    """The side of an encoder with stored results: nothing is loaded."""
    return Side(found.name, found.root, {(r.task, r.subset): r for r in found.records})


def measured_like(spec: str, records: Sequence[Result], folder: Path, options: Options, progress: Progress) -> Side:
    """The side of an encoder that is loaded and measured on the sets of these records (with the parts of averages).

    Args:
        folder: takes its records and rows.
        options: of these, `specs` and `trusted` are set here.

    Raises:
        HarnessError: a spec string that is none; a failure that has nothing to do with a set, or that all sets share.
    """
    name = check_spec(spec).stored_name
    wanted = [replace(record, encoder=name, spec="", base=None, reduced=None) for record in records]
    options = replace(options, specs={name: spec}, trusted=frozenset([spec]), must_load=frozenset([name]))
    fresh = measure_again(wanted, folder, options, progress)
    if fresh.problems and not fresh.results:
        raise InputError(f"{spec}: {next(iter(fresh.problems.values())).message}")
    found = {(r.task, r.subset): r for r in fresh.results}
    return Side(name, folder, found, False, fresh.problems, fresh.skipped, tuple(fresh.caches), spec)


def measured_as_asked(request: Request, folder: Path, progress: Progress) -> Side:
    """The side of one encoder that is loaded and measured on what the request names; `folder` as above.

    Raises:
        HarnessError: as `run_suite`; more than one encoder, or one that cannot be loaded.
    """
    run, (encoder,), plan = prepare(replace(request, results=folder), progress)
    name = encoder.stored_name if isinstance(encoder, Spec) else encoder.name
    with failures_in_one_line(name):
        measured, spec, modules = load(encoder, run, request.defaults)
    outcome = measure_and_store(run, plan, measured, spec, modules)
    if not outcome.results:
        raise InputError(f"{name} has failed on all that is asked for: {one_line(outcome.failures[0].error)}")
    problems = {
        f.key: Finding("failed", "encoder", f"failed: {one_line(f.error)}", "stored", "failed")
        for f in outcome.failures
    }
    return Side(name, folder, {(r.task, r.subset): r for r in outcome.results}, False, problems)

"""What a reader of a table must know about single encoders: records that are not of one piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from harness.results.records import Result


def footnotes(results: Sequence[Result]) -> dict[str, list[str]]:
    """Encoder -> what sets its records apart: several fingerprints, or another protocol or other data than the rest.

    Signatures are compared within a task, data within a subset; the most frequent one is what the rest has.
    """
    notes: dict[str, list[str]] = {}
    usual_signature = {
        task: _most_frequent(r.signature for r in results if r.task == task) for task in {r.task for r in results}
    }
    data: dict[tuple[str, str], list[str]] = {}
    for result in results:
        data.setdefault((result.task, result.subset), []).append(result.dataset.sha256)
    usual_data = {key: _most_frequent(digests) for key, digests in data.items()}
    for encoder in sorted({result.encoder for result in results}):
        own = [result for result in results if result.encoder == encoder]
        texts = []
        fingerprints = sorted({shorten(result.fingerprint) for result in own})
        if len(fingerprints) > 1:
            texts.append(f"{encoder}: measured with {len(fingerprints)} fingerprints: {', '.join(fingerprints)}")
        for signature in sorted({r.signature for r in own if r.signature != usual_signature[r.task]}):
            subsets = [r.subset for r in own if r.signature == signature]
            texts.append(f"{encoder}: another protocol than the rest on {_listed(subsets)}: {signature}")
        other = [r.subset for r in own if r.dataset.sha256 != usual_data[(r.task, r.subset)]]
        if other:
            texts.append(f"{encoder}: other data than the rest on {_listed(other)}")
        if texts:
            notes[encoder] = texts
    return notes


def shorten(fingerprint: str) -> str:
    """A fingerprint in at most 33 characters; its start and, after `#`, the start of its sha256: no two look alike."""
    if len(fingerprint) <= 33:
        return fingerprint
    return f"{fingerprint[:24]}#{sha256(fingerprint.encode(errors='backslashreplace')).hexdigest()[:8]}"


def _most_frequent(values: Iterable[str]) -> str:
    listed = list(values)
    return min(set(listed), key=lambda value: (-listed.count(value), value))


def _listed(subsets: Sequence[str]) -> str:
    return ", ".join(subsets[:8]) + (f" and {len(subsets) - 8} more" if len(subsets) > 8 else "")

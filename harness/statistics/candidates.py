"""What is known of encoders beside their scores, and choosing among them by it. Imports no NumPy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.core.errors import HarnessError
from harness.encoders.info import EncoderInfo
from harness.encoders.registry import encoder_info
from harness.encoders.spec import parse_spec
from harness.protocol.languages import comparable
from harness.results.records import Result
from harness.speed.store import Measurement, choose

_NO_SIZE, _NO_SPEED = "size not known", "speed not known"
MEASURABLE = frozenset({_NO_SIZE, _NO_SPEED})
"""Reasons for which `leaderboard speed` is the remedy."""

HOW_TO_MEASURE = "about a minute for a fast encoder; `--repeats 1` is quicker"
"""How long `leaderboard speed` takes, wherever it is named as the remedy."""

COMMERCIAL = "commercial"
"""In place of an SPDX identifier: all that allow commercial use."""

# Open licences that allow it. What is not here (CC-BY-NC, "research only", a licence of its own) is not taken for one.
_OPEN = (
    "0bsd",
    "agpl-*",
    "apache-*",
    "bsd-*",
    "bsl-1.0",
    "cc-by-[1-9].*",
    "cc-by-sa-*",
    "cc0-*",
    "cdla-permissive-*",
    "eupl-*",
    "gpl-*",
    "isc",
    "lgpl-*",
    "mit",
    "mit-0",
    "mpl-*",
    "odc-by-*",
    "pddl-*",
    "unlicense",
    "zlib",
)


@dataclass(frozen=True)
class Facts:
    """What is known of an encoder; None where it is not.

    Attributes:
        sentences_per_s: of texts of medium length, many at a time, measured as most others were (`is_usual`).
        size_bytes: of the files that it is loaded from.
        vector_bytes: that a vector takes where it is stored.
        licence: of the weights.
        languages: that it was made for, ISO 639 codes.
        measured: what speed, size and bytes are of, and whose setup the speed has.
    """

    encoder: str
    sentences_per_s: float | None = None
    size_bytes: int | None = None
    vector_bytes: int | None = None
    licence: str | None = None
    languages: frozenset[str] | None = None
    measured: Measurement | None = None


def facts_of(records: Sequence[Result], measured: Iterable[Measurement]) -> dict[str, Facts]:
    """By encoder, what is known of it.

    Only measurements of the weights of the scores count, and only speeds of the setup and texts that most have.
    Licence and languages are those of the alias in the record's spec.
    """
    fingerprints = {(record.encoder, record.fingerprint) for record in records}
    of_scores = [one for one in measured if (one.encoder, one.fingerprint) in fingerprints]
    chosen, usual = choose(of_scores, fingerprints)
    facts = {}
    for encoder, spec in sorted({record.encoder: record.spec for record in records}.items()):
        one, info = chosen.get(encoder), _info(spec)
        many = one.cell("own") if one and usual and one.conditions == usual.conditions else None
        facts[encoder] = Facts(
            encoder,
            many.sentences_per_s.median if many else None,
            one.size_bytes if one else None,
            one.vector_bytes if one else None,
            info.licence if info else None,
            comparable(info.languages) if info and info.languages else None,
            one,
        )
    return facts


def _info(spec: str) -> EncoderInfo | None:
    """What an alias says of itself; None for a model of the user's own (`KIND:LOCATION`), or a package not here."""
    try:
        parsed = parse_spec(spec) if spec else None
        return encoder_info(parsed.head) if parsed and parsed.location is None else None
    except HarnessError:
        return None


def not_commercial(facts: Mapping[str, Facts]) -> dict[str, str]:
    """By encoder, the licence of its weights, where that is known and not one of those that allow commercial use."""
    return {name: of.licence for name, of in facts.items() if of.licence and not allows_commercial_use(of.licence)}


@dataclass(frozen=True)
class Wishes:
    """What an encoder must have to be chosen.

    Attributes:
        max_size: bytes of its files at most.
        min_speed: sentences a second at least.
        licence: `commercial`, or an SPDX identifier or pattern (`Apache-*`); empty: any.
    """

    max_size: float | None = None
    min_speed: float | None = None
    licence: str = ""

    def refusal(self, facts: Facts) -> str:
        """Why an encoder is left out, in words; empty if it is not. What is not known is left out."""
        if self.max_size is not None and (facts.size_bytes is None or facts.size_bytes > self.max_size):
            return _NO_SIZE if facts.size_bytes is None else f"{facts.size_bytes / 1e6:,.0f} MB"
        speed = facts.sentences_per_s
        if self.min_speed is not None and (speed is None or speed < self.min_speed):
            return _NO_SPEED if speed is None else f"{speed:,.0f} sentences/s"
        if self.licence and not _is_licensed(facts.licence, self.licence):
            return facts.licence or "licence not known"
        return ""

    def choose(self, facts: Mapping[str, Facts]) -> tuple[list[str], dict[str, str]]:
        """The encoders that are left, and by encoder that is not, why."""
        refusals = {name: self.refusal(of) for name, of in facts.items()}
        return [name for name, why in refusals.items() if not why], {n: why for n, why in refusals.items() if why}


def _is_licensed(licence: str | None, wanted: str) -> bool:
    if licence is None:
        return False
    if wanted.lower() == COMMERCIAL:
        return allows_commercial_use(licence)
    return fnmatchcase(licence.lower(), wanted.lower())


def allows_commercial_use(licence: str) -> bool:
    """Whether an SPDX expression is one of well-known open licences that allow commercial use.

    Of several with AND each must be, of several with OR one. Nothing is said of the data that a model was trained on.
    """
    parts = re.split(r"\s+OR\s+", licence.strip("() "))
    return any(all(map(_is_open, re.split(r"\s+AND\s+", part))) for part in parts)


def _is_open(identifier: str) -> bool:
    name = identifier.strip("() ").partition(" WITH ")[0].lower()
    return any(fnmatchcase(name, pattern) for pattern in _OPEN)

"""What is known of encoders beside scores, and choosing by it."""

from __future__ import annotations

import pytest
from result_records import record
from speeds import measurement

from harness.statistics.candidates import Facts, Wishes, allows_commercial_use, facts_of


@pytest.mark.parametrize(
    ("licence", "is_allowed"),
    [
        ("Apache-2.0", True),
        ("MIT", True),
        ("bsd-3-clause", True),
        ("CC-BY-4.0", True),
        ("CC-BY-SA-3.0", True),
        ("GPL-3.0-only WITH Classpath-exception-2.0", True),
        ("MIT OR CC-BY-NC-4.0", True),
        ("(MIT AND Apache-2.0)", True),
        ("CC-BY-NC-4.0", False),
        ("CC-BY-NC-SA-4.0", False),
        ("CC-BY-NC-ND-4.0", False),
        ("MIT AND CC-BY-NC-4.0", False),
        ("LicenseRef-research-only", False),
        ("mit but not for money", False),
        ("", False),
    ],
)
def test_licences_that_allow_commercial_use(licence: str, is_allowed: bool) -> None:
    assert allows_commercial_use(licence) is is_allowed
    assert (not Wishes(licence="commercial").refusal(Facts("x", licence=licence))) is is_allowed


def test_what_is_not_known_is_left_out_and_named() -> None:
    known = Facts("x", 900.0, 200_000_000, 1024, "Apache-2.0")
    assert Wishes(2e8, 900, "apache-*").refusal(known) == ""
    assert Wishes(1.9e8).refusal(known) == "200 MB" and Wishes(min_speed=901).refusal(known) == "900 sentences/s"
    assert Wishes(licence="MIT").refusal(known) == "Apache-2.0"
    reasons = [Wishes(1e9).refusal(Facts("y")), Wishes(min_speed=1).refusal(Facts("y"))]
    assert reasons == ["size not known", "speed not known"]
    assert Wishes(licence="commercial").refusal(Facts("y")) == "licence not known" and not Wishes().refusal(Facts("y"))


def test_facts_are_those_of_the_weights_of_the_scores() -> None:
    results = [
        record("muse", "sts17", "en-en", {"spearman": 1.0}, spec="muse?batch_size=8"),
        record("mine", "sts17", "en-en", {"spearman": 1.0}, spec="sentence-transformers:DIR"),
        record("gone", "sts17", "en-en", {"spearman": 1.0}, spec="no-such-alias"),
        record("object", "sts17", "en-en", {"spearman": 1.0}, spec=""),
    ]
    measured = [measurement("muse", 0.001), measurement("mine", 0.1, fingerprint="other")]
    facts = facts_of(results, measured)
    assert facts["muse"].licence == "Apache-2.0" and {"de", "tr", "en"} <= (facts["muse"].languages or set())
    laser = facts_of([record("laser", "tatoeba", "nob", {}, spec="laser")], [])["laser"]
    assert {"de", "no"} <= (laser.languages or set())  # its list says nb, others say no
    assert facts["muse"].sentences_per_s == pytest.approx(1000) and facts["muse"].size_bytes
    for name in ("mine", "gone", "object"):
        assert facts[name] == Facts(name)

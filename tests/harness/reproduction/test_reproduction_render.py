"""The outcome of a check as JUnit XML and as GitHub annotations, read back by what is not the code's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from harness.reproduction.findings import CACHE, Check, Finding
from harness.reproduction.render import github, junit, text, verdict
from harness.results.records import RecordKey

SCORE = Finding("score", "spearman", "spearman 80 -> 79 (-1)", 80.0, 79.0, 0.05, "p 0.012")
DATA = Finding("data", "a.txt", "data: a.txt: sha256 1 -> 2", "1", "2")
HOSTILE = Finding("failed", "encoder", "100 %: <b>&\x00\x1b[0m]]>, 'a'\r\nsecond: line", "stored", "failed")
VISIBLE = "100 %: <b>&\\x00\\x1b[0m]]>, 'a'\\r\nsecond: line"  # an annotation may have lines
CHECKED = [
    Check(RecordKey("muse", "sts17", "en-en"), seconds=1.25),
    Check(RecordKey("muse", "sts17", "es-es"), (SCORE, DATA), seconds=2.0),
    Check(RecordKey("muse", "tatoeba", "deu"), skipped="no tatoeba data here"),
    Check(RecordKey("x", "bucc", "de-en@ntrex"), (HOSTILE,)),
    Check(RecordKey("x", *CACHE), (Finding("cache", "vectors", "cache: 1 of 2", "2", "1 stale"),)),
]


def test_junit_has_what_its_readers_count() -> None:
    root = ElementTree.fromstring(junit(CHECKED).encode())
    assert root.tag == "testsuites"
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("5", "3", "0", "1")
    suites = root.findall("testsuite")
    assert [(s.get("name"), s.get("tests"), s.get("failures"), s.get("skipped")) for s in suites] == [
        ("muse", "3", "1", "1"),
        ("x", "2", "2", "0"),
    ]
    assert float(root.get("time", "")) == 3.25
    for suite in suites:
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.get("tests", ""))
        assert len(suite.findall("testcase/failure")) == int(suite.get("failures", ""))
        assert len(suite.findall("testcase/skipped")) == int(suite.get("skipped", ""))
        assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
        # The schema's attributes and children, no others.
        assert all(set(case.attrib) == {"classname", "name", "time"} for case in cases)
        assert {child.tag for case in cases for child in case} <= {"failure", "skipped"}
    failure = suites[0].find("testcase[@name='es-es']/failure")
    assert failure is not None and failure.get("type") == "score data"
    assert failure.get("message") == "spearman 80 -> 79 (-1); p 0.012"
    assert (failure.text or "").splitlines() == ["spearman 80 -> 79 (-1); p 0.012", "data: a.txt: sha256 1 -> 2"]


def test_junit_of_a_message_with_what_xml_does_not_have() -> None:
    failure = ElementTree.fromstring(junit(CHECKED).encode()).find(".//testsuite[@name='x']/testcase/failure")
    assert failure is not None and r"100 %: <b>&\x00\x1b[0m]]>, 'a'\r\nsecond: line" in (failure.text or "")


def test_github_annotations_parse_back() -> None:
    lines = github(CHECKED, Path("results")).splitlines()
    assert len(lines) == 3
    for line, (file, title, message) in zip(
        lines,
        [
            ("results/records/muse/sts17.json", "muse/sts17/es-es: score data", f"{SCORE.line}\n{DATA.line}"),
            ("results/records/x/bucc.json", "x/bucc/de-en@ntrex: failed", VISIBLE),
            (None, "x/cache/vectors: cache", "cache: 1 of 2"),
        ],
        strict=True,
    ):
        # As the runner reads it: the command ends at the first `::` after it, properties at commas.
        command, _, data = line.removeprefix("::error ").partition("::")
        properties = dict(item.split("=", 1) for item in command.split(","))
        assert properties.get("file") == file
        assert unquote(properties["title"]) == title
        assert unquote(data) == message


def test_github_properties_with_what_separates_them() -> None:
    """A folder whose name has the characters that end a property, or begin an escape."""
    [line] = github([Check(RecordKey("x", "bucc", "de-en"), (DATA,))], Path("a,b:c%41")).splitlines()
    assert line.startswith("::error file=a%2Cb%3Ac%2541/records/x/bucc.json,title=x/bucc/de-en%3A data::")


def test_no_failure_no_annotation() -> None:
    assert github(CHECKED[:1], Path("results")) == ""


def test_what_is_said_of_p_values_is_said_once() -> None:
    note = "p-values are not corrected for their number"
    with_p = Check(RecordKey("muse", "sts17", "ar-ar"), (SCORE, SCORE))
    assert text([*CHECKED, with_p]).splitlines().count(note) == 1
    in_interval = replace(SCORE, significance="old value in [75.8, 81.7]")
    assert note not in text([Check(RecordKey("muse", "sts17", "ar-ar"), (in_interval,))])
    assert note not in text([Check(RecordKey("muse", "sts17", "ar-ar"), (DATA,))])


def test_text_ends_with_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    counts = "1 agree, 2 records fail (findings: 1 cache, 1 data, 1 failed, 1 score), 1 not checked"
    assert verdict(CHECKED) == f"FAILED: {counts}"
    one_record = "1 agree, 1 record fails (findings: 1 data, 1 score), 0 not checked"
    assert verdict(CHECKED[:2]) == f"FAILED: {one_record}"
    printed = text(CHECKED).splitlines()
    assert printed[-1] == verdict(CHECKED)
    [head] = [line for line in printed if line.startswith("record ")]
    assert head.split() == ["record", "kind", "what", "old", "new", "change", "significance"]
    [row] = [line for line in printed if line.startswith("muse/sts17/es-es") and "score" in line]
    assert row.split() == ["muse/sts17/es-es", "score", "spearman", "80.0000", "79.0000", "-1.0000", "p", "0.012"]
    assert "  muse tatoeba: 1 record, no tatoeba data here: deu" in printed
    newer = [Check(RecordKey("muse", "tatoeba", name), unheld=("recall_at_10",)) for name in ("deu", "nld")]
    newer.append(Check(RecordKey("muse", "sts17", "en-en"), unheld=("kendall", "\x1b[2J")))
    lines = text(newer).splitlines()
    assert lines[0] == "Not in the stored records, so held against nothing (`leaderboard run --fresh` stores it):"
    assert lines[1:3] == ["  muse tatoeba: recall_at_10, 2 records", "  muse sts17: kendall, 1 record"]
    assert "\x1b" not in lines[3] and lines[-1] == "passed: 3 agree, 0 fail, 0 not checked"
    good_cache = Check(RecordKey("muse", *CACHE))  # is no record
    assert text([*CHECKED[:1], good_cache]) == "passed: 1 agree, 0 fail, 0 not checked"

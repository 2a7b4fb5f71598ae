"""`leaderboard cite`: BibTeX that a real parser reads, for all that was used."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from command_line import one_line_error
from result_records import record, write_records

from baselines.adapters import citations as of_encoders
from harness.core.bibtex import entries
from harness.core.escaping import bibtex_comment
from harness.data.catalogue import catalogue
from harness.data.citations import references
from harness.encoders.registry import encoder_info, encoder_names
from harness.report.citations import Cited, bibtex
from harness.results.records import Dataset, Result
from harness.tasks import all_tasks

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = Path(__file__).parents[3]
FILES = (ROOT / "harness/data/references.bib", ROOT / "baselines/adapters/encoders.bib")
# What cites nothing: kinds, whose models are the user's; the lexical floor, which is a part of the harness.
WITHOUT = {
    "chargrams",
    "compact",
    "mean-pooling",
    "mteb",
    "onnx",
    "openai",
    "python",
    "sentence-transformers",
    "static",
}
WITHOUT |= {"tfhub"}


def parsed(text: str) -> dict[str, dict[str, str]]:
    """Fields by key, as BibTeX itself would read the file."""
    database = pytest.importorskip("pybtex.database")
    found = database.parse_string(text, "bibtex")  # raises where two entries have one key
    return {key: {**entry.fields, "authors": str(len(entry.persons["author"]))} for key, entry in found.entries.items()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_our_entries_are_bibtex(file: Path) -> None:
    text = file.read_text("utf-8")
    read = parsed(text)
    assert read.keys() == entries(text).keys() and len(read) > 10
    for key, fields in read.items():
        assert fields["title"] and int(fields["authors"]) and re.fullmatch(r"(19|20)\d\d", fields["year"]), key
        assert fields["year"] in key
        assert "doi" in fields or "url" in fields or "eprint" in fields, key
        assert re.fullmatch(r"10\.\d{4,}/\S+", fields.get("doi", "10.0000/x")), key


def test_no_key_is_in_both_files_and_every_entry_is_used() -> None:
    keys = [set(entries(file.read_text("utf-8"))) for file in FILES]
    assert not keys[0] & keys[1]
    offered = [task.cite for task in all_tasks()] + [each.cite for each in catalogue().values()]
    offered += [encoder_info(name).cite for name in encoder_names()]
    used = {key for cite in offered for key in entries("\n".join(cite))}
    assert used == keys[0] | keys[1]


def test_every_task_data_set_and_alias_has_a_citation() -> None:
    assert {task.name for task in all_tasks() if not task.cite} == {"scored"}
    assert {name for name, each in catalogue().items() if not each.cite} == set()
    assert {name for name in encoder_names() if not encoder_info(name).cite} == WITHOUT
    with pytest.raises(KeyError):
        of_encoders.cited("no-such-key")


def test_the_harness_is_cited_as_its_citation_file_says(leaderboard: Leaderboard) -> None:
    yaml = pytest.importorskip("yaml")
    facts = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    read = parsed(leaderboard("cite", "--encoder", "chargrams").stdout)
    ours, paper = read["multilingual-embedding-harness"], read["reimers-gurevych-2020-making"]
    assert (ours["title"], ours["version"]) == (facts["title"], facts["version"]) and facts["version"] == version(
        "multilingual-embedding-harness"
    )
    preferred = facts["preferred-citation"]
    assert (paper["title"], paper["doi"], int(paper["year"])) == (preferred["title"], preferred["doi"], 2020)
    assert paper["pages"] == f"{preferred['start']}--{preferred['end']}"


def test_what_results_rest_on(leaderboard: Leaderboard, tmp_path: Path) -> None:
    def result(encoder: str, spec: str, task: str, subset: str, data: str) -> Result:
        return record(encoder, task, subset, {"x": 1.0}, spec=spec, dataset=Dataset(data, "0" * 64, {}))

    write_records(
        tmp_path / "results",
        [
            result("mine", "sentence-transformers:BAAI/bge-m3", "bucc", "de-en", "bucc2018"),
            result("unknown", "sentence-transformers:me/model", "bucc", "de-en", "bucc2018"),
            result("muse", "muse", "pairs", "faq", "faq"),
            result("muse", "muse", "sts17", "en-en@sample", "sts17"),
            result("gone", "no-such-kind:x", "no-such-task", "x", "x"),
        ],
    )
    done = leaderboard("cite")
    assert done.returncode == 0, done.stderr
    assert parsed(done.stdout).keys() == {
        "multilingual-embedding-harness",
        "reimers-gurevych-2020-making",  # of sts17, too
        "zweigenbaum-etal-2018-overview",
        "artetxe-schwenk-2019-margin",
        "yang-etal-2020-multilingual",
        "chen-etal-2024-m3",
    }
    comments = done.stdout.splitlines()
    assert "% the harness; task sts17" in comments
    assert "% encoder mine (sentence-transformers:BAAI/bge-m3)" in comments
    assert comments[-6:] == [
        "% no citation known: task no-such-task",
        "% your own, or another package's: data set faq",
        "% a part of the harness: the bundled sample",
        "% your own, or another package's: data set x",
        "% no citation known: encoder gone (no-such-kind:x)",
        "% no citation known: encoder unknown (sentence-transformers:me/model)",
    ]


def test_a_choice_needs_no_results(leaderboard: Leaderboard) -> None:
    done = leaderboard("cite", "--task", "sts17", "--encoder", "labse", "--encoder", "openai:text?name=a@b")
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert parsed(done.stdout).keys() == {
        "multilingual-embedding-harness",
        "reimers-gurevych-2020-making",
        "cer-etal-2017-semeval",
        "feng-etal-2022-language",
    }
    assert done.stdout.splitlines()[-1] == "% no citation known: encoder a(at)b (openai:text)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no stored results"),
        (("--task", "sts"), "did you mean 'sts17'"),
        (("--encoder", "musee"), "did you mean 'muse'"),
        (("--encoder", ""), "neither ALIAS nor KIND"),
    ],
)
def test_what_is_wrong_is_one_line(leaderboard: Leaderboard, arguments: tuple[str, ...], message: str) -> None:
    assert message in one_line_error(leaderboard("cite", *arguments))


@pytest.mark.parametrize("cite", [None, [1], "@misc{a,}", 5, [None]])
def test_another_packages_field_may_hold_anything(cite: Any) -> None:
    shown = bibtex([Cited("task other", cite), Cited("task other", cite), *[Cited("task good")] * 2])
    assert [line.partition(": task ")[2] for line in shown.splitlines()] == ["other", "good"]
    assert (
        bibtex([Cited("encoder x", ["@misc{a,}", "@misc{b,}"])]) == "% encoder x\n@misc{a,}\n\n% encoder x\n@misc{b,}"
    )


HOSTILE = ["@misc{a, title = {b}", "@misc{, title = {b}}", "@a", "mail me@example.org", "@misc{a,}\n@misc{a,}"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="BibTeX entr"):
        entries(text)
    shown = bibtex([Cited("task other", (text,)), Cited("task good", ("@misc{good, title = {{x}},}",))])
    assert parsed(shown.replace("@misc{good, ", "@misc{good, author = {A}, ")).keys() == {"good"}
    assert "no citation known (" in shown


def test_entries_come_out_as_they_are_written() -> None:
    one, other = "@misc{a:b.c/d+1,\n title = {{x} @ {y}},\n}", '@article {e , title = "t"}'
    assert entries(f"text {one} more text\n{other}\n") == {"a:b.c/d+1": one, "e": other}
    assert bibtex_comment("a@b\n::x\x1b[2J") == "% a(at)b\\n::x\\x1b[2J"
    assert references().keys() >= {"thakur-etal-2021-beir"}

"""How sets are given again: the options that records tell open sets of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.data.given import Recorded, options_for
from harness.data.own import Options, open_set, own_data

DE_TR = ("de", "tr")


def recorded(task: str, subset: str, *files: str, languages: Sequence[str] = DE_TR) -> Recorded:
    return Recorded(task, (subset,), files, tuple(languages))


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([recorded("pairs", "faq", "faq.de-tr.tsv")], "--pairs faq.de-tr.tsv"),
        ([recorded("pairs", "faq", "faq.tsv")], "--pairs faq.tsv --src-lang de --trg-lang tr"),
        ([recorded("pairs", "faq", "faq.tsv", languages=["de"])], "--pairs faq.tsv --src-lang de --trg-lang de"),
        ([recorded("pairs", "mine", "faq.de-tr.tsv")], "--pairs faq.de-tr.tsv --set-name mine"),
        ([recorded("pairs", "faq", "faq.de", "faq.tr")], "--pairs faq.de,faq.tr"),
        ([recorded("scored", "near", "near.de-tr.csv")], "--scored near.de-tr.csv"),
        ([recorded("pairs", "faq.de-tr", "faq.de-tr.tsv")], "--pairs faq.de-tr.tsv --set-name faq.de-tr"),
        (
            [recorded("pairs", "faq.de-tr", "faq.de-tr.tsv"), recorded("pairs", "faq.de-en", "faq.de-en.tsv")],
            "--pairs faq.de-tr.tsv --pairs faq.de-en.tsv",
        ),
        (
            [Recorded("pairs", ("faq.de-tr", "faq.de-en"), ("faq.de-tr.tsv", "faq.de-en.tsv"), ("de", "tr", "en"))],
            "--pairs faq.de-tr.tsv --pairs faq.de-en.tsv",
        ),
        (
            [recorded("pairs", "faq", "faq.de-tr.tsv"), recorded("scored", "near", "near.de-tr.tsv")],
            "--pairs faq.de-tr.tsv --scored near.de-tr.tsv",
        ),
    ],
)
def test_the_options_open_the_same_sets(
    records: list[Recorded], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = options_for(records)
    assert found == words.split()
    monkeypatch.chdir(tmp_path)
    options = dict(zip(found[::2], found[1::2], strict=True))
    languages = (options["--src-lang"], options["--trg-lang"]) if "--src-lang" in options else ()
    for each in records:
        for file in each.files:
            Path(f"{file}.gz").touch()  # as records name it, without `.gz`
    given = Options(name=options.get("--set-name", ""), languages=languages)
    kinds = {"--pairs": "pairs", "--scored": "scored"}
    sets = [open_set(kinds[o], value, given) for o, value in zip(found[::2], found[1::2], strict=True) if o in kinds]
    assert {each.subset for each in own_data(sets).sets} == {name for each in records for name in each.subsets}


@pytest.mark.parametrize(
    "records",
    [
        [recorded("retrieval", "kb", "corpus.jsonl", "queries.jsonl", "test.tsv")],
        [recorded("pairs", "data", "data (in memory)")],
        [recorded("pairs", "faq")],
        [recorded("pairs", "a", "-x.de-tr.tsv")],
        [recorded("pairs", "a", "faq.de-tr.tsv"), recorded("pairs", "b", "shop.de-tr.tsv")],
        [recorded("pairs", "a", "a.tsv"), recorded("pairs", "b", "b.tsv")],
        [recorded("pairs", "a", "a.de-tr.tsv"), recorded("retrieval", "kb", "corpus.jsonl")],
    ],
)
def test_what_names_of_files_do_not_tell_is_left_open(records: list[Recorded]) -> None:
    assert options_for(records) is None

"""How sets are given again: the options that records tell open sets of the same names."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.columns import columns_of, columns_protocol
from harness.data.given import Recorded, options_for
from harness.data.own import Options, has_named_columns, open_set, own_data
from harness.data.sources import joint_sha256
from harness.protocol.task import common_signature

DE_TR = ("de", "tr")
SIGNATURE = "task:own|metric:own"


def recorded(
    task: str, subset: str, *files: str, languages: Sequence[str] = DE_TR, columns: Sequence[str] = ()
) -> Recorded:
    """As a record has them: sorted; `files` in the order in which they were given."""
    checksums = {name: hashlib.sha256(name.encode()).hexdigest() for name in files}
    is_table = any(map(has_named_columns, files))
    signature = "|".join([SIGNATURE, *([columns_protocol(columns)] if is_table else [])])
    return Recorded(
        task, (subset,), dict(sorted(checksums.items())), tuple(languages), joint_sha256(checksums), signature
    )


def table(name: str, *columns: str) -> Recorded:
    return recorded("pairs", name, f"{name}.de-tr.csv", columns=columns)


def averaged(task: str, of: Sequence[Recorded], languages: Sequence[str]) -> Recorded:
    signature = common_signature(each.signature for each in of)
    files = {name: digest for each in of for name, digest in each.files.items()}
    names = tuple(name for each in of for name in each.subsets)
    return Recorded(task, names, dict(sorted(files.items())), tuple(languages), joint_sha256(files), signature)


FAQ_DE_TR = recorded("pairs", "faq.de-tr", "faq.de-tr.tsv")
FAQ_DE_EN = recorded("pairs", "faq.de-en", "faq.de-en.tsv", languages=["de", "en"])


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
        ([recorded("pairs", "faq", "faq.tr", "faq.de", languages=["tr", "de"])], "--pairs faq.tr,faq.de"),
        ([recorded("pairs", "b", "b.txt", "a.txt")], "--pairs b.txt,a.txt --src-lang de --trg-lang tr"),
        ([recorded("pairs", "faq", "x y.de-tr.tsv")], "--pairs 'x y.de-tr.tsv' --set-name faq"),
        (
            [recorded("scored", "near", "x y.tsv")],
            "--scored 'x y.tsv' --src-lang de --trg-lang tr --set-name near",
        ),
        (
            [recorded("pairs", "faq", "faq.de-tr.csv", columns=["Frage", "Yanıt"])],
            "--pairs faq.de-tr.csv --columns Frage,Yanıt",
        ),
        (
            [recorded("pairs", "faq", "faq.de-tr.csv", columns=["a|b:c%2C", "100 %"])],
            "--pairs faq.de-tr.csv --columns 'a|b:c%2C,100 %'",
        ),
        ([averaged("pairs", [table("a"), table("b")], DE_TR)], "--pairs a.de-tr.csv --pairs b.de-tr.csv"),
        (
            [averaged("pairs", [table("a", "x", "y"), table("b", "x", "y")], DE_TR)],
            "--pairs a.de-tr.csv --pairs b.de-tr.csv --columns x,y",
        ),
        (
            [
                recorded("pairs", "faq", "faq.de-tr.csv", columns=["a", "b"]),
                recorded("pairs", "shop", "shop.de-tr.jsonl", columns=["a", "b"]),
            ],
            "--pairs faq.de-tr.csv --pairs shop.de-tr.jsonl --columns a,b",
        ),
        (
            [recorded("pairs", "a", "a.de-tr.tsv"), recorded("pairs", "b", "b.de-tr.csv", columns=["a", "b"])],
            "--pairs a.de-tr.tsv --pairs b.de-tr.csv --columns a,b",
        ),
        ([FAQ_DE_TR, FAQ_DE_EN], "--pairs faq.de-tr.tsv --pairs faq.de-en.tsv"),
        (
            [averaged("pairs", [FAQ_DE_TR, FAQ_DE_EN], ["de", "tr", "en"])],
            "--pairs faq.de-en.tsv --pairs faq.de-tr.tsv",
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
    assert found == shlex.split(words)
    monkeypatch.chdir(tmp_path)
    options = dict(zip(found[::2], found[1::2], strict=True))
    languages = (options["--src-lang"], options["--trg-lang"]) if "--src-lang" in options else ()
    for each in records:
        for file in each.files:
            Path(f"{file}.gz").touch()  # as records name it, without `.gz`
    said = Options(name=options.get("--set-name", ""), languages=languages)
    columns = tuple(options["--columns"].split(",")) if "--columns" in options else ()
    kinds = {"--pairs": "pairs", "--scored": "scored"}
    sets = [
        open_set(kinds[option], value, replace(said, columns=columns) if has_named_columns(value) else said)
        for option, value in zip(found[::2], found[1::2], strict=True)
        if option in kinds
    ]
    named = {each.subset: each for each in own_data(sets).sets}
    assert named.keys() == {name for each in records for name in each.subsets}
    for each in records:
        of_record = [named[name] for name in each.subsets]
        assert {language for one in of_record for language in one.languages} == {*each.languages}
        assert all(each.signature.removeprefix(SIGNATURE).removeprefix("|") == one.protocol for one in of_record)


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
        [recorded("pairs", "a", "a.de-tr.csv"), recorded("pairs", "b", "b.de-tr.csv", columns=["a", "b"])],
        [recorded("pairs", "faq", "faq.de-tr.csv", columns=["a,b", "c"])],  # --columns cannot say it
        [recorded("pairs", "faq", "faq.de-tr.csv", columns=["a"])],
        [replace(recorded("pairs", "faq", "faq.de-tr.csv"), signature="task:pairs|columns:%61,b")],  # nobody writes it
        [recorded("pairs", "faq", "faq.de-tr.tsv", languages=["de", "en"])],
        [replace(recorded("pairs", "faq", "faq.de", "faq.tr"), sha256="0" * 64)],
        [replace(table("faq"), signature=SIGNATURE)],  # it does not tell its columns
        [recorded("pairs", "faq", "fa\nq.de-tr.tsv")],
        [table("faq", "a\0", "b")],
        [averaged("pairs", [table("a", "x", "y"), table("b")], DE_TR)],
        # With its languages, the name of a set is too long.
        [recorded("pairs", f"{'n' * 96}.{a}-{b}", f"{'n' * 96}.{a}-{b}.tsv") for a, b in (DE_TR, DE_TR[::-1])],
    ],
)
def test_what_names_of_files_do_not_tell_is_left_open(records: list[Recorded]) -> None:
    assert options_for(records) is None


@given(st.lists(st.text(min_size=1), min_size=2, max_size=3))
def test_columns_are_read_from_the_signature_as_they_were_named(columns: list[str]) -> None:
    protocol = columns_protocol(columns)
    assert protocol.isprintable() and protocol.encode()
    assert columns_of(f"task:pairs|metric:x|{protocol}") == tuple(columns)
    assert columns_of(f"task:pairs|{protocol}|own-id:kept") == tuple(columns)


def test_the_usual_columns_and_none() -> None:
    assert columns_of(f"task:pairs|{columns_protocol(())}") == ()
    assert columns_of("task:pairs|metric:x") is None

"""What languages records and sets are on, and choosing by them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langcodes import standardize_tag, tag_is_valid

from harness.core.errors import InputError
from harness.data import bundled_sample
from harness.data.languages import _SHORTER, _SHORTEST, standard_language
from harness.data.own import OwnSet
from harness.data.tatoeba import languages as tatoeba_languages
from harness.protocol import all_tasks, get_task
from harness.protocol.languages import (
    chosen_languages,
    comparable,
    is_made_for,
    languages_of,
    languages_of_source,
    of_unknown_languages,
    on_languages,
)
from harness.results.records import Dataset, Result
from harness.running.plan import Silent, make_plan, plan_sets


def record(task: str, subset: str, parts: list[str] | None = None, languages: list[str] | None = None) -> Result:
    return Result(
        task=task,
        task_version="1",
        subset=subset,
        encoder="e",
        fingerprint="f",
        metrics={},
        n=1,
        signature="",
        dataset=Dataset("d", "", {}),
        parts=parts or [],
        languages=languages or [],
    )


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (record("sts17", "en-de@deepl"), "de en"),
        (record("sts17", "es-es"), "es"),
        (record("sts17", "avg-same", ["en-en", "es-es", "ar-ar"]), "ar en es"),
        (record("bucc", "zh-en@ntrex"), "en zh"),
        (record("tatoeba", "deu"), "de en"),
        (record("tatoeba", "cmn_Hant@mine"), "en zh"),
        (record("pairs", "faq", languages=["klingon", "de"]), "de klingon"),  # no code: as it is
        (record("tatoeba", "swh@sample"), "en sw"),
        (record("korsts", "ko-ko"), "ko"),
        (record("language-bias", "official6"), "ar en es tr"),
        (record("pairs", "faq", languages=["deu", "tr"]), "de tr"),
        (record("pairs", "avg", ["a", "b"], languages=["de", "tr"]), "de tr"),
        (record("pairs", "faq"), ""),
        (record("elsewhere", "de-en"), ""),
    ],
)
def test_languages_of_records(result: Result, expected: str) -> None:
    assert " ".join(sorted(languages_of(result))) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (record("sts17", "en-de@deepl"), True),
        (record("tatoeba", "tat"), False),
        (record("tatoeba", "avg-paper", ["kat", "swh", "tgl", "tat"]), False),
        (record("sts17", "avg-same", ["en-en", "es-es", "ar-ar"]), True),
        (record("pairs", "faq", languages=["deu", "sw"]), False),
        (record("pairs", "faq"), None),
    ],
)
def test_what_an_encoder_was_made_for(result: Result, expected: bool | None) -> None:
    for spec in ("muse", "muse?truncate_dim=256&quantize=int8&name=m"):
        assert is_made_for(replace(result, spec=spec)) is expected
    for spec in ("", "sentence-transformers:muse", "laser:folder", "chargrams", "no-such-encoder"):
        assert is_made_for(replace(result, spec=spec)) is None


def test_bokmal_is_the_norwegian_that_lists_of_languages_have() -> None:
    assert is_made_for(replace(record("tatoeba", "nob"), spec="labse"))
    assert is_made_for(replace(record("tatoeba", "nno"), spec="labse")) is False
    assert on_languages([record("tatoeba", "nob")], ["no"]) == on_languages([record("tatoeba", "nob")], ["nob"]) != []


def test_codes_that_are_known_by_heart_are_what_langcodes_says() -> None:
    known = {code: code for code in _SHORTEST} | _SHORTER
    assert len(known) > 200
    for code, expected in known.items():
        assert standardize_tag(code, macro=True).partition("-")[0] == expected and tag_is_valid(expected), code
    needed = {language.lang for language in tatoeba_languages().values()} | {"de", "zh", "fil"}
    assert not {code for code in needed if standard_language(code) != known.get(code, "fil")}, "none takes an import"


def test_what_is_left_out_for_want_of_languages_is_named() -> None:
    results = [record("sts17", "en-de"), record("pairs", "notes"), record("pairs", "faq", languages=["de"])]
    assert of_unknown_languages(results) == "left out, since their languages are not known: pairs notes"
    assert of_unknown_languages(results[:1]) == ""


def test_every_published_set_says_its_languages() -> None:
    for task in all_tasks():
        for subset in task.published:
            assert task.languages(subset), (task.name, subset)


def test_a_set_in_its_languages_and_english_is_chosen() -> None:
    sets = [record("sts17", name) for name in ("en-de", "en-en", "en-tr", "es-es", "en-fr")]
    own = record("retrieval", "faq", languages=["de", "tr"])
    unknown = record("pairs", "notes")
    names = lambda *codes: {result.subset for result in on_languages([*sets, own, unknown], codes)}  # noqa: E731
    assert names() == {"en-de", "en-en", "en-tr", "es-es", "en-fr", "faq", "notes"}
    assert names("de") == {"en-de", "en-en"}
    assert names("ger", "tur") == {"en-de", "en-en", "en-tr", "faq"}
    with pytest.raises(InputError, match=r"^no results on ja alone are stored; there are some on de en es fr tr$"):
        on_languages([*(one for one in sets if one.subset != "en-en"), own], ["ja"])
    with pytest.raises(InputError, match="no results on ja alone"):
        on_languages(sets, ["ja"])  # what is in English alone says nothing of it
    with pytest.raises(InputError, match=r"on tr alone .* name each language of a set"):
        on_languages([own], ["tr"])
    assert [r.subset for r in on_languages(sets, ["en"])] == ["en-en"]
    with pytest.raises(InputError, match="no code of ISO 639"):
        chosen_languages(["german"])


def test_a_run_takes_the_sets_of_the_languages() -> None:
    plan = make_plan([get_task("sts17"), get_task("tatoeba")], bundled_sample(), languages=["de"])
    names = {planned.task.name: {source.subset for source in planned.sources} for planned in plan}
    assert names["sts17"] == {"en-de@sample", "en-en@sample"} and names["tatoeba"] == {"deu@sample"}
    mine = OwnSet("faq", "faq", (), kind="pairs", languages=("deu", "tr"))
    assert languages_of_source(get_task("pairs"), mine) == {"de", "tr"}


def test_a_language_without_a_set_is_said() -> None:
    notes: list[str] = []

    class Watched(Silent):
        def note(self, message: str) -> None:
            notes.append(message)

    chosen = [get_task("sts17")]
    plan_sets(chosen, bundled_sample(), progress=Watched(), languages=["tr", "jpn"])
    assert "no set on jpn" in notes
    with pytest.raises(InputError, match="no set of sts17 on ja or ko alone"):
        plan_sets(chosen, bundled_sample(), languages=["ja", "ko"])


def test_norwegian_has_two_codes_and_is_one_language() -> None:
    assert comparable(["nb", "no", "nob"]) == {"no"} and comparable(["de", "klingon", ""]) == {"de", "klingon"}
    nob = record("tatoeba", "nob")
    assert on_languages([nob], ["nb"]) == on_languages([nob], ["no"]) == [nob]

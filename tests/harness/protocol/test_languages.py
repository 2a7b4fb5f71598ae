"""What languages records and sets are on, and choosing by them."""

from __future__ import annotations

import pytest

from harness.core.errors import InputError
from harness.data import bundled_sample
from harness.data.own import OwnSet
from harness.protocol import all_tasks, get_task
from harness.protocol.languages import chosen_languages, languages_of, languages_of_source, on_languages
from harness.results.records import Dataset, Result
from harness.running.plan import make_plan


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
    with pytest.raises(InputError, match="no code of ISO 639"):
        chosen_languages(["german"])


def test_a_run_takes_the_sets_of_the_languages() -> None:
    plan = make_plan([get_task("sts17"), get_task("tatoeba")], bundled_sample(), languages=["de"])
    names = {planned.task.name: {source.subset for source in planned.sources} for planned in plan}
    assert names["sts17"] == {"en-de@sample", "en-en@sample"} and names["tatoeba"] == {"deu@sample"}
    mine = OwnSet("faq", "faq", (), kind="pairs", languages=("deu", "tr"))
    assert languages_of_source(get_task("pairs"), mine) == {"de", "tr"}

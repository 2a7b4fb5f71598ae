"""Pictures of the pages: which there are, where, of what; and what happens where none can be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hostile import HOSTILE, harmless, hidden, markdown_shape
from result_records import record, sts, write_records
from speeds import measurement

from harness import charts
from harness.data.tatoeba import languages
from harness.report.encoder_page import encoder_pages
from harness.report.pages import BEGIN, END, make_pages, outdated, report
from harness.report.pictures import cost_pictures, language_picture, quality_key
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, digest
from harness.results.store import ResultStore
from harness.speed.store import Measurement, SpeedStore

needs_extra = pytest.mark.skipif(not charts.is_available(), reason='needs the extra "board"')
SAME = ["en-en", "es-es", "ar-ar"]
TEXT = "{http://www.w3.org/2000/svg}text"


def board() -> list[Result]:
    return [
        *(sts(name, "avg-same", value, parts=SAME) for name, value in (("muse", 80.0), ("e5", 82.0), ("slow", 70.0))),
        *(sts(name, subset, 60.0) for name in ("muse", "e5") for subset in SAME),
    ]


def speeds() -> list[Measurement]:
    return [
        measurement("muse", 0.001),
        measurement("e5", 0.02, size_bytes=None),
        measurement("slow", 1.0, hardware={"processor": "Another CPU"}),
    ]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(TEXT)]


@needs_extra
def test_only_speeds_of_machines_alike_are_compared() -> None:
    pictures = {picture.file: picture for picture in cost_pictures(board(), {}, speeds())}
    assert list(pictures) == ["pictures/quality-speed.svg", "pictures/quality-bytes.svg", "pictures/quality-disk.svg"]
    drawn = {file: texts(charts.svg(picture.spec())) for file, picture in pictures.items()}
    named = {file: {name for name in ("muse", "e5", "slow") if name in found} for file, found in drawn.items()}
    assert named["pictures/quality-speed.svg"] == {"muse", "e5"}
    assert named["pictures/quality-bytes.svg"] == {"muse", "e5", "slow"}
    assert named["pictures/quality-disk.svg"] == {"muse", "slow"}, "a size that is not known is not shown"
    assert any("Made-up CPU" in text for text in drawn["pictures/quality-speed.svg"])


def test_there_is_no_picture_of_one_encoder_of_the_sample_or_of_weights_that_were_not_measured() -> None:
    assert cost_pictures(board(), {}, []) == []
    assert cost_pictures(board(), {}, [measurement("muse", 0.001)]) == []
    others = [measurement(name, 0.001, fingerprint="other") for name in ("muse", "e5")]
    assert cost_pictures(board(), {}, others) == []
    sample = [sts(name, "en-en@sample", 1.0) for name in ("muse", "e5")]
    assert cost_pictures(sample, {}, speeds()) == []


def test_quality_is_what_most_encoders_have_and_the_task_ranks_by() -> None:
    assert quality_key(board()) == ("sts17", "avg-same", "spearman")
    cross = [sts(name, "avg-cross@deepl", 50.0) for name in ("muse", "e5", "slow")]
    assert quality_key([*board(), *cross]) == ("sts17", "avg-cross@deepl", "spearman")
    assert quality_key([*board(), *cross[:2]]) == ("sts17", "avg-same", "spearman")
    assert quality_key([record("a", "unknown", "x", {"y": 1.0})]) is None


def tatoeba(encoders: tuple[str, ...], codes: list[str]) -> list[Result]:
    return [
        record(e, "tatoeba", code, {"accuracy_en_xx": 40.0, "accuracy_xx_en": 50.0 + k}, "task:tatoeba|version:1")
        for k, e in enumerate(encoders)
        for code in codes
    ]


@needs_extra
def test_all_languages_by_family() -> None:
    results = tatoeba(("muse", "e5"), list(languages()))
    interval = {"accuracy_xx_en": (48.0, 52.0)}
    known = {"tatoeba": Statistics("s", 0.95, {(r.encoder, r.subset): Entry(digest(r), interval) for r in results})}
    picture = language_picture("tatoeba", results, known)
    assert picture is not None and picture.file == "pictures/tatoeba-by-language.svg"
    found = texts(charts.svg(picture.spec()))
    assert {language.name for language in languages().values()} <= set(found)
    assert {"Slavic", "Germanic", "Turkic", "others", "muse", "e5"} <= set(found)
    few = tatoeba(("muse", "e5"), ["deu", "fra", "ita"])
    assert language_picture("tatoeba", few, {}) is None, "few languages have columns in the table"
    assert language_picture("sts17", board(), {}) is None


@needs_extra
def test_of_many_encoders_the_first_eight_are_drawn_and_it_is_said() -> None:
    results = tatoeba(tuple(f"e{k}" for k in range(11)), list(languages())[:20])
    picture = language_picture("tatoeba", results, {})
    assert picture is not None
    found = texts(charts.svg(picture.spec()))
    assert {f"e{k}" for k in range(11) if f"e{k}" in found} == {f"e{k}" for k in range(3, 11)}
    assert any("without 3 more encoders" in text for text in found)


def store_in(folder: Path) -> ResultStore:
    store = write_records(folder / "results", board())
    for one in speeds():
        SpeedStore(store.root).merge(one)
    return store


@needs_extra
def test_pictures_are_written_shown_and_checked(tmp_path: Path) -> None:
    store, readme = store_in(tmp_path), tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\n{END}\n")
    report(store, readme)
    picture = store.root / "pictures/quality-speed.svg"
    assert "](pictures/quality-speed.svg)" in (store.root / "README.md").read_text()
    assert "](results/pictures/quality-speed.svg)" in readme.read_text()
    assert "](pictures/quality-disk.svg)" in (store.root / "speed.md").read_text()
    assert outdated(store, readme) == {}
    picture.write_text("<svg/>")
    assert list(outdated(store, readme)) == [picture]


@needs_extra
def test_without_the_extra_pictures_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_in(tmp_path)
    report(store)
    picture = store.root / "pictures/quality-speed.svg"
    picture.write_text("<svg>an older one</svg>")
    monkeypatch.setattr("harness.charts.drawing.find_spec", lambda module: None)
    assert outdated(store) == {} and report(store) == []
    assert picture.read_text() == "<svg>an older one</svg>"
    picture.unlink()
    assert store.root / "README.md" in outdated(store), "a picture that is nowhere is not shown"
    report(store)
    assert "quality-speed.svg" not in (store.root / "README.md").read_text()
    assert "](pictures/quality-disk.svg)" in (store.root / "speed.md").read_text()


def test_a_folder_without_pictures_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.charts.drawing.find_spec", lambda module: None)
    store = store_in(tmp_path)
    report(store)
    assert not (store.root / "pictures").exists() and "![" not in (store.root / "README.md").read_text()


# ------------------------------------------------------------------ encoders


def with_tests(results: list[Result], p: float) -> dict[str, Statistics]:
    entries = {}
    for result in results:
        same = {r.encoder for r in results if (r.task, r.subset) == (result.task, result.subset)}
        p_values = {metric: {other: p for other in same if other > result.encoder} for metric in result.metrics}
        ends = {metric: (value - 1, value + 1) for metric, value in result.metrics.items()}
        entries[result.encoder, result.subset] = Entry(digest(result), ends, p_values)
    return {"sts17": Statistics("made-up", 0.95, entries)}


def test_the_page_of_an_encoder() -> None:
    results = [
        *(sts("muse", subset, value) for subset, value in (("en-en", 90.0), ("es-es", 70.0))),
        *(sts("e5", subset, value) for subset, value in (("en-en", 80.0), ("es-es", 75.0))),
    ]
    pages = encoder_pages(results, with_tests(results, 0.001), [measurement("muse", 0.001)], "<!-- head -->")
    assert list(pages) == ["encoders/e5.md", "encoders/muse.md"]
    page = pages["encoders/muse.md"]
    rows = {
        cells[0]: cells[1:]
        for line in page.splitlines()
        if line.startswith("| ")
        for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
    }
    assert rows["licence"] == ["Apache-2.0"] and rows["MB on disk"] == ["32.9"] and rows["spec"] == ["`muse`"]
    assert "de" in rows["languages"][0].split() and "en" in rows["languages"][0].split()
    assert rows["STS 2017, spearman"] == ["1: en-en", "1: es-es"]
    assert rows["en-en"][:2] == ["250", "**90.0**<br><sub>[89.0, 91.0]</sub>"]
    assert rows["es-es"][:2] == ["250", "70.0<br><sub>[69.0, 71.0]</sub>"]
    nobody = encoder_pages(results, with_tests(results, 0.9), [], "<!-- head -->")["encoders/muse.md"]
    assert "| STS 2017, spearman | 2: en-en, es-es | on none |" in " ".join(nobody.split("  "))


def test_a_name_that_cannot_name_a_file_has_no_page() -> None:
    names = ["../../escaped", "a/b", "", ".hidden", "x" * 200, *HOSTILE.values()]
    results = [sts(name, "en-en", 50.0 + k) for k, name in enumerate(names)]
    pages = make_pages(results)
    allowed = {"README.md", "sts17.md"}
    assert set(pages) == allowed


def test_texts_on_the_page_of_an_encoder_stay_texts() -> None:
    def pages(made: dict[str, str]) -> str:
        text = "\n".join(made.values())
        speed = measurement("mine", 0.1, hardware={"processor": text})
        results = [sts("mine", "en-en", 50.0, spec=text), sts("mine", text, 40.0), sts(text, "en-en", 60.0)]
        return encoder_pages(results, with_tests(results, 0.001), [speed], "<!-- Made by x; edits are lost. -->")[
            "encoders/mine.md"
        ]

    page = pages(HOSTILE)
    assert not hidden(page) and markdown_shape(page) == markdown_shape(pages(harmless()))

"""Pictures of the pages: which there are, where, of what; and what happens where none can be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hostile import HOSTILE, harmless, hidden, markdown_shape
from pages_made import changes, make_pages, outdated, report
from result_records import record, sts, write_records
from speeds import measurement

from harness import charts
from harness.data.tatoeba import languages
from harness.encoders.reduction import Reduced
from harness.protocol.task import Picture
from harness.report.changes import GENERATED
from harness.report.charted import cost_charts, language_charts
from harness.report.encoder_page import encoder_pages
from harness.report.pages import BEGIN, END
from harness.report.pictures import cost_pictures, language_pictures
from harness.results.records import Result
from harness.results.statistics import Entry, Statistics, digest
from harness.results.store import ResultStore
from harness.speed.store import Measurement, SpeedStore
from harness.statistics.board import Board, Key
from harness.statistics.candidates import facts_of

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


def pictures_of(results: list[Result], measured: list[Measurement]) -> list[Picture]:
    return cost_pictures(results, {}, facts_of(results, measured))


@needs_extra
def test_only_speeds_of_machines_alike_are_compared() -> None:
    pictures = {picture.file: picture for picture in pictures_of(board(), speeds())}
    assert list(pictures) == ["pictures/quality-speed.svg", "pictures/quality-bytes.svg", "pictures/quality-disk.svg"]
    drawn = {file: texts(charts.svg(picture.spec())) for file, picture in pictures.items()}
    named = {file: {name for name in ("muse", "e5", "slow") if name in found} for file, found in drawn.items()}
    assert named["pictures/quality-speed.svg"] == {"muse", "e5"}
    assert named["pictures/quality-bytes.svg"] == {"muse", "e5", "slow"}
    assert named["pictures/quality-disk.svg"] == {"muse", "slow"}, "a size that is not known is not shown"
    assert any("Made-up CPU" in text for text in drawn["pictures/quality-speed.svg"])


def test_there_is_no_picture_of_one_encoder_of_the_sample_or_of_weights_that_were_not_measured() -> None:
    assert pictures_of(board(), []) == []
    assert pictures_of(board(), [measurement("muse", 0.001)]) == []
    others = [measurement(name, 0.001, fingerprint="other") for name in ("muse", "e5")]
    assert pictures_of(board(), others) == []
    sample = [sts(name, "en-en@sample", 1.0) for name in ("muse", "e5")]
    assert pictures_of(sample, speeds()) == []


def test_quality_is_what_most_encoders_have_and_the_task_ranks_by() -> None:
    def first(results: list[Result]) -> Key:
        measured = [measurement(name, 0.001) for name in ("muse", "e5", "slow")]
        return cost_charts(results, Board(results, {}), facts_of(results, measured))[0].key

    assert first(board()) == ("sts17", "avg-same", "spearman")
    cross = [sts(name, "avg-cross@deepl", 50.0) for name in ("muse", "e5", "slow")]
    assert first([*board(), *cross]) == ("sts17", "avg-cross@deepl", "spearman")
    assert first([*board(), *cross[:2]]) == ("sts17", "avg-same", "spearman")
    unknown = [record("a", "unknown", "x", {"y": 1.0})]
    assert cost_charts(unknown, Board(unknown, {}), facts_of(unknown, [])) == []


def test_sets_of_ones_own_have_a_chart_each_and_single_published_ones_have_none() -> None:
    results = [
        record(name, "pairs", subset, {"accuracy_src_trg": 50.0, "accuracy_trg_src": 40.0, "mrr_src_trg": 60.0}, "p")
        for name in ("muse", "e5")
        for subset in ("turkish", *(f"set-{n:02}" for n in range(20)))
    ]
    measured = [measurement(name, 0.001) for name in ("muse", "e5")]

    def keys(results: list[Result]) -> set[Key]:
        return {chart.key for chart in cost_charts(results, Board(results, {}), facts_of(results, measured))}

    few = [result for result in results if result.subset in ("turkish", "set-03")]
    expected = {("pairs", s, m) for s in ("turkish", "set-03") for m in ("accuracy_src_trg", "accuracy_trg_src")}
    assert keys([*board(), *few]) - keys(board()) == expected
    assert len(keys(results)) == 24, "not one for each of very many"
    assert not any(key[1] == "en-en" for key in keys(board()))


def cut(of: str, dim: int) -> Result:
    one = sts(f"{of}@{dim}", "avg-same", 60.0, parts=SAME, fingerprint=f"{of}-1|truncate_dim:{dim}")
    return replace(one, base=of, reduced=Reduced(dim, 4 * dim, "none"))


def test_one_encoder_and_its_cut_vectors_are_no_comparison() -> None:
    one = [result for result in board() if result.encoder == "muse"]
    assert pictures_of([*one, cut("muse", 64), cut("muse", 32)], speeds()) == []
    names = [picture.says for picture in pictures_of([*board(), cut("muse", 64)], speeds())]
    assert [("muse@64" in name) for name in names] == [False, True, False], "their bytes are known, and nothing else"


def test_the_machine_is_that_of_the_speeds_that_are_shown() -> None:
    """Of two measurements that of the usual machine counts, and who was not measured there has no speed."""
    results = [*board(), *(sts(f"other-{k}", "en-en", 50.0) for k in range(4))]
    measured = [
        *(measurement(name, 0.001) for name in ("muse", "e5", "other-0", "other-1", "other-2", "other-3")),
        *(measurement(name, 0.002, hardware={"processor": "A second CPU"}) for name in ("muse", "e5", "slow")),
    ]
    [chart] = cost_charts(results, Board(results, {}), facts_of(results, measured))[:1]
    assert chart.setup == "Made-up CPU, 2 cores, 8 GiB, device cpu, threads 2"
    assert {row["cost"] for row in chart.rows["speed"]} == {1000.0}
    nobody = cost_charts(results, Board(results, {}), facts_of(results, []))
    assert nobody == []


def test_published_data_and_stand_ins_are_never_on_one_line() -> None:
    results = [sts(name, subset, 50.0) for name in ("muse", "e5") for subset in ("en-es", "en-tr", "en-ar", *SAME)]
    results += [sts(name, subset, 90.0) for name in ("muse", "e5") for subset in ("en-es@deepl", "en-de@deepl")]
    [chart] = language_charts(results, Board(results, {}))
    assert chart.tag == "" and {key[1] for key in chart.keys} == {"en-es", "en-tr", "en-ar", *SAME}
    assert {row["value"] for row in chart.rows} == {50.0}
    assert chart.left_out == "; without 2 sets of @deepl"
    more = [sts(name, f"en-{code}@deepl", 90.0) for name in ("muse", "e5") for code in ("fr", "it", "nl", "xx", "yy")]
    [chart] = language_charts([*results, *more], Board([*results, *more], {}))
    assert chart.tag == "@deepl" and {row["value"] for row in chart.rows} == {90.0}
    assert chart.left_out == "; without 6 sets of the published data" and chart.title == "STS 2017, @deepl"


def test_the_most_complete_encoders_are_shown_and_cut_vectors_are_not() -> None:
    results = [sts(f"e{k}", subset, 50.0 + k) for k in range(9) for subset in SAME]
    results += [sts("partial", "en-en", 99.0), replace(cut("e1", 64), subset="en-en")]
    [chart] = language_charts(results, Board(results, {}))
    assert list(chart.encoders) == [f"e{k}" for k in range(8, 0, -1)]
    assert chart.left_out == "; without 2 more encoders"


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
    picture = language_pictures(results, known)["tatoeba"]
    assert picture.file == "pictures/tatoeba-by-language.svg"
    found = texts(charts.svg(picture.spec()))
    assert {language.name for language in languages().values()} <= set(found)
    assert {"Slavic", "Germanic", "Turkic", "others", "muse", "e5"} <= set(found)
    few = tatoeba(("muse", "e5"), ["deu", "fra", "ita"])
    assert language_pictures(few, {}) == {}, "few languages have columns in the table"
    assert language_pictures(board(), {}) == {}


@needs_extra
def test_of_many_encoders_the_first_eight_are_drawn_and_it_is_said() -> None:
    results = tatoeba(tuple(f"e{k}" for k in range(11)), list(languages())[:20])
    picture = language_pictures(results, {})["tatoeba"]
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
    old = store.root / "pictures/quality-disk.svg"
    assert old.exists() and changes(store).removed == []
    [note] = changes(store).notes
    assert "stays as it is" in note and 'pip install "multilingual-embedding-harness[board]"' in note
    picture.unlink()
    assert store.root / "README.md" in outdated(store), "a picture that is nowhere is not shown"
    report(store)
    assert "quality-speed.svg" not in (store.root / "README.md").read_text()
    assert "](pictures/quality-disk.svg)" in (store.root / "speed.md").read_text()


def test_what_is_gone_is_removed_and_only_what_the_command_made(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    report(store)
    root = store.root
    made = {path.relative_to(root).as_posix() for path in root.rglob("*.md")}
    gone = ["published.md", "encoders/gone.md", "pictures/quality-speed.svg", "pictures/tatoeba-by-language.svg"]
    mine = ["notes.md", "encoders/notes.md", "pictures/photo.svg", "deeper/notes.md", "pictures/quality-speed.png"]
    (root / "pictures").mkdir(exist_ok=True)
    (root / "deeper").mkdir()
    for name in gone:
        (root / name).write_text(f"{GENERATED}\n\nold")
    for name in mine:
        (root / name).write_text(GENERATED if name.startswith("deeper") else f"my own\n{GENERATED}\n")
    (root / "link.md").symlink_to(root / "README.md")
    expected = [root / name for name in sorted(gone) if charts.is_available() or not name.startswith("pictures")]
    expected = [path for path in expected if path.name != "quality-speed.svg"]  # it is still made
    assert list(changes(store).removed) == expected
    report(store)
    assert not any(path.exists() for path in expected) and list(changes(store).removed) == []
    assert all((root / name).exists() for name in [*mine, *made, "link.md"])


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


def encoders_of(
    results: list[Result], statistics: dict[str, Statistics], measured: list[Measurement] | None = None
) -> dict[str, str]:
    return encoder_pages(results, statistics, facts_of(results, measured or []), "<!-- Made by x; edits are lost. -->")


def test_the_page_of_an_encoder() -> None:
    results = [
        *(sts("muse", subset, value) for subset, value in (("en-en", 90.0), ("es-es", 70.0))),
        *(sts("e5", subset, value) for subset, value in (("en-en", 80.0), ("es-es", 75.0))),
    ]
    pages = encoders_of(results, with_tests(results, 0.001), [measurement("muse", 0.001)])
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
    nobody = encoders_of(results, with_tests(results, 0.9))["encoders/muse.md"]
    assert "| STS 2017, spearman | 2: en-en, es-es | on none |" in " ".join(nobody.split("  "))


def cells(page: str, begin: str) -> list[str]:
    [line] = [line for line in page.splitlines() if line.startswith(f"| {begin} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_place_is_among_encoders_of_full_vectors_and_the_highest_is_not_called_best() -> None:
    names = [("muse", 70.0), ("e5", 80.0), ("slow", 60.0)]
    results = [sts(name, "avg-same", value, parts=SAME) for name, value in names]
    results += [replace(cut("gone", 64), metrics={"spearman": 99.0})]
    page = encoders_of(results, {})["encoders/muse.md"]
    assert cells(page, "STS 2017, avg-same: spearman")[1:] == ["70.0", "2 of 3", "e5", "–"]
    assert "| highest | p against it |" in page.replace("  ", "") and "| best " not in page
    assert cells(encoders_of(results, {})["encoders/gone@64.md"], "STS 2017, avg-same: spearman")[2:] == ["–"] * 3


def test_the_sample_stands_apart_on_the_page_of_an_encoder() -> None:
    real = [sts(name, "en-en", value) for name, value in (("muse", 90.0), ("e5", 80.0))]
    sample = [sts(name, "en-en@sample", value) for name, value in (("muse", 10.0), ("e5", 20.0), ("demo", 30.0))]
    pages = encoders_of([*real, *sample], with_tests([*real, *sample], 0.001))
    assert "## STS 2017, all scores\n" in pages["encoders/muse.md"]
    assert "## STS 2017 (bundled sample), all scores\n" in pages["encoders/muse.md"]
    assert cells(pages["encoders/muse.md"], "STS 2017, spearman")[1:] == ["1: en-en", "on none"]
    assert cells(pages["encoders/demo.md"], "STS 2017, spearman")[1:] == ["1: en-en@sample", "on none"]


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
        return encoders_of(results, with_tests(results, 0.001), [speed])["encoders/mine.md"]

    page = pages(HOSTILE)
    assert not hidden(page) and markdown_shape(page) == markdown_shape(pages(harmless()))

"""The page in a real browser: what people do with it, and that it asks nothing of any other host.

They skip without a browser. With $HARNESS_BROWSER (its path), which `.ci/run` sets where one is installed, they fail
in place of skipping.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import nan
from pathlib import Path
from typing import Any

import pytest
from boards import SCORES, full_records, shown, statistics_of, variants
from browsers import BROWSERS, a_browser
from hostile import HOSTILE
from result_records import record, sts
from speeds import measurement

from harness import charts
from harness.board.data import Shown
from harness.board.page import Options, page
from harness.core.escaping import visible
from harness.report.entries import long_form
from harness.report.figures import Figures
from harness.report.long import csv_text
from harness.report.speed import cost_columns, ms_cell
from harness.results.records import Dataset
from harness.results.statistics import Entry, Statistics, digest
from harness.statistics.board import Board

pytestmark = pytest.mark.slow

MUST_RUN = os.environ.get("HARNESS_BROWSER", "")
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = a_browser()
    if not MUST_RUN:
        if not found:
            pytest.skip(f"needs a browser: one of {', '.join(BROWSERS)}")
        if not charts.is_available():
            pytest.skip('needs the extra "board"')
        pytest.importorskip("playwright")
        pytest.importorskip("axe_playwright_python")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("board"), shown(), Options(title="Ours"))


def written(folder: Path, what: Shown, around: Options) -> Path:
    path = folder / "board.html"
    path.write_text(page(what, around), "utf-8")
    return path


@dataclass
class Seen:
    """A page, what it asked for and what it said in the console."""

    page: Any
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]

    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def names(self) -> list[str]:
        return self.texts("#table tbody button.name")

    def hidden(self, selector: str) -> bool:
        return not self.page.locator(selector).is_visible()

    def heads(self) -> list[str]:
        return [text.split("\n")[0].rstrip(" ↑↓") for text in self.texts("#table thead tr:nth-child(2) th")]


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Any]:
    contexts = []

    def open_page(at: Path = file, address: str = "", **options: Any) -> Seen:
        context = browser.new_context(**{"viewport": WIDE, "offline": True, "accept_downloads": True, **options})
        contexts.append(context)
        seen = Seen(context.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("console", lambda message: seen.console.append(message.text))
        seen.page.on("pageerror", lambda error: seen.console.append(str(error)))
        seen.page.on("dialog", lambda dialog: (seen.console.append(dialog.message), dialog.dismiss()))
        seen.page.goto(f"{at.as_uri()}{address}")
        return seen

    yield open_page
    for context in contexts:
        context.close()


def serious(seen: Seen) -> list[tuple[str, str, str]]:
    """What axe-core finds that is serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(seen.page).response["violations"]
    return [
        (one["impact"], one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
    ]


def test_it_asks_for_nothing_and_says_nothing(opened: Any, file: Path) -> None:
    seen = opened()
    seen.page.wait_for_selector("#cost-speed svg")
    seen.page.wait_for_selector("#languages-chart svg")
    for kind in ("disk", "bytes"):
        seen.page.wait_for_selector(f"#cost-{kind} svg")
    seen.page.select_option("#task", "tatoeba")
    seen.page.hover("#cost-speed svg .mark-symbol path >> nth=0")
    seen.page.wait_for_selector("#vg-tooltip-element.visible")
    assert seen.requests == [file.as_uri()]
    assert seen.console == []
    # Charts are of the chosen task or there are none, but for languages while no task is chosen.
    assert "Tatoeba" in seen.page.inner_text("#languages-note") and "Tatoeba" in seen.page.inner_text("#cost-note")
    seen.page.select_option("#task", "sts17")
    assert "STS" in seen.page.inner_text("#languages-note")
    seen.page.select_option("#task", "retrieval")
    assert seen.hidden("#languages") and "faq" in seen.page.inner_text("#cost-note")
    seen.page.select_option("#task", "language-bias")
    assert seen.hidden("#languages") and seen.hidden("#cost")
    seen.page.select_option("#task", "tatoeba")
    seen.page.select_option("#lang", "tr")
    said = seen.page.inner_text("#cost-note")
    assert "xx->en tur has no chart, since single sets have none; Tatoeba xx->en avg-all has one." in said
    assert seen.page.locator("#cost svg >> visible=true").count() == 0
    # The chart by language has the answers' encoders, and the chosen language in bold.
    seen.page.wait_for_selector("#languages-chart svg text[font-weight=bold]:text-is('Turkish')")
    assert seen.page.locator("#languages-choice input:checked").count() == 2
    seen.page.select_option("#second", "poor")
    assert seen.page.locator("#languages-choice input:checked").count() == 3
    assert seen.page.locator("#languages-chart svg text:text-is('others')").count() == 0
    assert seen.console == []


def test_the_three_questions(opened: Any) -> None:
    seen = opened()
    assert "Not proven" in seen.page.inner_text("#real")  # good and fast
    seen.page.select_option("#second", "poor")
    assert "Yes" in seen.page.inner_text("#real") and "good is better by 40.0 points" in seen.page.inner_text("#real")
    assert seen.page.inner_text("#best .big") == "good or fast"
    assert "fast 10,000 sentences/s, 1.0 points lower" in seen.page.inner_text("#cheap")
    assert "good@128-binary 16 bytes" not in seen.page.inner_text("#cheap")  # 3 points below
    seen.page.fill("#within", "3")
    assert "good@128-binary 16 bytes, 3.0 points lower" in seen.page.inner_text("#cheap")
    # Without a number it is two again, which stands in the box once that is left.
    seen.page.fill("#within", "")
    assert "Of 3 encoders with full vectors 2 have 82.0 or more" in seen.page.inner_text("#cheap")
    assert "good@128-binary 16 bytes" not in seen.page.inner_text("#cheap") and "within" not in seen.hash()
    seen.page.locator("#within").blur()
    assert seen.page.input_value("#within") == "2"
    seen.page.fill("#within", "0.5")
    assert "good 250 sentences/s, the highest" in seen.page.inner_text("#cheap")
    # The best for Turkish retrieval: a language, and a task.
    seen.page.select_option("#lang", "tr")
    assert seen.heads()[:-3] == ["en-tr", "tur", "tur", "faq"]
    seen.page.select_option("#task", "retrieval")
    assert "cannot be told from it: fast (faster); worse: poor" in seen.page.inner_text("#verdicts")


def test_the_score_of_a_task_stays_with_a_language(opened: Any, file: Path) -> None:
    """By its headline's metric, or by that which was chosen; a task without the language has all of them."""
    seen = opened()
    chosen = seen.page.locator("#set option:checked")
    assert seen.page.locator("#table th.chosen").count() == 0  # rows stand by the overall rank
    seen.page.select_option("#task", "tatoeba")
    assert chosen.inner_text() == "xx->en avg-all"
    assert "4 sets" not in seen.page.inner_text("#shown") and "3 sets" in seen.page.inner_text("#shown")
    seen.page.select_option("#lang", "tr")
    assert chosen.inner_text() == "xx->en tur (Turkish)"
    tinted = seen.page.locator("#table th.chosen")
    assert tinted.get_attribute("data-sort") == "tatoeba/tur/accuracy_xx_en"
    assert tinted.get_attribute("aria-sort") == "descending"
    seen.page.select_option("#set", "tatoeba/tur/accuracy_en_xx")
    assert tinted.get_attribute("data-sort") == "tatoeba/tur/accuracy_en_xx"
    assert tinted.get_attribute("aria-sort") == "descending"
    # What a head was pressed for stays.
    seen.page.locator('#table th[data-sort="name"] button').click()
    seen.page.select_option("#set", "tatoeba/tur/accuracy_xx_en")
    assert seen.names() == ["fast", "good", "poor"]
    seen.page.select_option("#set", "tatoeba/tur/accuracy_en_xx")
    seen.page.select_option("#lang", "kab")
    assert chosen.inner_text().startswith("en->xx kab (") and seen.hidden("#lost")
    assert seen.page.inner_text("#lang option:checked") == chosen.inner_text()[12:-1] + " (kab)"
    seen.page.select_option("#task", "language-bias")
    assert "no set on Kabyle alone: all languages are shown" in seen.page.inner_text("#lost")
    assert seen.page.input_value("#lang") == "" and "lang=" not in seen.hash()
    again = opened(file, "#task=language-bias&lang=tr")
    assert "no set on Turkish alone" in again.page.inner_text("#lost") and len(again.names()) == 3


def test_language_bias_is_the_nearest_to_zero(opened: Any, tmp_path: Path) -> None:
    differences = {"good": -9.0, "fast": 0.5, "poor": -0.53}
    results = [
        replace(r, metrics={**r.metrics, "difference": differences[r.encoder]}) if r.task == "language-bias" else r
        for r in full_records()
        if (r.encoder, r.task) != ("poor", "retrieval")
    ]
    what = shown(results)
    entries = what.statistics["language-bias"].entries
    for name in ("fast", "poor"):
        entries[name, "ten@deepl"] = replace(entries[name, "ten@deepl"], p_zero={"difference": 0.4})
    seen = opened(written(tmp_path, what, Options(has_charts=False)), "#task=language-bias")
    assert seen.page.inner_text("#set option:checked") == "difference ten@deepl"
    assert seen.page.inner_text("#best-head") == "Which is least biased?"
    assert seen.page.inner_text("#best .big") == "fast or poor" and seen.names() == ["fast", "poor", "good"]
    real = seen.page.inner_text("#real")
    assert "+0.50, cannot be told from zero (p = 0.800)" in real and "\u22120.53, cannot be told" in real
    seen.page.select_option("#second", "good")
    assert "\u22129.00, not zero (p = 0.003)" in seen.page.inner_text("#real")
    assert "2 have a difference of 2.5 or less" in seen.page.inner_text("#cheap")
    assert seen.hidden("#pairs")
    # In the dark zero has the colour of the page, and texts are light.
    seen.page.emulate_media(color_scheme="dark")
    zero = seen.page.locator("#bias-tables td.number").filter(has_text="0.0").first
    colours = "cell => [getComputedStyle(cell).backgroundColor, getComputedStyle(cell).color]"
    back = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert zero.evaluate(colours) == [back, "rgb(255, 255, 255)"]
    seen.page.select_option("#task", "retrieval")
    assert "not measured: poor" in seen.page.inner_text("#best") and seen.console == []
    assert seen.page.inner_text("#best-head") == "Which is best?"


def test_sorting(opened: Any) -> None:
    seen = opened()
    assert seen.names() == ["good", "fast", "poor"]
    head = seen.page.locator('#table th[data-sort="cost:speed"]')
    head.locator("button").click()
    assert seen.names() == ["fast", "poor", "good"] and head.get_attribute("aria-sort") == "descending"
    assert seen.page.evaluate("document.activeElement.parentNode.dataset.sort") == "cost:speed"
    seen.page.keyboard.press("Enter")
    assert seen.names() == ["good", "poor", "fast"] and head.get_attribute("aria-sort") == "ascending"
    assert seen.page.locator("#table th[aria-sort]").count() == 1
    assert "1 set" not in seen.page.inner_text("#shown")
    n = len(seen.heads())
    seen.page.check("#all")
    assert len(seen.heads()) > n and "en-de@deepl" in seen.heads() and "all=1" in seen.hash()
    seen.page.uncheck("#all")
    assert len(seen.heads()) == n
    seen.page.locator('#table th[data-sort="sts17/avg-same/spearman"] button').click()
    assert seen.names() == sorted(SCORES, key=lambda name: -SCORES[name])


def test_numbers_have_the_digits_of_pythons_tables(opened: Any, tmp_path: Path) -> None:
    """Just between two, or so once they are rounded to four decimals; and on binary numbers below and above a half."""
    values = [97.25, 97.75, 0.25, 61.849996, 61.850004, 61.35, 61.45, 3.949951, 8.05]
    results = [
        record(f"e{n}", "sts17", subset, {"spearman": value})
        for n, value in enumerate(values)
        for subset in ("en-en", "es-es")
    ]
    results += [
        record(
            f"e{n}", "language-bias", "ten", {"expected": value, "actual": value, "difference": value / 100 - 0.0025}
        )
        for n, value in enumerate(values)
    ]
    measured = [measurement(f"e{n}", 1 / value) for n, value in enumerate([13067.4, 65.85, 8.25, 99.96])]
    made = Shown(results, statistics_of(results), measured)
    costs = cost_columns([f"e{n}" for n in range(4)], results, measured)
    seen = opened(written(tmp_path, made, Options()), "#task=sts17")
    for task, subset, metric in (("sts17", "en-en", "spearman"), ("language-bias", "ten", "difference")):
        figures = Figures(Board(results, made.statistics))
        seen.page.select_option("#task", task)
        place = max(n for n, head in enumerate(seen.heads()) if head == subset)  # the difference is the last
        for name in (f"e{n}" for n in range(len(values))):
            cell = figures.cell(name, (task, subset, metric))
            row = seen.page.locator("#table tbody tr", has=seen.page.locator(f'button.name[title^="{name}"]'))
            texts = row.locator("td").nth(place).inner_text().replace("\u2212", "-").split("\n")
            assert texts == [cell.text, cell.interval_text], name
            if name in [f"e{n}" for n in range(4)]:
                speed, _, _, disk, *_ = [cell.text for cell in costs.cells(name)]
                n_scores = len(seen.heads()) - 3
                assert row.locator("td").nth(n_scores).inner_text() == speed
                assert row.locator("td").nth(n_scores + 1).inner_text() == f"{disk} MB"


def test_who_may_not_be_used_commercially_is_named_with_the_licence(opened: Any, tmp_path: Path) -> None:
    results = [sts(name, "en-en", 50.0 + n, spec=name) for n, name in enumerate(("student", "muse", "own"))]
    seen = opened(written(tmp_path, Shown(results, statistics_of(results), []), Options()))
    said = "Not free for commercial use, by the licence of the weights: student (CC-BY-NC-4.0). "
    assert said in seen.page.inner_text("#key")
    buttons = seen.page.locator("#table button.name")
    titles = {buttons.nth(n).get_attribute("title") for n in range(3)}
    assert titles == {"student, CC-BY-NC-4.0: not free for commercial use", "muse, Apache-2.0", "own"}
    seen.page.locator("#table button.name", has_text="student").click()
    assert "CC-BY-NC-4.0: not free for commercial use" in seen.page.inner_text("#details")
    seen.page.keyboard.press("Escape")
    seen.page.fill("#find", "muse")
    assert "commercial" not in seen.page.inner_text("#key")
    # What they cost is not known: how to measure it, and how long that takes.
    assert "leaderboard speed measures it (about a minute" in seen.page.inner_text("#cheap")


def test_own_pairs_name_their_languages_and_have_charts(opened: Any, tmp_path: Path) -> None:
    metrics = {"accuracy_src_trg": 50.0, "accuracy_trg_src": 40.0}
    results = [record(name, "pairs", "faq", metrics, "p", languages=["en", "tr"]) for name in ("good", "poor")]
    measured = [measurement(name, 0.001 + n) for n, name in enumerate(("good", "poor"))]
    seen = opened(written(tmp_path, Shown(results, statistics_of(results), measured), Options()), "#lang=tr")
    seen.page.wait_for_selector("#cost-speed svg")
    assert "Own pairs src->trg faq." in seen.page.inner_text("#cost-note")
    lines = [text.split("\n") for text in seen.texts("#table thead tr:nth-child(2) th")]
    assert [line[1:] for line in lines[:2]] == [
        ["src->trg", "English \u2192 Turkish"],
        ["trg->src", "Turkish \u2192 English"],
    ]
    assert "Own pairs trg->src faq (Turkish \u2192 English)" in seen.texts("#set option")
    assert "Turkish (tr)" in seen.texts("#lang option"), "a language keeps its own name"
    assert seen.console == []


def test_the_file_that_lists_the_sets_is_explained_where_a_command_names_it(opened: Any, tmp_path: Path) -> None:
    files = {"known": {"known.en-tr.tsv": "0" * 64}, "unknown": {}}
    results = [
        record(
            name,
            "pairs",
            subset,
            {"accuracy_src_trg": 50.0},
            "p",
            languages=["en", "tr"],
            dataset=Dataset(subset, "0" * 64, of_set),
        )
        for subset, of_set in files.items()
        for name in (("good", "poor") if subset == "known" else ("good",))
    ]
    made = Shown(results, statistics_of(results), [measurement(name, 0.001) for name in ("good", "poor")])
    seen = opened(written(tmp_path, made, Options()), "#task=pairs")
    for subset, is_explained in (("known", False), ("unknown", True)):
        place = seen.heads().index(subset)
        row = seen.page.locator("#table tbody tr", has=seen.page.locator('button.name[title^="good"]'))
        row.locator("td").nth(place).locator(".num").click()
        text = seen.page.inner_text("#details")
        assert ("a file that lists the sets" in text, "--sets YOUR-SETS.toml" in text) == (is_explained, is_explained)
        assert is_explained or "--pairs known.en-tr.tsv" in text
        seen.page.keyboard.press("Escape")


def test_milliseconds_are_those_of_the_tables(opened: Any, tmp_path: Path) -> None:
    times = [2.25, 1.25, 0.125, 9.96, 12.5, 1234.5]
    results = [sts(f"e{n}", "en-en", 50.0 + n) for n in range(len(times))]
    # A text alone takes ten times as long as these seconds.
    measured = [measurement(f"e{n}", ms / 1e4) for n, ms in enumerate(times)]
    seen = opened(written(tmp_path, Shown(results, statistics_of(results), measured), Options()))
    for n, one in enumerate(measured):
        alone = one.cell("alone")
        assert alone is not None
        seen.page.locator("#table button.name", has_text=f"e{n}").click()
        assert f"one text\n{ms_cell(alone.ms).text} ms\n" in seen.page.inner_text("#details")
        seen.page.keyboard.press("Escape")


def test_filters_and_the_address(opened: Any, file: Path) -> None:
    seen = opened()
    seen.page.locator("#find").press_sequentially("oo")
    assert seen.names() == ["good", "poor"]
    seen.page.select_option("#task", "tatoeba")
    seen.page.select_option("#lang", "tr")
    assert seen.heads()[:-3] == ["tur", "tur"]
    seen.page.locator('#table th[data-sort="name"] button').click()
    # The first stop of the keyboard: it leads to the table, and what was chosen stays.
    before = seen.hash()
    seen.page.locator("#skip").focus()
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("document.activeElement.id") == "scores" and seen.hash() == before
    seen.page.evaluate("location.hash = 'verdicts'")
    seen.page.wait_for_timeout(50)
    assert seen.page.input_value("#find") == "oo" and seen.page.input_value("#lang") == "tr"
    seen.page.go_back()
    again = opened(file, seen.hash())
    assert (again.names(), again.heads()) == (seen.names(), seen.heads())
    assert again.page.input_value("#find") == "oo" and again.page.input_value("#lang") == "tr"
    again.page.evaluate("location.hash = ''")
    again.page.wait_for_selector("#table tbody tr[data-encoder] >> nth=2")
    assert again.names() == ["good", "fast", "poor"]


@pytest.mark.parametrize("address", ["#task=__proto__", "#lang=%3Cb%3E&sort=x&up=7&within=-1", "#set=1&first=2", "#%"])
def test_an_address_made_by_hand(opened: Any, file: Path, address: str) -> None:
    seen = opened(file, address)
    assert seen.page.locator("#table table").count() == 1 and seen.console == []


def test_cut_and_quantised_vectors_are_folded(opened: Any) -> None:
    seen = opened()
    fold = seen.page.locator("[data-fold]")
    assert fold.count() == 1 and fold.get_attribute("aria-expanded") == "false"
    fold.click()
    assert seen.names() == ["good", "good@128", "good@128-binary", "fast", "poor"]
    assert seen.page.locator("[data-fold]").get_attribute("aria-expanded") == "true"
    seen.page.locator('#table th[data-sort="cost:speed"] button').click()
    assert seen.names() == ["fast", "poor", "good", "good@128", "good@128-binary"]
    # A search finds them by their own name too.
    seen.page.fill("#find", "@128-")
    assert seen.names() == ["good@128-binary"]
    assert seen.page.inner_text("#shown").startswith("0 of 3 encoders, 1 cut or quantised one, ")
    seen.page.fill("#find", "good")
    assert seen.names() == ["good", "good@128", "good@128-binary"]
    assert seen.page.inner_text("#shown").startswith("1 of 3 encoders, 2 cut or quantised ones, ")


def downloaded(seen: Seen, button: str) -> str:
    with seen.page.expect_download() as waiting:
        seen.page.click(button)
    return str(Path(waiting.value.path()).read_text("utf-8"))


def test_downloads_are_the_long_form_of_what_the_table_shows(opened: Any, file: Path) -> None:
    made = shown()
    long = [
        {**entry, **{key: entry[key] and round(entry[key], 4) for key in ("value", "low", "high")}}
        for entry in long_form(made.results, None, made.statistics)
    ]

    def in_order(entries: Any) -> list[Any]:
        return sorted(entries, key=lambda entry: [entry[key] for key in ("encoder", "task", "subset", "metric")])

    seen = opened(file, "#all=1&metrics=1&variants=1")
    entries = json.loads(downloaded(seen, "#json"))
    assert in_order(entries) == in_order(long) and list(entries[0]) == list(long[0])
    rows = list(csv.DictReader(io.StringIO(downloaded(seen, "#csv"))))
    expected = list(csv.DictReader(io.StringIO(csv_text(long))))
    numbers = ("value", "low", "high", "p_best", "p_zero")  # 80 or 80.0
    for row in (*rows, *expected):
        row.update({key: str(float(row[key])) for key in numbers if row[key]})
    assert in_order(rows) == in_order(expected)
    some = json.loads(downloaded(opened(file, "#task=sts17&find=good"), "#json"))
    assert in_order(some) == in_order(
        e for e in long if (e["encoder"], e["task"], e["metric"]) == ("good", "sts17", "spearman")
    )


def test_a_number_opens_what_repeats_it(opened: Any) -> None:
    seen = opened()
    # By keyboard: the table is one stop, arrows go from number to number.
    seen.page.locator("#table .num").first.focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        seen.page.keyboard.press(key)
    text = seen.page.inner_text("#details")
    command = "leaderboard run --encoder fast --task sts17 --subset avg-cross@deepl --results results --fresh"
    assert command in text and "0123456789abcdef" * 4 in text and "fast-1" in text and "6e8a559" in text
    assert seen.page.locator("#table .num[tabindex='0']").count() == 1
    seen.page.keyboard.press("Escape")
    assert not seen.page.locator("#details").is_visible()
    assert seen.page.evaluate("document.activeElement.className") == "num"
    seen.page.locator("#table button.name").first.click()
    assert "memory" in seen.page.inner_text("#details") and "STS avg-same" in seen.page.inner_text("#details")
    seen.page.keyboard.press("Escape")
    # Of a set of one's own, whose file no record knows.
    seen.page.select_option("#task", "retrieval")
    seen.page.locator("#table .num").nth(1).click()
    text = seen.page.inner_text("#details")
    assert "--sets YOUR-SETS.toml" in text and "YOUR-SETS.toml: a file that lists the sets" in text
    assert "against the highest: p = 0.400, corrected by Holm" in text


@pytest.mark.parametrize(("scheme", "viewport"), [("light", WIDE), ("dark", PHONE)])
def test_axe_finds_nothing_serious(opened: Any, scheme: str, viewport: dict[str, int]) -> None:
    seen = opened(color_scheme=scheme, viewport=viewport)
    seen.page.wait_for_selector("#languages-chart svg")
    assert serious(seen) == []
    seen.page.locator("#table .num").first.click()
    assert serious(seen) == []


def test_dark_and_light(opened: Any) -> None:
    def back(seen: Seen) -> int:
        colour = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))

    seen = opened(color_scheme="dark")
    assert back(seen) < 150
    seen.page.wait_for_selector(f'#cost-speed svg text[fill="{charts.DARK.ink}"]', state="attached")
    chart = seen.page.locator("#cost-speed svg")
    assert chart.evaluate("svg => getComputedStyle(svg).backgroundColor") == "rgba(0, 0, 0, 0)"
    assert seen.page.locator(f'.chart svg [fill="{charts.LIGHT.background}"]').count() == 0
    seen.page.click("#theme")
    assert back(seen) > 700 and "theme=light" in seen.hash()
    assert seen.page.locator(f'.chart svg [fill="{charts.DARK.ink}"]').count() == 0
    seen.page.wait_for_selector(f'#cost-speed svg text[fill="{charts.LIGHT.ink}"]', state="attached")


def test_a_phone(opened: Any) -> None:
    seen = opened(viewport=PHONE)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    # A long name breaks between its words, and does not run into a number.
    for place in ("thead th:nth-child(2)", "tbody th"):
        name = seen.page.locator(f"#pairs-table {place}").first
        name.evaluate("th => { th.textContent = 'student-transformer' }")
        assert name.evaluate("th => th.scrollWidth <= th.clientWidth")
        height = "(th, text) => { th.textContent = text; return th.clientHeight }"
        assert name.evaluate(height, "student-transformer") == name.evaluate(height, "student- transformer")
    # A chart that is wider says so; the two that are compared stand below each other.
    seen.page.wait_for_selector("#languages-wide:visible")
    boxes = [seen.page.locator(f"#{name}").bounding_box() for name in ("first", "second")]
    assert boxes[0]["x"] == boxes[1]["x"] and boxes[0]["y"] < boxes[1]["y"]
    for selector in ("#verdicts", "#protocols dl"):  # a name above its text
        columns = seen.page.locator(selector).evaluate("list => getComputedStyle(list).gridTemplateColumns")
        assert len(columns.split()) == 1
    frame = seen.page.locator("#table .box").bounding_box()
    name = seen.page.locator("#table tbody th").first
    before = name.bounding_box()
    # Beside the encoder there is room for a score, and it stays where it is when the others move.
    assert frame["width"] - before["width"] > seen.page.locator("#table tbody td").first.bounding_box()["width"] > 40
    seen.page.evaluate("document.querySelector('#table .box').scrollLeft = 300")
    assert name.bounding_box()["x"] == before["x"]
    assert seen.page.evaluate("document.querySelector('#table .box').scrollLeft") > 0


def test_paper(opened: Any) -> None:
    """It is white, also where dark was chosen, by the system or on the page."""
    seen = opened(color_scheme="dark")
    seen.page.wait_for_selector(f'#cost-speed svg text[fill="{charts.DARK.ink}"]', state="attached")
    for _ in range(2):
        seen.page.emulate_media(media="print", color_scheme="dark")
        assert not seen.page.locator("#theme").is_visible() and not seen.page.locator("#csv").is_visible()
        assert seen.page.locator("#table table").is_visible()
        assert seen.page.evaluate("getComputedStyle(document.querySelector('#table .box')).overflowY") == "visible"
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        seen.page.emulate_media(media="screen", color_scheme="dark")
        seen.page.evaluate("document.documentElement.dataset.theme = 'dark'")
    seen.page.evaluate(
        "ink => addEventListener('beforeprint', () => {"
        " window.ink = document.querySelectorAll(`.chart [fill='${ink}']`).length; })",
        charts.LIGHT.ink,
    )
    seen.page.pdf()
    assert seen.page.evaluate("window.ink") > 0
    assert seen.page.locator(f'.chart svg [fill="{charts.LIGHT.ink}"]').count() == 0


def by_colour(seen: Seen) -> list[Any]:
    return [seen.page.locator(f"#pairs-table td.{kind}").nth(1) for kind in ("better", "worse", "told")]


def test_pairs_and_language_bias(opened: Any, file: Path) -> None:
    seen = opened()
    assert seen.texts("#pairs-table thead th") == ["row minus column", "good", "fast", "poor"]
    rows = [text.split("\t") for text in seen.texts("#pairs-table tbody tr")]
    assert [row[0] for row in rows] == ["good", "fast", "poor"]
    by_pair = seen.page.locator("#pairs-table tbody td").all_inner_texts()
    # Holm over the three pairs: 0.0001 x 3, 0.0001 x 2 (not below the one before), 0.4.
    assert (
        by_pair[1] == "+1.0\np = 0.400" and by_pair[5] == "+39.0\np < 0.001" and by_pair[6] == "\u221240.0\np < 0.001"
    )
    assert [seen.page.locator(f"#pairs-table td.{kind}").count() for kind in ("better", "worse")] == [2, 2]
    backs = [by.evaluate("cell => getComputedStyle(cell).backgroundColor") for by in by_colour(seen)]
    assert len(set(backs)) == 3 and "corrected by Holm over all 3 pairs" in seen.page.inner_text("#pairs-note")
    # Heat maps: two at first; their colours are Python's, half-way to the strongest orange for half of the limit.
    seen.page.wait_for_selector("#languages-chart svg")
    assert seen.texts("#bias-tables h3") == ["good", "fast"]
    half = seen.page.locator("#bias-tables table >> nth=0").locator("tbody tr").first.locator("td").nth(5)
    assert half.inner_text() == "\u22125.0"
    assert half.evaluate("cell => getComputedStyle(cell).backgroundColor") == "rgb(213, 168, 126)"
    # Choosing by keyboard: the focus stays on the box, the chart and the heat maps choose by themselves.
    box = seen.page.locator("#bias-choice input >> nth=0")
    box.focus()
    seen.page.keyboard.press("Space")
    assert seen.page.evaluate("document.activeElement.value") == "good"
    assert seen.texts("#bias-tables h3") == ["fast"] and seen.hash() == "#biases=fast"
    assert seen.page.locator("#languages-choice input:checked").count() == 2
    seen.page.locator("#bias-choice input >> nth=1").uncheck()
    assert seen.texts("#bias-tables h3") == [] and seen.page.locator("#bias-none").is_visible()
    seen.page.locator("#languages-choice input >> nth=0").uncheck()
    assert seen.page.evaluate("document.activeElement.closest('#languages-choice') != null")
    again = opened(file, seen.hash())
    again.page.wait_for_selector("#languages-chart svg")
    assert again.page.locator("#bias-choice input:checked").count() == 0
    assert again.page.locator("#languages-choice input:checked").count() == 1
    assert again.page.locator("#languages-chart svg [aria-label*='good']").count() == 0
    assert again.page.locator("#languages-chart svg [aria-label*='fast']").count() > 0
    # A change that leaves the lists as they are leaves their nodes.
    assert seen.page.locator("[aria-live] select").count() == 0 and seen.console == []


def test_without_scripts_there_is_the_table(opened: Any) -> None:
    seen = opened(java_script_enabled=False)
    rows = seen.page.locator("noscript table").first.locator("tbody tr")
    assert rows.count() == len(SCORES) and rows.first.is_visible()
    assert not seen.page.locator("#csv").is_visible() and "cannot be told" in seen.page.inner_text("#verdicts")


def test_without_charts_and_almost_without_tests(opened: Any, tmp_path: Path) -> None:
    results = [r for r in full_records() if r.task == "sts17" or r.subset == "faq"]
    statistics = {"sts17": statistics_of(results)["sts17"]}
    # Too few items for a test of these two.
    entry = statistics["sts17"].entries["fast", "avg-same"]
    statistics["sts17"].entries["fast", "avg-same"] = replace(entry, p={"spearman": {"good": nan, "poor": 0.0001}})
    what = replace(shown(results), statistics=statistics)
    seen = opened(written(tmp_path, what, Options(has_charts=False)), "#set=sts17/avg-same/spearman")
    assert "multilingual-embedding-harness[board]" in seen.page.inner_text("#no-charts")
    assert seen.hidden("#cost") and seen.hidden("#languages") and seen.hidden("#bias")
    # Nobody is called the best where someone was not held against the highest.
    assert seen.page.inner_text("#best .big") == "Highest: good"
    assert "Not tested" in seen.page.inner_text("#real") and "too few items" in seen.page.inner_text("#real")
    numbers = seen.page.locator('#table [data-cell$=" 6"]')  # avg-same
    for number, text in ((0, "the highest"), (1, "too few items for a test"), (2, "against the highest: p < 0.001")):
        numbers.nth(number).click()
        assert text in seen.page.inner_text("#details")
        seen.page.keyboard.press("Escape")
    seen.page.select_option("#task", "retrieval")
    assert seen.page.inner_text("#best .big") == "Highest: good"
    assert "hold no test" in seen.page.inner_text("#real") and seen.hidden("#pairs")
    seen.page.locator("#table .num").nth(1).click()
    assert "not tested against the highest" in seen.page.inner_text("#details") and seen.console == []


def test_the_bundled_sample_is_another_board(opened: Any, tmp_path: Path) -> None:
    on_sample = {"good": 10.0, "fast": 20.0, "poor": 90.0}
    results = [
        *full_records(),
        *(sts(name, "avg-same@sample", value, parts=["en-en@sample"]) for name, value in on_sample.items()),
    ]
    seen = opened(written(tmp_path, shown(results), Options(has_charts=False)))
    assert "avg-same@sample" not in seen.heads() and seen.names() == ["good", "fast", "poor"]
    seen.page.select_option("#data-kind", "1")
    assert seen.heads()[:-3] == ["avg-same@sample"] and "sample=1" in seen.hash()
    # With overall ranks of its own.
    assert seen.names() == ["poor", "fast", "good"]
    ranks = seen.page.locator("#table tbody tr td:nth-child(2)").all_inner_texts()
    assert [text.split("\n")[0] for text in ranks] == ["1.0", "2.0", "3.0"]
    seen.page.locator("details:has(#legend) summary").click()
    legend = seen.page.inner_text("#legend")
    assert "ranks in 1 column (STS avg-same@sample)" in legend
    assert "STS 2017 avg-same@sample: the average over 1 set, on 1 language (English)." in legend


OBJECTS = ("constructor", "toString", "__proto__")


def test_what_others_wrote_stays_text(opened: Any, tmp_path: Path) -> None:
    results = []
    for number, text in enumerate(HOSTILE.values()):
        name = f"{number:02} {text}"
        one = record(name, "made", text, {"score": 80.0 + number / 10, text: 1.0}, f"task:made|{text}")
        average = record(name, "sts17", "avg-same", {"spearman": 80.0 + number / 10}, parts=["en-en"])
        changed = {"spec": f"static:{text}", "hardware": {"processor": text}}
        # What an encoder costs is shown where it is of the weights of the scores.
        results += [replace(one, fingerprint=text, **changed), replace(average, **changed)]  # type: ignore[arg-type]
    # Names that objects of JavaScript have by themselves: of encoders, and of a set and its metric.
    for number, name in enumerate(OBJECTS):
        results.append(record(name, "sts17", "avg-same", {"spearman": 90.0 - number}, parts=["en-en"]))
        results.append(record(name, "made", name, {"score": 80.0, name: 1.0}, "task:made"))
    what = replace(shown(results), folder=HOSTILE["html"])
    seen = opened(
        written(tmp_path, what, Options(title=HOSTILE["html"], note=HOSTILE["html, open"])), color_scheme="dark"
    )
    seen.page.wait_for_selector("#cost-speed svg")
    for name in OBJECTS:
        assert seen.page.locator(f"#cost-speed svg [aria-label^='{name}']").count() > 0
    assert OBJECTS[0] in seen.page.locator("#cost-speed svg text").all_text_contents()
    texts = {visible(f"{number:02} {text}") for number, text in enumerate(HOSTILE.values())}
    assert texts | set(OBJECTS) == {str(name) for name in seen.page.locator("#table button.name").all_text_contents()}
    seen.page.check("#metrics")
    seen.page.select_option("#task", "made")
    for number in (0, 1, 5):
        seen.page.locator("#table .num").nth(number).click()
        seen.page.keyboard.press("Escape")
        seen.page.locator("#table button.name").nth(number).click()
        seen.page.keyboard.press("Escape")
    rows = list(csv.reader(io.StringIO(downloaded(seen, "#csv"))))
    assert not [cell for row in rows for cell in row if cell.lstrip('\t\r\n "')[:1] in tuple("=+@＝＋－＠")]
    assert seen.page.locator("img, iframe, object, script:not(#data, #library, [type=module])").count() == 0
    assert seen.page.locator("a[href]:not(.skip)").count() == 0
    assert seen.console == [] and len(seen.requests) == 1


def test_cut_vectors_of_what_was_not_measured(opened: Any, tmp_path: Path) -> None:
    """They stand by themselves, and are no encoder of their own: not the best, in no pair, not counted."""
    key = "sts17/avg-same/spearman"
    cut = [*variants("good", 80.0), replace(sts("good@x", "avg-same", 99.0), base="good")]
    what = shown([*full_records({"fast": 70.0, "poor": 40.0}), *cut])
    seen = opened(written(tmp_path, what, Options(has_charts=False)), f"#set={key}&sort={key}")
    assert seen.names() == ["good@x", "good@128", "good@128-binary", "fast", "poor"]
    assert seen.page.inner_text("#shown").startswith("2 of 2 encoders, 3 cut or quantised ones, ")
    assert seen.page.inner_text("#best .big") == "fast" and "best of 2: fast" in seen.page.inner_text("#best").lower()
    assert "Yes" in seen.page.inner_text("#real") and seen.page.locator("#first option").count() == 2
    assert "good@128-binary 16 bytes, 7.0 points above the highest of full vectors" in seen.page.inner_text("#cheap")
    seen.page.locator("#table button.name").first.click()  # whose record says not how it was cut
    assert "made from\ngood\n" in seen.page.inner_text("#details") + "\n" and seen.console == []


def test_of_many_encoders_the_first_are_shown(opened: Any, tmp_path: Path) -> None:
    many = {f"e{number:03}": float(number) for number in range(100)}
    many["e099"] = 98.00001  # above e098 by less than the page shows
    results = [record(name, "sts17", "avg-same", {"spearman": value}, parts=["en-en"]) for name, value in many.items()]
    # Another p for each pair, from small to large in no order.
    order = sorted(many, key=lambda name: -many[name])
    raw = {pair: 1e-7 * (1 + number * 1009 % 4950) for number, pair in enumerate(combinations(order, 2))}
    entries = {(r.encoder, r.subset): Entry(digest(r), p={"spearman": {}}) for r in results}
    for pair, p in raw.items():
        entries[min(pair), "avg-same"].p["spearman"][max(pair)] = p
    corrected, highest = {}, 0.0
    for place, pair in enumerate(sorted(raw, key=lambda pair: raw[pair])):
        highest = max(highest, raw[pair] * (4950 - place))
        corrected[pair] = f"p = {highest:.3f}" if highest >= 0.001 else "p < 0.001"

    what = Shown(results, {"sts17": Statistics("made-up", 0.95, entries)})
    seen = opened(written(tmp_path, what, Options(has_charts=False)))
    assert seen.page.locator("#pairs-table tbody tr").count() == 30
    texts = seen.page.locator("#pairs-table tbody small").all_inner_texts()
    shown_pairs = [(a, b) for a in order[:30] for b in order[:30] if a != b]
    told = [corrected[min(pair, key=order.index), max(pair, key=order.index)] for pair in shown_pairs]
    assert texts == told and len(set(told)) > 100
    for first, second in (("e003", "e050"), ("e050", "e003"), ("e097", "e000")):
        seen.page.select_option("#first", first)
        seen.page.select_option("#second", second)
        pair = min((first, second), key=order.index), max((first, second), key=order.index)
        assert f"({corrected[pair]})" in seen.page.inner_text("#real")
    # The tests are against the highest, which the page's digits do not tell from the next one.
    assert seen.page.inner_text("#best .big") == "e099"
    seen.page.select_option("#first", "e098")
    seen.page.select_option("#second", "e099")
    assert "Yes e099 is better by 0.0 points (p < 0.001)" in seen.page.inner_text("#real")

    assert seen.names() == order[:50]
    assert len(json.loads(downloaded(seen, "#json"))) == 100
    assert "100 of 100 encoders" in seen.page.inner_text("#shown")
    seen.page.click("#rest")
    assert len(seen.names()) == 100 and not seen.page.locator("#rest").is_visible()
    seen.page.locator('#table th[data-sort="name"] button').click()
    assert seen.names() == sorted(many)

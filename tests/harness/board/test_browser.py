"""The page in a real browser: what people do with it, and that it asks nothing of any other host.

They skip without a browser. With $HARNESS_BROWSER (its path), which `.ci/run` sets where one is installed, they fail
in place of skipping.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from boards import SCORES, full_records, shown, variants
from hostile import HOSTILE
from result_records import record

from harness import charts
from harness.board.data import Shown
from harness.board.page import Options, page
from harness.core.escaping import visible

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MUST_RUN = os.environ.get("HARNESS_BROWSER", "")
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = MUST_RUN or next(filter(None, map(shutil.which, BROWSERS)), "")
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


def written(folder: Path, what: Shown, options: Options) -> Path:
    path = folder / "board.html"
    path.write_text(page(what, options), "utf-8")
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


def test_the_three_questions(opened: Any) -> None:
    seen = opened()
    assert "Cannot be told" in seen.page.inner_text("#real")  # good and fast
    seen.page.select_option("#second", "poor")
    assert "Yes" in seen.page.inner_text("#real") and "good is better by 40.0 points" in seen.page.inner_text("#real")
    assert seen.page.inner_text("#best .big") == "good or fast"
    assert "fast 10,000 sentences/s, 1.0 below" in seen.page.inner_text("#cheap")
    assert "good@128-binary 16 bytes" not in seen.page.inner_text("#cheap")  # 3 points below
    seen.page.fill("#within", "3")
    assert "good@128-binary 16 bytes, 3.0 below" in seen.page.inner_text("#cheap")
    seen.page.fill("#within", "0.5")
    assert "good 250 sentences/s, the highest" in seen.page.inner_text("#cheap")
    # The best for Turkish retrieval: a language, and a task.
    seen.page.select_option("#lang", "tr")
    assert seen.heads()[:-3] == ["en-tr", "tur", "tur", "faq"]
    seen.page.select_option("#task", "retrieval")
    assert "cannot be told from it: fast (faster); worse: poor" in seen.page.inner_text("#verdicts")


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
    seen.page.locator('#table th[data-sort="sts17/avg-same/spearman"] button').click()
    assert seen.names() == sorted(SCORES, key=lambda name: -SCORES[name])


def test_filters_and_the_address(opened: Any, file: Path) -> None:
    seen = opened()
    seen.page.locator("#find").press_sequentially("oo")
    assert seen.names() == ["good", "poor"]
    seen.page.select_option("#task", "tatoeba")
    seen.page.select_option("#lang", "tr")
    assert seen.heads()[:-3] == ["tur", "tur"]
    seen.page.locator('#table th[data-sort="name"] button').click()
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


def downloaded(seen: Seen, button: str) -> str:
    with seen.page.expect_download() as waiting:
        seen.page.click(button)
    return str(Path(waiting.value.path()).read_text("utf-8"))


def test_downloads_have_what_the_table_shows(opened: Any, file: Path) -> None:
    seen = opened(file, "#task=sts17&find=good")
    rows = list(csv.DictReader(io.StringIO(downloaded(seen, "#csv"))))
    entries = json.loads(downloaded(seen, "#json"))
    records = {r.subset: r for r in full_records() if (r.encoder, r.task) == ("good", "sts17")}
    assert len(rows) == len(entries) == len(records)
    for row, entry in zip(rows, entries, strict=True):
        result = records[entry["subset"]]
        assert entry["value"] == float(row["value"]) == result.metrics["spearman"]
        assert (entry["low"], entry["high"]) == (entry["value"] - 1, entry["value"] + 1)
        assert (entry["is_best"], row["is_best"]) == (True, "true")
        assert row["fingerprint"] == result.fingerprint and row["dataset_sha256"] == result.dataset.sha256


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
    seen.page.click("#theme")
    assert back(seen) > 700 and "theme=light" in seen.hash()
    seen.page.wait_for_selector(f'#cost-speed svg text[fill="{charts.LIGHT.ink}"]', state="attached")


def test_a_phone(opened: Any) -> None:
    seen = opened(viewport=PHONE)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    frame = seen.page.locator("#table .box").bounding_box()
    name = seen.page.locator("#table tbody th").first
    before = name.bounding_box()
    # Beside the encoder there is room for a score, and it stays where it is when the others move.
    assert frame["width"] - before["width"] > seen.page.locator("#table tbody td").first.bounding_box()["width"] > 40
    seen.page.evaluate("document.querySelector('#table .box').scrollLeft = 300")
    assert name.bounding_box()["x"] == before["x"]
    assert seen.page.evaluate("document.querySelector('#table .box').scrollLeft") > 0


def test_paper(opened: Any) -> None:
    seen = opened(color_scheme="dark")
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert not seen.page.locator("#theme").is_visible() and not seen.page.locator("#csv").is_visible()
    assert seen.page.locator("#table table").is_visible()
    assert seen.page.evaluate("getComputedStyle(document.querySelector('#table .box')).overflowY") == "visible"
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_scripts_there_is_the_table(opened: Any) -> None:
    seen = opened(java_script_enabled=False)
    rows = seen.page.locator("noscript table").first.locator("tbody tr")
    assert rows.count() == len(SCORES) and rows.first.is_visible()
    assert not seen.page.locator("#csv").is_visible() and "cannot be told" in seen.page.inner_text("#verdicts")


def test_without_charts_it_says_how_to_get_them(opened: Any, tmp_path: Path) -> None:
    seen = opened(written(tmp_path, shown(), Options(has_charts=False)))
    assert "multilingual-embedding-harness[board]" in seen.page.inner_text("#no-charts")
    assert not seen.page.locator("#cost").is_visible() and seen.console == []


def test_the_bundled_sample_is_another_board(opened: Any, tmp_path: Path) -> None:
    results = [
        *full_records(),
        *(record(name, "korsts", "ko-ko@sample", {"spearman": 50.0}) for name in SCORES),
    ]
    seen = opened(written(tmp_path, shown(results), Options(has_charts=False)))
    assert "ko-ko@sample" not in seen.heads()
    seen.page.select_option("#data-kind", "1")
    assert seen.heads()[:-3] == ["ko-ko@sample"] and "sample=1" in seen.hash()


def test_what_others_wrote_stays_text(opened: Any, tmp_path: Path) -> None:
    results = []
    for number, text in enumerate(HOSTILE.values()):
        name = f"{number:02} {text}"
        one = record(name, "made", text, {"score": 80.0 + number / 10, text: 1.0}, f"task:made|{text}")
        average = record(name, "sts17", "avg-same", {"spearman": 80.0 + number / 10}, parts=["en-en"])
        changed = {"spec": f"static:{text}", "hardware": {"processor": text}}
        # What an encoder costs is shown where it is of the weights of the scores.
        results += [replace(one, fingerprint=text, **changed), replace(average, **changed)]  # type: ignore[arg-type]
    what = replace(shown(results), folder=HOSTILE["html"])
    seen = opened(written(tmp_path, what, Options(title=HOSTILE["html"], note=HOSTILE["html, open"])))
    seen.page.wait_for_selector("#cost-speed svg")
    assert {visible(f"{number:02} {text}") for number, text in enumerate(HOSTILE.values())} == {
        str(name) for name in seen.page.locator("#table button.name").all_text_contents()
    }
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


def test_many_variants_of_one_name(opened: Any, tmp_path: Path) -> None:
    """Those whose full vectors were not measured stand by themselves."""
    seen = opened(written(tmp_path, shown(variants("good", 80.0)), Options(has_charts=False)))
    assert sorted(seen.names()) == ["good@128", "good@128-binary"] and seen.console == []


def test_of_many_encoders_the_first_are_shown(opened: Any, tmp_path: Path) -> None:
    many = {f"e{number:03}": float(number) for number in range(100)}
    results = [record(name, "sts17", "avg-same", {"spearman": value}, parts=["en-en"]) for name, value in many.items()]
    seen = opened(written(tmp_path, Shown(results, {}), Options(has_charts=False)))
    assert seen.names() == [f"e{number:03}" for number in range(99, 49, -1)]
    assert len(json.loads(downloaded(seen, "#json"))) == 100
    assert "100 of 100 encoders" in seen.page.inner_text("#shown")
    seen.page.click("#rest")
    assert len(seen.names()) == 100 and not seen.page.locator("#rest").is_visible()
    seen.page.locator('#table th[data-sort="name"] button').click()
    assert seen.names() == sorted(many)

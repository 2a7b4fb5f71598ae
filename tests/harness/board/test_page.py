"""The page as text: its policy, its bytes, what others wrote in it, and the command that writes it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from boards import full_records, shown, write_board
from gate_runs import leaderboard_here
from hostile import HOSTILE, NOT_UNICODE, hidden
from result_records import record, sts, write_records

from harness import charts
from harness.board.data import Shown
from harness.board.page import Options, page, without_charts
from harness.charts.theme import VEGA_LITE
from harness.core.provenance import GitState
from harness.published import published_scores
from harness.results.records import Dataset, Result
from harness.results.statistics import Statistics

needs_extra = pytest.mark.skipif(not charts.is_available(), reason='needs the extra "board"')
PLAIN = Options(has_charts=False)
RESULTS = Path(__file__).parents[3] / "results"


class Parts(HTMLParser):
    """The elements of a page, and the text of its scripts and style."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.texts: list[str] = []
        self.comments: list[str] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")
            self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.raw[self._open][-1] += data
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data_of(text: str) -> dict[str, Any]:
    return json.loads(Parts(text).raw["script"][0])


def test_the_policy_allows_the_page_s_own_scripts_and_nothing_else() -> None:
    parts = Parts(page(shown(), PLAIN))
    [policy] = [of["content"] for tag, of in parts.tags if tag == "meta" and "http-equiv" in of]
    assert policy
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'" and "unsafe" not in policy
    data, *programs = parts.raw["script"]
    assert rules["script-src"].split() == [hash_of(text) for text in programs]
    assert rules["style-src"].split() == [hash_of(text) for text in parts.raw["style"]]
    assert hash_of(data) not in policy  # data are never run
    assert not rules.keys() & {"img-src", "connect-src", "font-src"}  # the page has nothing that needs them


@needs_extra
def test_what_draws_charts_ends_no_element_and_its_licences_are_of_its_versions() -> None:
    """Nothing in it is escaped: in code, that could change what it does."""
    import vl_convert

    bundle = charts.javascript_bundle()
    assert not re.search(r"</script|<!--", bundle, re.IGNORECASE)
    head = (files("harness.board") / "browser" / "licences.txt").read_text("utf-8").partition("\n\n")[0]
    named = dict(re.findall(r"(Vega[\w-]*) (\d+\.\d+\.\d+)", head))
    assert named["Vega"] == vl_convert.get_vega_version() and f'"{named["Vega"]}"' in bundle
    assert named["Vega-Embed"] == vl_convert.get_vega_embed_version()
    assert named["Vega-Lite"].startswith(VEGA_LITE) and f'"{named["Vega-Lite"]}"' in bundle
    assert f"vl-convert-python\n{'.'.join(version('vl-convert-python').split('.')[:2])} " in head


@needs_extra
def test_charts_come_without_a_wider_policy() -> None:
    text = page(shown(), Options())
    parts = Parts(text)
    [policy] = [of["content"] or "" for tag, of in parts.tags if tag == "meta" and "http-equiv" in of]
    programs = parts.raw["script"][1:]
    assert "University of Washington" in programs[0]  # whose licence asks for it
    assert "unsafe" not in policy and len(programs) == 2 and all(hash_of(text) in policy for text in programs)
    made = data_of(text)["charts"]
    assert {kind for drawn in made["cost"].values() for kind in drawn} == {"speed", "disk", "bytes"}
    # Colours of a theme are put in the places of the other's, there and back.
    assert len({*made["dark"], *made["dark"].values()}) == 2 * len(made["dark"]) > 10


def test_what_is_drawn_later_is_hidden_until_then() -> None:
    tags = Parts(page(shown(), PLAIN)).tags
    sections = {of["id"]: of for tag, of in tags if tag == "section" and "id" in of}
    for name in ("cost", "languages", "pairs", "bias"):
        assert "hidden" in sections[name] and "class" not in sections[name]


@needs_extra
def test_a_chart_of_the_page_shows_what_its_picture_would_and_says_what_it_leaves_out() -> None:
    data = data_of(page(shown(), Options()))
    made, columns = data["charts"], data["columns"]
    by_task = {columns[int(place)]["task"]: one for place, one in made["languages"].items()}
    assert {task: (one["n"], one["note"]) for task, one in by_task.items()} == {
        "sts17": (5, "; without 1 set of @deepl"),
        "tatoeba": (3, ""),
    }
    assert by_task["tatoeba"]["encoders"] == ["good", "fast", "poor"]
    assert by_task["tatoeba"]["title"] == "Tatoeba similarity search, xx->en"
    drawn = {
        row["says"].partition(",")[0]
        for rows in by_task["sts17"]["spec"]["datasets"].values()
        for row in rows
        if "says" in row
    }
    assert drawn == {"en-en", "es-es", "ar-ar", "en-ar", "en-tr"}
    assert set(made["setup"]) == set(made["cost"]) and all("Made-up CPU" in setup for setup in made["setup"].values())


def test_nothing_in_the_page_is_asked_of_another_host() -> None:
    parts = Parts(page(shown(), PLAIN))
    assert not [tag for tag, of in parts.tags if {"src", "srcset", "style", "onclick"} & of.keys() or tag == "link"]
    assert not re.search(r"url\(|@import|import\(|fetch\(|XMLHttpRequest|https?://", "".join(parts.raw["style"]))
    app = parts.raw["script"][1]
    assert not re.search(r"\bimport\b|\bfetch\(|XMLHttpRequest|https?://|innerHTML|insertAdjacentHTML|\beval\(", app)


def hostile(number: int, text: str) -> Result:
    """A record with the text wherever a record takes any; names are checked when records are read."""
    return replace(
        record(f"e{number}", "made", "s", {"score": 80.0, text: 1.0}),
        fingerprint=text,
        signature=f"task:made|{text}",
        spec=f"static:{text}",
        dataset=Dataset(text, text, {text: text}),
        versions={text: text},
        hardware={"processor": text, text: text, "device": text},
        git=GitState(text, True),
        created=text,
        subset=text,
        encoder=f"e{number} {text}",
    )


def test_what_others_wrote_is_text() -> None:
    texts = {**HOSTILE, **NOT_UNICODE}
    results = [hostile(number, text) for number, text in enumerate(texts.values())]
    calm = [hostile(number, f"text {number}") for number, _ in enumerate(texts)]
    options = replace(PLAIN, title=HOSTILE["html"], note=HOSTILE["html"])
    made = Parts(page(Shown(results, {}), options))
    expected = Parts(page(Shown(calm, {}), PLAIN))
    kinds = {tag for tag, _ in made.tags}
    assert kinds <= {tag for tag, _ in expected.tags} | {"small", "b", "code"}
    assert len(made.raw["script"]) == 2 and made.comments == expected.comments
    assert not [of for tag, of in made.tags for name in of if name.startswith("on") or name in ("src", "style")]
    data = json.loads(made.raw["script"][0])
    assert len(data["encoders"]) == len(texts)
    assert not hidden("".join(made.texts).replace("\n", "")) and not hidden(json.dumps(data, ensure_ascii=False))
    assert "<" not in made.raw["script"][0] and ">" not in made.raw["script"][0]


@needs_extra
def test_what_others_wrote_is_text_in_charts_too() -> None:
    results = [sts(f"e{number} {text}", "avg-same", 80.0 - number) for number, text in enumerate(HOSTILE.values())]
    parts = Parts(page(shown(results), Options()))
    assert len(parts.raw["script"]) == 3 and "<" not in parts.raw["script"][0]


@needs_extra
def test_two_processes_make_the_same_bytes(tmp_path: Path) -> None:
    write_board(tmp_path / "results", [r for r in full_records() if r.task == "sts17" and "cross" not in r.subset])
    program = "import sys; from harness.cli import main; main(sys.argv[1:])"
    running = []
    for number in (1, 2):
        arguments = ["report", "--results", "results", "--html", f"{number}.html"]
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "TZ": f"UTC{number}"}
        running.append(subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=tmp_path, env=environment))
    assert [one.wait() for one in running] == [0, 0]
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(charts, "is_available", lambda: False)  # charts take seconds
    write_board(tmp_path / "results")
    return tmp_path


def test_the_command_writes_it_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["report", "--results", "results", "--html", "board.html", "--title", "Ours & theirs"]
    assert leaderboard_here(*command) == 0
    assert "board.html" in capsys.readouterr().out.splitlines()
    assert "<title>Ours &amp; theirs</title>" in Path("board.html").read_text()
    assert leaderboard_here(*command) == 0 and capsys.readouterr().out == ""
    assert leaderboard_here(*command, "--check") == 0
    assert leaderboard_here(*command[:-2], "--check") == 1
    assert capsys.readouterr().out == "would change: board.html\n"


def test_without_the_extra_it_says_how_to_get_charts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard_here("report", "--results", "results", "--html", "board.html") == 0
    text = Path("board.html").read_text()
    assert 'pip install "multilingual-embedding-harness[board]"' in text and data_of(text)["charts"] == {}


WITH = ("`leaderboard report --html` from", "`leaderboard report --html`, with charts, from")


def with_charts(text: str) -> str:
    """A page as the extra would have made it, as far as can be compared."""
    bundle = '<script type="text/plain" id="library">vega</script>'
    text = text.replace(*WITH).replace("script-src '", "script-src 'sha256-vega' '", 1)
    text = text.replace('"charts":{}', '"charts":{"cost":{"0":{}}}')
    return text.replace('\n<script type="module">', f'{bundle}\n<script type="module">')


def test_without_the_extra_a_page_with_charts_is_compared_but_for_these(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", "--results", "results", "--html", "board.html", "--title", "x, with charts, y"]
    assert leaderboard_here(*command) == 0
    plain = Path("board.html").read_text()
    Path("board.html").write_text(with_charts(plain))
    for check in (["--check"], []):
        capsys.readouterr()
        assert leaderboard_here(*command, *check) == 0
        said = capsys.readouterr()
        assert said.out == "" and "board.html stays as it is, and its charts are not compared" in said.err
        assert 'pip install "multilingual-embedding-harness[board]"' in said.err
    assert Path("board.html").read_text() == with_charts(plain), "it keeps its charts"

    # What is stale is found, and it is said that charts go.
    Path("board.html").write_text(with_charts(plain).replace("81.0", "99.9"))
    assert leaderboard_here(*command, "--check") == 1
    assert leaderboard_here(*command) == 0
    assert "board.html has charts, and the new page has none" in capsys.readouterr().err
    assert Path("board.html").read_text() == plain
    # A title is no sign of charts.
    Path("board.html").write_text(plain.replace("81.0", "99.9"))
    assert leaderboard_here(*command, "--check") == 1


@needs_extra
def test_a_page_less_its_charts_is_the_page_that_is_made_without_them() -> None:
    text = page(shown(), Options())
    assert without_charts(text) == without_charts(page(shown(), PLAIN))


@pytest.mark.parametrize("text", ["<!doctype html>\n<html>my own</html>\n", "one line"])
def test_a_page_of_others_is_not_written_over(here: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("board.html").write_text(text)
    assert leaderboard_here("report", "--results", "results", "--html", "board.html") == 2
    assert "board.html: not made by this command; name another file, or move it away" in capsys.readouterr().err
    assert Path("board.html").read_text() == text and not Path("results/README.md").exists()
    Path("board.html").write_text("")
    assert leaderboard_here("report", "--results", "results", "--html", "board.html") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--html", "README.md"], "name a file that ends in .html"),
        (["--html", "folder.html"], "a folder, where a file should be"),
        (["--html", "board.html", "--source-url", "javascript:alert(1)"], "not an address on the web"),
        (["--html", "board.html", "--source-url", "example"], "not an address on the web"),
        (["--html", "board.html", "--source-url", "http://[x"], "not an address on the web"),
        (["--html", "board.html", "--source-url", "https://a.b/c?d=e"], "without ? and #"),
        (["--html", "board.html", "--source-url", "https://a.b/c#d"], "without ? and #"),
        (["--title", "Ours"], "give --html FILE too"),
        (["--html", "missing/sub/board.html", "--language", "xq"], "language 'xq'"),
    ],
)
def test_bad_input(here: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    Path("folder.html").mkdir()
    assert leaderboard_here("report", "--results", "results", *options) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert message in line
    assert not Path("board.html").exists() and not Path("results/README.md").exists()


def test_links_lead_to_the_record(here: Path) -> None:
    at = "https://example.org/tree/main/results"
    assert leaderboard_here("report", "--results", "results", "--html", "board.html", "--source-url", f"{at}/") == 0
    data = data_of(Path("board.html").read_text())
    assert data["link"] == at
    names = [encoder["name"] for encoder in data["encoders"]]
    for known, cells in zip(data["columns"], data["cells"], strict=True):
        for cell in cells:
            line = data["records"][cell[6]][5]
            file = Path("results/records") / names[cell[0]] / f"{known['task']}.json"
            # These files are one line each, in which no record has a line of its own.
            assert line == 0 and file.is_file()


def test_the_line_of_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(charts, "is_available", lambda: False)
    store = write_records(tmp_path / "results", [sts("one", "en-en", 80.0), sts("one", "en-tr", 70.0)])
    records = json.loads((store.records / "one/sts17.json").read_text())
    lines = json.dumps(records, indent=1, sort_keys=True).splitlines()
    (store.records / "one/sts17.json").write_text("\n".join(lines))
    assert leaderboard_here("report", "--results", "results", "--html", "b.html", "--source-url", "https://a.b") == 0
    data = data_of(Path("b.html").read_text())
    for known, [cell] in zip(data["columns"], data["cells"], strict=True):
        assert f'"subset": "{known["subset"]}"' in lines[data["records"][cell[6]][5] - 1]


def test_the_line_is_found_in_any_file_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several keys on a line, and texts that hold what elsewhere ends a line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(charts, "is_available", lambda: False)
    made = [sts("one", "en-en", 80.0, spec="a\u2028b\x85c"), sts("one", "en-tr", 70.0)]
    store = write_records(tmp_path / "results", made)
    file = store.records / "one/sts17.json"
    lines = json.dumps(json.loads(file.read_text()), indent=1, ensure_ascii=False).split("\n")
    places = [number for number, line in enumerate(lines) if '"subset"' in line]
    task = next(line for line in lines if '"task":' in line)
    lines = [f"{line} {task.strip()}" if '"subset"' in line else line for line in lines]
    file.write_text("\n".join(lines), "utf-8")
    assert leaderboard_here("report", "--results", "results", "--html", "b.html", "--source-url", "https://a.b") == 0
    found = sorted({record[5] for record in data_of(Path("b.html").read_text())["records"]})
    assert found == [place + 1 for place in places]


def test_a_folder_beside_the_page_is_linked_and_no_other_place_is_told(here: Path) -> None:
    (here / "elsewhere").mkdir()
    for file, link in (("board.html", "./results"), ("results/board.html", "./."), ("elsewhere/board.html", "")):
        assert leaderboard_here("report", "--results", "results", "--html", file) == 0
        text = Path(file).read_text()
        assert data_of(text)["link"] == link and str(here) not in text


def test_languages(here: Path) -> None:
    assert leaderboard_here("report", "--results", "results", "--html", "board.html", "--language", "tr") == 0
    text = Path("board.html").read_text()
    assert "Only sets on these languages, and English: tr." in text
    assert {known["subset"] for known in data_of(text)["columns"]} == {"en-en", "en-tr", "tur", "faq"}


def test_a_browser_without_scripts_has_the_table() -> None:
    text = page(shown(), PLAIN)
    [inner] = re.findall(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    rows = re.findall(r'<tr><th scope="row">(\w+)', inner)
    assert set(rows) == {"good", "fast", "poor"}
    assert "<b>81.0</b>" in inner and "not significantly worse" in inner


def test_a_browser_without_scripts_has_the_tables_of_tasks_without_a_column_over_all() -> None:
    text = page(Shown([record(name, "mine", "a", {"x": 1.0}) for name in ("one", "two")], {}), PLAIN)
    [inner] = re.findall(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    assert re.findall(r'<tr><th scope="row">(\w+)', inner) == ["one", "two"]


def test_one_encoder_and_one_set_are_said_so() -> None:
    assert "1 encoder, 1 set, measured 2025-01-02." in page(Shown([sts("one", "en-en", 80.0)], {}), PLAIN)


def test_published_figures_stand_beside_measured_ones_where_they_may() -> None:
    results = full_records()
    with_figures = page(Shown(results, {}), Options(scores=published_scores(), has_charts=False))
    block = with_figures[with_figures.index('id="published"') : with_figures.index('id="protocols"')]
    assert "<summary>STS 2017</summary>" in block and "BUCC" not in block
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)', block)
    assert "en-tr" in heads and not any("@" in head for head in heads)


@needs_extra
@pytest.mark.slow
def test_the_page_of_the_committed_results_is_small(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    assert leaderboard_here("report", "--results", tmp_path / "results", "--html", tmp_path / "board.html") == 0
    content = (tmp_path / "board.html").read_bytes()
    assert len(content) < 2_000_000
    assert len(gzip.compress(content)) < 600_000


def test_no_statistics_and_no_speeds() -> None:
    data = data_of(page(Shown([sts("one", "en-en", 80.0)], {"sts17": Statistics()}), PLAIN))
    assert data["costs"]["by_encoder"] == {} and data["biases"]["groups"] == []

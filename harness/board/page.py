"""The page: one HTML file with its data, its style and its scripts in it, which asks no other host for anything."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from harness import charts
from harness.board.biases import biases
from harness.board.charts import page_charts
from harness.board.data import Shown, board_data, protocols
from harness.board.tables import html_table
from harness.core import escaping
from harness.core.names import Subset
from harness.protocol.described import task_order, title_of
from harness.published import PublishedScore
from harness.report.content import Content
from harness.report.pages import front_tables, of_measured
from harness.report.published import published_boards

TITLE = "Multilingual sentence embeddings"
MADE = "<!-- Made by `leaderboard report --html`"
"""Begins the second line of every page."""

WITH_CHARTS = ", with charts,"
"""Follows that in a page that has them."""

_ONLY = (
    '<p class="notes">Only on the very data that were published; a stand-in (with an @ in its name) is never set '
    "beside a published figure.</p>"
)
_DATA = re.compile(r'(<script type="application/json" id="data">)(.*?)(?=</script>)', re.DOTALL)
_LIBRARY = re.compile(r'<script type="text/plain" id="library">.*?</script>', re.DOTALL)
_SCRIPTS = ("model", "format", "table", "answers", "matrices", "details", "downloads", "charts", "main")


@dataclass(frozen=True)
class Options:
    """What a page has beside the numbers.

    Attributes:
        title: of the page.
        scores: published figures, of which those on measured tasks are shown.
        link: where the results folder can be read, an address or a relative path; empty: records have no links.
        has_charts: whether there is what draws charts.
        note: a line below the title: by which languages the results were chosen, say.
    """

    title: str = TITLE
    scores: Sequence[PublishedScore] = ()
    link: str = ""
    has_charts: bool = True
    note: str = ""


def page(shown: Shown, options: Options) -> str:
    """The whole page. The same results give the same bytes: nothing in it says when it was made."""
    content = Content(shown.results, shown.folder, shown.statistics, shown.measured, options.scores)
    data = board_data(shown)
    places = {encoder["name"]: place for place, encoder in enumerate(data["encoders"])}
    data["biases"] = biases(shown.results, shown.statistics, places)
    data["link"] = options.link
    bundle = _bundle() if options.has_charts else ""
    data["charts"] = page_charts(content, data["columns"]) if bundle else {}
    scripts = {"app": _app(), "bundle": bundle}
    style = _file("board.css")
    parts = {
        "title": escaping.xml(options.title),
        "about": _about(content, options, data),
        "charts": WITH_CHARTS if bundle else "",
        "policy": _policy([script for script in scripts.values() if script], style),
        "style": style,
        "verdicts": _verdicts(data["columns"]),
        "table": _table(content),
        "published": _published(content),
        "protocols": _protocols(shown),
        "data": script_json(_visible(data)),
        "app": f'<script type="module">{scripts["app"]}</script>',
        # Inert until a script starts it: the table is of use before a megabyte of charts has been read.
        "bundle": f'<script type="text/plain" id="library">{bundle}</script>' if bundle else "",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _file("page.html"))


def without_charts(text: str) -> str:
    """A page less its charts, what draws them and what allows that: all that can be compared where none can be drawn.

    Raises:
        ValueError: its data are no JSON.
    """

    def plain(match: re.Match[str]) -> str:
        return match[1] + json.dumps({**json.loads(match[2]), "charts": {}})

    text = text.replace(MADE + WITH_CHARTS, MADE, 1)
    text = re.sub(r"script-src [^;]*;", "", text, count=1)
    return _DATA.sub(plain, _LIBRARY.sub("", text, count=1), count=1)


def script_json(value: Any) -> str:
    """JSON that may stand in a `script` element: nothing in it ends the element or begins a comment."""
    return escaping.json_text(value, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")


def _visible(value: Any) -> Any:
    """The structure with all texts of others made visible: the browser prints them as they are."""
    if isinstance(value, str):
        return escaping.visible(value)
    if isinstance(value, dict):
        return {_visible(key): _visible(part) for key, part in value.items()}
    return [_visible(part) for part in value] if isinstance(value, list) else value


def _policy(scripts: Sequence[str], style: str) -> str:
    """The content policy: only the scripts and the style of this very page, and no network at all."""
    allowed = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts)
    own = f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'"
    return f"default-src 'none'; script-src {allowed}; style-src {own}; base-uri 'none'; form-action 'none'"


@cache
def _file(name: str) -> str:
    return (files("harness.board") / "browser" / name).read_text("utf-8")


@cache
def _app() -> str:
    """All scripts as one module, in the order of their use."""
    return "\n".join(_file(f"{name}.js") for name in _SCRIPTS)


def _bundle() -> str:
    """What draws the charts, below its licences, and what starts it; a test holds that it does not end its element."""
    return f"/*!\n{_file('licences.txt')}*/\n{charts.javascript_bundle()}\nwindow.dispatchEvent(new Event('charts'));"


def _about(content: Content, options: Options, data: Mapping[str, Any]) -> str:
    n = len({result.encoder for result in content.results if result.base is None})
    sets = len({(column["task"], column["subset"]) for column in data["columns"] if not column.get("average")})
    days = sorted({result.created[:10] for result in content.results} - {""})
    measured = f", measured {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    counted = f"{n} encoder{'s' if n != 1 else ''}, {sets} set{'s' if sets != 1 else ''}"
    return escaping.xml(f"{counted}{measured}. {options.note}".rstrip())


def _verdicts(columns: Sequence[Mapping[str, Any]]) -> str:
    """The sentences on the columns of the table over all tasks."""
    said = [(c["label"], "".join(c["verdict"])) for c in columns if c.get("headline") and c.get("verdict")]
    return "".join(f"<dt>{escaping.xml(label)}</dt><dd>{escaping.xml(text)}</dd>" for label, text in said)


def _table(content: Content) -> str:
    """The table over all tasks as it stands on the front page: what a browser without JavaScript shows."""
    samples = [one.front() for one in content.overviews[1:]]
    ranks = [table for one in content.overviews if (table := one.rank_table)]
    return "".join(map(html_table, [*front_tables(content), *ranks, *samples]))


def _published(content: Content) -> str:
    """Tables of published figures, of the sets that were measured here, or whose stand-ins were."""
    full = [result for result in content.full if not Subset.parse(result.subset).is_sample]
    blocks = []
    for task in task_order(result.task for result in full):
        of_task = [result for result in full if result.task == task]
        tables = published_boards(of_task, of_measured(content.scores, of_task), statistics=content.statistics)
        if tables:
            inner = "".join(map(html_table, tables))
            blocks.append(f"<details><summary>{escaping.xml(title_of(task))}</summary>{inner}</details>")
    if not blocks:
        return ""
    head = '<h2 id="published-head">Measured and published</h2>'
    return f'<section id="published" aria-labelledby="published-head">{head}{_ONLY}{"".join(blocks)}</section>'


def _protocols(shown: Shown) -> str:
    return "".join(
        f"<dt>{escaping.xml(title)}</dt><dd>{escaping.xml(text)}</dd>" for title, text in protocols(shown.results)
    )

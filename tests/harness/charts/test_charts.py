"""Pictures: what is drawn is looked up in the SVG, and compared with plain loops."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE, hidden
from hypothesis import given
from hypothesis import strategies as st

from harness import charts
from harness.charts.axes import cost_axis, linear_axis
from harness.charts.costs import front
from harness.charts.labels import Box, place
from harness.core.errors import MissingExtraError
from harness.core.escaping import visible

needs_extra = pytest.mark.skipif(not charts.is_available(), reason='needs the extra "board"')
THEMES = pytest.mark.parametrize("theme", [charts.LIGHT, charts.DARK], ids=["light", "dark"])
SVG = "{http://www.w3.org/2000/svg}"


def costs(n: int, seed: int = 1) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    rows = []
    for number in range(n):
        value, width = dice.uniform(40, 90), dice.uniform(0.5, 4)
        rows.append(
            {
                "encoder": f"encoder-{number}",
                "value": value,
                "low": value - width,
                "high": value + width,
                "cost": 10 ** dice.uniform(0, 5),
            }
        )
    return rows


def languages(n: int, encoders: int = 3) -> list[dict[str, Any]]:
    return [
        {
            "encoder": f"encoder-{e}",
            "language": f"Language {number}",
            "family": f"Family {number % 9}" if number % 7 else "",
            "value": (37 * number + 11 * e) % 101,
            "low": None if number == 3 else max((37 * number + 11 * e) % 101 - 2, 0),
            "high": None if number == 3 else min((37 * number + 11 * e) % 101 + 2, 100),
        }
        for e in range(encoders)
        for number in range(n)
    ]


def thresholds() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    where = [(encoder, subset) for encoder in ("a", "b") for subset in ("de-en", "fr-en")]
    rows = [
        {"encoder": e, "subset": s, "threshold": 1 + t / 50, "precision": 2.0 * t, "recall": 100 - 2.0 * t}
        for e, s in where
        for t in range(51)
    ]
    return rows, [{"encoder": e, "subset": s, "threshold": 1.5} for e, s in where]


def series(*names: str) -> list[dict[str, Any]]:
    return [
        {"series": name, "x": 10**k, "value": 50 + k + len(name), "low": 49 + k, "high": 60.0 + k}
        for name in names
        for k in range(1, 5)
    ]


def settings() -> list[dict[str, Any]]:
    return [
        {"setting": s, "column": c, "value": 50 + len(s), "low": 48.0, "high": None if s == "mse" else 60.0}
        for s in ("mse", "cosine")
        for c in ("EN-DE", "EN-AR")
    ]


def every_spec(theme: charts.Theme = charts.LIGHT) -> dict[str, dict[str, Any]]:
    rows, chosen = thresholds()
    return {
        **{
            name: charts.quality_and_cost(costs(12), cost, quality="Q", title="T", subtitle="S", theme=theme)
            for name, cost in charts.COSTS.items()
        },
        "language": charts.by_language(languages(112), score="accuracy", title="T", theme=theme),
        "few languages": charts.by_language(languages(5), score="accuracy", theme=theme),
        "threshold": charts.by_threshold(rows, chosen, title="T", theme=theme),
        "curves": charts.curves(
            {"loss": series("one"), "score": series("one", "two")}, x="pairs", is_log=True, mark=100, mark_name="best"
        ),
        "dots": charts.dots(settings(), settings=["mse", "cosine"], score="score", theme=theme),
    }


def absolute(root: ET.Element) -> Iterator[tuple[ET.Element, float, float]]:
    """Every element with the sum of the translations above and at it."""

    def walk(element: ET.Element, x: float, y: float) -> Iterator[tuple[ET.Element, float, float]]:
        for dx, dy in re.findall(r"translate\(([-\d.e]+),([-\d.e]+)\)", element.get("transform", "")):
            x, y = x + float(dx), y + float(dy)
        yield element, x, y
        for child in element:
            yield from walk(child, x, y)

    return walk(root, 0.0, 0.0)


def texts(svg: str) -> list[tuple[str, Box]]:
    """The level texts of a picture and their boxes; a letter of Liberation Sans is half as wide as high, on average."""
    found = []
    for element, x, y in absolute(ET.fromstring(svg)):
        if element.tag == f"{SVG}text" and "rotate" not in element.get("transform", ""):
            size = float(element.get("font-size", "11").removesuffix("px"))
            width = 0.5 * size * len(element.text or "")
            left = x - {"end": width, "middle": width / 2}.get(element.get("text-anchor", ""), 0.0)
            found.append((element.text or "", Box(left, y - 0.75 * size, left + width, y + 0.15 * size)))
    return found


def symbols(svg: str) -> list[tuple[float, float]]:
    """Where the points of a picture are."""
    found = []
    for group, _, _ in absolute(ET.fromstring(svg)):
        if "mark-symbol" in group.get("class", "") and "legend" not in group.get("class", ""):
            found += [tuple(map(float, re.findall(r"-?[\d.]+", path.get("transform", ""))[:2])) for path in group]
    return found


# ------------------------------------------------------------------ the front


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12), st.booleans())
def test_the_front_by_loops(points: list[tuple[int, int]], is_gain: bool) -> None:
    expected = []
    for quality, cost in points:
        beaten = False
        for other_quality, other_cost in points:
            is_no_dearer = other_cost >= cost if is_gain else other_cost <= cost
            if other_quality >= quality and is_no_dearer and (other_quality, other_cost) != (quality, cost):
                beaten = True
        expected.append(not beaten)
    assert front(points, is_gain=is_gain) == expected


# ------------------------------------------------------------------ axes and names, without the extra


@pytest.mark.parametrize("values", [[1.0, 100_000.0], [0.0, 5.0, 400.0], [3.0], [0.0], [16.0, 17.0]])
def test_an_axis_there_and_back_and_nothing_on_its_ends(values: list[float]) -> None:
    for axis in (cost_axis(values, 500), linear_axis(values, 500)):
        for value in values:
            assert 0 < axis.pixel(value) < 500
            assert axis.value(axis.pixel(value)) == pytest.approx(value, rel=1e-4, abs=1e-6)
        for tick in axis.options.get("values", []):
            assert axis.low <= tick <= axis.high
    assert cost_axis(values, 500).options["values"], "an axis without a tick"


@given(st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=9), st.booleans())
def test_a_cost_axis_has_ticks_and_these_lie_on_it(values: list[float], is_free: bool) -> None:
    axis = cost_axis([*values, *([0.0] if is_free else [])], 500)
    found = axis.options["values"]
    assert found and found == sorted(set(found))
    assert all(axis.low <= tick <= axis.high for tick in found)


@pytest.mark.parametrize("value", [384, 1536])
def test_one_cost_for_all_has_a_number_on_the_axis(value: int) -> None:
    """384 dimensions, say: between 305 and 484 there is none of 1, 2, 3, 5 and 7 times a power of ten."""
    assert cost_axis([value, value], 500).options["values"] == {384: [400], 1536: [1500]}[value]


@given(st.lists(st.tuples(st.text("iWa@-", max_size=20), st.floats(0, 600), st.floats(0, 300)), max_size=25))
def test_names_cover_nothing(points: list[tuple[str, float, float]]) -> None:
    from harness.charts.labels import HEIGHT, text_width

    dots = [Box(x - 3, y - 3, x + 3, y + 3) for _, x, y in points]
    boxes = []
    for label in place(points, dots, 600, 300):
        if label is not None and label.text:
            width = text_width(label.text)
            left = label.x - {"right": width, "center": width / 2, "left": 0.0}[label.align]
            boxes.append(Box(left, label.y - HEIGHT / 2, left + width, label.y + HEIGHT / 2))
            assert left >= 0 and left + width <= 600 and 0 <= label.y <= 300
    assert not any(a.meets(b) for a, b in combinations(boxes, 2))
    assert not any(box.meets(dot) for box in boxes for dot in dots)


def test_few_names_have_all_a_place_also_in_a_corner_behind_lines() -> None:
    """Three encoders in a chart of the page: the fastest one in the lower right corner, beside the line to it."""
    pytest.importorskip("altair")
    rows = [
        {"encoder": name, "value": value, "low": low, "high": high, "cost": speed}
        for name, value, low, high, speed in (
            ("student", 67.0, 64.5, 69.5, 13067.0),
            ("muse", 61.4375, 58.6, 64.0, 289.0),
            ("chargrams", 4.75, 3.4, 6.4, 26723.0),
        )
    ]
    spec = charts.quality_and_cost(rows, charts.COSTS["speed"], quality="Own pairs", width=350, height=280)
    named = (
        [row for part in spec["datasets"].values() for row in part if "label_x" in row] if "datasets" in spec else []
    )
    named += [row for layer in spec["layer"] for row in layer.get("data", {}).get("values", []) if "label_x" in row]
    assert {row["encoder"] for row in named} == {"student", "muse", "chargrams"}
    many = place([(f"name-{n}", 308.0, 259.0) for n in range(40)], [], 350, 280)
    assert None in many, "of many names some have none"


def test_one_point_has_its_name_beside_it() -> None:
    (label,) = place([("muse", 100, 100)], [], 600, 300)
    assert label is not None and label.align == "left" and 100 < label.x < 112 and label.y == 100 and not label.is_away


def test_without_the_extra_one_line_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.charts.drawing.find_spec", lambda module: None)
    assert not charts.is_available()
    for call in (
        charts.javascript_bundle,
        lambda: charts.svg({}),
        lambda: charts.quality_and_cost([], charts.COSTS["speed"], quality="q"),
        lambda: charts.by_language([], score="s"),
        lambda: charts.by_threshold([], []),
        lambda: charts.curves({}, x="x"),
        lambda: charts.dots([], settings=[], score="s"),
    ):
        with pytest.raises(MissingExtraError, match=re.escape('pip install "multilingual-embedding-harness[board]"')):
            call()


# ------------------------------------------------------------------ what is drawn


@needs_extra
@THEMES
def test_every_picture_is_xml_with_a_title_and_leads_nowhere(theme: charts.Theme) -> None:
    for name, spec in every_spec(theme).items():
        svg = charts.svg(spec)
        root = ET.fromstring(svg)
        assert root.tag == f"{SVG}svg" and svg.endswith("</svg>\n")
        assert root[0].tag == f"{SVG}title" and root[0].text == spec["description"], name
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "title", "rect", "g", "path", "text", "line", "defs", "clipPath", "tspan"}, tags
        assert "http" not in re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
        assert float(root.get("width", "")) <= 900, "wider than a page"
        longest = max((len(part) for part in re.findall(r"\.(\d+)", svg)), default=0)
        assert (longest <= 6 and theme.background in svg) or name == "curves"


@needs_extra
def test_two_processes_give_equal_bytes() -> None:
    here = Path(__file__).parent
    program = (
        f"import sys; sys.path[:0] = [{str(here)!r}, {str(here.parents[1] / 'support')!r}]\n"
        "import hashlib, json, test_charts as t\n"
        "for name, spec in t.every_spec().items():\n"
        "    text = json.dumps(spec) + t.charts.svg(spec)\n"
        "    print(name, hashlib.sha256(text.encode()).hexdigest())\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and outputs[0].count("\n") == 8


@needs_extra
@pytest.mark.parametrize("n", [1, 6, 12, 60])
@pytest.mark.parametrize("cost", charts.COSTS.values(), ids=str)
def test_points_keep_off_the_frame_and_names_off_each_other(n: int, cost: charts.Cost) -> None:
    rows = costs(n, seed=n)
    svg = charts.svg(charts.quality_and_cost(rows, cost, quality="Q"))
    points = symbols(svg)
    assert len(points) == n
    assert all(5 < x < 635 and 5 < y < 335 for x, y in points)
    named = [(text, box) for text, box in texts(svg) if text.startswith("encoder-")]
    assert len(named) == n if n <= 12 else len(named) > 5
    assert not any(a.meets(b) for (_, a), (_, b) in combinations(named, 2))
    assert len({text for text, _ in named}) == len(named)
    everything = texts(svg)
    assert not any(a.meets(b) for (s, a), (t, b) in combinations(everything, 2) if {s, t} - {"", "0"})


@needs_extra
def test_there_are_so_many_names_beside_those_of_the_front_and_points_stay_as_large() -> None:
    rows = costs(60, seed=3)
    spec = charts.quality_and_cost(rows, charts.COSTS["disk"], quality="Q", most_names=2)
    svg = charts.svg(spec)
    named = {text for text, _ in texts(svg) if text.startswith("encoder-")}
    chosen = front([(row["value"], row["cost"]) for row in rows], is_gain=False)
    of_front = {row["encoder"] for row, is_front in zip(rows, chosen, strict=True) if is_front}
    others = sorted((row for row in rows if row["encoder"] not in of_front), key=lambda row: -row["value"])
    assert named <= of_front | {row["encoder"] for row in others[:2]} and named & of_front
    assert '"is_small": true' not in json.dumps(spec)


@needs_extra
def test_a_picture_of_nothing_and_of_what_has_no_interval_or_costs_nothing() -> None:
    assert ET.fromstring(charts.svg(charts.quality_and_cost([], charts.COSTS["disk"], quality="Q")))
    assert ET.fromstring(charts.svg(charts.by_language([], score="s")))
    rows = [{"encoder": "a", "value": 50.0, "low": None, "high": None, "cost": cost} for cost in (0, 0.5, 500)]
    svg = charts.svg(charts.quality_and_cost(rows, charts.COSTS["disk"], quality="Q"))
    assert len(symbols(svg)) == 3


@needs_extra
@pytest.mark.parametrize("n", [3, 40, 112])
def test_every_language_has_its_line(n: int) -> None:
    svg = charts.svg(charts.by_language(languages(n), score="accuracy"))
    lines = [(text, box) for text, box in texts(svg) if text.startswith("Language ")]
    assert sorted(text for text, _ in lines) == sorted(f"Language {number}" for number in range(n))
    assert not any(a.meets(b) for (_, a), (_, b) in combinations(texts(svg), 2))
    assert len(symbols(svg)) == 3 * n


@needs_extra
@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_hostile_texts_stay_texts(is_whole: bool) -> None:
    """Every text in every chart; or every text in one chart, every chart with several texts."""
    for number, text in enumerate(HOSTILE.values()):
        rows = [dict(row, encoder=text, language=text, family=text, subset=text) for row in costs(1)]
        thresholds_, chosen = thresholds()
        specs = [
            charts.quality_and_cost(rows, charts.COSTS["speed"], quality=text, title=text, subtitle=text),
            charts.by_language(rows, score=text, title=text, subtitle=text),
            charts.by_threshold([dict(r, encoder=text) for r in thresholds_], [dict(c, encoder=text) for c in chosen]),
            charts.curves({text: [dict(r, series=text) for r in series("a")]}, x=text, mark=2, mark_name=text),
            charts.dots(
                [dict(r, setting=text, column=text) for r in settings()], settings=[text], score=text, title=text
            ),
        ]
        for spec in specs if is_whole else [specs[number % len(specs)]]:
            root = ET.fromstring(charts.svg(spec))
            found = [element.text or "" for element in root.iter()]
            assert not any(hidden(one) for one in found)
            tags = {element.tag.removeprefix(SVG) for element in root.iter()}
            assert tags <= {"svg", "title", "rect", "g", "path", "text", "line", "defs", "clipPath"}, (text, tags)
            assert not any("href" in name or name.startswith("on") for e in root.iter() for name in e.attrib)
            start = visible(text)[:20].strip()
            assert any(one.replace("\xa0", " ").strip().startswith(start[:8]) for one in found), (text, found)


@needs_extra
def test_no_text_gets_into_an_expression() -> None:
    import vl_convert

    text = '\\" + pwned() + "\\" + datum.pwned //'
    rows = [dict(row, encoder=text, language=text, family=text) for row in costs(2)]
    thresholds_, chosen = thresholds()
    specs = [
        charts.quality_and_cost(rows, charts.COSTS["speed"], quality=text, title=text, subtitle=text),
        charts.by_language(rows, score=text, title=text, subtitle=text),
        charts.by_threshold(
            [dict(r, encoder=text, subset=text) for r in thresholds_],
            [dict(c, encoder=text, subset=text) for c in chosen],
        ),
        charts.curves({text: [dict(r, series=text) for r in series("a")]}, x=text, mark=2, mark_name=text),
        charts.dots([dict(r, setting=text, column=text) for r in settings()], settings=[text], score=text),
    ]

    def expressions(value: Any, key: str = "") -> Iterator[str]:
        if isinstance(value, dict):
            for name, part in value.items():
                yield from expressions(part, name)
        elif isinstance(value, list):
            for part in value:
                yield from expressions(part, key)
        elif isinstance(value, str) and key in ("signal", "expr", "test", "update", "init"):
            yield value

    for spec in specs:
        compiled = vl_convert.vegalite_to_vega(spec, vl_version="6.4")
        listed = list(expressions(compiled))
        assert listed and not [one for one in listed if "pwned" in one]


@needs_extra
def test_the_bundle_for_pages_interprets_expressions_itself() -> None:
    bundle = charts.javascript_bundle()
    assert "window.vegaEmbed=" in bundle.replace(" ", "")
    # Vega-Embed's option `ast` falls back to an interpreter that came with it.
    assert re.search(r"expr:\w+\.expressionInterpreter\?\?\w+\.expr\?\?\w+", bundle)
    assert bundle == charts.javascript_bundle()

"""The tables written out in full; the heat map read back from its SVG."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from result_records import record

from harness.core.errors import InputError
from harness.report.terminal import plain_text
from harness.results.statistics import Entry, Statistics, digest
from harness.tasks.joining_page import bias_tables, finer_view, heat_map
from harness.tasks.language_bias import Joining

SVG = "{http://www.w3.org/2000/svg}"


def made(sets, costs, shift):
    """The stored form of a joining, from the costs above the diagonal, row by row."""
    cost = np.zeros((len(sets), len(sets)))
    cost[np.triu_indices(len(sets), 1)] = costs
    return Joining(tuple(sets), cost + cost.T, np.array(shift, dtype=float)).as_dict()


@pytest.fixture
def joinings():
    return {
        "muse": made(["en-en", "es-es", "en-de@deepl"], [0.31, -6.239, -1], [8.7351, 2, -10.7351]),
        "e5": made(["en-en", "es-es"], [-2.5], [1.25, -1.25]),
    }


def test_tables(joinings):
    shift, cost = bias_tables(joinings, "ten@deepl")
    expected = """\
Language bias, ten@deepl: rank shift of each set

encoder  en-en  es-es  en-de@deepl
----------------------------------
muse     +8.74  +2.00       -10.74
e5       +1.25  -1.25            –
"""
    assert plain_text(shift, 80).startswith(expected)
    expected = """\
Language bias, ten@deepl: cost of joining two sets

sets joined           muse     e5
---------------------------------
en-en + en-de@deepl  -6.24      –
en-en + es-es        +0.31  -2.50
es-es + en-de@deepl  -1.00      –
mean over the pairs  -2.31  -2.50
"""
    # The mean over the encoders that have the pair: -6.24, (0.31 - 2.50) / 2, -1.00.
    assert plain_text(cost, 80).startswith(expected)
    assert [row.is_average for row in cost.rows] == [False, False, False, True]
    for table in (shift, cost):
        assert "descriptive: not tested" in table.note_texts
        assert "@deepl: another translation than the published set" in table.note_texts


def test_no_tables_without_a_pair_of_sets():
    assert bias_tables({}, "ten") == []
    assert bias_tables({"muse": made(["en-en"], [], [0])}, "ten") == []


def parsed(joining, title="muse, ten"):
    return ElementTree.fromstring(heat_map(joining, title))


def group(root, name):
    [found] = [g for g in root.iter(f"{SVG}g") if g.get("class") == name]
    return found


def texts(root, name):
    return [element.text for element in group(root, name).iter(f"{SVG}text")]


@pytest.fixture
def large():
    rng = np.random.default_rng(3)
    sets = ["en-en", "es-es", "ar-ar", "en-ar", "en-de@deepl", "en-tr", "en-es", "en-fr", "en-it", "en-nl"]
    return made(sets, rng.normal(-3, 7, 45), rng.normal(0, 15, 10))


def test_every_number_stands_in_the_row_and_column_of_its_sets(large):
    root = parsed(large)
    labels = {}
    for element in group(root, "names"):
        if turned := element.get("transform"):
            x, _ = map(int, re.findall(r"-?\d+", turned)[:2])
            labels["column", x] = element.text
        else:
            labels["row", int(element.get("y"))] = element.text
    place = {name: i for i, name in enumerate(large["sets"])}
    seen = set()
    for element in group(root, "cost").iter(f"{SVG}text"):
        row, column = labels["row", int(element.get("y"))], labels["column", int(element.get("x"))]
        assert float(element.text) == pytest.approx(large["cost"][place[row]][place[column]], abs=0.0551)
        seen.add((row, column))
    assert seen == {(a, b) for a in place for b in place if a != b}
    for element in group(root, "shift").iter(f"{SVG}text"):
        assert labels["column", int(element.get("x"))] == "rank shift"
        value = large["shift"][place[labels["row", int(element.get("y"))]]]
        assert float(element.text) == pytest.approx(value, abs=0.0551)
    assert len(texts(root, "shift")) == len(place)


def test_all_is_inside_and_no_two_cells_overlap(large):
    root = parsed(large)
    width, height = (int(root.get(side)) for side in ("width", "height"))
    boxes = [
        [int(rect.get(key)) for key in ("x", "y", "width", "height")]
        for name in ("cost", "shift", "legend")
        for rect in group(root, name).iter(f"{SVG}rect")
    ]
    assert len(boxes) > 110
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for i, (x, y, w, h) in enumerate(boxes):
        assert not any(x < a + c and a < x + w and y < b + d and b < y + h for a, b, c, d in boxes[:i])


def luminance(colour):
    """Relative luminance as WCAG 2.1 defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def cells(root, name):
    """Value and the colours of cell and text, of every cell with a number."""
    found = list(group(root, name))
    return [
        (float(text.text), box.get("fill"), text.get("fill"))
        for box, text in pairwise(found)
        if box.tag == f"{SVG}rect" and text.tag == f"{SVG}text"
    ]


def test_every_number_is_readable_on_its_colour():
    sets = [f"s{i}" for i in range(20)]
    root = parsed(made(sets, np.linspace(-12, 12, 190), np.linspace(-25, 25, 20)))
    found = [*cells(root, "cost"), *cells(root, "shift")]
    assert len(found) == 2 * 190 + 20
    for _, background, ink in found:
        lighter, darker = sorted((luminance(background), luminance(ink)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_colours_diverge_from_zero_and_mean_the_same_on_every_map():
    values = [-30, -10, -5, 0, 5, 10]
    root = parsed(made("abcd", values, [0, 0, 0, 0]))
    colour = {value: background for value, background, _ in cells(root, "cost")}
    assert colour[-30] == colour[-10] != colour[-5] != colour[0] != colour[5] != colour[10]
    assert luminance(colour[-10]) < luminance(colour[-5]) < luminance(colour[0])
    assert luminance(colour[0]) > luminance(colour[5]) > luminance(colour[10])

    def warmth(value):
        return int(colour[value][1:3], 16) - int(colour[value][5:7], 16)

    assert warmth(-10) > warmth(-5) > warmth(0) == 0 > warmth(5) > warmth(10)
    [(_, alone, _), _] = cells(parsed(made("ab", [-5], [0, 0])), "cost")
    assert alone == colour[-5]


def test_names_and_title_are_escaped():
    root = parsed(made(["<a>&", 'b"'], [-1], [1, -1]), title="A & B <i>")
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == "A & B <i>"
    assert texts(root, "names") == ["<a>&", 'b"', "<a>&", 'b"', "rank shift"]


def test_zero_has_no_minus():
    root = parsed(made("ab", [-0.04], [0.01, -0.01]))
    assert texts(root, "cost") == ["+0.0", "+0.0"]
    assert texts(root, "shift") == ["+0.0", "+0.0"]


def test_stored_and_read_back_it_is_the_same_picture(large):
    assert heat_map(json.loads(json.dumps(large)), "muse") == heat_map(large, "muse")


def test_it_needs_nothing_else(large):
    text = heat_map(large, "muse")
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"href|url\(|<script|<style|<image", text)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        *(({"cost": cost}, "not one a set") for cost in ([[0, 1, 2], [1, 0, 2]], [[0]])),
        ({"shift": [1.0]}, "not one a set"),
        ({"sets": []}, "not one a set"),
        ({"shift": [1.0, "2"]}, r"no numbers \(Expected `float`, got `str` - at `\$.shift\[1\]`\)"),
        ({"shift": [1.0, 1e300]}, "no numbers .*"),
        ({"cost": None}, "no numbers .*"),
    ],
)
def test_statistics_of_another_shape_are_one_line(change, why):
    good = {"sets": ["a", "b"], "cost": [[0, -1.5], [-1.5, 0]], "shift": [2.0, -2.0]}
    result = record("muse", "language-bias", "ten", {"expected": 70.0, "actual": 69.0, "difference": -1.0})

    def view(joining):
        entry = Entry(digest(result), more={"joining": joining})
        return finer_view([result], Statistics(entries={("muse", "ten"): entry}))

    remedy = "delete statistics/language-bias.json, and `leaderboard run` makes it again"
    assert list(view(good)[1]) == ["language-bias/muse-ten.svg"]
    with pytest.raises(InputError, match=f"^the stored joinings of muse on ten are {why}; {remedy}$"):
        view({**good, **change})

from __future__ import annotations

import re
from dataclasses import replace

from pages_made import make_pages
from result_records import small_board, sts
from speeds import measurement

from harness.report.render import render, render_long
from harness.report.speed import cost_table, long_speeds, speed_tables

MUSE, E5 = measurement("muse", 0.001), measurement("e5", 0.02, n_parameters=None, size_bytes=None, max_length=512)


def test_the_tables_in_full() -> None:
    alone = replace(E5, cells=[cell for cell in E5.cells if cell.way == "alone" and cell.length != "long"])
    printed = render(speed_tables([MUSE, alone]), "md")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    assert rows[2] == ["muse", "one text", *["100<br><sub>[83, 111]</sub>"] * 3, "11,000", "1"]
    assert rows[3] == ["muse", "64 (its own)", *["1,000<br><sub>[833, 1,111]</sub>"] * 3, "110,000", "1"]
    assert rows[4] == ["muse", "256", *["2,000<br><sub>[1,667, 2,222]</sub>"] * 3, "220,000", "1"]
    assert rows[5] == ["e5", "one text", *["5.0<br><sub>[4.2, 5.6]</sub>"] * 2, "–", "550", "20"]
    assert rows[6] == ["encoder", "load s", "memory MB", "disk MB", "parameters", "dim", "bytes", "max tokens"]
    load, memory = "1.5<br><sub>[1.2, 2.0]</sub>", "131<br><sub>[131, 132]</sub>"
    assert rows[8] == ["muse", load, memory, "32.9", "68,927,232", "512", "2,048", "–"]
    assert rows[9] == ["e5", load, memory, "–", "–", "512", "2,048", "512"]
    assert "as with muse in the same round, the geometric mean over the lengths" in printed
    assert "measured on: Made-up CPU, 2 cores, 8 GiB, device cpu, threads 2" in printed


def test_only_encoders_of_one_command_are_compared() -> None:
    entries = long_speeds([MUSE, E5, measurement("x", 0.004, session="two"), measurement("y", 0.002, session="two")])
    times = {
        entry["encoder"]: entry["times"] for entry in entries if (entry["way"], entry["length"]) == ("own", "long")
    }
    assert times == {"muse": 1, "e5": 20, "x": 1, "y": 0.5}
    assert (
        render_long(entries, "csv").splitlines()[0].startswith("encoder,length,way,batch,n,sentences_per_s,low,high,")
    )


def test_what_encoders_cost_stands_beside_their_scores() -> None:
    pages = make_pages(small_board(), measured=[MUSE, E5])
    lines = pages["README.md"].splitlines()
    [head] = [line for line in lines if line.startswith("| encoder") and "sentences/s" in line]
    [muse] = [line for line in lines if line.startswith("| [muse]") and "1,000" in line]
    [floor] = [line for line in lines if line.startswith("| [chargrams (")]
    columns = [cell.strip() for cell in head.split("|")]
    values = dict(zip(columns, (cell.strip() for cell in muse.split("|")), strict=True))
    assert {name: values[name] for name in columns[-3:-1]} == {"sentences/s": "1,000", "MB": "32.9"}
    assert floor.count("–") == 2
    assert "- [What encoders cost](speed.md)" in lines
    (note,) = [line for line in lines if line.startswith("- sentences/s: ")]
    assert note.endswith("measured on Made-up CPU, 2 cores, 8 GiB, device cpu, threads 2")
    card = pages["encoders/muse.md"].partition("## Where")[0]
    for shown in ("ms for one text alone | 10 |", "MB of memory, peak    | 131 |", "bytes of a vector     | 2,048 |"):
        assert shown in card
    page = pages["speed.md"]
    assert page.index("| muse ") < page.index("| e5 ")  # the fastest first
    assert "- muse: 2025-01-02, commit 6e8a559, fingerprint `muse-1`, python 3.11.9, numpy 2.3.0" in page


def test_without_measurements_there_is_nothing_of_it() -> None:
    pages = make_pages(small_board())
    assert (
        "speed.md" not in pages and "sentences/s" not in pages["README.md"] and "ms" not in pages["README.md"].split()
    )
    assert cost_table(small_board(), [measurement("another", 1.0)]) is None


def test_another_machine_other_threads_and_other_weights_have_a_mark() -> None:
    results = [sts(name, "en-en", 80.0) for name in "abcdef"]
    elsewhere = {"processor": "Another CPU", "cores": 64, "memory_gib": 8, "device": "cpu"}
    measured = [
        measurement("a", 0.001),
        measurement("b", 0.001, hardware=elsewhere, threads=64),
        measurement("c", 0.001, threads=1),
        measurement("d", 0.001, fingerprint="d-2"),
        measurement("e", 0.001, texts="others"),
        measurement("a", 0.5, fingerprint="a-0", created="2026-01-01"),  # of old weights, though measured later
        measurement("a", 0.5, hardware=elsewhere, created="2026-01-01"),
        measurement("f", 0.002),
    ]
    table = cost_table(results, measured)
    assert table
    # At the name, since it is on all figures of speed and memory.
    speeds = {row.cells[0].text: row.cells[1].text for row in table.rows}
    assert speeds == {**dict.fromkeys(["a", "b [a]", "c [b]", "d [c]", "e [d]"], "1,000"), "f": "500"}
    assert not any("[" in cell.text for row in table.rows for cell in row.cells[1:])
    notes = table.note_texts
    assert "[a] b: speed and memory measured on Another CPU, 64 cores, 8 GiB, device cpu, threads 64" in notes
    assert any(note.startswith("[b] c: ") and note.endswith(" threads 1") for note in notes)
    assert "[c] d: speed and memory of other weights or options than the scores (d-2)" in notes
    assert any(note.startswith("[d] e: ") and note.endswith("texts others") for note in notes)


def test_a_mark_on_a_page_stands_at_the_label() -> None:
    elsewhere = {**MUSE.hardware, "processor": "Another CPU"}
    measured = [replace(MUSE, hardware=elsewhere), E5, measurement("chargrams", 0.1)]
    page = make_pages([*small_board(), sts("e5", "en-en", 80.0)], measured=measured)["README.md"]
    assert re.search(r"^\| \[muse \[a\]\]\(encoders/muse\.md\) +\|", page, re.M), page
    assert "[a" not in "".join(re.findall(r"^\| (?!\[muse).*", page, re.M))


def test_what_others_wrote_is_made_harmless() -> None:
    hostile = measurement("muse", 0.1, hardware={"processor": "<b>|CPU\n# x"}, versions={"<i>": "\x1b[31m"})
    for name, page in make_pages(small_board(), measured=[replace(hostile, fingerprint="`<u>`\n")]).items():
        assert not re.search(r"(?<!\\)<[bi]>|\x1b|^# x", page, re.MULTILINE), name
        assert r"\<b>\|CPU\\n# x" in page or name not in ("README.md", "speed.md")

"""`leaderboard distill ablate`: a tiny grid on made-up languages, killed and run again, and grids that are wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import time
from dataclasses import asdict, replace
from xml.etree import ElementTree

import numpy as np
import pytest
from tiny_corpora import made_up_words, write_corpus

from harness.cli import main
from harness.data.sources import open_data_dir
from harness.encoders.registry import load_encoder

for module in ("torch", "sentence_transformers", "accelerate", "altair", "vl_convert"):
    pytest.importorskip(module)

from distill.experiments.ablate import _gather, _resolved, ablate  # noqa: E402
from distill.experiments.grid import EXPERIMENTS, Grid, Settings, read_grid  # noqa: E402
from distill.report import Watcher  # noqa: E402

TEACHER = "chargrams?dim=24"
COLUMNS = """
columns = [
    { title = "EN-DE", score = "sts17/en-de", languages = ["de"] },
    { title = "EN-TR", score = "sts17/en-tr", languages = ["tr"] },
]
"""
GRID = f"""
teacher = "{TEACHER}"
seeds = [1, 2]
student = "static:unigram-200"
dim = 16
steps = 40
batch_size = 32
learning_rate = 0.05

[[tables]]
name = "corpora"
title = "Training sets"
{COLUMNS}
rows = [
    {{ name = "tiny", corpora = ["tiny"] }},
    {{ name = "other", corpora = ["other"] }},
    {{ name = "all" }},
]

[[tables]]
name = "size"
title = "Sizes"
{COLUMNS}
rows = [{{ name = "50", pairs = 50 }}, {{ name = "150", pairs = 150 }}, {{ name = "all" }}]

[[tables]]
name = "losses"
title = "Losses"
languages = ["de"]
corpora = ["tiny"]
columns = [{{ title = "STS", score = "sts17/en-de" }}, {{ title = "r", score = "sts17/en-de/pearson" }}]
rows = [{{ name = "mse" }}, {{ name = "cosine", loss = "cosine" }}]
"""


def write_sts(folder, language, n=60):
    """Pairs of sentences of four words; the gold score is how many they share."""
    english, foreign = made_up_words("en"), made_up_words(language)
    source = random.Random(language)
    lines = []
    for _ in range(n):
        words = source.sample(range(40), 8)
        shared = source.randrange(5)
        other = words[:shared] + words[4 : 8 - shared]
        lines.append(f"{' '.join(english[w] for w in words[:4])}\t{' '.join(foreign[w] for w in other)}\t{shared}\n")
    folder.mkdir(exist_ok=True)
    (folder / f"STS.en-{language}.txt").write_text("".join(lines))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "parallel").mkdir()
    write_corpus(folder / "parallel", "tiny", "de", 300)
    write_corpus(folder / "parallel", "tiny", "tr", 120)
    write_corpus(folder / "parallel", "other", "de", 200, seed=1)
    for language in ("de", "tr"):
        write_sts(folder / "sts17-extended-test", language)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(GRID)
    return path


@pytest.fixture(autouse=True)
def places(monkeypatch, cache):
    monkeypatch.setenv("HARNESS_CACHE", str(cache))
    monkeypatch.delenv("HARNESS_DATA", raising=False)


@pytest.fixture(scope="module")
def done(data, cache, tmp_path_factory, torch_server):
    """The folder of the grid's results; it was killed in the middle once. And the records that were there then."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "tiny.toml").write_text(GRID)
    (folder / "results/remarks").mkdir(parents=True)
    (folder / "results/remarks/size.md").write_text("More pairs are better.\n")
    command = ["distill", "ablate", str(folder / "tiny.toml"), "--results", str(folder / "results")]
    command += ["--data-dir", str(data), "--cpu"]
    environment = {**os.environ, "HARNESS_CACHE": str(cache)}
    killed = torch_server.start(command, folder, environment)
    deadline = time.monotonic() + 600
    while len(list(folder.glob("results/records/*.json"))) < 3:
        assert killed.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.glob("results/records/*.json")}
    again = torch_server.run(command, folder, environment)
    assert again.returncode == 0, again.stderr
    assert again.stdout == f"{folder / 'results/README.md'}\n"
    return folder / "results", before, again.stderr


def records(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "records").glob("*.json"))]


def table(folder, title):
    """The cells of a table of the page, by row."""
    lines = (folder / "README.md").read_text().partition(f"## {title}\n")[2].split("\n\n")[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return rows[0], {row[0]: row[1:] for row in rows[2:]}


def test_killed_and_run_again_it_does_the_rest(done):
    folder, before, said = done
    distinct = ["tiny de", "tiny tr", "other de", "all de", "all tr", "50 de", "50 tr", "150 de", "cosine"]
    found = records(folder)
    assert len(found) == 2 * len(distinct)  # 14 cells have data; what is in several tables is done once
    assert 3 <= len(before) < len(found)
    for path, (written, content) in before.items():
        assert (path.stat().st_mtime_ns, path.read_bytes()) == (written, content)
    assert said.count(", seed ") == len(found) - len(before)
    assert not list(folder.rglob("*.part"))


def test_the_numbers_are_those_of_one_uninterrupted_run(done, data, tmp_path):
    (tmp_path / "tiny.toml").write_text(GRID.replace("[1, 2]", "[2]"))
    runs = ablate(tmp_path / "tiny.toml", tmp_path / "out", data_dir=data, only=["losses"], on_cpu=True)
    assert len(runs) == 2
    for run in runs:
        twin = next(
            one
            for one in records(done[0])
            if one["seed"] == run.seed and one["settings"] == json.loads(json.dumps(asdict(run.settings)))
        )
        assert twin["scores"] == run.scores and twin["best_step"] == run.best_step
    # Only the table that was asked for has scores, and so a place on the page.
    page = (tmp_path / "out/README.md").read_text()
    assert "## Losses" in page and "## Sizes" not in page and not (tmp_path / "out/size.svg").exists()


def test_tables(done):
    folder, _, _ = done

    def expected(metric, **wanted):
        values = [
            one["scores"][metric]
            for one in records(folder)
            if all(one["settings"][key] == value for key, value in {"pairs": None, "loss": "mse", **wanted}.items())
        ]
        assert len(values) == 2
        return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"

    german, turkish = "sts17/en-de@test/spearman", "sts17/en-tr@test/spearman"
    header, rows = table(folder, "Training sets")
    assert header == ["", "pairs", "EN-DE@test", "pairs", "EN-TR@test"]
    assert rows["tiny"][1] == expected(german, corpora=["tiny"], languages=["de"])
    assert rows["tiny"][3] == expected(turkish, corpora=["tiny"], languages=["tr"])
    assert rows["other"][2:] == ["", ""]
    sizes = [int(rows[name][0]) for name in ("tiny", "other", "all")]
    assert sizes[0] + sizes[1] == sizes[2] and sizes[0] > 200

    header, rows = table(folder, "Sizes")
    assert rows["50"][:2] == ["50", expected(german, pairs=50, languages=["de"])]
    assert rows["50"][2:] == ["50", expected(turkish, pairs=50, languages=["tr"])]
    assert rows["150"][2:] == ["", ""]
    assert rows["all"] == table(folder, "Training sets")[1]["all"]

    header, rows = table(folder, "Losses")
    assert header == ["", "pairs", "STS@test", "r@test"]
    assert rows["cosine"][1] == expected(german, loss="cosine")
    assert rows["cosine"][2] == expected("sts17/en-de@test/pearson", loss="cosine")


def test_page(done, data):
    folder, _, _ = done
    page = (folder / "README.md").read_text()
    assert "![Sizes](size.svg)\n\nMore pairs are better.\n" in page
    assert "mean ± standard deviation (n - 1) over the seeds 1, 2" in page
    assert str(data) not in page and str(folder) not in page
    for name in ("corpora", "size", "losses"):
        content = (folder / f"{name}.svg").read_text()
        assert ElementTree.fromstring(content).tag.endswith("svg") and len(content) < 60_000
        assert "x 100</text>" in content, "the axis is named"


def test_a_distillation_is_better_than_none(done):
    """The gold score is how many words are shared: an untrained student knows nothing of it across languages."""
    german = [
        one["scores"]["sts17/en-de@test/spearman"]
        for one in records(done[0])
        if one["settings"]["languages"] == ["de"] and not one["settings"]["corpora"] and not one["settings"]["pairs"]
    ]
    assert len(german) == 2 and min(german) > 50


@pytest.fixture(scope="module")
def material(data, cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(cache))
        (cache / "grid.toml").write_text(GRID)
        grid = read_grid(cache / "grid.toml")
        opened = open_data_dir(data)
        return _gather(grid, _resolved(grid, opened), opened, load_encoder(TEACHER), Watcher(is_silent=True))


def test_a_selection_is_of_its_corpora_and_held_out_sentences_are_in_none(material, data):
    settings = Settings(student="static:unigram-100", dim=8, languages=("de",), batch_size=8)
    everything = material.select(Settings(student="static:unigram-100", dim=8, batch_size=8), 1)
    held_out = {text for dev in everything.development.pairs.values() for text in dev.sources}  # for every language
    assert set(everything.development.pairs) == {"de", "tr"} and held_out
    for corpora in (("tiny",), ("other",), ("tiny.en-de",), ()):
        names = [name.partition(".")[0] for name in corpora] or ["tiny", "other"]
        lines = [
            tuple(line.split("\t"))
            for name in names
            for line in (data / f"parallel/{name}.en-de.tsv").read_text().splitlines()
        ]
        chosen = material.select(replace(settings, corpora=corpora), 1)
        assert set(chosen.development.pairs) == {"de"}
        dev = chosen.development.pairs["de"]
        assert set(zip(dev.sources, dev.targets, strict=True)) <= set(lines) and held_out.issuperset(dev.sources)
        found = [(chosen.sources[int(row)], chosen.targets[number]) for number, row in enumerate(chosen.source_rows)]
        evaluated = {
            side
            for text in data.glob("sts17-extended-test/*")
            for line in text.read_text().splitlines()
            for side in line.split("\t")[:2]
        }
        wanted = {pair for pair in lines if pair[0] not in held_out and evaluated.isdisjoint(pair)}
        assert set(found) == wanted and len(found) == len(wanted)
        assert [part.stop - part.start for part in chosen.parts] == np.diff(
            [0, *(part.stop for part in chosen.parts)]
        ).tolist()
        assert chosen.parts[-1].stop == len(found)


def test_a_selection_has_the_teachers_vectors_of_its_sentences(material):
    settings = Settings(student="static:unigram-100", corpora=("other",), languages=("de",), batch_size=8)
    chosen = material.select(settings, 1)
    rows = np.array([5, 0, 17])
    wanted = load_encoder(TEACHER).encode([chosen.sources[int(row)] for row in rows])
    np.testing.assert_allclose(chosen.teacher[rows], wanted, atol=1e-3)
    for dev in chosen.development.pairs.values():
        wanted = load_encoder(TEACHER).encode(dev.sources)
        np.testing.assert_allclose(chosen.teacher[dev.source_rows], wanted, atol=1e-3)
    # With fewer dimensions, cosines stay nearly what they were: the axes are the principal ones.
    small = material.select(replace(settings, dim=20), 1).teacher
    assert small.dim == 20 and small[rows].shape == (3, 20)
    full = chosen.teacher[rows]
    np.testing.assert_allclose(small[rows] @ small[rows].T, full @ full.T, atol=0.1)


def test_fewer_pairs_are_among_more(material):
    def drawn(pairs, seed):
        chosen = material.select(Settings(languages=("de",), pairs=pairs, batch_size=8), seed)
        return {(chosen.sources[int(row)], chosen.targets[n]) for n, row in enumerate(chosen.source_rows)}

    assert len(drawn(30, 1)) == 30
    assert drawn(30, 1) < drawn(100, 1)
    assert drawn(30, 1) != drawn(30, 2)


@pytest.mark.parametrize(("pairs", "batch_size"), [(10_000, 8), (None, 10_000), (20, 21)])
def test_too_few_pairs(material, pairs, batch_size):
    assert material.select(Settings(languages=("de",), pairs=pairs, batch_size=batch_size), 1) is None


def test_the_shipped_grid():
    assert [path.stem for path in EXPERIMENTS.glob("*.toml")] == ["paper"]
    grid = read_grid("paper")
    assert isinstance(grid, Grid) and len(grid.seeds) == 3
    assert [table.name for table in grid.tables] == ["corpora", "size", "languages", "losses"]
    assert len({(s.steps, s.batch_size) for table in grid.tables for s in table.cells()}) == 1


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["distill", "ablate", *map(str, arguments)])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert stopped.value.code == 2 and len(lines) == 1
    return lines[0].removeprefix("error: ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (GRID, "", "Object missing required field `teacher`"),
        (GRID, "teacher = ", "not TOML"),
        (f'teacher = "{TEACHER}"', "", "Object missing required field `teacher`"),
        (TEACHER, "chargram", "unknown encoder 'chargram'; did you mean"),
        ("steps = 40", "step = 40", "Object contains unknown field `step`"),
        ("steps = 40", "steps = 0", "Expected `int` >= 1 - at `$.steps`"),
        ("steps = 40", 'steps = "40"', "Expected `int`, got `str` - at `$.steps`"),
        ("dim = 16", "dim = 25", "--dim 25: the teacher's vectors have 24 dimensions"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "seeds: 1 is there twice"),
        ("seeds = [1, 2]", "seeds = 3", "Expected `array`, got `int` - at `$.seeds`"),
        ("pairs = 50", "pair = 50", "Object contains unknown field `pair` - at `$.tables[1].rows[0]`"),
        ('corpora = ["other"]', 'corpora = "other"', "Expected `array`, got `str` - at `$.tables[0].rows[1].corpora`"),
        ('corpora = ["other"]', 'corpora = ["othre"]', "unknown corpus 'othre'; did you mean 'other'"),
        ('languages = ["tr"]', 'languages = ["xx"]', "unknown language 'xx'"),
        ("static:unigram-200", "static:unigram", "student 'static:unigram': a new static student is"),
        ('loss = "cosine"', 'loss = "cosin"', "unknown loss 'cosin'; did you mean 'cosine'"),
        ('"sts17/en-tr"', '"sts17/en-it"', "unknown subset of sts17 in the data directory: 'en-it'"),
        ('"sts17/en-tr"', '"sts17"', "column EN-TR: score 'sts17': expected TASK/SUBSET"),
        ('"sts17/en-tr"', '"sts/en-tr"', "unknown task 'sts'"),
        ("/pearson", "/kendall", "unknown metric of sts17 'kendall'"),
        ('name = "size"', 'name = "corpora"', "tables: 'corpora' is there twice"),
        ('name = "size"', 'name = "a/b"', "table name 'a/b' cannot name a folder"),
        ('title = "Sizes"', "", "Object missing required field `title` - at `$.tables[1]`"),
        (
            'rows = [{ name = "mse" }, { name = "cosine", loss = "cosine" }]',
            "",
            "Object missing required field `rows` - at `$.tables[2]`",
        ),
    ],
)
def test_a_bad_grid(capsys, grid, data, tmp_path, old, new, message):
    assert old in GRID
    grid.write_text(GRID.replace(old, new))
    assert message in run(capsys, grid, "--data-dir", data, "--results", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bad_usage(capsys, grid, data, tmp_path):
    assert "unknown grid 'papr'; did you mean 'paper'" in run(capsys, "papr", "--data-dir", data)
    assert "no file none.toml" in run(capsys, "none.toml", "--data-dir", data)
    assert "give --data-dir" in run(capsys, grid)
    assert "unknown table 'sizes'; did you mean 'size'" in run(capsys, grid, "--data-dir", data, "--only", "sizes")
    (tmp_path / "file").write_text("")
    said = run(capsys, grid, "--data-dir", data, "--results", tmp_path / "file", "--only", "losses", "--cpu")
    assert "cannot be written" in said

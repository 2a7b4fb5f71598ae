"""The generated pages: complete, the same every time, and only written when they change."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from measured_rows import store_measured, sts_rows
from pages_made import make_pages, outdated, report
from result_records import STS_SIGNATURE, record, small_board, sts, write_records

from harness.core.errors import InputError
from harness.core.provenance import GitState
from harness.published import published_scores
from harness.report.pages import BEGIN, END
from harness.resampling.resamples import Resampling
from harness.results.store import ResultStore
from harness.statistics.update import update_statistics
from harness.tasks import get_task

README = f"# Mine\n\n{BEGIN}\nold\n{END}\n\nThe end.\n"


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    tatoeba = {"accuracy_en_xx": 50.0, "accuracy_xx_en": 40.0}
    bias = {"expected": 69.5, "actual": 68.6, "difference": -0.92}
    bucc = {"f1_train": 90.0, "f1_heldout": 89.0, "threshold": 1.05}
    return write_records(
        tmp_path / "results",
        [
            *small_board(),
            sts("muse", "en-en@sample", 99.0),
            record("muse", "language-bias", "ten@deepl", bias, "task:language-bias|version:1"),
            record("muse", "language-bias", "official6", bias, "task:language-bias|version:1"),
            record("e5", "bucc", "de-en@ntrex", bucc, "task:bucc|version:1", spec="hf:intfloat/e5?prompt=query: "),
            record("muse", "tatoeba", "kat", tatoeba, "task:tatoeba|version:1"),
            record("muse", "tatoeba", "avg-paper", tatoeba, "task:tatoeba|version:1", parts=["kat", "swh"]),
        ],
    )


def test_every_task_has_a_page_and_nothing_is_rewritten(store: ResultStore) -> None:
    names = ["README.md", "sts17.md", "language-bias.md", "bucc.md", "tatoeba.md"]
    names += [f"encoders/{name}.md" for name in ("chargrams", "e5", "muse")]
    assert report(store) == [store.root / name for name in names]
    stamps = {name: (store.root / name).stat().st_mtime_ns for name in names}
    assert report(store) == []
    assert stamps == {name: (store.root / name).stat().st_mtime_ns for name in names}
    write_records(store.root, [*store.load(), sts("muse", "es-es", 70.0)])
    assert report(store) == [store.root / "sts17.md", store.root / "encoders/muse.md"]


def test_a_task_page_in_full() -> None:
    page = make_pages([sts("muse", "en-en", 83.456), sts("muse", "en-en@sample", 99.0, n=12)])["sts17.md"]
    assert (
        page
        == """\
<!-- Made by `leaderboard report` from the records; edits are lost. -->

# STS 2017

Cosine similarity of the two sentences' vectors is ranked against the gold scores (Spearman's rho, average ranks on \
ties); an average is the unweighted mean over its sets.

[All tasks](README.md), with where the records come from.

## STS 2017: Spearman's rho x 100

| encoder | en-en |
| ------- | ----: |
| muse    |  83.5 |

- n: 250 (en-en)
- no interval and no test: muse; to mend it: `leaderboard run --save-rows --encoder muse --task sts17`
- signature: `task:sts17|version:1|similarity:cosine`

## STS 2017 (bundled sample): Spearman's rho x 100

| encoder | en-en@sample |
| ------- | -----------: |
| muse    |         99.0 |

- `@sample`: bundled sample, for demonstration
- n: 12 (en-en@sample)
- no interval and no test: muse; to mend it: `leaderboard run --save-rows --suite sample --encoder muse --task \
sts17`
- signature: `task:sts17|version:1|similarity:cosine`

## Data

| subset |   n | data set | sha256       |
| ------ | --: | -------- | ------------ |
| en-en  | 250 | sts17    | 0123456789ab |

| subset       |   n | data set | sha256       |
| ------------ | --: | -------- | ------------ |
| en-en@sample |  12 | sts17    | 0123456789ab |

sha256: the start of it; the records have all of it, and that of each file.

## How to repeat it

```sh
leaderboard run --fresh \\
  --data-dir "$HARNESS_DATA" \\
  --results results \\
  --task sts17 \\
  --encoder muse
leaderboard run --fresh \\
  --suite sample \\
  --results results \\
  --task sts17 \\
  --encoder muse
leaderboard report --results results
```
"""
    )


def test_published_figures_stand_apart_on_a_task_s_page_and_differences_with_the_same_model_alone() -> None:
    results = [sts("minilm", "en-en", 87.5), sts("mine", "en-en", 90.0), sts("mine", "en-de@deepl", 80.0)]
    pages = make_pages(results, scores=published_scores())
    without = make_pages(results)["sts17.md"]
    begin, measured, rest = pages["sts17.md"].partition("## STS 2017: Spearman's rho x 100, measured and published\n")
    published, compared, rest = rest.partition("## STS 2017: Spearman's rho x 100, measured against published\n")
    differences, data, end = rest.partition("## Data")
    assert measured and compared and without == begin + data + end, "what was measured stays as it is"
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in published.splitlines() if line[:1] == "|"]
    assert rows[0] == ["encoder", "source", "en-en"]
    assert rows[2:5] == [
        ["mine", "measured", "90.0"],
        ["minilm", "measured", "87.5"],
        ["*minilm*", "*mteb 8b3219a*", "*87.59*"],
    ]
    assert all(encoder.startswith("*") and source.startswith("*") for encoder, source, _ in rows[5:])
    assert "@deepl" not in published and "MUSE Dict" not in published
    assert "- mteb: embeddings-benchmark/results at f4cc6c8b3, STS17; then the model's revision\n" in published
    assert [line for line in differences.splitlines() if line.startswith("| m")] == [
        "| minilm  | mteb 8b3219a | en-en  |    87.50 |     87.59 |      -0.09 |"
    ]


def test_what_was_not_measured_has_no_page_and_another_metric_no_place_beside_ours() -> None:
    pages = make_pages([record("labse", "bucc", "de-en", {"f1_train": 95.0})], scores=published_scores())
    assert list(pages) == ["README.md", "bucc.md", "encoders/labse.md"]
    assert "99.35" not in pages["bucc.md"] and "99.4" not in pages["bucc.md"] and "top-1" not in pages["bucc.md"]
    assert "| labse   | paper v2 | de-en  |    95.00 |      95.9 |      -0.90 |" in pages["bucc.md"]
    assert "fr-en" not in pages["bucc.md"], "published figures of sets that were not measured"
    assert (
        "| *laser* " in pages["bucc.md"]
        and "| *laser* "
        in make_pages([record("labse", "bucc", "de-en@ntrex", {"f1_train": 95.0})], scores=published_scores())[
            "bucc.md"
        ]
    ), "a stand-in has the published figures of its set beside it, in a table of their own"


def test_the_bundled_sample_is_not_set_beside_published_figures() -> None:
    results = [sts("minilm", "en-en@sample", 99.0)]
    assert make_pages(results, scores=published_scores()) == make_pages(results)


def test_overview(store: ResultStore) -> None:
    lines = make_pages(store.load())["README.md"].splitlines()
    table = [line.strip("| ") for line in lines if line.startswith(("| encoder", "| [e5]", "| [muse]", "| [chargrams"))]
    rows = [[cell.strip() for cell in line.split("|")] for line in table]
    assert rows[:4] == [
        ["encoder", "STS same", "bias ten@", "BUCC de-en@", "Tatoeba paper"],
        ["[e5](encoders/e5.md)", "81.0", "–", "90.0", "–"],
        ["[muse](encoders/muse.md)", "80.0", "-0.92", "–", "†40.0"],
        ["[chargrams (lexical floor)](encoders/chargrams.md)", "50.0", "–", "–", "–"],
    ]
    assert "- @: de-en@ntrex: a BUCC-format set, not the BUCC data" in lines
    assert "- – not measured here" in lines
    assert "- [BUCC bitext mining](bucc.md)" in lines


def test_provenance(store: ResultStore) -> None:
    page = make_pages(store.load())["README.md"]
    assert "| e5        | e5-1        | e5                            | sts17 " in page
    assert "| 6e8a559 | 2025-01-02 | H1       | V1       |" in page
    assert "- H1: Made-up CPU, 2 cores, 8 GiB, device cpu\n- V1: python 3.11.9, numpy 2.3.0\n" in page
    assert f"- `{STS_SIGNATURE}`" in page
    assert "--encoder 'hf:intfloat/e5?prompt=query: '" in page, "the blank at the end counts"


def test_a_changed_checkout_and_several_days_are_said() -> None:
    changed = GitState("abcdef0123", dirty=True)
    results = [sts("a", "en-en", 1.0, git=changed), sts("a", "es-es", 1.0, git=changed, created="2025-01-09T00:00:00")]
    page = make_pages([*results, sts("b", "en-en", 1.0, git=None, spec="")])["README.md"]
    assert "| abcdef0 (changed) | 2025-01-02 to 2025-01-09 |" in page
    assert "| –    | sts17 | –                 | 2025-01-02               | H1" in page


def test_records_without_an_overview_column_have_a_page() -> None:
    pages = make_pages([record("muse", "mine", "a", {"x": 1.0})])
    assert list(pages) == ["README.md", "mine.md", "encoders/muse.md"] and "[mine](mine.md)" in pages["README.md"]
    (lead, *_) = pages["README.md"].partition("[mine](mine.md)")
    assert "| muse    | 1.0 |" in lead, "the page leads with the scores, of whatever task"


def test_readme_between_the_markers(store: ResultStore) -> None:
    readme = store.root.parent / "README.md"
    readme.write_text(README)
    assert readme in report(store, readme)
    text = readme.read_text()
    assert text.startswith(f"# Mine\n\n{BEGIN}\n\n### All tasks") and text.endswith(f"\n{END}\n\nThe end.\n")
    assert "\nold\n" not in text and "| [e5](results/encoders/e5.md) " in text and "@sample" not in text
    assert "](results/README.md)" in text and "[STS 2017](results/sts17.md)" in text
    assert report(store, readme) == []


def test_readme_keeps_its_line_ends(store: ResultStore) -> None:
    readme = store.root.parent / "README.md"
    readme.write_bytes(README.replace("\n", "\r\n").encode())
    report(store, readme)
    assert readme.read_bytes().count(b"\n") == readme.read_bytes().count(b"\r\n")
    assert report(store, readme) == []


def test_readme_without_markers_is_left_alone(store: ResultStore) -> None:
    readme = store.root.parent / "README.md"
    readme.write_text("# Mine\n")
    assert readme not in report(store, readme)
    assert readme.read_text() == "# Mine\n"


@pytest.mark.parametrize("text", [BEGIN, END, END + BEGIN, BEGIN + END + BEGIN])
def test_broken_markers(store: ResultStore, text: str) -> None:
    readme = store.root.parent / "README.md"
    readme.write_text(text)
    with pytest.raises(InputError, match="once each"):
        report(store, readme)
    assert not (store.root / "README.md").exists()


def test_outdated_writes_nothing(store: ResultStore) -> None:
    assert len(outdated(store)) == 8
    assert [path.name for path in store.root.iterdir()] == ["records"]


def test_commands_that_repeat_own_sets_name_a_file_of_sets() -> None:
    pairs = {"accuracy_src_trg": 1.0, "accuracy_trg_src": 1.0}
    results = [sts("muse", "en-en", 1.0), record("muse", "pairs", "faq", pairs, "task:pairs|version:1")]
    repeat = make_pages(results, folder="r")["README.md"].partition("## How to repeat it")[2].partition("## ")[0]
    published, own = (command.replace(" \\\n ", "") for command in repeat.split("leaderboard run --fresh")[1:])
    assert '--data-dir "$HARNESS_DATA"' in published and "--task sts17" in published and "pairs" not in published
    assert own.startswith(" --sets YOUR-SETS.toml --results r --task pairs --encoder muse")
    assert "--data-dir" not in own and "sts17" not in own
    assert "`YOUR-SETS.toml`" in repeat


def test_no_records(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leaderboard run"):
        report(ResultStore(tmp_path / "results"))


def test_commands_repeat_what_was_measured() -> None:
    bias = {"expected": 1.0, "actual": 1.0, "difference": 0.0}
    results = [
        sts("muse", "en-en", 1.0),
        record("muse", "language-bias", "official6", bias),
        sts("e5", "en-en", 1.0),
        sts("e5", "en-en@sample", 1.0),
        sts("minilm", "en-en", 1.0),
        sts("object", "en-en", 1.0, spec=""),
        sts("twice", "en-en", 1.0, spec="twice?a=1"),
        record("twice", "language-bias", "official6", bias, spec="twice?a=2"),
    ]
    page = make_pages(results, folder="r 2")["README.md"]
    start = "leaderboard run --fresh \\\n  "
    real = f"{start}--data-dir \"$HARNESS_DATA\" \\\n  --results 'r 2' \\\n  "
    expected = f"""\
```sh
{real}--task sts17 \\
  --encoder e5 \\
  --encoder minilm
{real}--task sts17 \\
  --task language-bias \\
  --encoder muse
{real}--task sts17 \\
  --encoder 'twice?a=1'
{real}--task language-bias \\
  --encoder 'twice?a=2'
{start}--suite sample \\
  --results 'r 2' \\
  --task sts17 \\
  --encoder e5
leaderboard report --results 'r 2'
```

Measured through the Python API: object.
"""
    assert f"## How to repeat it\n\n{expected}\n## Protocols" in page


@pytest.mark.parametrize("name", ["results", "r2"])
def test_commands_name_the_folder_without_its_path(tmp_path: Path, name: str) -> None:
    store = write_records(tmp_path / name, small_board())
    report(store)
    page = (store.root / "sts17.md").read_text()
    assert f"\nleaderboard report --results {name}\n" in page and str(tmp_path) not in page
    assert page.count("--results") == 2


def test_intervals_on_the_pages_need_no_rows_and_are_checked(tmp_path: Path) -> None:
    """From rows to pages; then the rows are gone, as in a checkout, and nothing changes."""
    for encoder, error in (("good", 0.5), ("poor", 5.0)):
        store_measured(
            tmp_path, encoder, {subset: sts_rows(subset, error, 1) for subset in ("en-en", "es-es", "ar-ar")}
        )
        parts = [sts_rows(subset, error, 1) for subset in ("en-en", "es-es")]
        joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        rows = {"set": np.repeat(["en-en", "es-es"], len(joined["gold"]) // 2), **joined}
        store_measured(tmp_path, encoder, {"ten": rows}, "language-bias")
    store = ResultStore(tmp_path)
    update_statistics(store, [get_task("sts17"), get_task("language-bias")], Resampling(200))
    changed = {path.relative_to(tmp_path).as_posix() for path in report(store)}
    assert {"README.md", "sts17.md", "language-bias/good-ten.svg", "language-bias/poor-ten.svg"} <= changed
    shutil.rmtree(tmp_path / "rows")
    assert outdated(store) == {}

    board = (tmp_path / "sts17.md").read_text()
    (row,) = [line for line in board.partition("published")[0].splitlines() if line.startswith("| good ")]
    assert len(re.findall(r"\| \*\*\d+\.\d\*\*<br><sub>\[\d+\.\d, \d+\.\d\]</sub> ", row)) == 4
    assert "| **9" in (tmp_path / "README.md").read_text() and "<sub>[" in (tmp_path / "README.md").read_text()
    bias = (tmp_path / "language-bias.md").read_text()
    assert "| ten p |" in bias and "](language-bias/good-ten.svg)" in bias and "cost of joining two sets" in bias
    (tmp_path / "language-bias/good-ten.svg").write_text("")
    assert list(outdated(store)) == [tmp_path / "language-bias/good-ten.svg"]

    # What is measured anew is shown without the interval of what it was.
    store_measured(tmp_path, "good", {"en-en": sts_rows("en-en", 2.0, 4)})
    lines = outdated(store)[tmp_path / "sts17.md"].decode().partition("published")[0].splitlines()
    (row,) = [line for line in lines if line.startswith("| good ")]
    assert row.count("<sub>") == 2
    assert any(line.startswith("- no interval and no test: good on en-en, avg-same; ") for line in lines)

"""`leaderboard train-baseline` as a user runs it."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import one_line_error
from hostile import HOSTILE, harmless, hidden, markdown_shape
from tiny_models import SENTENCES, write_bert

WORDS = sorted({word.strip(",") for text in SENTENCES for word in text.split()})


@pytest.mark.slow
def test_names_on_the_model_card_are_text() -> None:
    from baselines.training.nli import Trained
    from baselines.training.train_baseline import model_card
    from baselines.training.training_data import UsedFile

    def body(text: str) -> str:
        trained = Trained({text: text}, {"sts": 1}, None, {text: 1.0}, {text: 2.0})
        file = UsedFile(text, text, text, 1, [text])
        card = model_card(text, text, text, trained, [file], [file])
        return card.removeprefix(card[: card.index("\n---\n") + 5])  # the hub's metadata

    for hostile, twin in zip(HOSTILE.values(), harmless().values(), strict=True):
        assert markdown_shape(body(hostile)) == markdown_shape(body(twin)) and not hidden(body(hostile))


def sentence(source: random.Random) -> str:
    return " ".join(source.sample(WORDS, 4))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data directory: AllNLI, the STS Benchmark with two rows of track 5, and track 5 itself."""
    root, source = tmp_path_factory.mktemp("data"), random.Random(0)
    rows = [(f"{row % 6}.000", sentence(source), sentence(source)) for row in range(40)]
    lines = ["\t".join(("g", "images", "2014", "1", *row)) + "\n" for row in rows]
    track5 = "".join("\t".join(row[1:]) + "\n" for row in rows[:2])
    labels = ["contradiction", "entailment", "neutral", "-"]
    files = {
        "allnli/AllNLI.tsv": "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"
        + "".join(f"train\tSNLI\tf\t{one}\t{two}\t{labels[row % 4]}\n" for row, (_, one, two) in enumerate(rows)),
        "stsb/original-en/sts-train.csv": "".join(lines[:20]),
        "stsb/original-en/sts-dev.csv": "".join(
            lines[20:] + [line.replace("images", "track5.en-en") for line in lines[:2]]
        ),
        "sts17/STS.input.track5.en-en.txt": track5,
        "sts17/STS.gs.track5.en-en.txt": "1.0\n2.0\n",
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    return str(write_bert(tmp_path_factory.mktemp("start") / "tiny-bert"))


def test_from_the_command_line_to_a_score(torch_leaderboard, data, start, tmp_path):
    pytest.importorskip("accelerate")
    pytest.importorskip("datasets")
    options = ["--language", "en", "--batch-size", "8", "--nli-epochs", "2", "--max-length", "20", "--cpu"]
    command = ["train-baseline", start, "--name", "tiny-nli-stsb", *options]
    places = {"HARNESS_CACHE": str(tmp_path / "cache"), "HARNESS_DATA": str(data), "OMP_NUM_THREADS": "1"}
    done = torch_leaderboard(*command, **places)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "cache/models/tiny-nli-stsb"
    assert done.stdout.splitlines() == [str(folder)]
    assert "AllNLI.tsv: 30 pairs; 10 pairs without a label are left out; 2 pairs hold" in done.stderr
    assert "sts-train.csv: 18 pairs; 2 rows with a sentence of STS 2017 are left out" in done.stderr
    assert "sts-dev.csv: 20 pairs; 2 rows of STS 2017 track 5 are left out" in done.stderr
    assert "stage nli: 30 pairs, 8 steps of 8" in done.stderr and "stage sts: 18 pairs, 12 steps of 8" in done.stderr
    assert "Traceback" not in done.stderr and "it/s" not in done.stderr

    card = re.sub(" +", " ", (folder / "README.md").read_text(encoding="utf-8"))
    assert f"leaderboard train-baseline tiny-bert --name tiny-nli-stsb {' '.join(options[:-1])}\n" in card
    assert "| seed | `42` |" in card and "CC BY-SA 4.0 (SNLI)" in card and "| AllNLI.tsv | training | 30 |" in card
    assert not any(str(place) in card for place in (tmp_path, data, Path(start).parent))
    assert "\n| en | " in card

    spec = f"sentence-transformers:{folder}"
    done = torch_leaderboard("run", "--encoder", spec, "--suite", "sample", "--subset", "en-en@sample", **places)
    assert done.returncode == 0 and "sts17 en-en@sample: spearman" in done.stderr, done.stderr


SNLI = "gold_label\tsentence1\tsentence2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no NLI pairs: `leaderboard data fetch allnli` gets them"),
        (["--skip", "nli"], "no STS pairs: give --data-dir"),
        (["--skip", "nli", "--nli", "nli.tsv"], "--nli and --skip nli contradict"),
        (["--skip", "sts", "--sts", "sts.csv"], "--sts and --skip sts contradict"),
        (["--skip", "nli", "--sts", "sts.csv"], "give both --sts and --sts-dev"),
        (["--skip", "sts", "--nli", "absent.tsv"], "absent.tsv: cannot be read"),
        (["--skip", "sts", "--nli", "bad.tsv"], "bad.tsv:3: label 'perhaps', expected contradiction"),
        (["--skip", "sts", "--nli", "deep.jsonl"], "deep.jsonl:1: not a JSON object with gold_label"),
        (["--skip", "nli", "--sts", "sts.csv", "--sts-dev", "bad.csv"], "bad.csv:2: the score 6 is outside 0 to 5"),
        (["--skip", "sts", "--nli", "nli.tsv"], "stage nli has 1 pairs, fewer than a batch of 16"),
        (["--skip", "sts", "--nli", "nli.tsv", "--batch-size", "1", "--name", "a/b"], "model name 'a/b' cannot name"),
        (["--language", "xx"], "unknown language 'xx'"),
        (["--data-dir", "nowhere"], "data directory nowhere is not a folder"),
        (["--precision", "fp8"], "Invalid value for '--precision'"),
        (["--keep-layers", "0"], "Invalid value for '--keep-layers'"),
        (["--skip", "sts", "--nli", "nli.tsv", "--out", ".", "--fresh"], "is there already; give another --name"),
    ],
)
def test_bad_input_is_one_line(torch_leaderboard, tmp_path, start, arguments, message):
    pytest.importorskip("accelerate")
    pytest.importorskip("datasets")
    (tmp_path / "nli.tsv").write_text(SNLI + "neutral\ta\tb\n")
    (tmp_path / "bad.tsv").write_text(SNLI + "neutral\ta\tb\nperhaps\ta\tb\n")
    (tmp_path / "deep.jsonl").write_text("[" * 200_000)
    (tmp_path / "sts.csv").write_text("a,b,1\n")
    (tmp_path / "bad.csv").write_text("a,b,1\nc,d,6\n")
    assert message in one_line_error(torch_leaderboard("train-baseline", start, *arguments))


def test_starts_that_cannot_be_used(torch_leaderboard, tmp_path):
    pytest.importorskip("accelerate")
    pytest.importorskip("datasets")
    (tmp_path / "nli.tsv").write_text(SNLI + "neutral\ta\tb\n")
    rest = ["--skip", "sts", "--nli", "nli.tsv", "--batch-size", "1"]
    assert "encoder 'muse' cannot be trained here" in one_line_error(torch_leaderboard("train-baseline", "muse", *rest))
    (tmp_path / "empty").mkdir()
    assert "cannot load the model" in one_line_error(torch_leaderboard("train-baseline", "./empty", *rest))


def test_the_command_imports_nothing_heavy():
    code = "import sys, baselines.training.train_baseline\n"
    code += "sys.exit(bool({'torch', 'numpy', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

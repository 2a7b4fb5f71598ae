"""`leaderboard distill` as a user runs it: end to end, killed and run again, and with bad input."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import one_line_error
from fork_server import LEADERBOARD
from tiny_corpora import write_corpus

from harness.cli import main
from harness.encoders.registry import encoder_info, load_encoder

for module in ("torch", "sentence_transformers", "accelerate", "datasets", "altair", "vl_convert"):
    pytest.importorskip(module)

_TEACHER = "chargrams?dim=64"
_OPTIONS = shlex.split(
    "--batch-size 32 --learning-rate 0.05 --epochs 100 --max-steps 300 --eval-steps 20 --patience 99 --cpu"
)


def command(folder, *arguments, teacher=_TEACHER):
    pairs = [word for path in sorted(folder.glob("*.tsv")) for word in ("--pairs", str(path))]
    student = ("--student", "static:unigram-200")
    return ["distill", "--teacher", teacher, *student, *pairs, *_OPTIONS, *arguments]


def environment(folder):
    # No data directory: fixtures of a module come before the one that hides the user's.
    own = {name: value for name, value in os.environ.items() if name != "HARNESS_DATA"}
    return {**own, "HARNESS_CACHE": str(folder / "cache")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_corpus(folder, "tiny", "de", 300)
    write_corpus(folder, "tiny", "tr", 120)
    return folder


@pytest.fixture(scope="module")
def done(data):
    """A new process, as a user starts it: its hashes of strings are not those of the runs that are compared with it."""
    own = {**environment(data), "OMP_NUM_THREADS": "1"}  # with more threads than cores, they would wait for each other
    return subprocess.run([LEADERBOARD, *command(data)], env=own, capture_output=True, text=True, timeout=600)


def weights(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")["embedding.weight"]


def test_it_beats_its_own_start(data, done):
    """Of 30 and 12 sentences, the nearest one of the other language is the translation."""
    assert done.returncode == 0, done.stderr
    folder = data / "cache/models/static-unigram-200-distilled"
    assert done.stdout == f"{folder}\n"
    record = json.loads((folder / "training.json").read_text())
    first, best = record["curve"][0], next(p for p in record["curve"] if p["step"] == record["best_step"])
    assert first["accuracy_xx_en"] < 25 and best["accuracy_xx_en"] > 90
    assert best["mse"] < first["mse"] / 3
    assert "step 300 of 300 (100 %): loss 0." in done.stderr and "sentences/s" in done.stderr
    assert "% for evaluations" in done.stderr
    shown = shlex.join(["leaderboard", "distill", "--teacher", _TEACHER, "--student", "static:unigram-200"])
    card = (folder / "README.md").read_text()
    assert f"{shown} --pairs tiny.en-de.tsv" in card and str(data) not in card and "--cpu" not in card
    # The student has its teacher's vectors, here by the NumPy encoder.
    student, teacher = load_encoder(f"static:{folder}"), load_encoder(_TEACHER)
    lines = (data / "tiny.en-de.tsv").read_text().splitlines()[:50]
    english, german = zip(*(line.split("\t") for line in lines), strict=True)
    wanted, found = teacher.encode(english), student.encode(german)
    cosines = (wanted * found).sum(1) / np.linalg.norm(wanted, axis=1) / np.linalg.norm(found, axis=1)
    assert cosines.mean() > 0.8


def test_killed_and_run_again_it_gives_the_same_student(data, done, tmp_path, torch_server):
    out = tmp_path / "student"
    killed = torch_server.start(command(data, "--out", str(out)), data, environment(data))
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob("student.training/checkpoints/checkpoint-1[0-9]0")):
        assert killed.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL  # it was not done by then
    assert not out.exists()
    again = torch_server.run(command(data, "--out", str(out)), data, environment(data))
    assert again.returncode == 0, again.stderr
    # The last checkpoint that was whole.
    assert re.search("goes on after step (80|1[0-9]0) of 300", again.stderr), again.stderr
    whole = data / "cache/models/static-unigram-200-distilled"
    np.testing.assert_array_equal(weights(out), weights(whole))
    records = [json.loads((folder / "training.json").read_text()) for folder in (out, whole)]
    assert records[0] == records[1]
    assert [path.name for path in tmp_path.iterdir()] == ["student"]


def test_a_small_student_with_more_pieces_than_its_pairs_have(data, tmp_path, torch_server):
    """Pruned from a vocabulary that has others, too; begun by two encoders; pairs de-tr; at last in int4."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from distill.vocabulary import train_tokenizer

    english = [line.partition("\t")[0] for line in (data / "tiny.en-de.tsv").read_text().splitlines()]
    foreign = [line.partition("\t")[2] for path in data.glob("*.tsv") for line in path.read_text().splitlines()]
    tokenizer = train_tokenizer([*english, *foreign, "neither was heard of elsewhere"], "unigram", 300)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(tmp_path / "tokenizer")
    options = shlex.split(
        f"distill --teacher chargrams?dim=64 --student static:pruned-120 --tokenizer {tmp_path / 'tokenizer'} "
        "--init chargrams?dim=256 --init chargrams?dim=512 --unseen-pieces 200 --pivots 0.5 --loss cosine+ranking "
        "--batch-size 32 --max-steps 60 --cpu"
    )
    pairs = [word for path in sorted(data.glob("*.tsv")) for word in ("--pairs", str(path))]
    trained = torch_server.run([*options, *pairs, "--out", str(tmp_path / "student")], data, environment(data))
    assert trained.returncode == 0, trained.stderr
    record = json.loads((tmp_path / "student/training.json").read_text())
    assert record["settings"]["pivots"] == 0.5 and record["settings"]["unseen_pieces"] == 200
    assert record["settings"]["init"] == ["chargrams?dim=256", "chargrams?dim=512"]
    assert record["curve"][-1]["accuracy_xx_en"] > record["curve"][0]["accuracy_xx_en"] + 20
    vocabulary = Tokenizer.from_file(str(tmp_path / "student/tokenizer.json")).get_vocab()
    assert 120 < len(vocabulary) < 300
    small = torch_server.run(
        ["distill", "compact", str(tmp_path / "student"), str(tmp_path / "small"), "--bits", "int4"],
        data,
        environment(data),
    )
    assert small.returncode == 0 and small.stdout == f"{tmp_path / 'small'}\n", small.stderr
    ours, theirs = (load_encoder(f"static:{tmp_path / name}").encode(english[:50]) for name in ("small", "student"))
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.mean() > 0.98


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["distill", *arguments])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert stopped.value.code == 2 and len(lines) == 1
    return lines[0].removeprefix("error: ")


TRAIN = ("--teacher", "chargrams?dim=16", "--student", "static:unigram-100", "--cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --teacher and --student"),
        (TRAIN, "no parallel data: give files with --pairs, or --data-dir"),
        ((*TRAIN, "--pairs", "none.en-de.tsv"), "no file none.en-de.tsv"),
        ((*TRAIN, "--pairs", "x.en-de.tsv", "--language", "de"), "--pairs names files; --corpus and --language"),
        ((*TRAIN, "--weight", "multi30k"), "--weight 'multi30k': expected NAME=X"),
        ((*TRAIN, "--weight", "multi30k=-1"), "--weight 'multi30k=-1': expected NAME=X"),
        ((*TRAIN, "--matryoshka", "64;32"), "--matryoshka '64;32': expected whole numbers"),
        ((*TRAIN, "--name", "a/b"), "a/b"),
        ((*TRAIN, "--dropout", "0"), "--dropout is for transformers"),
        (("--teacher", "chargram", "--student", "static:bpe-100"), "unknown encoder 'chargram'; did you mean"),
    ],
)
def test_bad_usage(capsys, arguments, message):
    assert message in run(capsys, *arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no pairs in it"),
        ("one\tein\nonly one\n", ":2: 1 column, expected 2"),
        ("one\tein\ntwo\tzwei\n", "2 pairs are too few"),
        (
            "".join(f"number {n}\tdie Zahl {n}\n" for n in range(40)),
            "36 pairs to train on are fewer than a batch of 2,048",
        ),
    ],
)
def test_bad_data(capsys, tmp_path, content, message):
    path = tmp_path / "own.en-de.tsv"
    path.write_text(content)
    assert message in run(capsys, *TRAIN, "--pairs", str(path), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_two_teachers(data, tmp_path, torch_leaderboard):
    teachers = ("--teacher", "chargrams?dim=64", "--teacher", "chargrams?dim=32&name=short")
    few = ("--max-steps", "4", "--eval-steps", "4", "--dim", "16", "--out", str(tmp_path / "both"))
    made = torch_leaderboard("distill", *teachers, *command(data, *few)[3:])
    assert made.returncode == 0, made.stderr
    record = json.loads((tmp_path / "both/training.json").read_text())
    assert record["settings"]["teacher"] == "chargrams+short" and weights(tmp_path / "both").shape[1] == 16
    shown = "--teacher 'chargrams?dim=64' --teacher 'chargrams?dim=32&name=short' --student"
    assert shown in (tmp_path / "both/README.md").read_text()


@pytest.mark.parametrize("alias", ["mbert-distilled", "distilmbert-distilled"])
def test_the_command_that_the_alias_names_is_the_papers_setting(alias, monkeypatch, tmp_path):
    import distill.distillation

    seen = {}

    def note(teacher, student, out, options, progress):
        seen.update(vars(options), teacher=teacher, student=student.student, out=out)

    monkeypatch.setattr(distill.distillation, "distill", note)
    words = shlex.split(encoder_info(alias).recipe().rpartition(" && ")[2])
    with pytest.raises(SystemExit) as stopped:
        main([*words[1:], "--data-dir", str(tmp_path)])
    assert words[:2] == ["leaderboard", "distill"] and stopped.value.code == 0
    assert seen["teacher"] == ["sbert-nli-stsb"] and seen["student"].endswith("bert-base-multilingual-cased")
    assert seen["out"].parts[-2:] == ("models", alias)
    assert seen["pairs"] == seen["corpora"] == [] and seen["data_dir"] == tmp_path
    recipe = seen["recipe"]
    assert (recipe.loss, recipe.batch_size, recipe.epochs) == ("mse", 64, 20)
    assert (recipe.warm_up, recipe.learning_rate, recipe.temperature) == (10_000, 2e-5, 0.0)


def test_a_student_in_its_compact_form(data, done, tmp_path, torch_leaderboard):
    assert done.returncode == 0, done.stderr
    student, small = Path(done.stdout.strip()), tmp_path / "small"
    command = ["distill", "compact", str(student), str(small)]
    made = torch_leaderboard(*command)
    assert made.returncode == 0, made.stderr
    size = sum(path.stat().st_size for path in small.iterdir())
    assert f"{size / 2**20:.2f} MiB" in made.stderr
    texts = ["ba de fi", "go ku", "la me ni po"]
    whole, compact = (load_encoder(f"static:{folder}").encode(texts) for folder in (student, small))
    cosines = (whole * compact).sum(1) / np.linalg.norm(whole, axis=1) / np.linalg.norm(compact, axis=1)
    assert cosines.min() > 0.999
    assert (small / "model.safetensors").stat().st_size < (student / "model.safetensors").stat().st_size / 3
    assert one_line_error(torch_leaderboard(*command))

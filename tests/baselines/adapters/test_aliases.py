"""The paper's systems by name: each is ready, or says what it needs; those that are made here are found once made."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from command_line import one_line_error

# The rows of Tables 1 to 3 of Reimers & Gurevych (2020).
SYSTEMS = {
    "SBERT-nli-stsb": "sbert-nli-stsb",
    "mBERT mean": "mbert-mean",
    "XLM-R mean": "xlmr-mean",
    "mBERT-nli-stsb": "mbert-nli-stsb",
    "XLM-R-nli-stsb": "xlmr-nli-stsb",
    "mBERT <- SBERT-nli-stsb": "mbert-distilled",
    "DistilmBERT <- SBERT-nli-stsb": "distilmbert-distilled",
    "XLM-R <- SBERT-nli-stsb": "xlmr-nli-stsb-distilled",
    "XLM-R <- SBERT-paraphrases": "xlmr-paraphrases-distilled",
    "LASER": "laser",
    "mUSE": "muse-large",
    "LaBSE": "labse",
}
# Those that were never published: the command that makes them, and the megabytes of their starts and data.
MBERT = "google-bert/bert-base-multilingual-cased"
DISTILMBERT = "distilbert/distilbert-base-multilingual-cased"
COMMANDS = {
    "mbert-nli-stsb": f"train-baseline {MBERT}",
    "xlmr-nli-stsb": "train-baseline FacebookAI/xlm-roberta-base",
    "mbert-distilled": f"distill --teacher sbert-nli-stsb --student {MBERT}",
    "distilmbert-distilled": f"distill --teacher sbert-nli-stsb --student {DISTILMBERT}",
}
MADE = {
    "mbert-nli-stsb": "1,057",
    "xlmr-nli-stsb": "1,470",
    "mbert-distilled": "1,456",
    "distilmbert-distilled": "1,281",
}


def test_all_twelve_systems_are_listed_with_what_they_need(leaderboard, tmp_path):
    # With a hub cache of the test's own: what the machine has does not count.
    done = leaderboard("encoders", "--format", "json", HF_HOME=str(tmp_path / "hub"))
    assert done.returncode == 0, done.stderr
    rows = {row["encoder"]: row for row in json.loads(done.stdout)}
    for system, alias in SYSTEMS.items():
        state = rows[alias]["state"]
        if alias in MADE:
            assert state.endswith(f"{MADE[alias]} MB)"), (system, state)
            assert f" && leaderboard {COMMANDS[alias]} --name {alias} (" in state
        else:  # ready, or a command that can be copied, with its megabytes
            fetch = rf"(needs|.*;) leaderboard encoders --fetch {alias} \([\d,]+ MB\)"
            assert state == "ready" or re.fullmatch(fetch, state), (system, state)


def test_a_model_that_is_made_here_says_how(leaderboard):
    pytest.importorskip("sentence_transformers")
    error = one_line_error(leaderboard("run", "--encoder", "xlmr-nli-stsb", "--suite", "sample"))
    assert "make it first: leaderboard data fetch allnli stsb sts17 && leaderboard train-baseline" in error


def test_a_model_that_was_made_here_is_found(torch_leaderboard, tmp_path):
    pytest.importorskip("sentence_transformers")
    from tiny_models import write_bert, write_sentence_transformer

    folder = Path(os.environ["HARNESS_CACHE"]).with_name("with-models")
    write_sentence_transformer(folder / "models" / "mbert-nli-stsb", write_bert(tmp_path / "bert"))
    options = ["--suite", "sample", "--task", "sts17", "--subset", "en-en@sample", "--results", "results"]
    done = torch_leaderboard("run", "--encoder", "mbert-nli-stsb", *options, HARNESS_CACHE=str(folder))
    assert done.returncode == 0, done.stderr
    (record,) = json.loads((tmp_path / "results/records/mbert-nli-stsb/sts17.json").read_text())
    assert record["spec"] == "mbert-nli-stsb" and record["fingerprint"].startswith("sentence-transformers/sha256:")

"""TensorFlow and PyTorch in one process: LASER, SavedModel and Hugging Face models in one run of the command line."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("sentence_transformers")
pytest.importorskip("laserembeddings")
pytest.importorskip("tensorflow_text")


@pytest.mark.nightly  # each format has its run, and two of them are in one process, in its adapter's tests
def test_models_of_all_three_formats_in_one_run(leaderboard, tmp_path):
    from laser_files import write_laser
    from saved_models import write_muse
    from tiny_models import write_bert, write_sentence_transformer, write_xlm_r

    specs = {
        "laser-tiny": f"laser:{write_laser(tmp_path / 'laser-tiny')}",
        "saved-model": f"tfhub:{write_muse(tmp_path / 'saved-model')}",
        "bert": f"mean-pooling:{write_bert(tmp_path / 'bert')}",
        "xlm-r": f"mean-pooling:{write_xlm_r(tmp_path / 'xlm-r')}",
        "sbert": f"sentence-transformers:{write_sentence_transformer(tmp_path / 'sbert', tmp_path / 'bert')}",
    }
    encoders = [argument for spec in specs.values() for argument in ("--encoder", spec)]
    tasks = ["--task", "sts17", "--task", "tatoeba", "--subset", "en-de@sample", "--subset", "deu@sample"]
    done = leaderboard("run", *encoders, *tasks, "--suite", "sample", "--results", "results")
    assert done.returncode == 0, done.stderr
    cells = [("sts17", "en-de@sample", "spearman"), ("tatoeba", "deu@sample", "accuracy_en_xx")]
    for name in specs:
        for task, subset, metric in cells:
            (record,) = json.loads((tmp_path / "results" / "records" / name / f"{task}.json").read_text())
            assert record["subset"] == subset and -100 <= record["metrics"][metric] <= 100
            assert str(tmp_path) not in json.dumps(record)

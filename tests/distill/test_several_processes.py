"""Several processes, as `accelerate launch` starts them on several GPUs; here two on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_corpora import write_corpus

for module in ("torch", "sentence_transformers", "accelerate", "datasets", "matplotlib"):
    pytest.importorskip(module)


def test_two_processes_train_the_same_student_as_one(tmp_path):
    from safetensors.numpy import load_file

    pairs = write_corpus(tmp_path, "tiny", "de", 200)
    program = str(Path(sys.executable).parent / "leaderboard")
    options = ["--teacher", "chargrams?dim=32", "--student", "static:bpe-200", "--pairs", str(pairs), "--cpu"]
    options += ["--batch-size", "32", "--max-steps", "20", "--eval-steps", "10", "--epochs", "9", "--seed", "7"]
    tables = []
    for processes in (1, 2):
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        out = tmp_path / f"with-{processes}"
        done = subprocess.run(
            [*(launch if processes > 1 else []), program, "distill", *options, "--out", str(out)],
            env={**os.environ, "HARNESS_CACHE": str(out) + ".cache", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{out}\n" and done.stderr.count("20 steps, best after 20") == 1
        tables.append(load_file(out / "model.safetensors")["embedding.weight"])
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-3)

"""Several processes, as `accelerate launch` starts them on several GPUs; here two on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from fork_server import LEADERBOARD
from tiny_corpora import write_corpus

for module in ("torch", "sentence_transformers", "accelerate", "datasets", "matplotlib"):
    pytest.importorskip(module)


def test_two_processes_train_the_same_student_as_one(tmp_path, torch_server):
    from safetensors.numpy import load_file

    pairs = write_corpus(tmp_path, "tiny", "de", 200)
    options = ["--teacher", "chargrams?dim=32", "--student", "static:bpe-200", "--pairs", str(pairs), "--cpu"]
    options += ["--batch-size", "32", "--max-steps", "20", "--eval-steps", "10", "--epochs", "9", "--seed", "7"]
    tables = []
    for processes in (1, 2):
        out = tmp_path / f"with-{processes}"
        command = ["distill", *options, "--out", str(out)]
        environment = {**os.environ, "HARNESS_CACHE": f"{out}.cache", "OMP_NUM_THREADS": "1"}
        if processes == 1:
            done = torch_server.run(command, tmp_path, environment)
        else:
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
            done = subprocess.run(
                [*launch, LEADERBOARD, *command], env=environment, capture_output=True, text=True, timeout=600
            )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{out}\n" and done.stderr.count("20 steps, best after 20") == 1
        tables.append(load_file(out / "model.safetensors")["embedding.weight"])
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-3)

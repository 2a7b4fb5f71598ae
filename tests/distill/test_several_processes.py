"""Several processes, as `accelerate launch` starts them on several GPUs; here two on the CPU."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from fork_server import LEADERBOARD
from tiny_corpora import write_corpus

for module in ("torch", "sentence_transformers", "accelerate", "datasets", "altair", "vl_convert"):
    pytest.importorskip(module)

STREAMS = ("stdout", "stderr")


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    pairs = write_corpus(tmp_path_factory.mktemp("pairs"), "tiny", "de", 200)
    options = ["--teacher", "chargrams?dim=32", "--student", "static:bpe-200", "--pairs", str(pairs), "--cpu"]
    options += ["--batch-size", "32", "--max-steps", "20", "--eval-steps", "10", "--epochs", "9", "--seed", "7"]
    return [*options, "--out", "student"]


@pytest.fixture(scope="module")
def alone(options, torch_server, tmp_path_factory):
    """What one process trains."""
    folder = tmp_path_factory.mktemp("alone")
    done = torch_server.run(["distill", *options], folder, environment(folder))
    assert done.returncode == 0, done.stderr
    check_output(folder, done.stdout, done.stderr)
    return table(folder)


def environment(folder, **more):
    return {**os.environ, "HARNESS_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", **more}


def check_output(folder, stdout, stderr):
    assert stdout == f"{folder / 'student'}\n" and stderr.count("20 steps, best after 20") == 1


def table(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "student" / "model.safetensors")["embedding.weight"]


def test_two_processes_train_the_same_student_as_one(options, alone, torch_server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    launched = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        torch_server.start(
            ["distill", *options],
            tmp_path,
            environment(tmp_path, **launched, RANK=str(rank), LOCAL_RANK=str(rank)),
            tmp_path / f"{rank}.stdout",
            tmp_path / f"{rank}.stderr",
        )
        for rank in (0, 1)
    ]
    codes = [process.wait() for process in processes]
    stdout, stderr = ("".join((tmp_path / f"{rank}.{name}").read_text() for rank in (0, 1)) for name in STREAMS)
    assert codes == [0, 0], stderr
    check_output(tmp_path, stdout, stderr)
    np.testing.assert_allclose(alone, table(tmp_path), atol=1e-3)


@pytest.mark.nightly
def test_a_launcher_starts_them(options, alone, tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", LEADERBOARD]
    command = [*launch, "distill", *options]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    check_output(tmp_path, done.stdout, done.stderr)
    np.testing.assert_allclose(alone, table(tmp_path), atol=1e-3)

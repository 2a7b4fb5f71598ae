"""Exact retrieval, side by side in one run on the same vectors: the task `retrieval`, and bare NumPy.

    python benchmarks/retrieval.py [--documents 100000] [--queries 1000] [--dim 384] [--repeats 2]

Ours is all that the task does after encoding: search, ties by row, the six metrics of every query, their means. Bare is
a float32 product of the unit vectors, `argpartition` and a sort of the 101 best: ties fall as they fall, nothing is
scored, and all similarities are in memory at once. Vectors are random; each query is a document plus noise, so that
about all of them find it.

Each side runs in a process of its own, the processes in turn; the smallest times count. Memory is the peak above the
level with the vectors loaded. Prints seconds, the ratio, and memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np
from overhead import peak_memory_mb, reset_peak_memory

from harness.data.beir import Retrieval
from harness.tasks.retrieval import DEPTH, aggregate, rows

SIDES = ("ours", "bare")


def vectors(n_documents: int, n_queries: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((n_documents, dim), dtype=np.float32)
    return documents[:n_queries] + rng.standard_normal((n_queries, dim), dtype=np.float32), documents


def bare(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (queries, documents))
    similarity = x @ y.T
    best = np.argpartition(-similarity, DEPTH, axis=1)[:, : DEPTH + 1]
    order = np.argsort(-np.take_along_axis(similarity, best, axis=1), axis=1)
    return np.take_along_axis(best, order, axis=1)


def ours(queries: np.ndarray, documents: np.ndarray) -> dict[str, float]:
    n = len(queries)
    items = Retrieval(
        queries=["query"] * n,
        documents=["document"] * len(documents),
        answers=[{row: 1} for row in range(n)],
        own=[-1] * n,
        languages=("", ""),
        n_left_out=0,
    )
    sides = {"query": queries, "document": documents}
    return aggregate(rows(items, lambda sentences, lang: sides[sentences[0]]))


def run_side(side: str, n_documents: int, n_queries: int, dim: int) -> None:
    """Prints seconds, MB, and the accuracy at 1, which tells that both found the same."""
    ours(*vectors(500, 100, dim)) if side == "ours" else bare(*vectors(500, 100, dim))  # libraries are loaded
    queries, documents = vectors(n_documents, n_queries, dim)
    reset_peak_memory()
    before, start = peak_memory_mb(), time.perf_counter()
    if side == "ours":
        right = ours(queries, documents)["recall_at_1"]
    else:
        right = 100 * float(np.mean(bare(queries, documents)[:, 0] == np.arange(n_queries)))
    print(time.perf_counter() - start, peak_memory_mb() - before, right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = (options.documents, options.queries, options.dim)
    if options.side:
        run_side(options.side, *size)
        return
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    arguments = [f"--{name}={value}" for name, value in zip(("documents", "queries", "dim"), size, strict=True)]
    for _ in range(options.repeats):
        for side in SIDES:
            command = [sys.executable, __file__, f"--side={side}", *arguments]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            taken, memory, right = map(float, done.stdout.split())
            seconds[side].append(taken)
            print(f"{side:5} {taken:6.2f} s  peak {memory:6.0f} MB above the vectors  {right:.1f} % right at 1")
    print(f"ours / bare: {min(seconds['ours']) / min(seconds['bare']):.2f} (of the smallest times)")


if __name__ == "__main__":
    main()

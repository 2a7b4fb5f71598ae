"""`leaderboard mine` on many lines, end to end: time, memory, disk, and the same bytes after kills on the way.

    python benchmarks/mine_large.py [--lines 2000000] [--ways faiss float32 ...] [--kills 10] [--vectors float16]
        [--dim 256] [--encoder SPEC] [--folder DIR] [--seed 0]

The lines are sequences of invented words, a third of which stands in both languages: of such a line, the other side has
the translation, word by word, with a few words exchanged. Without --encoder a line's vector is the sum of random
vectors of its words, the same for a word and its translation: cheap to compute.

Every way is a backend of `leaderboard mine` in a process of its own, with --work-dir in a new folder. Memory is the
peak of `RssAnon` (what no file backs) and of `VmRSS`, sampled ten times a second. With --kills the same command is then
begun again in another folder, killed (SIGKILL) at random moments that often, and its output compared. Prints Markdown;
needs Linux.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.files import digest_of

WORDS, TABLE = 60_000, 1 << 14
SHARED = 1 / 3  # of the lines
COMMAND = [sys.executable, "-c", "from harness.cli import main; main()", "mine"]
POLL = 0.1  # seconds


class Hashed:
    """Sums of random vectors of words; see above."""

    uses_lang = False

    def __init__(self, dim: int):
        self.name, self.dim, self.fingerprint = "hashed", dim, f"hashed {dim}"
        self._table = np.random.default_rng(0).standard_normal((TABLE, dim), np.float32)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        words = [[int(word[1:]) % TABLE for word in sentence.split()] or [0] for sentence in sentences]
        starts = np.cumsum([0, *map(len, words[:-1])])
        return np.add.reduceat(self._table[np.concatenate(words)], starts, axis=0) if words else np.empty((0, self.dim))


def hashed(*, dim: str = "256") -> Hashed:
    return Hashed(int(dim))


def write_lines(folder: Path, n: int, seed: int) -> tuple[Path, Path]:
    """Two files of `n` lines each; words are `d17` and `e17`."""
    files = folder / "lines.de", folder / "lines.en"
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(n) for _ in files]
    n_shared = int(n * SHARED)
    for path, order, letter in zip(files, orders, "de", strict=True):
        with path.open("w") as out:
            for start in range(0, n, 10_000):
                for line in order[start : start + 10_000].tolist():
                    # The words of a shared line follow from its number, else from the side's too.
                    own = np.random.Generator(np.random.PCG64([seed, line, 0 if line < n_shared else ord(letter)]))
                    words = own.zipf(1.15, 8 + line % 17) % WORDS
                    if letter == "e" and line < n_shared:
                        words[own.integers(0, len(words), 2)] = own.integers(0, WORDS, 2)
                    out.write(" ".join(f"{letter}{word}" for word in words.tolist()) + f" {letter}{line % 99_991}\n")
    return files


@dataclass
class Run:
    """What processes took, the peaks over all of them."""

    seconds: float = 0.0
    anonymous: float = 0.0  # MB
    resident: float = 0.0
    errors: str = ""

    def go(self, command: list[str], folder: Path, kill_after: float | None = None) -> bool:
        """Run a command; returns whether it came to its end."""
        here = Path(__file__).parent
        paths = os.pathsep.join([str(here.parent), str(here), os.environ.get("PYTHONPATH", "")])
        start = time.monotonic()
        with (folder / "errors.txt").open("w") as errors:
            process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stderr=errors)
            while process.poll() is None:
                self._measure(process.pid)
                if kill_after is not None and time.monotonic() - start > kill_after:
                    process.kill()
                time.sleep(POLL)
        self.seconds += time.monotonic() - start
        self.errors = (folder / "errors.txt").read_text()
        if process.returncode not in (0, -9):
            sys.exit(f"{' '.join(command)}\n{self.errors}")
        return process.returncode == 0

    def _measure(self, pid: int) -> None:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return
        values = dict(line.split(":", 1) for line in lines if line.startswith(("RssAnon", "VmRSS")))
        if len(values) == 2:
            anonymous, resident = (int(values[name].split()[0]) / 1000 for name in ("RssAnon", "VmRSS"))
            self.anonymous, self.resident = max(self.anonymous, anonymous), max(self.resident, resident)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--ways", nargs="+", default=["faiss"])
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--vectors", default="float32")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--encoder")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    spec = options.encoder or f"python:mine_large:hashed?dim={options.dim}"
    random.seed(options.seed)
    root = Path(tempfile.mkdtemp(prefix="mine-large-", dir=options.folder))
    rows = []
    try:
        files = write_lines(root, options.lines, options.seed)
        for way in options.ways:
            arguments = ["--backend", way, "--vectors", options.vectors, "--yes", "--encoder", spec]
            command = [*COMMAND, *map(str, files), *arguments]
            whole = Run()
            whole.go([*command, "--work-dir", str(root / "work"), "--out", str(root / "whole.tsv")], root)
            print(whole.errors, file=sys.stderr)
            disk = sum(path.stat().st_size for path in (root / "work").rglob("*") if path.is_file()) / 1e9
            n_pairs = sum(1 for _ in (root / "whole.tsv").open("rb"))
            row = [way, whole.seconds, whole.anonymous, whole.resident, disk, n_pairs, 0, 0.0, ""]
            shutil.rmtree(root / "work")
            if options.kills:
                again, kills, is_done = Run(), 0, False
                command += ["--work-dir", str(root / "work"), "--out", str(root / "again.tsv")]
                while not is_done:
                    delay = random.uniform(0.2, 1) / options.kills * whole.seconds if kills < options.kills else None
                    is_done = again.go(command, root, delay)
                    kills += not is_done
                is_same = digest_of(root / "whole.tsv") == digest_of(root / "again.tsv")
                row[-3:] = kills, again.seconds, "yes" if is_same else "NO"
                shutil.rmtree(root / "work")
            rows.append(row)
    finally:
        shutil.rmtree(root)
    print(f"{options.lines:,} x {options.lines:,} lines, {spec}, {options.vectors}\n")
    columns = ["backend", "seconds", "peak RssAnon, MB", "peak VmRSS, MB", "folder, GB", "pairs", "kills", "seconds"]
    print(f"| {' | '.join([*columns, 'same bytes'])} |\n|---|{'---:|' * (len(columns) - 1)}---|")
    for way, *figures, disk, n_pairs, kills, seconds, same in rows:
        printed = [f"{figure:,.0f}" for figure in figures]
        killed = [f"{kills}", f"{seconds:,.0f}", same] if options.kills else ["", "", ""]
        print(f"| {' | '.join([way, *printed, f'{disk:.1f}', f'{n_pairs:,}', *killed])} |")


if __name__ == "__main__":
    main()

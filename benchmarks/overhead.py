"""What the harness adds to the bare encoder: both encode the same sentences in one run, in turn.

    python benchmarks/overhead.py [--encoder muse] [--sentences 50000] [--repeats 3]

The bare side is the adapter's own `encode` on one list, the harness's side is what `leaderboard run` does: hashing,
deduplication, checks, writing the cache, reading it back. Prints seconds, their ratio, and the peak memory beyond
what the bare side needs. Sentences are the bundled sample's, varied so that all are distinct; with --data-dir they
are real ones.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from harness import load_encoder
from harness.data import bundled_sample, open_data_dir
from harness.encoders.cache import VectorCache
from harness.tasks import get_task


def reset_peak_memory() -> None:
    """Count the peak from here on, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory_mb() -> float:
    """Peak resident memory in MB since `reset_peak_memory`, else of the process; 0 where the platform does not tell."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) * 1024 / 1e6, 1)
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def sentences_for(n: int, data_dir: str | None) -> list[str]:
    task = get_task("bucc" if data_dir else "tatoeba")
    sources = task.sources(open_data_dir(data_dir) if data_dir else bundled_sample()).values()
    found: dict[str, None] = {}
    for source in sources:
        items = task.load(source)
        sides = (items.training.sentences1, items.training.sentences2) if data_dir else (items.foreign, items.english)
        for side in sides:
            found.update(dict.fromkeys(side))
    real = list(found)
    varied = (f"{text} {number}" for number in itertools.count(1) for text in real)
    return list(itertools.islice(itertools.chain(real, varied), n))


def measure(side: str, spec: str, n: int, data_dir: str | None) -> tuple[float, float]:
    """Seconds and peak memory (MB) of one side in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--encoder", spec, "--sentences", str(n)]
    command += ["--data-dir", data_dir] if data_dir else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = done.stdout.split()
    return float(seconds), float(memory)


def run_side(side: str, spec: str, n: int, data_dir: str | None) -> None:
    sentences = sentences_for(n, data_dir)
    encoder = load_encoder(spec)
    encoder.encode(sentences[:64])
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        if side == "bare":
            encoder.encode(sentences)
        else:
            VectorCache(Path(folder)).of(encoder).encode(sentences)
        print(time.perf_counter() - start, peak_memory_mb())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="muse")
    parser.add_argument("--sentences", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir")
    parser.add_argument("--side", choices=["bare", "harness"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_side(options.side, options.encoder, options.sentences, options.data_dir)
        return
    seconds: dict[str, list[float]] = {"bare": [], "harness": []}
    memory: dict[str, float] = {}
    for _ in range(options.repeats):
        for side in seconds:
            taken, memory[side] = measure(side, options.encoder, options.sentences, options.data_dir)
            seconds[side].append(taken)
            print(f"{side:8} {taken:7.1f} s  {options.sentences / taken:7.0f} sentences/s  peak {memory[side]:.0f} MB")
    # The smallest time is the one that other work on the machine disturbed least.
    ratio = min(seconds["harness"]) / min(seconds["bare"])
    medians = statistics.median(seconds["harness"]) / statistics.median(seconds["bare"])
    print(f"harness / bare: {ratio:.3f} (of the smallest times), {medians:.3f} (of the medians)")
    print(f"memory beyond the bare side: {memory['harness'] - memory['bare']:.0f} MB")


if __name__ == "__main__":
    main()

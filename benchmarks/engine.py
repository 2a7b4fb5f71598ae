"""What an engine costs: encoding on a Ray cluster of this machine beside this process, and a long queue's window.

    python benchmarks/engine.py --sentences 50000 --workers 2

Both sides encode the same sentences with as many threads in all: this process with `--workers` threads, and as many
workers with one thread each, all of whom load the encoder before the clock runs. Start-up is printed apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from harness.core.threads import available_cores, using_threads
from harness.encoders.cache import VectorCache
from harness.encoders.registry import check_spec, load_encoder
from harness.engine.cluster import connected
from harness.engine.encoding import Opening
from harness.engine.engine import Done
from harness.engine.ray_engine import Needs, RayEngine
from harness.running.distribution import Distribution

_WORDS = ("the", "of", "rain", "house", "seven", "walked", "under", "green", "old", "river", "never", "sang", "bright")


def texts(n: int, kind: str) -> list[str]:
    """So many distinct sentences of 4 to 20 words."""
    rng = np.random.default_rng(0)
    return [f"{kind} {i} " + " ".join(rng.choice(_WORDS, rng.integers(4, 20))) for i in range(n)]


def here(spec: str, sentences: list[str], root: Path) -> float:
    """Seconds in this process; the encoder is loaded, and has encoded something, before."""
    vectors = VectorCache(root).of(load_encoder(spec))
    vectors.encode(texts(64, "warm"))
    start = time.perf_counter()
    vectors.encode(sentences)
    return time.perf_counter() - start


def there(engine: RayEngine, spec: str, sentences: list[str], root: Path, is_shared: bool) -> tuple[float, float]:
    """Seconds until every worker has encoded something, and of the work."""
    begin = time.perf_counter()
    distribution = Distribution(engine, is_shared=is_shared)
    [encoder] = distribution.load([Opening.of(check_spec(spec), {}, [])])
    if isinstance(encoder, Exception):
        raise encoder
    encoder.chunk_size = 64
    vectors = VectorCache(root, elsewhere=distribution.encode).of(encoder)
    vectors.encode(texts(64 * 4 * engine.places, "warm"))
    encoder.chunk_size = None
    start = time.perf_counter()
    vectors.encode(sentences)
    return start - begin, time.perf_counter() - start


def nothing(number: int) -> int:
    """A piece without work."""
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="muse")
    parser.add_argument("--sentences", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--pieces", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    sentences = texts(options.sentences, "s")
    begin = time.perf_counter()
    with connected("local", 1) as ray:
        with using_threads(1):
            engine = RayEngine(ray, Needs(1), print)
            print(f"cluster up: {time.perf_counter() - begin:.1f} s, {engine.places} places")
            start = time.perf_counter()
            outcomes = engine.map(nothing, range(options.pieces))
            n_done = sum(isinstance(outcome, Done) for outcome in outcomes)
            seconds = time.perf_counter() - start
            print(
                f"{n_done:,} pieces without work: {1e3 * seconds / options.pieces:.2f} ms each; "
                f"most in flight {engine.most_in_flight} of {2 * engine.places} allowed"
            )
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                with using_threads(options.workers):
                    alone = here(options.encoder, sentences, Path(folder, "here"))
                print(f"this process, {options.workers} threads: {alone:.1f} s, {len(sentences) / alone:,.0f}/s")
                for is_shared in (True, False):
                    with using_threads(1):
                        up, taken = there(engine, options.encoder, sentences, Path(folder, str(is_shared)), is_shared)
                    how = "shared" if is_shared else "object-store"
                    print(
                        f"ray, {engine.places} workers, 1 thread each, {how}: {taken:.1f} s, "
                        f"{len(sentences) / taken:,.0f}/s, ratio {taken / alone:.2f}; before that, workers: {up:.1f} s"
                    )


if __name__ == "__main__":
    main()

"""The shipped student beside mUSE in NumPy: both encode the same short sentences in one run, in turn.

    python benchmarks/student.py [--sentences 100000] [--repeats 3] [--data-dir DIR]

Tokenisation included, one process, all cores that it may use. mUSE encodes a tenth of the sentences, and its time is
scaled: it is the slower one by far. Prints the smallest seconds of each and their ratio.
"""

from __future__ import annotations

import argparse
import itertools
import time

from harness import load_encoder
from harness.data import bundled_sample, open_data_dir
from harness.tasks import get_task


def short_sentences(n: int, data_dir: str | None) -> list[str]:
    """Tatoeba's, of the languages that both know; numbered where there are fewer."""
    task = get_task("tatoeba")
    sources = task.sources(open_data_dir(data_dir) if data_dir else bundled_sample())
    found: dict[str, None] = {}
    for code in ("ara", "deu", "spa", "fra", "ita", "nld", "rus", "tur", "cmn"):
        items = task.load(sources[code if data_dir else f"{code}@sample"])
        found.update(dict.fromkeys((*items.foreign, *items.english)))
    varied = (f"{text} {number}" for number in itertools.count(1) for text in found)
    return list(itertools.islice(itertools.chain(found, varied), n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    sentences = short_sentences(options.sentences, options.data_dir)
    shares = {"student": 1, "muse": 10}
    encoders = {name: load_encoder(name) for name in shares}
    best = dict.fromkeys(shares, float("inf"))
    for encoder in encoders.values():
        encoder.encode(sentences[:100])
    for _ in range(options.repeats):
        for name, encoder in encoders.items():
            part = sentences[:: shares[name]]
            start = time.perf_counter()
            encoder.encode(part)
            best[name] = min(best[name], (time.perf_counter() - start) * len(sentences) / len(part))
    for name, seconds in best.items():
        print(f"{name:8} {seconds:7.2f} s  {len(sentences) / seconds:9,.0f} sentences/s")
    print(f"muse / student: {best['muse'] / best['student']:.1f}")


if __name__ == "__main__":
    main()

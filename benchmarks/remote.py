"""The encoder `openai:` before a real server, infinity, with a small random BERT: equal vectors, costs of requests.

    python benchmarks/remote.py --venv DIR [--sentences 4000] [--repeats 3]

The server needs other versions of much than the harness does, so it gets a virtual environment of its own, DIR, which
is made if it is not there (some GB, of which most is torch). It listens on this machine alone, wants a key, and takes
its weights from a folder; nothing else is downloaded. Prints the largest difference between its vectors and those of
sentence-transformers in this process, and sentences a second by texts a request and requests at once: the median of
the repeats, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from harness import load_encoder
from harness.core.errors import HarnessError
from harness.encoders.encoder import Encoder

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from tiny_models import SENTENCES, write_bert

PACKAGES = ("infinity-emb[server,torch]==0.0.78", "numpy<2")
QUIET = {"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0", "HF_HUB_OFFLINE": "1"}
KEY = "a-key-of-this-benchmark"
SIZES = ((8, 1), (8, 4), (64, 1), (64, 4), (256, 1), (256, 4))
PATIENCE = 180  # seconds until the server is up


def environment(folder: Path) -> Path:
    """The folder with the server's commands."""
    commands = folder / "bin"
    if not (commands / "infinity_emb").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([commands / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", commands / "python", *PACKAGES]
        subprocess.run([commands / install[0], *install[1:]], check=True)  # pip takes long to find versions that fit
    return commands


@contextmanager
def server(commands: Path, model: Path, log: Path) -> Iterator[str]:
    """The address of a server of this model, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "--model-id": model,
        "--served-model-name": "tiny",
        "--url-prefix": "/v1",
        "--host": "127.0.0.1",
        "--port": port,
        "--engine": "torch",
        "--device": "cpu",
        "--api-key": KEY,
    }
    command = [commands / "infinity_emb", "v2", "--no-bettertransformer", "--no-model-warmup"]
    command += [str(part) for option in options.items() for part in option]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env={**os.environ, **QUIET}, stdout=output, stderr=output)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"the server does not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def write_model(folder: Path) -> Path:
    """A folder that the server's older transformers can read too: the newer one names a class that is not in there."""
    settings = write_bert(folder) / "tokenizer_config.json"
    content = json.loads(settings.read_text(encoding="utf-8"))
    settings.write_text(json.dumps({**content, "tokenizer_class": "PreTrainedTokenizerFast"}), encoding="utf-8")
    return folder


def texts(n: int) -> list[str]:
    """Distinct texts of 1 to 24 words of the model's vocabulary."""
    words = sorted({word.strip(",") for text in SENTENCES for word in text.split()})
    source = random.Random(1)
    found: dict[str, None] = {}
    while len(found) < n:
        found[" ".join(source.choices(words, k=source.randint(1, 24)))] = None
    return list(found)


def rate(encoder: Encoder, sentences: list[str]) -> float:
    start = time.perf_counter()
    encoder.encode(sentences)
    return len(sentences) / (time.perf_counter() - start)


def largest_difference(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    commands = environment(arguments.venv)
    sentences = texts(arguments.sentences)
    os.environ["BENCHMARK_KEY"] = KEY
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HARNESS_CACHE"] = str(folder / "cache")
        local = load_encoder(f"mean-pooling:{write_model(folder / 'tiny')}?device=cpu&normalize=true")
        with server(commands, folder / "tiny", folder / "log") as address:
            spec = f"openai:tiny?base_url={address}&key_env=BENCHMARK_KEY"
            try:
                load_encoder(spec.partition("&")[0])
            except HarnessError as error:
                print(f"without a key: {error}\n")
            remote = load_encoder(spec)
            again = load_encoder(spec)
            expected = local.encode(sentences)
            found = remote.encode(sentences)
            one_by_one = np.concatenate([remote.encode([sentence]) for sentence in sentences[:20]])
            print(f"fingerprint: {remote.fingerprint}")
            print(f"opened again: {'the same' if again.fingerprint == remote.fingerprint else 'another'} fingerprint")
            print(f"conditions: {remote.conditions}, usage: {remote.usage}\n")  # type: ignore[attr-defined]
            print("| largest difference | |\n|---|---|")
            print(f"| to sentence-transformers in this process | {largest_difference(found, expected):.1e} |")
            print(f"| between two calls | {largest_difference(found, remote.encode(sentences)):.1e} |")
            print(f"| one text at a time | {largest_difference(found[:20], one_by_one):.1e} |\n")
            encoders = {"in this process": local}
            for size, n in SIZES:
                encoders[f"{size} texts, {n} at once"] = load_encoder(f"{spec}&batch_size={size}&concurrency={n}")
            rates: dict[str, list[float]] = {label: [] for label in encoders}
            for _ in range(arguments.repeats):
                for label, encoder in encoders.items():
                    rates[label].append(rate(encoder, sentences))
    print(f"| {len(sentences):,} texts | sentences/s | spread |\n|---|---:|---:|")
    for label, values in rates.items():
        print(f"| {label} | {median(values):,.0f} | {min(values):,.0f} to {max(values):,.0f} |")


if __name__ == "__main__":
    main()

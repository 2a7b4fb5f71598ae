"""Bitext mining, side by side in one run on the same vectors: bare matrix products, LASER's way, each of our backends.

    python benchmarks/mining.py [--full] [--sizes N ...] [--dims D ...] [--repeats 2] [--ways WAY ...]
    python benchmarks/mining.py --vectors A.npy B.npy
    python benchmarks/mining.py --data-dir DIR [--encoders SPEC ...]

From two matrices to mined pairs: normalisation, the 4 nearest neighbours in both directions, margin *ratio*, retrieval
*max*. LASER's way is that of its `mine_bitexts.py`: two searches in `faiss.IndexFlatIP`, then margin and matching in
float32; its Python loop over the candidates is replaced by NumPy, in LASER's favour. The products are x times the
transpose of y, block by block, and nothing else: the floor for their precision ("/ product": in float32). "pairs of one
alone" are those that only this way or only LASER's has; "scores apart" is the largest relative difference from LASER's.

Random vectors are unit Gaussian; half of the rows have a translation, the row plus noise, at a cosine of about 0.7.
--data-dir mines the training split of every BUCC-format pair in a data directory with vectors from the cache (they are
encoded first where they are not there).

Every way runs in a process of its own, which is warmed up on 512 rows; the processes of a case run in turn, and their
best times count. Memory is the peak of the first run above the level after imports, warming up and loading. From random
vectors, times at other sizes are extrapolated. Prints Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from overhead import peak_memory_mb, reset_peak_memory

from harness.core.provenance import hardware
from harness.mining import Backend, Progress, available_backends, mine

K = 4
LASER = "LASER's way"
NUMPY, TORCH, BFLOAT16 = "NumPy product", "torch product", "torch bfloat16 product"
BLOCKS = {"float32": (2048, 4096), "bfloat16": (4096, 4096)}  # of the products: those of our backends
SIZES, DIMS = (10_000, 20_000, 40_000, 80_000), (512, 768, 1024)
DEFAULT = [(10_000, 512), (10_000, 1024), *((size, 768) for size in SIZES[:3])]
ENCODERS = ["muse", "student", "minilm", "student-transformer?precision=bf16"]
ELSEWHERE = {
    "BUCC de-en": (413_869, 399_337),
    "BUCC fr-en": (271_874, 369_810),
    "BUCC ru-en": (460_853, 558_401),
    "BUCC zh-en": (94_637, 88_860),
    "10 million": (10_000_000, 10_000_000),
}


class Mined(NamedTuple):
    """Pairs and scores (None: a product), and what a backend says of its work."""

    pairs: np.ndarray | None
    scores: np.ndarray | None
    progress: Progress | None = None


Way = Callable[[np.ndarray, np.ndarray], Mined]


def numpy_product(x: np.ndarray, y: np.ndarray) -> Mined:
    height, width = BLOCKS["float32"]
    tile = np.empty((height, width), np.float32)
    for top, left in itertools.product(range(0, len(x), height), range(0, len(y), width)):
        rows, columns = x[top : top + height], y[left : left + width]
        np.matmul(rows, columns.T, out=tile[: len(rows), : len(columns)])
    return Mined(None, None)


def torch_product(precision: str) -> Way:
    def product(x: np.ndarray, y: np.ndarray) -> Mined:
        import torch

        height, width = BLOCKS[precision]
        one, two = (torch.from_numpy(side).to(getattr(torch, precision)) for side in (x, y))
        for top, left in itertools.product(range(0, len(x), height), range(0, len(y), width)):
            torch.mm(one[top : top + height], two[left : left + width].T)
        return Mined(None, None)

    return product


def laser(x: np.ndarray, y: np.ndarray) -> Mined:
    """LASER's `--mode mine --retrieval max --margin ratio -k 4`; normalises x and y in place, as it does."""
    import faiss

    def search(queries: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        index = faiss.IndexFlatIP(base.shape[1])
        index.add(base)
        return index.search(queries, min(K, len(base)))

    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    similarity_x, near_x = search(x, y)
    similarity_y, near_y = search(y, x)
    mean_x, mean_y = similarity_x.mean(axis=1), similarity_y.mean(axis=1)
    scores_x = similarity_x / ((mean_x[:, None] + mean_y[near_x]) / 2)
    scores_y = similarity_y / ((mean_y[:, None] + mean_x[near_y]) / 2)
    rows_x, rows_y = np.arange(len(x)), np.arange(len(y))
    forward = np.column_stack([rows_x, near_x[rows_x, scores_x.argmax(axis=1)]])
    backward = np.column_stack([near_y[rows_y, scores_y.argmax(axis=1)], rows_y])
    pairs, scores = np.concatenate([forward, backward]), np.concatenate([scores_x.max(axis=1), scores_y.max(axis=1)])
    used_x: set[int] = set()
    used_y: set[int] = set()
    taken = []
    for i in np.argsort(-scores):
        row, column = pairs[i]
        if row not in used_x and column not in used_y:
            used_x.add(row)
            used_y.add(column)
            if scores[i] > 0:
                taken.append(i)
    return Mined(pairs[taken], scores[taken])


def ours(backend: str) -> Way:
    def run(x: np.ndarray, y: np.ndarray) -> Mined:
        reports: list[Progress] = []
        pairs, scores = mine(x, y, k=K, backend=cast(Backend, backend), on_progress=reports.append)
        return Mined(pairs, scores, reports[-1] if reports else None)

    return run


WAYS: dict[str, Way] = {
    NUMPY: numpy_product,
    TORCH: torch_product("float32"),
    BFLOAT16: torch_product("bfloat16"),
    LASER: laser,
}


def available_ways() -> list[str]:
    """All that can run here."""
    products = [NUMPY, TORCH, BFLOAT16] if find_spec("torch") else [NUMPY]
    return [*products, *([LASER] if find_spec("faiss") else []), *available_backends()]


def default_ways() -> list[str]:
    """All but approximate search, and bfloat16 where the processor has no units for it."""
    left_out = {"faiss"}
    if find_spec("torch"):
        import torch

        if not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()):
            left_out |= {"bfloat16", BFLOAT16}
    return [way for way in available_ways() if way not in left_out]


@dataclass
class Case:
    """Two matrices in NPY files, and what was measured with them."""

    label: str
    files: tuple[Path, Path]
    shape: tuple[int, int, int]
    seconds: dict[str, float] = field(default_factory=dict)
    megabytes: dict[str, float] = field(default_factory=dict)
    mined: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    work: dict[str, tuple[float, float]] = field(default_factory=dict)  # recomputed and candidates, a row


def save_case(folder: Path, label: str, x: np.ndarray, y: np.ndarray) -> Case:
    files = folder / "x.npy", folder / "y.npy"
    for file, vectors in zip(files, (x, y), strict=True):
        np.save(file, vectors)
    return Case(label, files, (len(x), len(y), x.shape[1]))


def random_cases(folder: Path, cells: Sequence[tuple[int, int]]) -> Iterator[Case]:
    for n, dim in cells:
        rng = np.random.default_rng([n, dim])
        x, y = (unit(rng.standard_normal((n, dim), dtype=np.float32)) for _ in range(2))
        y[: n // 2] += x[: n // 2]
        yield save_case(folder, f"{n:,} x {n:,} x {dim}", x, rng.permutation(unit(y)))


def unit(vectors: np.ndarray) -> np.ndarray:
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def encoded_cases(folder: Path, data_dir: str, specs: Sequence[str]) -> Iterator[Case]:
    from harness import load_encoder
    from harness.data import open_data_dir
    from harness.encoders.cache import VectorCache
    from harness.tasks import get_task
    from harness.tasks.bucc import distinct

    task = get_task("bucc")
    sources = task.sources(open_data_dir(data_dir))
    for spec in specs:
        encoder = load_encoder(spec)
        vectors = VectorCache().of(encoder)
        for subset, source in sources.items():
            pair = task.load(source)
            x = vectors.encode(distinct(pair.training.sentences1)[0], pair.lang1).vectors
            y = vectors.encode(distinct(pair.training.sentences2)[0], pair.lang2).vectors
            yield save_case(folder, f"{subset} {encoder.name}, {len(x):,} x {len(y):,} x {x.shape[1]}", x, y)


def serve(way: str, *files: str) -> None:
    """Mine once for every line of standard input, which names the file for the pairs; answers with a line of JSON."""
    run = WAYS.get(way) or ours(way)
    x, y = (np.load(file).astype(np.float32, copy=False) for file in files)
    run(x[:512].copy(), y[:512].copy())
    print("{}", flush=True)
    for line in sys.stdin:
        reset_peak_memory()
        before = peak_memory_mb()
        start = time.perf_counter()
        mined = run(x, y)
        answer = {"seconds": time.perf_counter() - start, "megabytes": peak_memory_mb() - before}
        if mined.progress is not None:
            answer |= {name: getattr(mined.progress, name) / (len(x) + len(y)) for name in ("recomputed", "candidates")}
        if mined.pairs is not None:
            np.savez(line.strip(), pairs=mined.pairs, scores=mined.scores)
        print(json.dumps(answer), flush=True)


def measure(case: Case, ways: Sequence[str], repeats: int, folder: Path) -> None:
    """Run all ways in turn, `repeats` times, and write down what they need and give."""
    processes = {}
    for way in ways:
        command = [sys.executable, __file__, "--serve", way, *map(str, case.files)]
        processes[way] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    out = folder / "pairs.npz"
    try:
        for way, process in processes.items():
            answer_of(way, process)
        for _, way in itertools.product(range(repeats), ways):
            out.unlink(missing_ok=True)
            answer = answer_of(way, processes[way], f"{out}\n")
            case.seconds[way] = min(answer["seconds"], case.seconds.get(way, np.inf))
            case.megabytes.setdefault(way, answer["megabytes"])
            if "candidates" in answer:
                case.work[way] = answer["recomputed"], answer["candidates"]
            if out.exists():
                with np.load(out) as stored:
                    case.mined[way] = stored["pairs"], stored["scores"]
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


def answer_of(way: str, process: subprocess.Popen[str], request: str = "") -> dict[str, float]:
    assert process.stdin and process.stdout
    process.stdin.write(request)
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        sys.exit(f"{way} ended early")
    return json.loads(line)


def compare(mined: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> tuple[int, float]:
    """How many pairs only one of the two has, and the largest relative difference in the scores of the others."""
    codes = [pairs @ np.array([1 << 32, 1]) for pairs, _ in (mined, other)]
    common, first, second = np.intersect1d(*codes, assume_unique=True, return_indices=True)
    apart = np.abs(mined[1][first] / other[1][second] - 1).max(initial=0.0)
    return len(codes[0]) + len(codes[1]) - 2 * len(common), float(apart)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the first column is text, the others are numbers."""
    marks = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, marks, *rows))


def report(case: Case) -> str:
    """The case's table, and whether all of ours gave the same."""
    floor = min((case.seconds[way] for way in (NUMPY, TORCH) if way in case.seconds), default=np.nan)
    rows = []
    for way, seconds in case.seconds.items():
        is_compared = way in case.mined and way != LASER and LASER in case.mined
        differ, apart = compare(case.mined[way], case.mined[LASER]) if is_compared else (0, 0.0)
        recomputed, candidates = case.work.get(way, (0, 0))
        cells = [
            f"{seconds:.2f}",
            f"{seconds / floor:.2f}",
            f"{case.seconds.get(LASER, np.nan) / seconds:.2f}",
            f"{case.megabytes[way]:.0f}",
            f"{len(case.mined[way][0]):,}" if way in case.mined else "",
            f"{differ:,}" if is_compared else "",
            f"{apart:.0e}" if is_compared else "",
            f"{100 * recomputed:.2f} %" if candidates else "",
            f"{candidates:.1f}" if candidates else "",
        ]
        rows.append([way, *(cell.replace("nan", "") for cell in cells)])
    header = ["way", "seconds", "/ product", "LASER's / its", "peak MB", "pairs", "pairs of one alone"]
    header += ["scores apart", "rows recomputed", "candidates a row"]
    return f"\n### {case.label}\n\n{table(header, rows)}\n\n{agreement(case)}"


def agreement(case: Case) -> str:
    """Whether our exact backends gave the same, and which of the products is the faster one."""
    sides = [way for way in case.mined if way not in (LASER, "faiss")]
    said = []
    if len(sides) > 1:
        first = case.mined[sides[0]]
        others = [way for way in sides[1:] if not all(map(np.array_equal, case.mined[way], first))]
        found = f"not those of {sides[0]}: {', '.join(others)}" if others else "the same to the last bit"
        said.append(f"Pairs and scores of {', '.join(sides)}: {found}.")
    if NUMPY in case.seconds and TORCH in case.seconds:
        ratio = case.seconds[NUMPY] / case.seconds[TORCH]
        said.append(f"float32 product: NumPy takes {ratio:.2f} times as long as torch; the faster one is the floor.")
    return " ".join(said)


def extrapolate(cases: Sequence[Case], dim: int) -> str:
    """Times at other sizes, by a cost model that is fitted to the cases with non-negative coefficients."""
    from scipy.optimize import nnls

    def terms(n: int, m: int, dim: int) -> np.ndarray:
        return np.array([n * m * dim, n * m, n + m], np.float64)

    measured = np.array([terms(*case.shape) for case in cases])
    fits, predictions = [], {name: [name, f"{n:,} x {m:,}"] for name, (n, m) in ELSEWHERE.items()}
    ways = list(cases[0].seconds)
    for way in ways:
        seconds = np.array([case.seconds[way] for case in cases])
        relative = measured / seconds[:, None]  # so that relative errors are minimised
        scale = relative.max(axis=0)
        coefficients = nnls(relative / scale, np.ones(len(cases)))[0] / scale
        off = np.abs(relative @ coefficients - 1).max()
        a, b, c = coefficients
        fits.append([way, f"{a * 1e12:.2f}", f"{b * 1e12:.0f}", f"{c * 1e6:.2f}", f"{100 * off:.0f} %"])
        for name, (n, m) in ELSEWHERE.items():
            predictions[name].append(duration(float(terms(n, m, dim) @ coefficients)))
    return (
        "\n## Other sizes\n\nCost model: seconds = a n m d + b n m + c (n + m), fitted to the times above.\n\n"
        + table(["way", "a (ps)", "b (ps)", "c (µs)", "largest error of the fit"], fits)
        + f"\n\nBy this model, at {dim} dimensions:\n\n"
        + table(["", "n x m", *ways], list(predictions.values()))
    )


def duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", help="rows a side of random vectors, each with each of --dims")
    parser.add_argument("--dims", type=int, nargs="+")
    parser.add_argument("--full", action="store_true", help=f"{SIZES} rows a side, each at {DIMS} dimensions")
    parser.add_argument("--vectors", nargs=2, metavar="NPY", help="two matrices of one's own")
    parser.add_argument("--data-dir", help="mine its BUCC-format pairs")
    parser.add_argument("--encoders", nargs="+", default=ENCODERS, metavar="SPEC")
    parser.add_argument("--ways", nargs="+", metavar="WAY", help=f"of: {', '.join(available_ways())}")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--extrapolate-dim", type=int, default=768)
    options = parser.parse_args()
    ways = options.ways or default_ways()
    if unknown := set(ways) - set(available_ways()):
        parser.error(f"there is no way {sorted(unknown)[0]!r} here; there are {', '.join(available_ways())}")
    cells = DEFAULT
    if options.full or options.sizes or options.dims:
        cells = list(itertools.product(options.sizes or SIZES, options.dims or DIMS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.vectors:
            x, y = (np.load(file, mmap_mode="r") for file in options.vectors)
            first, second = map(Path, options.vectors)
            label = f"{first.name} and {second.name}, {len(x):,} x {len(y):,} x {x.shape[1]}"
            cases: Iterator[Case] = iter([Case(label, (first, second), (len(x), len(y), x.shape[1]))])
        elif options.data_dir:
            cases = encoded_cases(folder, options.data_dir, options.encoders)
        else:
            cases = random_cases(folder, cells)
        machine = hardware()
        packages = [f"{p} {import_module(p).__version__}" for p in ("numpy", "numba", "torch", "faiss") if find_spec(p)]
        print(f"## Mining, side by side\n\n{machine['processor']}, {machine['cores']} cores; {', '.join(packages)};")
        print(f"k = {K}, best of {options.repeats}.")
        done = []
        for case in cases:
            measure(case, ways, options.repeats, folder)
            print(report(case), flush=True)
            case.mined.clear()
            done.append(case)
    if not (options.vectors or options.data_dir) and len(done) >= 3:
        print(extrapolate(done, options.extrapolate_dim))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
    else:
        main()

"""Contract tests for packages that bring an encoder or a task: call `check_encoder`, `check_task` in their tests."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.data import DataDir
from harness.encoders.encoder import Encoder
from harness.encoders.sides import SIDES, Side
from harness.protocol.task import Task
from harness.statistics.evidence import sample_of

# Absolute POSIX paths, homes and Windows drives; "org/model" and "https://..." are none.
_MACHINE_PATH = re.compile(r"(?<![\w.:/-])/[\w.-]+/|(?<!\w)~[\w.-]*/|(?<!\w)[A-Za-z]:[\\/](?!/)|\\\\|file:/")

SENTENCES = (
    "A man is playing a guitar.",
    "Ein Mann spielt Gitarre.",
    "Мужчина играет на гитаре.",
    "一个男人在弹吉他。",
    "رجل يعزف على الجيتار.",
    "კაცი გიტარაზე უკრავს.",
    "ok",
    "?!",
    "  spaces  and\ttabs ",
    "👩‍🚀🎸 e\u0301",
    "The committee, which had met twice before without result, at last agreed on the wording of the report. " * 4,
)


def check_encoder(
    encoder: Encoder, sentences: Sequence[str] | None = None, *, lang: str | None = "en", tolerance: float = 1e-4
) -> None:
    """Check what the harness expects of an encoder (see `harness.encoders.encoder.Encoder`).

    sentences: at least two different, non-empty texts to try; by default eleven in several scripts and lengths.
    lang: the language that is given with them (ISO 639-1 where one exists, else 639-3).
    tolerance: how far a vector may move with its neighbours in the batch, as a part of the longest vector's L2 norm;
        batched matrix products round differently, so that 0 is rarely met. Use about 1e-2 for half precision.

    Raises:
        AssertionError: the first promise that is not kept, in one line.
        ValueError: too few sentences to check anything.
    """
    texts = [text for text in dict.fromkeys(SENTENCES if sentences is None else sentences) if text]
    if len(texts) < 2:
        raise ValueError("check_encoder needs at least two different, non-empty sentences")
    _check_attributes(encoder)
    before = encoder.fingerprint, encoder.dim, encoder.uses_lang

    reference = _encode(encoder, texts, lang)
    scale = float(np.linalg.norm(reference.astype(np.float64), axis=1).max())

    def check_same(vectors: np.ndarray, rows: Sequence[int], promise: str) -> None:
        off = np.linalg.norm(vectors.astype(np.float64) - reference[list(rows)], axis=1)
        worst = int(off.argmax())
        _check(
            bool(off[worst] <= tolerance * scale),
            f"{promise}: the vector of {_short(texts[rows[worst]])} moves by {off[worst] / (scale or 1):.2g} of the "
            f"longest vector's norm (tolerance {tolerance:g})",
        )

    everything = list(range(len(texts)))
    _check(scale > 0, "every sentence has the zero vector")
    spread = float(np.linalg.norm(reference.astype(np.float64) - reference[0], axis=1).max())
    _check(spread > tolerance * scale, "different sentences all have the same vector")
    check_same(_encode(encoder, texts, lang), everything, "encode is not deterministic")
    check_same(_encode(encoder, texts[::-1], lang), everything[::-1], "vectors depend on the order of the sentences")
    for row in everything:
        check_same(_encode(encoder, [texts[row]], lang), [row], "vectors depend on the other sentences of the call")
    # Uneven parts, and a call that is longer than most batch sizes, duplicates included.
    for size in (2, 3):
        for start in range(0, len(texts), size):
            part = everything[start : start + size]
            vectors = _encode(encoder, [texts[row] for row in part], lang)
            check_same(vectors, part, "vectors depend on how many sentences a call has")
    many = everything * (100 // len(texts) + 2)
    check_same(_encode(encoder, [texts[row] for row in many], lang), many, "duplicates do not have equal rows")
    check_same(_encode(encoder, tuple(texts), lang), everything, "a tuple of sentences is not encoded as a list is")

    _encode(encoder, [], lang)
    _encode(encoder, [""], lang)
    _encode(encoder, [texts[0], "", " ", texts[1]], lang)
    if not encoder.uses_lang:
        for other in (None, "kab"):
            promise = "uses_lang is False, but the vectors depend on lang"
            check_same(_encode(encoder, texts, other), everything, promise)
    check_same(_encode(encoder, texts, lang), everything, "vectors depend on earlier calls")
    held = encoder.encode(texts, lang=lang)
    encoder.encode(texts[::-1], lang=lang)
    check_same(held, everything, "a later call overwrites the array that an earlier one returned")
    after = encoder.fingerprint, encoder.dim, encoder.uses_lang
    _check(before == after, f"fingerprint, dim or uses_lang changed while encoding: {before} became {after}")


def check_task(task: Task, data: DataDir) -> None:
    """Check what the harness expects of a task (see `harness.tasks.Task`), on the subsets that `data` has.

    Vectors are random, a function of the sentence; then all zero, which is legal.

    Raises:
        AssertionError: the first promise that is not kept, in one line.
    """
    for name in ("name", "version", "description", "signature"):
        value = getattr(task, name)
        _check(isinstance(value, str) and value.strip() != "", f"{name} must be a non-empty string, not {value!r}")
    _check(not re.search(r"[\s/]", task.name), f"name {task.name!r} cannot name a file: it has blanks or slashes")
    names = task.metric_names
    _check(len(set(names)) == len(names) > 0, f"metrics must have distinct names, not {names!r}")
    sources = task.sources(data)
    _check(len(sources) > 0, f"no subset found in {data.root}")
    for subset, source in sources.items():
        _check(source.subset == subset, f"sources: {subset!r} is the key of the source of {source.subset!r}")
        _check(len(source.files) > 0, f"{subset}: a source without files has no checksum")
        _check(task.resolve(subset) == (subset,), f"resolve({subset!r}) gives {task.resolve(subset)!r}")
        _check_subset(task, subset, task.load(source))
    for average, parts in task.averages(sources).items():
        _check(average not in sources, f"average {average!r} has the name of a subset")
        _check(set(parts) <= set(sources), f"average {average!r} of subsets that are not there: {parts!r}")


def _check_subset(task: Task, subset: str, items: object) -> None:
    count = task.count(items)
    _check(isinstance(count, int) and count > 0, f"{subset}: count must be a positive integer, not {count!r}")
    for kind, scale in (("random", 1), ("zero", 0)):

        def encode(
            sentences: Sequence[str], lang: str | None, *, side: Side | None = None, scale: int = scale
        ) -> NDArray[np.float32]:
            expected = SIDES if task.has_sides else (None,)
            _check(side in expected, f"{subset}: encode is given side={side!r}, but has_sides is {task.has_sides}")
            _check(all(isinstance(text, str) for text in sentences), f"{subset}: encode is given what is no sentence")
            _check(lang is None or bool(re.fullmatch("[a-z]{2,3}", lang)), f"{subset}: {lang!r} is no ISO 639 code")
            seeds = [int.from_bytes(text.encode("utf-8", "replace")[-16:], "little") for text in sentences]
            vectors = np.array([np.random.default_rng(seed).standard_normal(8) for seed in seeds], dtype=np.float32)
            return vectors.reshape(len(sentences), 8) * np.float32(scale)

        rows = task.rows(items, encode)
        lengths = {key: len(column) for key, column in rows.items()}
        _check(len(set(lengths.values())) == 1, f"{subset}: columns of different lengths: {lengths}")
        metrics = task.aggregate(rows)
        extra = sorted(set(metrics).difference(task.metric_names))
        _check(not extra, f"{subset}: aggregate gives {', '.join(extra)}, which `metrics` does not name")
        _check(len(metrics) > 0, f"{subset}: aggregate gives no metric")
        for name, value in metrics.items():
            _check(isinstance(value, float) and np.isfinite(value), f"{subset}: {name} is {value!r} for {kind} vectors")
        again = task.aggregate(task.rows(items, encode))
        _check(again == metrics, f"{subset}: the same vectors give other scores the second time")
    for metric in task.metrics:
        if task.resample and metric.has_interval and metric.name in metrics:
            value = float(sample_of(task, metric.name, [rows]).values[0])
            is_same = abs(value - metrics[metric.name]) <= 1e-6
            _check(is_same, f"{subset}: resample gives {metric.name} {value}, aggregate {metrics[metric.name]}")


def _check_attributes(encoder: Encoder) -> None:
    for name, kind in (("name", str), ("fingerprint", str), ("dim", int), ("uses_lang", bool)):
        _check(hasattr(encoder, name), f"encoder has no {name}")
        value = getattr(encoder, name)
        is_right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        _check(is_right, f"{name} must be {kind.__name__}, not {type(value).__name__} ({value!r})")
    _check(callable(getattr(encoder, "encode", None)), "encoder has no method encode")
    _check(encoder.name.strip() != "", "name is empty")
    _check(encoder.dim > 0, f"dim must be positive, not {encoder.dim}")
    fingerprint = encoder.fingerprint
    _check(fingerprint.strip() != "", "fingerprint is empty")
    path = _MACHINE_PATH.search(fingerprint)
    _check(path is None, f"fingerprint contains a path of this machine: {fingerprint!r}")
    address = re.search(r"\bat 0x[0-9a-fA-F]+", fingerprint)
    _check(address is None, f"fingerprint contains a memory address, which is another in each process: {fingerprint!r}")


def _encode(encoder: Encoder, sentences: Sequence[str], lang: str | None) -> np.ndarray:
    what = f"encode({_short(sentences)}, lang={lang!r})"
    given = list(sentences)
    try:
        vectors = encoder.encode(sentences, lang=lang)
    except Exception as error:
        message = (str(error).splitlines() or [""])[0]
        raise AssertionError(f"{what} raised {type(error).__name__}: {message}") from error
    _check(list(sentences) == given, f"{what} changed the list of sentences")
    _check(isinstance(vectors, np.ndarray), f"{what} returned {type(vectors).__name__}, not a NumPy array")
    _check(vectors.dtype == np.float32, f"{what} returned {vectors.dtype}, not float32")
    expected = (len(sentences), encoder.dim)
    _check(vectors.shape == expected, f"{what} returned shape {vectors.shape}, not {expected}")
    _check(not np.ma.is_masked(vectors), f"{what} returned masked values")
    _check(bool(np.isfinite(np.asarray(vectors)).all()), f"{what} returned NaN or infinity")
    return np.array(vectors)  # a copy, in case the encoder uses its buffer again


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)  # not `assert`, which python -O leaves out


def _short(value: str | Sequence[str]) -> str:
    text = repr(value) if isinstance(value, str) else repr(list(value))
    return text if len(text) <= 60 else f"{text[:57]}..."

"""The Python API, which reads like the command line: `evaluate(encoder, tasks)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, InputError
from harness.core.threads import using_threads
from harness.data import DataDir
from harness.data.memory import memory_sets
from harness.data.own import own_data
from harness.encoders.adopted import adopted
from harness.encoders.encoder import Encoder
from harness.encoders.sides import AnyEncoder, TwoSided, joined, missing_attributes
from harness.protocol.task import Task
from harness.results.records import Result
from harness.results.statistics import Statistics, StatisticsStore
from harness.running.plan import choose_data, choose_tasks, plan_sets
from harness.running.suite import Request, run_suite


class Results(list[Result]):
    """Results, which a notebook shows as tables; `rows()` are for a data frame.

    Args:
        results: the results.
        statistics: by task, their intervals and tests.
    """

    def __init__(self, results: Iterable[Result] = (), statistics: Mapping[str, Statistics] | None = None):
        super().__init__(results)
        self._statistics = statistics or {}

    def rows(self) -> list[dict[str, object]]:
        """A dictionary a number: encoder, task, subset, metric, value, low, high, n and more.

        See `harness.report.entries.long_form`. `pandas.DataFrame(results.rows())` is a data frame.
        """
        from harness.report.entries import long_form

        return long_form(self, statistics=self._statistics)

    def __str__(self) -> str:
        return self._rendered("table")

    def _repr_markdown_(self) -> str:
        return self._rendered("md")

    def _rendered(self, format: str) -> str:
        from harness.report.render import render
        from harness.report.tables import boards

        return render(boards(self, statistics=self._statistics), format)


def evaluate(
    encoder: str | Encoder | TwoSided | Any,
    tasks: str | Task | Sequence[str | Task] | None = None,
    *,
    subsets: str | Sequence[str] = (),
    data: Any = None,
    languages: Sequence[str] = (),
    data_dir: str | Path | None = None,
    results: str | Path | None = None,
    cache_dir: str | Path | None = None,
    fresh: bool = False,
    replace: bool = False,
    save_rows: str | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
) -> Results:
    """Measure one encoder.

    Args:
        encoder: a spec string (`sentence-transformers:DIR-or-HUB-ID`, say); an object that follows the `Encoder`
            protocol; `TwoSided(query, document)`, of two such objects (`harness.encoders.adopted.AdoptedEncoder` makes
            one of a model); or any object with `encode(sentences)`, such as a `SentenceTransformer`. Of that, if a task
            of this call has queries and documents, `encode_query` and `encode_document` are used; where their vectors
            differ, measure other tasks in another call.
        tasks: a task, its name, or several; all by default.
        subsets: a subset, language or group, or several; all that are found by default.
        data: your own data in place of data sets: a list of (sentence, translation) pairs, a list of (sentence,
            sentence, score) triples, a dictionary with `corpus`, `queries` and `qrels` as BEIR has them, or a
            dictionary of several of these by name (see `harness.data.memory.memory_sets`).
        languages: of the two sides of `data`, ISO 639 codes; unknown by default.
        data_dir: folder with the data sets; `$HARNESS_DATA` by default, else the bundled sample.
        results: folder in which results are stored, and looked up; by default they are only returned.
        cache_dir: folder for vectors; `$HARNESS_CACHE` by default, else the user's cache folder.
        fresh: measure again what is stored.
        replace: remove all results of the encoder's name if they are of other weights or options (else: refused).
        save_rows: "npz", "jsonl" or "parquet": keep the per-item rows below `results` in this format, and measure again
            what is stored without them; by default they are kept as "npz" of what is measured anyway.
        device, batch_size: for encoders that are named and have such options.
        threads: for encoding on a CPU, and for BLAS, OpenMP and PyTorch as long as this runs; all cores by default.

    Returns:
        One result a subset, and the averages that they complete: a list that a notebook shows as a table.

    Raises:
        HarnessError: bad data or none, an unknown name, a missing package, vectors that are no vectors.
        RuntimeError: the encoder failed on a subset (its own error is the cause).
    """
    if data is not None and data_dir is not None:
        raise InputError("give data or data_dir, not both")
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1, not {threads}")
    tasks = [tasks] if isinstance(tasks, str | Task) else tasks
    subsets = [subsets] if isinstance(subsets, str) else subsets
    sets = choose_data(data_dir) if data is None else own_data(memory_sets(data, languages))
    with using_threads(threads):
        request = Request(
            encoders=[_encoder(encoder, tasks, sets, subsets)],
            tasks=tasks,
            subsets=subsets,
            data_dir=sets,
            results=results,
            cache_dir=cache_dir,
            fresh=fresh,
            replace=replace,
            save_rows=save_rows,
            defaults={"device": device, "batch_size": batch_size},
        )
        outcome = run_suite(request)
    for failure in outcome.failures:
        if isinstance(failure.error, HarnessError) or not failure.subset:
            raise failure.error
        what = f"encoder {failure.encoder!r} failed on {failure.task} {failure.subset}"
        raise RuntimeError(f"{what}: {failure.error}") from failure.error
    return Results(outcome.results, StatisticsStore(results).of(outcome.results) if results else {})


def _encoder(
    encoder: Any, tasks: Sequence[str | Task] | None, data: DataDir, subsets: Sequence[str]
) -> str | AnyEncoder:
    """An encoder or spec string as it is, another library's model as one. Raises InputError for what is neither."""
    if isinstance(encoder, str):
        return encoder
    if isinstance(encoder, TwoSided):
        return joined(encoder.query, encoder.document)
    lacks = ([] if hasattr(encoder, "name") else ["name"]) + missing_attributes(encoder)
    if isinstance(encoder, type):
        what = f"{encoder.__name__} is a class, no encoder"
    elif not lacks:
        return encoder  # type: ignore[no-any-return]
    elif callable(getattr(encoder, "encode", None)):
        plan = plan_sets(choose_tasks(tasks), data, subsets)
        return adopted(encoder, by_side=any(planned.task.has_sides for planned in plan))
    else:
        what = f"{type(encoder).__name__} is no encoder, it lacks {', '.join(lacks)}"
    raise InputError(
        f"{what}; give a spec string such as 'sentence-transformers:DIR-or-HUB-ID', or an object with encode(sentences)"
    )

"""`leaderboard distill ablate`: many small distillations that differ in one thing, each scored by the harness.

Pairs and the teacher's vectors are made once, for all corpora in the languages of the grid, and the same sentences are
held out of all distillations. Each is trained on a selection of the pairs, and judged while it is trained on those that
are held out of the same corpora.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.sentence_transformer import SentenceTransformerEncoder
from baselines.training.model_folder import as_json
from distill.corpora import find_corpora
from distill.development import PAIRS_PER_LANGUAGE, Development, DevPairs, DevSts, distinct, hold_out
from distill.distillation import stored_pairs, stored_vectors
from distill.experiments.ablation_page import Run, write_page
from distill.experiments.grid import Grid, Score, Settings, read_grid, resolve_score
from distill.pairs import Filters, PairStore, Part, Texts
from distill.recipe import STATIC, Recipe
from distill.report import Watcher
from distill.start import make_student, teacher_projection
from distill.static import StaticEncoder
from distill.students import static_student
from distill.teacher import TeacherVectors
from distill.training import check_recipe, train
from harness.core.errors import unknown_name
from harness.core.files import write_atomically, writing
from harness.core.provenance import git_state, hardware, versions
from harness.core.schema import decoded
from harness.data.sources import DataDir, open_data_dir
from harness.encoders.encoder import Encoder
from harness.encoders.registry import load_encoder
from harness.running.evaluate import evaluate
from harness.tasks import get_task
from harness.tasks.leakage import leakage_guard

if TYPE_CHECKING:
    from tokenizers import Tokenizer

RECORDS = "records"
_FOREVER = 1_000_000  # epochs: `steps` says when to stop


def ablate(
    grid: Grid | str | Path,
    results: str | Path,
    *,
    data_dir: str | Path,
    only: Sequence[str] = (),
    on_cpu: bool = False,
    progress: Watcher | None = None,
) -> list[Run]:
    """Do the distillations of a grid that are not done yet, and write its page: `README.md`, a plot for each table.

    The scores of each distillation are a record in `RESULTS/records/`, written when it is done: killed and called
    again, the rest is done. What `RESULTS/remarks/TABLE.md` says of a table is put below it.

    Args:
        grid: a grid, or what `distill.experiments.grid.read_grid` reads.
        results: folder to write.
        data_dir: the data directory, with corpora and evaluation sets.
        only: names of tables; all by default.
        on_cpu: do not use a GPU that is there.
        progress: reports what is done.

    Returns:
        the distillations of the chosen tables.

    Raises:
        InputError: a bad grid, a corpus or score that the data directory does not have, `results` cannot be written,
            a training that diverges.
    """
    grid = grid if isinstance(grid, Grid) else read_grid(grid)
    progress = progress or Watcher()
    tables = grid.chosen(only)
    data = open_data_dir(data_dir)
    scores = _resolved(grid, data)
    records = Path(results) / RECORDS
    teacher = load_encoder(grid.teacher, device="cpu" if on_cpu else None)
    for settings in scores:
        check_recipe(_recipe(settings, 0), on_cpu)
        settings.start.student_dim(teacher.dim)
    material = _gather(grid, scores, data, teacher, progress)
    wanted = {settings for table in tables for settings in table.cells()}
    plan = [(settings, seed) for settings in scores for seed in grid.seeds]  # of all tables: for the page
    runs: list[Run] = []
    for number, (settings, seed) in enumerate(plan, start=1):
        path = records / f"{material.key(settings, seed)}.json"
        run = _stored(path, scores[settings])
        if run is None and settings in wanted:
            chosen = material.select(settings, seed)
            if chosen is None:
                continue  # too few pairs: the cell stays empty
            run = _distilled(material, chosen, settings, seed, scores[settings], data, on_cpu)
            write_atomically(path, as_json(asdict(run)))
            listed = ", ".join(f"{name} {value:.2f}" for name, value in run.scores.items())
            progress.note(
                f"{number} of {len(plan)}: {_in_words(settings)}, seed {seed}: {listed} ({run.seconds:.0f} s)"
            )
        if run is not None:
            runs.append(run)
    with writing(Path(results)):
        write_page(Path(results), grid, scores, runs, {part.name for part in material.pairs.parts})
    return [run for run in runs if run.settings in wanted]


def _resolved(grid: Grid, data: DataDir) -> dict[Settings, dict[Score, Score]]:
    """Which scores are wanted of which distillation, and on which data (published or a stand-in) each is measured."""
    present: dict[str, set[str]] = {}
    resolved: dict[Settings, dict[Score, Score]] = {}
    for settings, scores in grid.scores().items():
        resolved[settings] = {}
        for score in sorted(scores, key=str):
            task = get_task(score.task)
            if task.name not in present:
                sources = task.sources(data)
                present[task.name] = {*sources, *task.averages(sources)}
            resolved[settings][score] = resolve_score(score, present[task.name])
    return resolved


def _gather(grid: Grid, settings: Iterable[Settings], data: DataDir, teacher: Encoder, progress: Watcher) -> _Material:
    """The pairs of all corpora in the languages of a grid, with the teacher's vectors. Raises InputError."""
    known = {corpus.target_lang for corpus in find_corpora(data.root)}
    languages: set[str] = set()
    for chosen in settings:
        of_corpora = {corpus.target_lang for corpus in find_corpora(data.root, chosen.corpora)}  # refuses unknown names
        for language in chosen.languages:
            if language not in known:
                raise unknown_name("language", language, known)
        languages |= set(chosen.languages) or of_corpora
    corpora = find_corpora(data.root, languages=sorted(languages))
    guard = leakage_guard(data)
    pairs = stored_pairs(corpora, Filters(), guard, progress)
    development = hold_out(pairs, guard, data)
    vectors = stored_vectors(teacher, pairs, corpora[0].source_lang, "float16", progress)
    return _Material(grid.teacher, pairs, vectors, development)


@dataclass(frozen=True)
class _Selection:
    """A selection of the pairs of a store. Its sources include the development sentences."""

    sources: Texts
    source_rows: NDArray[np.int32]
    targets: Texts
    parts: list[Part]
    teacher: TeacherVectors
    development: Development


class _Material:
    """What all distillations of a grid share."""

    def __init__(self, spec: str, pairs: PairStore, teacher: TeacherVectors, development: Development):
        self.pairs, self.teacher = pairs, teacher
        self._development = development
        self._identity = {
            "teacher": spec,
            "teacher_fingerprint": teacher.fingerprint,
            "pairs": pairs.digest,
            "development": development.digest,
        }
        self._projections: dict[int | None, NDArray[np.float32] | None] = {}
        self._tokenizer: tuple[object, Tokenizer | None] = (None, None)  # of the last new student, and of what data

    def key(self, settings: Settings, seed: int) -> str:
        """The name of a distillation's record: a checksum of all that it depends on."""
        content = json.dumps([self._identity, asdict(settings), asdict(_recipe(settings, seed))], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def select(self, settings: Settings, seed: int) -> _Selection | None:
        """The pairs that a distillation trains on. None if there are fewer than it needs, or than a batch."""
        parts = [part for part in self.pairs.parts if _is_in(part, settings)]
        free = [self._numbers(part, held_out=False) for part in parts]
        numbers = np.concatenate([np.zeros(0, dtype=np.int64), *free])
        if settings.pairs is not None:
            if len(numbers) < settings.pairs:
                return None
            numbers = np.sort(np.random.default_rng(seed).permutation(numbers)[: settings.pairs])
        if len(numbers) < settings.batch_size:
            return None
        dev = self._held_out(parts)
        if not dev:
            return None
        source_rows = self.pairs.source_rows[numbers]
        rows = np.unique(np.concatenate([source_rows, *(pairs.source_rows for pairs in dev.values())])).astype(np.int64)
        ends = np.searchsorted(numbers, [part.stop for part in parts])
        begins = np.searchsorted(numbers, [part.start for part in parts])
        return _Selection(
            sources=self.pairs.sources.selected(rows),
            source_rows=np.searchsorted(rows, source_rows).astype(np.int32),
            targets=self.pairs.targets.selected(numbers),
            parts=[
                replace(part, start=int(start), stop=int(stop))
                for part, start, stop in zip(parts, begins, ends, strict=True)
            ],
            teacher=self._vectors(rows, settings),
            development=_development(dev, self._development.sts, rows),
        )

    def _held_out(self, parts: Sequence[Part]) -> dict[str, DevPairs]:
        """Held-out pairs of these corpora by language: a step is chosen on text of the kind that is trained on."""
        held_out: dict[str, DevPairs] = {}
        for language in sorted({part.target_lang for part in parts}):
            corpora = [part for part in parts if part.target_lang == language]
            number = math.ceil(PAIRS_PER_LANGUAGE / len(corpora))
            random = np.random.default_rng(0)
            numbers = [random.permutation(self._numbers(part, held_out=True))[:number] for part in corpora]
            if pairs := distinct(self.pairs, np.sort(np.concatenate(numbers))):
                held_out[language] = pairs
        return held_out

    def _numbers(self, part: Part, *, held_out: bool) -> NDArray[np.int64]:
        """The numbers of the pairs of a corpus whose source is held out, or is not."""
        is_held_out = self._development.is_held_out[self.pairs.source_rows[part.start : part.stop]]
        return part.start + np.flatnonzero(is_held_out == held_out)

    def _vectors(self, rows: NDArray[np.int64], settings: Settings) -> TeacherVectors:
        dim = settings.start.student_dim(self.teacher.dim)
        if dim not in self._projections:
            self._projections[dim] = teacher_projection(settings.start, self.teacher, dim, on_principal_axes=False)
        return self.teacher.selected(rows).projected(self._projections[dim])

    def student(self, chosen: _Selection, settings: Settings, seed: int, on_cpu: bool) -> Any:
        """What a student begins as. The tokenizer of a new static one is trained once for the same pairs."""
        dim = chosen.teacher.dim
        drawn = settings.pairs and (settings.pairs, seed)
        data = settings.corpora, settings.languages, drawn, settings.student, settings.tokenizer
        if self._tokenizer[0] == data and settings.start.is_new_static:
            return static_student(self._tokenizer[1], dim, seed=seed)
        kept = np.arange(len(chosen.source_rows), dtype=np.int64)
        student = make_student(settings.start, chosen, kept, chosen.teacher, _recipe(settings, seed), on_cpu)
        self._tokenizer = data, student[0].tokenizer
        return student


def _is_in(part: Part, settings: Settings) -> bool:
    names = {part.name, part.name.rpartition(".")[0]}
    return (not settings.corpora or not names.isdisjoint(settings.corpora)) and (
        not settings.languages or part.target_lang in settings.languages
    )


def _development(dev: Mapping[str, DevPairs], sts: DevSts | None, rows: NDArray[np.int64]) -> Development:
    """A development set of pairs whose sources are among `rows` of the store, and of STS in their languages."""
    if sts:
        languages = [language for language in sts.sentences1 if language == "en" or language in dev]
        sts = replace(
            sts,
            sentences1={language: sts.sentences1[language] for language in languages},
            sentences2={language: sts.sentences2[language] for language in languages},
        )
    pairs = {
        language: replace(held_out, source_rows=np.searchsorted(rows, held_out.source_rows))
        for language, held_out in dev.items()
    }
    return Development(pairs, sts, np.zeros(len(rows), dtype=np.bool_))


def _recipe(settings: Settings, seed: int) -> Recipe:
    recipe = replace(
        STATIC if settings.start.is_static else Recipe(),
        loss=settings.loss,
        batch_size=settings.batch_size,
        epochs=_FOREVER,
        max_steps=settings.steps,
        eval_steps=settings.eval_steps,
        seed=seed,
    )
    return recipe if settings.learning_rate is None else replace(recipe, learning_rate=settings.learning_rate)


def _distilled(
    material: _Material,
    chosen: _Selection,
    settings: Settings,
    seed: int,
    scores: Mapping[Score, Score],
    data: DataDir,
    on_cpu: bool,
) -> Run:
    """Train one student and measure it."""
    start = time.perf_counter()
    student = material.student(chosen, settings, seed, on_cpu)
    with tempfile.TemporaryDirectory(prefix="ablate-") as work:
        fitted = train(
            _recipe(settings, seed),
            chosen,
            chosen.teacher,
            student,
            chosen.development,
            Path(work) / "checkpoints",
            Watcher(is_silent=True),
        )
        encoder = _encoder(fitted.model, settings, material.key(settings, seed))
        values: dict[str, float] = {}
        for task in sorted({score.task for score in scores.values()}):
            subsets = sorted({score.subset for score in scores.values() if score.task == task})
            # Vectors are of no use once the scores are there.
            results = evaluate(encoder, task, subsets=subsets, data_dir=data.root, cache_dir=Path(work) / "vectors")
            values |= {
                f"{task}/{r.subset}/{name}": round(value, 4) for r in results for name, value in r.metrics.items()
            }
    return Run(
        settings=settings,
        seed=seed,
        teacher=material.teacher.fingerprint,
        data=material.pairs.digest,
        pairs=len(chosen.source_rows),
        steps=fitted.steps,
        best_step=fitted.best_step,
        scores={name: values[name] for name in sorted(map(str, scores.values()))},
        seconds=round(time.perf_counter() - start, 1),
        hardware=hardware(),
        versions=versions(("sentence_transformers", "accelerate")),
        git=git_state(),
    )


def _encoder(model: Any, settings: Settings, identity: str) -> Encoder:
    if settings.start.is_static:
        table = np.array(model[0].embedding.weight.detach().cpu().numpy(), dtype=np.float32)
        return StaticEncoder(model[0].tokenizer, table, identity, name="student")
    return SentenceTransformerEncoder(model, identity, name="student")


def _stored(path: Path, scores: Mapping[Score, Score]) -> Run | None:
    """The stored record of a distillation. None if there is none, if it lacks a score, or if it is damaged."""
    with suppress(OSError, ValueError):
        run = decoded(path.read_bytes(), Run, exact=True)
        if run.scores.keys() >= set(map(str, scores.values())):
            return run
    return None


def _in_words(settings: Settings) -> str:
    corpora = ", ".join(settings.corpora) or "all corpora"
    size = f"{settings.pairs:,} pairs of " if settings.pairs else ""
    return f"{size}{corpora} ({' '.join(settings.languages) or 'all languages'}), {settings.loss}"

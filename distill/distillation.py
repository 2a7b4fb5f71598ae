"""A distillation from its parts: pairs, the teacher's vectors, start, training, report.

The stores of pairs and of the teacher's vectors are kept in the cache folder and serve the next distillation.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.huggingface import folder_digest
from baselines.training.model_folder import (
    SETTINGS_FILE,
    TRAINING_FILE,
    Settings,
    as_json,
    check_equal,
    check_folders,
    new_folder,
    only_training,
    read_if_whole,
    remove_work,
    replace_folder,
    save_model,
)
from distill.corpora import find_corpora
from distill.development import Development, hold_out
from distill.pairs import Filters, PairStore
from distill.recipe import STATIC, Recipe
from distill.report import Effort, Trained, UsedCorpus, Watcher, write_reports
from distill.sampler import mixed_batches
from distill.start import Start, load_projection, make_student, open_student, save_projection, teacher_projection
from distill.teacher import SideBySide, TeacherVectors, VectorType, sentences_digest
from distill.training import Fitted, check_recipe, train
from harness.core.errors import InputError, MissingExtraError, one_line
from harness.core.files import user_path, write_atomically
from harness.core.provenance import git_state, hardware, versions
from harness.core.schema import decoded
from harness.data.corpora import Corpus, open_corpus
from harness.data.sources import DataDir, bundled_sample, open_data_dir
from harness.encoders.cache import default_cache_dir
from harness.encoders.encoder import Encoder
from harness.encoders.registry import load_encoder
from harness.encoders.spec import parse_spec
from harness.tasks.leakage import EvaluationSentences, leakage_guard

_MODULES = ("sentence_transformers", "accelerate", "datasets", "altair", "vl_convert")
_VERSIONS = ("sentence_transformers", "accelerate")
_LONGEST_WAIT = timedelta(days=7)  # of other processes for the first one to fill the stores


@dataclass(frozen=True)
class Options:
    """The options of a distillation.

    Attributes:
        pairs: files of parallel sentences, see `harness.data.corpora.open_corpus`.
        corpora, languages: which corpora of the data directory, if no `pairs` are given; all by default.
        data_dir: the data directory; the pairs are kept free of its evaluation sets.
        recipe: how to train; `distill.recipe.STATIC` by default for a static student, else the paper's.
        filters: which pairs are left out.
        on_cpu: do not use a GPU that is there.
        fresh: begin anew, and replace a student that is there.
        command: the command line, for report and model card.
    """

    pairs: Sequence[str | Path] = ()
    corpora: Sequence[str] = ()
    languages: Sequence[str] = ()
    data_dir: str | Path | None = None
    recipe: Recipe | None = None
    filters: Filters = field(default_factory=Filters)
    on_cpu: bool = False
    fresh: bool = False
    command: str = ""


def distill(
    teacher: str | Encoder | Sequence[str | Encoder],
    student: str | Start,
    out: str | Path,
    options: Options | None = None,
    progress: Watcher | None = None,
) -> Trained:
    """Train a multilingual student to have the teacher's vectors, and write it to a folder.

    The folder is an ordinary sentence-transformers model, with a record (`training.json`), a report, a curve and a
    model card beside it. Checkpoints are kept in `OUT.training` until it is complete: a distillation that was killed
    goes on from there when it is called again, with the numbers that it would have had.

    Args:
        teacher: an encoder or its spec string; of several, the vectors are put side by side (see
            `distill.teacher.SideBySide`).
        student: what the student begins as, see `distill.start.Start`.
        out: the folder to write.
        options: which pairs to train on, and how.
        progress: reports what is done.

    Raises:
        MissingExtraError: a package that training needs is not installed.
        InputError: no such teacher, student or data; too little data; dimensions that do not fit; `out` or its
            checkpoints are of another training; the loss is not finite any more; a folder cannot be written.
    """
    if any(importlib.util.find_spec(module) is None for module in _MODULES):
        raise MissingExtraError("distill", "train")
    options = options or Options()
    start = Start(student) if isinstance(student, str) else student
    start.check()
    if options.recipe and options.recipe.dropout is not None and start.is_static:
        raise InputError("--dropout is for transformers, not for a static student")
    folder = user_path(out).absolute()
    is_first = int(os.environ.get("RANK", "0")) == 0
    data = open_data_dir(options.data_dir) if options.data_dir else None
    teachers = [teacher] if isinstance(teacher, str | Encoder) else list(teacher)
    if not teachers:
        raise InputError("a student needs a teacher")
    specs = [parse_spec(spec) for spec in (*teachers, *start.init) if isinstance(spec, str)]
    locations = [spec.location for spec in specs if spec.location]
    work = folder.with_name(f"{folder.name}.training")
    check_folders(folder, work, [start.student, start.tokenizer, *locations])
    try:
        with only_training(folder) if is_first else nullcontext():
            return _Distillation(
                teacher=_loaded(teachers, "cpu" if options.on_cpu else None),
                start=start,
                out=folder,
                work=work,
                corpora=_corpora(options, data),
                data=data,
                recipe=options.recipe or (STATIC if start.is_static else Recipe()),
                options=options,
                is_first=is_first,
                progress=(progress or Watcher()) if is_first else Watcher(is_silent=True),
            ).run()
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: {error.strerror or one_line(error)}; choose another --out"
        ) from None


@dataclass(frozen=True)
class _Distillation:
    """The arguments of `distill`, checked. `is_first`: this process writes; others train with it on other GPUs."""

    teacher: Encoder
    start: Start
    out: Path
    work: Path
    corpora: list[Corpus]
    data: DataDir | None
    recipe: Recipe
    options: Options
    is_first: bool
    progress: Watcher

    def run(self) -> Trained:
        """Train the student and write its folder, unless this is done. Raises InputError and OSError."""
        check_recipe(self.recipe, self.options.on_cpu)
        dim = self.start.student_dim(self.teacher.dim)
        if any(not 1 <= part <= dim for part in self.recipe.matryoshka):
            parts = ", ".join(map(str, self.recipe.matryoshka))
            raise InputError(f"Matryoshka dimensions must be 1 to {dim}, the student's, not {parts}")
        guard = self._guard()
        with _first_process_first(self.options.on_cpu):
            if self.options.fresh and self.is_first:
                remove_work(self.work)
            store = stored_pairs(self.corpora, self.options.filters, guard, self.progress)
            development = hold_out(store, guard, self.data)
            kept = development.kept(store)
            self._report_pairs(store, kept)
            settings = self._settings(store, development)
            if not self.options.fresh and (done := _finished(self.out, settings)):
                remove_work(self.work)
                self.progress.note(f"{self.out.name}: complete, nothing to do")
                return done
            self._write_settings(settings)
            dtype = self.recipe.teacher_dtype
            vectors = stored_vectors(self.teacher, store, self.corpora[0].source_lang, dtype, self.progress)
            begin = self.work / "start"
            if not begin.exists():
                self._make_start(begin, store, kept, vectors, dim)
        student = open_student(begin, self.options.on_cpu)
        if self.start.freeze_layers:
            from baselines.training.trainer import freeze_layers

            freeze_layers(student, self.start.freeze_layers)
        projection = load_projection(begin)
        fitted = train(
            self.recipe,
            store,
            vectors,
            student,
            development,
            self.work / "checkpoints",
            self.progress,
            projection=projection,
        )
        digests = {"start": folder_digest(begin)}
        if projection is not None:
            digests["projection"] = hashlib.sha256(projection.tobytes()).hexdigest()
        trained = Trained(
            settings=settings,
            digests=digests,
            corpora=_used_corpora(store, fitted),
            guarded=store.guarded,
            held_out=len(store) - len(kept),
            steps=fitted.steps,
            best_step=fitted.best_step,
            curve=fitted.curve,
            losses=fitted.losses,
            versions=versions(_VERSIONS),
            git=git_state(),
        )
        self._write(fitted, trained, projection)
        return trained

    def _guard(self) -> EvaluationSentences:
        """The sentences that no pair may have."""
        guard = leakage_guard(self.data or bundled_sample())
        if self.data is None:
            self.progress.note("no --data-dir: the pairs are kept free of the bundled sample's sentences only")
        if missing := [name for name, number in guard.counts.items() if not number]:
            self.progress.note(f"not in the data directory, so the pairs are not kept free of: {', '.join(missing)}")
        return guard

    def _report_pairs(self, store: PairStore, kept: NDArray[np.int64]) -> None:
        """Report the training pairs. Raises InputError if they are too few, before the teacher encodes them."""
        self.progress.note(
            f"{len(store):,} pairs of {len(store.parts)} corpora, {len(store.sources):,} distinct sources; "
            f"{len(store) - len(kept):,} pairs held out"
        )
        shares = mixed_batches(self.recipe, store, kept).shares()
        for part, share in zip(store.parts, shares, strict=True):
            dropped = ", ".join(f"{number:,} {reason}" for reason, number in part.dropped.items()) or "none"
            self.progress.note(
                f"{part.name}: {len(part):,} pairs, {100 * share:.1f} % of the batches (dropped: {dropped})"
            )

    def _settings(self, pairs: PairStore, development: Development) -> Settings:
        """Everything that distinguishes this distillation from others, as JSON values."""
        settings = {
            "teacher": self.teacher.name,
            "teacher_fingerprint": self.teacher.fingerprint,
            **self.start.settings(),
            **asdict(self.recipe),
            "filters": asdict(self.options.filters),
            "pairs": pairs.digest,
            "development": development.digest,
        }
        plain: Settings = json.loads(json.dumps(settings))
        return plain

    def _write_settings(self, settings: Settings) -> None:
        """Write the settings into the folder of checkpoints. Raises InputError if it has those of another training."""
        stored = read_if_whole(self.work / SETTINGS_FILE, Settings) or settings
        if (self.work / "checkpoints").exists():
            check_equal(settings, stored, self.work)
        elif stored != settings and self.is_first:  # nothing is there yet that could be lost
            remove_work(self.work)
        write_atomically(self.work / SETTINGS_FILE, as_json(settings))

    def _make_start(
        self, begin: Path, store: PairStore, kept: NDArray[np.int64], vectors: TeacherVectors, dim: int
    ) -> None:
        """Write what the student begins as to the folder `begin`."""
        projection = teacher_projection(self.start, vectors, dim, on_principal_axes=bool(self.recipe.matryoshka))
        label = self.start.settings()["student"]
        self.progress.note(f"the student begins as {label}, {dim} dimensions")
        student = make_student(self.start, store, kept, vectors.projected(projection), self.recipe, self.options.on_cpu)
        with new_folder(begin) as folder:
            save_model(student, folder)
            save_projection(folder, projection)

    def _write(self, fitted: Fitted, trained: Trained, projection: NDArray[np.float32] | None) -> None:
        """Write the student's folder, and remove the checkpoints."""
        effort = Effort(fitted.seconds, fitted.dev_seconds, 2 * self.recipe.batch_size * fitted.steps, hardware())
        self.progress.note(
            f"{fitted.steps:,} steps, best after {fitted.best_step:,}; {effort.seconds:,.0f} s, of which "
            f"{effort.dev_share:.1f} % for evaluations; {effort.sentences_per_s:,.0f} sentences/s"
        )
        if not self.is_first:
            return
        with new_folder(self.work / "model", replace=True) as folder:
            save_model(fitted.model, folder)
            save_projection(folder, projection)
            write_reports(folder, self.out.name, self.options.command, trained, effort)
        replace_folder(self.work / "model", self.out)
        remove_work(self.work)


def _loaded(teachers: Sequence[str | Encoder], device: str | None) -> Encoder:
    loaded = [load_encoder(each, device=device) if isinstance(each, str) else each for each in teachers]
    return loaded[0] if len(loaded) == 1 else SideBySide(loaded)


def stored_pairs(
    corpora: Sequence[Corpus], filters: Filters, guard: EvaluationSentences, progress: Watcher
) -> PairStore:
    """The pairs of these corpora. They are read again only if a file, the filters or the guard have changed."""
    files = [[str(path.absolute()) for path in corpus.files] for corpus in corpora]
    folder = _cached("pairs", json.dumps([files, asdict(filters), guard.digest]))
    return PairStore.build(corpora, filters, guard, folder, progress.count)


def stored_vectors(
    teacher: Encoder, pairs: PairStore, lang: str, dtype: VectorType, progress: Watcher
) -> TeacherVectors:
    """The teacher's vectors of all sources, which are in `lang`. They are computed once for equal sources."""
    content = f"{teacher.fingerprint}\n{sentences_digest(pairs.sources)}" + ("" if dtype == "float16" else dtype)
    count = partial(progress.count, "teacher's vectors")
    return TeacherVectors.build(teacher, pairs.sources, _cached("teacher", content), dtype, count, lang=lang)


def _cached(kind: str, content: str) -> Path:
    """The folder of a store that depends on `content`."""
    return default_cache_dir() / "distill" / kind / hashlib.sha256(content.encode()).hexdigest()[:16]


def _corpora(options: Options, data: DataDir | None) -> list[Corpus]:
    if options.pairs:
        if options.corpora or options.languages:
            raise InputError("--pairs names files; --corpus and --language choose from the data directory: give either")
        return [open_corpus(path, source_lang="en") for path in options.pairs]
    if data is None:
        raise InputError("no parallel data: give files with --pairs, or --data-dir (or set HARNESS_DATA)")
    corpora = find_corpora(data.root, options.corpora, options.languages)
    if not corpora:
        raise InputError(
            f"no parallel data in {data.root / 'parallel'}: `leaderboard data fetch` gets some, or give --pairs"
        )
    return corpora


def _finished(out: Path, settings: Settings) -> Trained | None:
    """The record of the student in `out`; None if `out` does not exist. Raises InputError for any other content."""
    if not out.exists():
        return None
    try:
        done = decoded((out / TRAINING_FILE).read_bytes(), Trained, exact=True)
    except (OSError, ValueError):
        raise InputError(
            f"{out / TRAINING_FILE} is damaged or of another command; --fresh replaces the student"
        ) from None
    check_equal(settings, done.settings, out)
    return done


def _used_corpora(store: PairStore, fitted: Fitted) -> list[UsedCorpus]:
    return [
        UsedCorpus(
            name=part.name,
            language=part.target_lang,
            pairs=len(part),
            share=round(fitted.shares[part.name], 6),
            dropped=dict(part.dropped),
            licence=part.licence,
        )
        for part in store.parts
    ]


@contextmanager
def _first_process_first(on_cpu: bool) -> Iterator[None]:
    """Under `accelerate launch`, the first process fills the stores while the other processes wait."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    from accelerate import PartialState  # type: ignore[import-untyped]

    with PartialState(cpu=on_cpu, timeout=_LONGEST_WAIT).main_process_first():
        yield

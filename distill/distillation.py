"""A distillation from its parts: pairs, the teacher's vectors, start, training, report.

The stores of pairs and of the teacher's vectors are kept in the cache folder and serve the next distillation.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines.huggingface import folder_digest, quiet
from baselines.model_folder import (
    SETTINGS_FILE,
    TRAINING_FILE,
    as_json,
    check_equal,
    check_folders,
    only_training,
    read_json,
    remove_work,
    replace_folder,
)
from baselines.nli import freeze_layers
from distill.progress import Watcher
from distill.report import Effort, Trained, UsedCorpus, write_reports
from distill.start import Start, load_projection, make_student, open_student, save_projection, teacher_projection
from harness.data.sources import DataDir, bundled_sample, open_data_dir
from harness.encoder import Encoder
from harness.errors import InputError, MissingExtraError
from harness.files import user_path, write_atomically
from harness.provenance import git_state, hardware, versions
from harness.registry import load_encoder, one_line
from harness.schema import decoded
from harness.spec import parse_spec
from harness.tasks.leakage import leakage_guard

if TYPE_CHECKING:
    from distill.corpora import Corpus
    from distill.filters import Filters
    from distill.training import Recipe

_MODULES = ("sentence_transformers", "accelerate", "datasets", "matplotlib")
_VERSIONS = ("sentence_transformers", "accelerate")
_LONGEST_WAIT = timedelta(days=7)  # of other processes for the first one to fill the stores


def distill(
    teacher: str | Encoder,
    student: str | Start,
    out: str | Path,
    *,
    pairs: Sequence[str | Path] = (),
    corpora: Sequence[str] = (),
    languages: Sequence[str] = (),
    data_dir: str | Path | None = None,
    recipe: Recipe | None = None,
    filters: Filters | None = None,
    on_cpu: bool = False,
    fresh: bool = False,
    command: str = "",
    progress: Watcher | None = None,
) -> Trained:
    """Train a multilingual student to have the teacher's vectors, and write it to a folder.

    The folder is an ordinary sentence-transformers model, with a record (`training.json`), a report, a curve and a
    model card beside it. Checkpoints are kept in `OUT.training` until it is complete: a distillation that was killed
    goes on from there when it is called again, with the numbers that it would have had.

    Args:
        teacher: an encoder or its spec string.
        student: what it begins as; see `distill.start.Start`.
        out: the folder to write.
        pairs: files of parallel sentences, see `distill.corpora.open_corpus`.
        corpora, languages: which corpora of the data directory, if no `pairs` are given; all by default.
        data_dir: the data directory; its evaluation sets are what the pairs are kept free of.
        recipe: how to train; `distill.training.STATIC` by default for a static student, else the paper's.
        filters: which pairs are left out.
        on_cpu: do not use a GPU that is there.
        fresh: begin anew, and replace a student that is there.
        command: what made it, for report and model card.
        progress: is told.

    Raises:
        MissingExtraError: a package that training needs is not installed.
        InputError: no such teacher, student or data; too little data; dimensions that do not fit; `out` or its
            checkpoints are of another training; the loss is no number any more; a folder cannot be written.
    """
    if any(importlib.util.find_spec(module) is None for module in _MODULES):
        raise MissingExtraError("distill", "train")
    start = Start(student) if isinstance(student, str) else student
    start.check()
    if recipe and recipe.dropout is not None and start.is_static:
        raise InputError("--dropout is for transformers, not for a static student")
    folder = user_path(out).absolute()
    is_first = int(os.environ.get("RANK", "0")) == 0
    progress = (progress or Watcher()) if is_first else Watcher(is_silent=True)
    data = open_data_dir(data_dir) if data_dir else None
    work = folder.with_name(f"{folder.name}.training")
    specs = [parse_spec(spec) for spec in (teacher, start.init) if isinstance(spec, str)]
    locations = [spec.location for spec in specs if spec.location]
    check_folders(folder, work, [start.student, start.tokenizer, *locations])
    try:
        with only_training(folder) if is_first else nullcontext():
            return _distill(
                load_encoder(teacher, device="cpu" if on_cpu else None) if isinstance(teacher, str) else teacher,
                start,
                folder,
                work,
                _corpora(pairs, corpora, languages, data),
                data,
                recipe,
                filters,
                on_cpu,
                fresh,
                command,
                progress,
                is_first,
            )
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: {error.strerror or one_line(error)}; choose another --out"
        ) from None


def _distill(
    teacher: Encoder,
    start: Start,
    out: Path,
    work: Path,
    corpora: list[Corpus],
    data: DataDir | None,
    recipe: Recipe | None,
    filters: Filters | None,
    on_cpu: bool,
    fresh: bool,
    command: str,
    progress: Watcher,
    is_first: bool,
) -> Trained:
    from distill.development import hold_out
    from distill.filters import Filters
    from distill.stores import stored_pairs, stored_vectors
    from distill.training import STATIC, Recipe, check_recipe, mixed_batches, train

    recipe = recipe or (STATIC if start.is_static else Recipe())
    check_recipe(recipe, on_cpu)
    dim = start.student_dim(teacher.dim)
    if any(not 1 <= part <= dim for part in recipe.matryoshka):
        parts = ", ".join(map(str, recipe.matryoshka))
        raise InputError(f"Matryoshka dimensions must be 1 to {dim}, the student's, not {parts}")
    filters = filters or Filters()
    guard = leakage_guard(data or bundled_sample())
    if data is None:
        progress.note("no --data-dir: the pairs are kept free of the bundled sample's sentences only")
    if missing := [name for name, number in guard.counts.items() if not number]:
        progress.note(f"not in the data directory, so the pairs are not kept free of: {', '.join(missing)}")
    with _first_process_first(on_cpu):
        if fresh and is_first:
            remove_work(work)
        store = stored_pairs(corpora, filters, guard, progress)
        development = hold_out(store, guard, data)
        kept = development.kept(store)
        n_held_out = len(store.source_rows) - len(kept)
        progress.note(
            f"{len(store.source_rows):,} pairs of {len(store.parts)} corpora, {len(store.sources):,} distinct sources; "
            f"{n_held_out:,} pairs held out"
        )
        # Here, since it raises if there are too few pairs: better known before the teacher is at work.
        shares = mixed_batches(recipe, store, kept).shares()
        for part, share in zip(store.parts, shares, strict=True):
            dropped = ", ".join(f"{number:,} {reason}" for reason, number in part.dropped.items()) or "none"
            size = part.stop - part.start
            progress.note(f"{part.name}: {size:,} pairs, {100 * share:.1f} % of the batches (dropped: {dropped})")
        settings = _settings(teacher, start, recipe, filters, store.digest, development.digest)
        if not fresh and (done := _finished(out, settings)):
            remove_work(work)
            progress.note(f"{out.name}: complete, nothing to do")
            return done
        stored = read_json(work / SETTINGS_FILE) or settings
        if (work / "checkpoints").exists():
            check_equal(settings, stored, work)
        elif stored != settings and is_first:  # nothing is there yet that could be lost
            remove_work(work)
        write_atomically(work / SETTINGS_FILE, as_json(settings))

        vectors = stored_vectors(teacher, store, corpora[0].source_lang, recipe.teacher_dtype, progress)
        begin = work / "start"
        if not begin.exists():
            projection = teacher_projection(start, vectors, dim, on_principal_axes=bool(recipe.matryoshka))
            progress.note(f"the student begins as {settings['student']}, {dim} dimensions")
            made = make_student(
                start,
                store,
                kept,
                vectors,
                dim,
                projection,
                max_length=recipe.max_length,
                seed=recipe.seed,
                precision=recipe.precision,
                on_cpu=on_cpu,
            )
            _save(made, begin, lambda folder: save_projection(folder, projection))
    model = open_student(begin, on_cpu)
    if start.freeze_layers:
        freeze_layers(model, start.freeze_layers)
    projection = load_projection(begin)
    fitted = train(
        recipe,
        store,
        vectors,
        model,
        development,
        work / "checkpoints",
        progress,
        projection=projection,
        on_cpu=on_cpu,
    )
    digests = {"start": folder_digest(begin)}
    if projection is not None:
        digests["projection"] = hashlib.sha256(projection.tobytes()).hexdigest()
    used = [
        UsedCorpus(
            name=part.name,
            language=part.target_lang,
            pairs=part.stop - part.start,
            share=round(fitted.shares[part.name], 6),
            dropped=dict(part.dropped),
            licence=part.licence,
        )
        for part in store.parts
    ]
    trained = Trained(
        settings=settings,
        digests=digests,
        corpora=used,
        guarded=store.guarded,
        held_out=n_held_out,
        steps=fitted.steps,
        best_step=fitted.best_step,
        curve=fitted.curve,
        losses=fitted.losses,
        versions=versions(_VERSIONS),
        git=git_state(),
    )
    effort = Effort(fitted.seconds, fitted.dev_seconds, 2 * recipe.batch_size * fitted.steps, hardware())
    progress.note(
        f"{fitted.steps:,} steps, best after {fitted.best_step:,}; {effort.seconds:,.0f} s, of which "
        f"{effort.dev_share:.1f} % for evaluations; {effort.sentences_per_s:,.0f} sentences/s"
    )
    if is_first:

        def complete(folder: Path) -> None:
            save_projection(folder, projection)
            write_reports(folder, out.name, command, trained, effort)

        shutil.rmtree(work / "model", ignore_errors=True)
        _save(fitted.model, work / "model", complete)
        if fresh:
            replace_folder(work / "model", out)
        else:
            (work / "model").rename(out)
        remove_work(work)
    return trained


def _corpora(
    pairs: Sequence[str | Path], names: Sequence[str], languages: Sequence[str], data: DataDir | None
) -> list[Corpus]:
    from distill.corpora import find_corpora, open_corpus

    if pairs:
        if names or languages:
            raise InputError("--pairs names files; --corpus and --language choose from the data directory: give either")
        return [open_corpus(path) for path in pairs]
    if data is None:
        raise InputError("no parallel data: give files with --pairs, or --data-dir (or set HARNESS_DATA)")
    found = find_corpora(data.root, names, languages)
    if not found:
        raise InputError(
            f"no parallel data in {data.root / 'parallel'}: `leaderboard data fetch` gets some, or give --pairs"
        )
    return found


def _settings(
    teacher: Encoder, start: Start, recipe: Recipe, filters: Filters, pairs: str, development: str
) -> dict[str, Any]:
    """What tells this distillation from others, as JSON values."""
    settings = {
        "teacher": teacher.name,
        "teacher_fingerprint": teacher.fingerprint,
        **start.settings(),
        **asdict(recipe),
        "filters": asdict(filters),
        "pairs": pairs,
        "development": development,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _finished(out: Path, settings: dict[str, Any]) -> Trained | None:
    """The record of the student in `out`; None if there is nothing. Raises InputError if there is anything else."""
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


def _save(model: Any, folder: Path, add: Callable[[Path], None]) -> None:
    """Save a model, whole or not at all, with what `add` writes beside it."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with quiet():
        model.save_pretrained(str(part), create_model_card=False)
    add(part)
    part.rename(folder)


@contextmanager
def _first_process_first(on_cpu: bool) -> Iterator[None]:
    """Under `accelerate launch`, the first process fills the stores while the others wait; they find them filled."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    from accelerate import PartialState  # type: ignore[import-untyped]

    with PartialState(cpu=on_cpu, timeout=_LONGEST_WAIT).main_process_first():
        yield

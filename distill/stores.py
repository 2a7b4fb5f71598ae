"""What every distillation of the same data shares, in `distill/` of the cache folder: pairs and teacher's vectors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from distill.corpora import Corpus
from distill.filters import Filters
from distill.pairs import PairStore
from distill.progress import Watcher
from distill.teacher import TeacherVectors, VectorType, sentences_digest
from harness.cache import default_cache_dir
from harness.encoder import Encoder
from harness.tasks.leakage import EvaluationSentences


def stored_pairs(
    corpora: Sequence[Corpus], filters: Filters, guard: EvaluationSentences, progress: Watcher
) -> PairStore:
    """The pairs of some corpora, read again only if a file, the filters or the guard have changed."""
    files = [[str(path.absolute()) for path in corpus.files] for corpus in corpora]
    name = _name(json.dumps([files, asdict(filters), guard.digest]))
    return PairStore.build(corpora, filters, guard, _folder() / "pairs" / name, progress.count)


def stored_vectors(
    teacher: Encoder, pairs: PairStore, lang: str, dtype: VectorType, progress: Watcher
) -> TeacherVectors:
    """The teacher's vectors of all sources, which are in `lang`; of equal sources they are computed once."""
    name = _name(f"{teacher.fingerprint}\n{sentences_digest(pairs.sources)}" + ("" if dtype == "float16" else dtype))
    count = partial(progress.count, "teacher's vectors")
    return TeacherVectors.build(teacher, pairs.sources, _folder() / "teacher" / name, dtype, count, lang=lang)


def _folder() -> Path:
    return default_cache_dir() / "distill"


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

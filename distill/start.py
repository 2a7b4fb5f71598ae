"""What a student begins as: a transformer, a new static student, or a folder with a static one that is trained on."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.huggingface import Source, folder_digest, model_folder, open_model
from baselines.adapters.model_files import listed_modules
from baselines.training.model_folder import Settings
from baselines.training.nli import open_start, resolve_start
from distill.pieces import PieceVectors, initial_table, with_unseen
from distill.students import (
    Pruning,
    principal_axes,
    static_student,
    transformer_student,
    with_fitted_projection,
)
from distill.vocabulary import balanced, count_tokens, frequencies, prune_tokenizer, train_tokenizer
from harness.core.errors import InputError
from harness.core.files import user_path
from harness.encoders.registry import load_encoder
from harness.encoders.spec import parse_spec

if TYPE_CHECKING:
    from distill.pairs import Pairs
    from distill.recipe import Recipe
    from distill.teacher import TeacherVectors

PROJECTION_FILE = "teacher_projection.safetensors"
"""In a student's folder: the map from the teacher's space into the student's, if the latter has another."""

_STATIC = re.compile(r"static:(unigram|bpe|pruned)-([0-9]+)")
_SEED = 0  # of samples; a student's own seed is for training
_SAMPLE = 20_000  # texts, for what is fitted in closed form: with 4,000 a map of 384 dimensions is 10 % worse
_SCORE_DECIMALS = 3  # of a static student's vocabulary: a third of the tokenizer's file less
_VOCABULARY_SAMPLE = 400_000  # texts, about evenly over the languages


@dataclass(frozen=True)
class Start:
    """What a student begins as.

    Attributes:
        student: a folder, a hub id or an alias of a transformer; a folder with a static model; or a new static student,
            `static:unigram-30000`, `static:bpe-30000` or `static:pruned-57000`: the kind and size of its vocabulary.
        dim: length of its vectors; None: the teacher's. With fewer, the teacher's vectors are reduced to their
            principal axes.
        init: of a new static student: specs of multilingual encoders whose vectors of the pieces it begins with.
        unseen_pieces: of `static:pruned-...`: so many more tokens, which the pairs do not have, where the encoders of
            `init` agree on their meaning (see `distill.pieces.with_unseen`).
        tokenizer: of `static:pruned-...`: a folder, hub id or alias of a model with XLM-R's kind of tokenizer.
        keep_layers: of a transformer: only so many of the lowest layers.
        freeze_layers: of a transformer: so many of the lowest layers are not trained, nor are the embeddings then.
        vocabulary: of a transformer: only so many tokens, those that the pairs use most.
        fit_projection: of a transformer: it gets a linear layer, fitted to the teacher before training.
        prompt: of a transformer: what every sentence begins with; None: as it has it.
    """

    student: str
    dim: int | None = None
    init: tuple[str, ...] = ()
    unseen_pieces: int = 0
    tokenizer: str = "FacebookAI/xlm-roberta-base"
    keep_layers: int | None = None
    freeze_layers: int = 0
    vocabulary: int | None = None
    fit_projection: bool = False
    prompt: str | None = None

    @property
    def is_new_static(self) -> bool:
        """Whether the student is static and has no weights yet."""
        return self.student.startswith("static:")

    @property
    def is_static(self) -> bool:
        """Whether the student is static, new or not. Raises InputError if a folder's list of modules is damaged."""
        return self.is_new_static or _is_static_folder(self.student)

    def settings(self) -> Settings:
        """The settings for a record: folders by name and content, without machine paths."""
        return {
            **asdict(self),
            "student": _label(self.student),
            "init": [str(parse_spec(spec)) for spec in self.init],
            "tokenizer": _label(self.tokenizer) if self.student.startswith("static:pruned") else None,
        }

    def student_dim(self, teacher_dim: int) -> int:
        """The length of the student's vectors.

        Raises:
            InputError: the dimensions differ, and nothing says how to bring them together.
        """
        if self.dim is not None and self.dim > teacher_dim:
            raise InputError(
                f"--dim {self.dim}: the teacher's vectors have {teacher_dim} dimensions; give at most that"
            )
        if self.is_new_static or not self.is_static:
            return self.dim or teacher_dim
        folder = user_path(self.student)
        dim = _static_dim(folder)
        if self.dim not in (None, dim):
            raise InputError(f"--dim {self.dim}: the static student {self.student!r} has {dim} dimensions")
        stored = load_projection(folder)
        fits = dim == teacher_dim or self.dim == dim or (stored is not None and stored.shape == (teacher_dim, dim))
        if not fits:
            remedy = f"--dim {dim} reduces them to it" if dim < teacher_dim else "take another student"
            raise InputError(f"the student has {dim} dimensions, the teacher's vectors have {teacher_dim}; {remedy}")
        return dim

    def check(self) -> None:
        """Raise InputError if options contradict each other, before anything is loaded."""
        if self.is_new_static:
            if not _STATIC.fullmatch(self.student):
                raise InputError(
                    f"student {self.student!r}: a new static student is static:unigram-30000, static:bpe-30000 or "
                    "static:pruned-57000, with the size of its vocabulary"
                )
        elif self.init:
            raise InputError("--init is for a new static student (static:...)")
        if self.unseen_pieces and (not self.student.startswith("static:pruned") or len(self.init) < 2):
            raise InputError("--unseen-pieces is for static:pruned-N with two encoders or more (repeat --init)")
        if self.is_static:
            given = {
                "--keep-layers": self.keep_layers,
                "--freeze-layers": self.freeze_layers,
                "--vocabulary": self.vocabulary,
                "--fit-projection": self.fit_projection,
                "--prompt": self.prompt,
            }
            for option, value in given.items():
                if value:
                    raise InputError(f"{option} is for transformers, not for a static student")


def teacher_projection(
    start: Start, teacher: TeacherVectors, dim: int, *, on_principal_axes: bool
) -> NDArray[np.float32] | None:
    """The map (teacher's dim, dim) from the teacher's space into the student's; None if the spaces are the same.

    A static student's folder may bring the map that it was trained with; else it is the projection on the principal
    axes of a sample of the teacher's vectors. A student that is to be truncated (`on_principal_axes`) always has one.
    """
    if start.is_static and not start.is_new_static:
        stored = load_projection(user_path(start.student))
        if stored is not None and stored.shape == (teacher.dim, dim):
            return stored
    if dim == teacher.dim and not on_principal_axes:
        return None
    return principal_axes(teacher[_sampled_rows(len(teacher), _SAMPLE)], dim).astype(np.float32)


def make_student(
    start: Start, pairs: Pairs, kept: NDArray[np.int64], teacher: TeacherVectors, recipe: Recipe, on_cpu: bool
) -> Any:
    """The `SentenceTransformer` that a student begins as.

    Maps are fitted and tokens are counted on samples of the pairs to train on.

    Args:
        start: which student.
        pairs: a store of pairs.
        kept: the numbers of those to train on, ascending.
        teacher: the vectors of the sources in the student's space.
        recipe: of the training to come; `max_length`, `precision` and `seed` count.
        on_cpu: do not use a GPU that is there.

    Raises:
        InputError: no such model or tokenizer, or options that do not fit it.
    """
    if start.is_static and not start.is_new_static:
        model, _ = open_model(start.student, None, lambda source: open_start(source, on_cpu=True))
        return model
    make = _new_static if start.is_new_static else _new_transformer
    return make(start, _TrainingSample(pairs, kept, teacher), recipe, on_cpu)


@dataclass(frozen=True)
class _TrainingSample:
    """Samples of the training pairs, whose numbers are `kept`, with the teacher's vectors of their sources."""

    pairs: Pairs
    kept: NDArray[np.int64]
    teacher: TeacherVectors

    def texts_and_vectors(self) -> tuple[list[str], NDArray[np.float32]]:
        """A sample of sources with their translations, and the vectors that both should have."""
        chosen = self.kept[_sampled_rows(len(self.kept), _SAMPLE // 2)]
        rows = np.asarray(self.pairs.source_rows[chosen], dtype=np.int64)
        texts = [self.pairs.sources[row] for row in rows.tolist()] + [self.pairs.targets[n] for n in chosen.tolist()]
        vectors = self.teacher[rows]
        return texts, np.concatenate([vectors, vectors])

    def token_counts(self, tokenizer: Any) -> dict[str, NDArray[np.int64]]:
        """How often each token occurs, by language."""
        return {language: count_tokens(tokenizer, texts) for language, texts in self.texts.items()}

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """A sample of texts by language, about as many of each; the sources have the empty name."""
        by_language: dict[str, list[NDArray[np.int64]]] = {}
        for part in self.pairs.parts:
            first, last = np.searchsorted(self.kept, [part.start, part.stop])
            by_language.setdefault(part.target_lang, []).append(self.kept[first:last])
        number = _VOCABULARY_SAMPLE // (len(by_language) + 1)
        rows = np.unique(self.pairs.source_rows[self.kept])
        texts = {"": [self.pairs.sources[int(row)] for row in rows[_sampled_rows(len(rows), number)]]}
        for language, parts in sorted(by_language.items()):
            numbers = np.concatenate(parts)
            texts[language] = [self.pairs.targets[int(n)] for n in numbers[_sampled_rows(len(numbers), number)]]
        return texts


def _new_transformer(start: Start, sample: _TrainingSample, recipe: Recipe, on_cpu: bool) -> Any:
    location, default_prompt = resolve_start(start.student)
    pruning = None
    if start.vocabulary is not None:
        pruning = Pruning(balanced(sample.token_counts(_tokenizer(location))), start.vocabulary)
    student = transformer_student(
        location,
        sample.teacher.dim,
        keep_layers=start.keep_layers,
        pruning=pruning,
        max_length=recipe.max_length,
        prompt=(default_prompt if start.prompt is None else start.prompt) or "",
        seed=recipe.seed,
        on_cpu=on_cpu,
    )
    if not start.fit_projection:
        return student
    return with_fitted_projection(student, *sample.texts_and_vectors(), recipe.precision)


def _new_static(start: Start, sample: _TrainingSample, recipe: Recipe, on_cpu: bool) -> Any:
    kind, size = _STATIC.fullmatch(start.student).groups()  # type: ignore[union-attr]
    encoders = [load_encoder(spec) for spec in start.init]
    vectors = PieceVectors(encoders, *sample.texts_and_vectors()) if encoders else None
    if kind == "pruned":
        whole = _tokenizer(resolve_start(start.tokenizer)[0])
        score = balanced(sample.token_counts(whole))
        if vectors and start.unseen_pieces:
            content = with_unseen(whole, score, int(size), start.unseen_pieces, vectors, decimals=_SCORE_DECIMALS)
        else:
            content = prune_tokenizer(whole.to_str(), score, int(size), decimals=_SCORE_DECIMALS)[0]
        tokenizer = _from_json(content)
    else:
        all_texts = [text for texts in sample.texts.values() for text in texts]
        tokenizer = train_tokenizer(all_texts, kind, int(size))  # type: ignore[arg-type]
    table = None
    if vectors:
        table = initial_table(tokenizer, vectors, token_frequencies=frequencies(sample.token_counts(tokenizer)))
    return static_student(tokenizer, sample.teacher.dim, table, seed=recipe.seed)


def open_student(folder: Path, on_cpu: bool) -> Any:
    """A student that was saved here."""
    return open_start(Source(str(folder), ""), on_cpu)


def load_projection(folder: Path) -> NDArray[np.float32] | None:
    """The map from the teacher's space in a student's folder; None if it has none."""
    path = folder / PROJECTION_FILE
    if not path.is_file():
        return None
    from safetensors.numpy import load_file

    stored: NDArray[np.float32] = load_file(path)["projection"]
    return stored


def save_projection(folder: Path, projection: NDArray[np.float32] | None) -> None:
    """Write the map from the teacher's space into a student's folder; None: there is none."""
    if projection is not None:
        from safetensors.numpy import save_file

        save_file({"projection": np.ascontiguousarray(projection)}, folder / PROJECTION_FILE)


def _sampled_rows(size: int, number: int) -> NDArray[np.int64]:
    """At most `number` of `size` row numbers, ascending."""
    if size <= number:
        return np.arange(size, dtype=np.int64)
    return np.sort(np.random.default_rng(_SEED).choice(size, number, replace=False)).astype(np.int64)


def _tokenizer(location: str) -> Any:
    """The `tokenizers.Tokenizer` of a model."""
    from transformers import AutoTokenizer

    def load(source: Source) -> Any:
        tokenizer = AutoTokenizer.from_pretrained(
            source.path, revision=source.revision, local_files_only=source.is_local
        )
        return tokenizer.backend_tokenizer

    return _from_json(open_model(location, None, load)[0].to_str())


def _from_json(content: str) -> Any:
    """A tokenizer without truncation and padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _is_static_folder(location: str) -> bool:
    folder = model_folder(location)
    modules = listed_modules(folder) if folder else None
    return modules[0].kind == "StaticEmbedding" if modules else False


def _static_dim(folder: Path) -> int:
    model, _ = open_model(str(folder), None, lambda source: open_start(source, on_cpu=True))
    return int(model.get_embedding_dimension())


def _label(location: str) -> str:
    """A folder's name and digest; anything else as it is."""
    folder = user_path(location)
    return f"{folder.resolve().name}@sha256:{folder_digest(folder)[:16]}" if folder.is_dir() else location

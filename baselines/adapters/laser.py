"""LASER: one BiLSTM encoder for 93 languages (Artetxe & Schwenk 2019, https://arxiv.org/abs/1812.10464).

Tokenisation, BPE and the encoder are those of the package `laserembeddings` (distribution `laserembeddings-fork`). The
release has three files: BPE codes, BPE vocabulary, checkpoint. LASER tokenises by language, so `lang` matters:

- Greek is romanised; Chinese is segmented by jieba and Japanese by MeCab, packages that must be installed.
- Some 40 languages have rules of their own in the Moses tokeniser, above all abbreviations that keep their full stop.
- Every other language gets Moses' general rules with the English abbreviations, as in LASER's own scripts and published
  scores: "the best available choice" (https://github.com/facebookresearch/LASER/issues/140).

The library takes any string for a language, with the same fallback: it does not segment `zho`. Here a language that has
a code of two letters goes by that or by those of three (ISO 639-2 and 639-3), another by its code in the Tatoeba test
set; what is left is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from baselines.adapters.citations import cited
from baselines.adapters.huggingface import encode_by_length, legal_text, model_folder
from harness.core.errors import InputError, LanguageError, MissingExtraError
from harness.core.escaping import terminal_line
from harness.core.threads import n_threads
from harness.data.catalogue import DataSet, Download
from harness.data.fetch import fetch_set
from harness.data.inventory import PINS_NAME, read_pins
from harness.data.sources import DataDir, content_sha256
from harness.data.tatoeba import languages
from harness.data.transfer import Network, TransferError
from harness.encoders.cache import default_cache_dir
from harness.encoders.info import EncoderInfo, never

CODES, VOCABULARY, CHECKPOINT = "93langs.fcodes", "93langs.fvocab", "bilstm.93langs.2018-12-26.pt"
# Megabytes. The checkpoint's follow from its tensors; those of the text files are estimates.
_MB = {CODES: 1.0, VOCABULARY: 1.0, CHECKPOINT: 210.0}
# No checksums are published: they are pinned at the first download, as those of data sets are.
_RELEASE = DataSet(
    name="laser-93langs",
    title="LASER, 93 languages",
    licence="BSD-3-Clause",
    home="https://github.com/facebookresearch/LASER",
    folder="laser-93langs",
    files=tuple(f"laser-93langs/{name}" for name in _MB),
    checksums={},
    downloads=tuple(
        Download((f"https://dl.fbaipublicfiles.com/laser/models/{name}",), f"laser-93langs/{name}") for name in _MB
    ),
)

MAX_CHARS = 10_000
_MAX_TOKENS = 4000  # of a batch; a token takes about 30 KB while a batch runs
_MAX_WORDS = 500_000  # that the library's BPE remembers, without bound if left alone: about 0.3 KB each
_ISO_639 = Path(__file__).with_name("iso639.txt")
# Moses has rules for these two, which have no code of two letters and are not in the Tatoeba test set. Those languages
# without one that LASER was trained on are all in it.
_MOSES = ("mni", "tdt")


class Laser:
    """Sentences to LASER vectors, 1,024 dimensions for the release; not of unit length.

    An empty text gets the vector of the end-of-sentence token alone; text after the first 10,000 characters is not
    read. On a CPU each core runs its own batches. The vector of a sentence depends on its neighbours in the batch by
    rounding only.
    """

    uses_lang = True
    size_bytes: int | None = None
    """Of the three files that it was loaded from."""

    def __init__(
        self, library: Any, digest: str, *, name: str, lang: str | None, on_cpu: bool, batch_size: int
    ) -> None:
        self.name = name
        self.dim = int(library.bpeSentenceEmbedding.encoder.encoder.output_units)
        self._library = library
        self._lang = None if lang is None else _language(name, lang)
        self._batch_size = batch_size
        self._on_cpu = on_cpu
        parts = [f"laser/sha256:{digest[:16]}", *_versions(name), f"max_chars={MAX_CHARS}"]
        self.fingerprint = ";".join(parts + ([f"lang={self._lang}"] if self._lang else []))

    @property
    def n_parameters(self) -> int:
        """Of the encoder."""
        return sum(parameter.numel() for parameter in self._library.bpeSentenceEmbedding.encoder.encoder.parameters())

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim).

        Raises:
            LanguageError: no language is given, it is none, or the package that tokenises it is not installed.
        """
        from laserembeddings.encoder import buffered_arange

        tokenise, bpe = self._tokeniser(lang), self._library.bpe
        texts = [bpe.encode_tokens(tokenise(legal_text(text[:MAX_CHARS]))) for text in sentences]
        if len(bpe.bpe.cache) > _MAX_WORDS:
            bpe.bpe.cache.clear()
        lengths = [len(text.split()) + 1 for text in texts]  # with the end-of-sentence token
        buffered_arange(max(lengths, default=1))  # shared by all threads, which must not enlarge it at the same time
        return encode_by_length(
            texts,
            lengths,
            self._encode_batch,
            dim=self.dim,
            batch_size=self._batch_size,
            workers=n_threads() if self._on_cpu else 0,
        )

    def _encode_batch(self, texts: list[str]) -> np.ndarray:
        import torch

        with torch.inference_mode():  # the library alone keeps what gradients would need, gigabytes of it
            vectors: np.ndarray = self._library.bpeSentenceEmbedding.embed_bpe_sentences(texts)
        return vectors

    def _tokeniser(self, lang: str | None) -> Callable[[str], str]:
        from laserembeddings.preprocessing import Tokenizer

        lang = self._lang if lang is None else _language(self.name, lang)
        if lang is None:
            raise LanguageError(f"{self.name}: LASER tokenises by language and none is given; add the option lang=CODE")
        try:
            tokenise: Callable[[str], str] = Tokenizer(lang).tokenize
        except ModuleNotFoundError:
            package, extra = ("MeCab", "ja") if lang == "ja" else ("jieba", "zh")
            raise LanguageError(
                f"{self.name}: LASER tokenises {lang!r} with {package}, which is not installed: "
                f'pip install "laserembeddings-fork[{extra}]"'
            ) from None
        return tokenise


def _language(name: str, lang: str) -> str:
    """`lang` as ISO 639-1 where one exists: the library romanises `el`, not `ell`.

    Raises:
        LanguageError: it is no language, or none of those that have a code here.
    """
    known = _known_languages().get(lang)
    if known is None:
        raise LanguageError(
            f"{name}: {lang!r} is no language that LASER's tokeniser knows; give its ISO 639-1 code (el, ja), or for a "
            "language that has none its code in the Tatoeba test set, else the code of one that is written alike"
        )
    return known


@cache
def _known_languages() -> dict[str, str]:
    """What the library is told, by the codes that are accepted."""
    known = {code: language.lang for code, language in languages().items()} | {code: code for code in _MOSES}
    for line in _ISO_639.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            known |= dict.fromkeys(line.split(), line.split()[0])
    return known


def _versions(name: str) -> list[str]:
    """The versions on which the tokens depend; the library's own pins those of jieba and MeCab's dictionary."""
    try:
        return [f"{package}={version(package)}" for package in ("laserembeddings-fork", "sacremoses", "subword-nmt")]
    except PackageNotFoundError:  # another distribution of the library
        raise MissingExtraError(f"encoder {name!r}", "laser") from None


def load(
    location: str = "",
    /,
    *,
    name: str = "laser",
    lang: str | None = None,
    device: Literal["cpu", "cuda"] | None = None,
    batch_size: int = 64,
) -> Laser:
    """Load LASER.

    Args:
        location: a folder with the three files; "": the release, which is fetched if it is not there.
        name: under which results are stored.
        lang: the language of sentences for which none is given (ISO 639-1 where one exists).
        device: a GPU by default where PyTorch has one.
        batch_size: sentences that run at a time (per core on a CPU), 4,000 tokens at most.

    Raises:
        InputError: a file that is missing, damaged or no LASER file; an option that does not fit.
        MissingExtraError: the library is not the one that is needed.
    """
    import torch

    if batch_size < 1:
        raise InputError(f"{name}: batch_size must be at least 1, not {batch_size}")
    if device not in (None, "cpu", "cuda"):  # `--device` of a run may name one for other encoders
        raise InputError(f"{name}: device is cpu or cuda, not {device!r}; CUDA_VISIBLE_DEVICES chooses among GPUs")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(f"{name}: PyTorch has no GPU here; leave device=cuda out")
    on_cpu = device == "cpu" or not torch.cuda.is_available()
    folder = model_folder(location) if location else fetch()
    if folder is None:
        raise InputError(f"no LASER folder {location!r}: it holds {', '.join(_MB)}")
    for file in _MB:
        if not (folder / file).is_file():
            raise InputError(f"{folder / file} is missing; LASER needs {', '.join(_MB)} in one folder")
    library = _open(folder, on_cpu)
    digests = "".join(content_sha256(folder / file) for file in _MB)
    digest = hashlib.sha256(digests.encode()).hexdigest()
    encoder = Laser(library, digest, name=name, lang=lang, on_cpu=on_cpu, batch_size=batch_size)
    encoder.size_bytes = sum((folder / file).stat().st_size for file in _MB)
    return encoder


def _open(folder: Path, on_cpu: bool) -> Any:
    """The library's `Laser`. Each file is checked first: the library ends the process on some that are not right."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pkg_resources is deprecated")  # jieba imports it
        from laserembeddings import Laser as Library

    _check_lines(folder / CODES, r"[^ ]+ [^ ]+( \d+)?", "BPE codes: two subwords and a count")
    _check_lines(folder / VOCABULARY, r"[^ ]+ \d+", "a BPE vocabulary: a subword and a count")
    _check_checkpoint(folder / CHECKPOINT)
    options = {"max_tokens": _MAX_TOKENS, "stable": True, "cpu": on_cpu}
    try:
        codes, vocabulary, checkpoint = (str(folder / file) for file in (CODES, VOCABULARY, CHECKPOINT))
        return Library(codes, vocabulary, checkpoint, embedding_options=options)
    except (TypeError, KeyError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(":")
        raise InputError(f"{folder / CHECKPOINT}: not the weights of LASER's encoder ({reason})") from error


def _check_lines(path: Path, pattern: str, form: str) -> None:
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}); delete it, then copy or fetch it again") from None
    is_line = re.compile(pattern).fullmatch
    for number, line in enumerate(lines, start=1):
        if not is_line(line) and not (number == 1 and line.startswith("#version")):
            raise InputError(
                f"{path}:{number}: {line[:40]!r} is no line of {form}; delete the file, then copy or fetch it again"
            )


def _check_checkpoint(path: Path) -> None:
    """Raises InputError unless the file is a dictionary of tensors and plain values of the form that LASER's have.

    The library reads the file a second time, in PyTorch's default way, which is `weights_only` too from 2.6 on.
    """
    import torch

    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch's readers raise RuntimeError, UnpicklingError, EOFError, ValueError, ...
        raise InputError(
            f"{path} is damaged, or is no checkpoint of tensors and plain values alone ({type(error).__name__}); "
            "delete it, then copy or fetch it again"
        ) from error
    keys = ("params", "model", "dictionary")
    if not isinstance(checkpoint, dict) or not all(isinstance(checkpoint.get(key), dict) for key in keys):
        raise InputError(f"{path} is no LASER checkpoint: it must hold the dictionaries {', '.join(keys)}")
    size, numbers = checkpoint["params"].get("num_embeddings"), checkpoint["dictionary"].values()
    if not isinstance(size, int) or not all(isinstance(number, int) and 0 <= number < size for number in numbers):
        raise InputError(f"{path} is no LASER checkpoint: its dictionary numbers subwords that have no embedding")


def release_folder() -> Path:
    """Where the release is, or will be: `models/laser-93langs` of the cache."""
    return default_cache_dir() / "models" / _RELEASE.folder


def missing_mb(location: str | None) -> float:
    """Megabytes to download before the release can be used; a folder of the user's own has nothing to download."""
    folder = release_folder()
    return sum(mb for name, mb in _MB.items() if not (folder / name).is_file()) if not location else 0.0


def fetch() -> Path:
    """The release's folder; what is missing in it or damaged is downloaded (from `$HARNESS_MIRROR` where that is set).

    Raises:
        InputError: a file cannot be downloaded, or differs from what was downloaded first.
    """
    folder = release_folder()
    data = DataDir(folder.parent)
    try:
        _delete_damaged(data)
        mb = missing_mb(None)
        if mb == 0:
            return folder
        print(f"downloading {mb:.0f} MB for {_RELEASE.name}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        fetch_set(_RELEASE, data, Network(mirror=os.environ.get("HARNESS_MIRROR")))
    except OSError as error:
        raise InputError(f"model folder {folder} cannot be written ({error.strerror}); set HARNESS_CACHE") from None
    except InputError as error:
        if not isinstance(error.__context__, TransferError):
            raise
        addresses = " ".join(url for download in _RELEASE.downloads for url in download.urls)
        pins = data.root / PINS_NAME
        checked = f" (they are held against {pins})" if pins.is_file() else ""
        raise InputError(
            f"{_RELEASE.name} was not fetched ({error.__context__}): download {addresses} by other means into "
            f"{folder}{checked}, or set HARNESS_MIRROR"
        ) from None
    return folder


def _delete_damaged(data: DataDir) -> None:
    """Delete the files that are not what was downloaded, by the checksums pinned then."""
    for name, digest in read_pins(data).items():
        path = data.root / name
        if name in _RELEASE.files and path.is_file() and content_sha256(path) != digest:
            message = f"{path} is damaged (its sha256 differs from the pinned one): deleted"
            print(terminal_line(message), file=sys.stderr)
            path.unlink()


laser = EncoderInfo(
    factory=load,
    description="LASER (BiLSTM of Artetxe & Schwenk 2019), 93 languages: the release, or a folder of its files",
    backend="laserembeddings",
    location="",
    is_kind=True,
    location_form="DIR",
    cite=cited("artetxe-schwenk-2019-massively"),
    dim=1024,
    licence="BSD-3-Clause",
    extra="laser",
    modules=("laserembeddings",),
    missing_mb=missing_mb,
    fetch=fetch,
    runs_code=never,
)

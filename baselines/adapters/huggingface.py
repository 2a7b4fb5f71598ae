"""What adapters share: where a model is, what identifies it, how it is loaded, and how PyTorch runs it in batches.

Only safetensors and `weights_only` checkpoints are read, and no code of a model runs unless the user says so.

Each CPU core runs its own batches with one PyTorch thread. PyTorch's own way (all cores on one batch) meets at a
barrier after every operation: on two cores it is 0.7 times as fast on an idle machine and 0.2 times on a busy one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import HarnessError, InputError
from harness.core.files import joint_digest, user_path

Precision = Literal["fp32", "bf16", "fp16"]
T = TypeVar("T")

_WEIGHTS = ("*.safetensors", "*.bin")
# Other backends' copies of the weights, and files that no loader reads.
_UNREAD_FOLDERS = {"onnx", "openvino", "coreml"}
_UNREAD_SUFFIXES = {".md", ".h5", ".msgpack", ".onnx", ".ot", ".png", ".svg"}
_PROBE_SECONDS = 10.0
_TOKENIZE_AT_ONCE = 4096
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Source:
    """A model that was found.

    Attributes:
        path: what the libraries take: a folder, or a hub id.
        identity: equal identities promise equal weights: `HUB_ID@COMMIT`, or `sha256:` and 16 digits of a folder's
            content. No machine path.
        revision: the commit, for a hub id.
        is_local: whether nothing needs to be downloaded.
    """

    path: str
    identity: str
    revision: str | None = None
    is_local: bool = True

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the files that are read to open it; None where they are not in the usual place of a download."""
        folder = Path(self.path) if self.revision is None else cached_snapshot(self.path, self.revision)
        return folder_bytes(folder) if folder else None


def open_model(location: str, revision: str | None, load: Callable[[Source], T]) -> tuple[T, Source]:
    """Load the model at `location`, a folder or a hub id, with `load`; from the hub's local cache where it is there.

    Raises:
        InputError: no such folder or model, a hub that cannot be reached, a folder that is no model of this kind.
    """
    if folder := model_folder(location):
        if revision:
            raise InputError(f"{location!r} is a folder: `revision` is for models of a hub")
        source = Source(str(folder), f"sha256:{folder_digest(folder)[:16]}")
        return _load(location, source, load), source
    if location.startswith((".", "~")) or location.count("/") > 1 or Path(location).is_absolute():
        raise InputError(f"no model folder {location!r}")
    cached = cached_snapshot(location, revision)
    failed: InputError | None = None
    if cached:
        source = Source(location, f"{location}@{cached.name}", cached.name)
        try:
            return _load(location, source, load), source
        except InputError as error:  # perhaps a download that was cut off, which the hub could complete
            failed = error
    try:
        commit = _commit(location, revision)
    except InputError:
        if failed is not None:  # the hub is no help: what went wrong here is what the user can mend
            raise failed from None
        raise
    source = Source(location, f"{location}@{commit}", commit, is_local=False)
    return _load(location, source, load), source


def model_folder(location: str) -> Path | None:
    """The folder at `location`, if there is one."""
    try:
        folder = user_path(location)
        return folder if folder.is_dir() else None
    except (OSError, InputError, ValueError):  # too long for a path, `~` of an unknown user, a NUL
        return None


def refuse_folder(hub_id: str) -> None:
    """Raise InputError if a folder has the name of a hub's model: the libraries would open it in the model's place."""
    if model_folder(hub_id):
        raise InputError(f"the folder {hub_id} here has the name of the hub's model; move it, or use KIND:./{hub_id}")


def folder_digest(folder: Path) -> str:
    """SHA-256, in hexadecimal, over the names and contents of the files of a model folder, sorted by name.

    Files that no loader reads (hidden ones, Markdown, weights of other backends) do not count. Raises InputError if one
    cannot be read.
    """
    try:
        return joint_digest(folder, (path for path in _files_of(folder) if _is_read(path.relative_to(folder))))
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from None


def folder_bytes(folder: Path) -> int:
    """The size of a model folder's files, those aside that do not count in `folder_digest`.

    Where weights are there as safetensors, a second copy in PyTorch's form (`pytorch_model.bin`) is not read.
    """
    files = [path for path in _files_of(folder) if _is_read(path.relative_to(folder))]
    with_safetensors = {path.parent for path in files if path.suffix == ".safetensors"}
    read = (path for path in files if not (path.suffix == ".bin" and path.parent in with_safetensors))
    return sum(path.stat().st_size for path in read)


def _is_read(path: Path) -> bool:
    is_hidden = any(part.startswith(".") or part in _UNREAD_FOLDERS for part in path.parts)
    return path.suffix not in _UNREAD_SUFFIXES and not is_hidden


def _files_of(folder: Path) -> Iterator[Path]:
    """All files below a folder, those behind links to folders included: a loader reads them too."""
    seen: set[Path] = set()
    for root, folders, files in os.walk(folder, followlinks=True):
        if Path(root).resolve() in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(Path(root).resolve())
        yield from (path for path in (Path(root, name) for name in files) if path.is_file())


def cached_snapshot(hub_id: str, revision: str | None = None) -> Path | None:
    """The folder of a hub's model in the local cache, if its configuration and weights are there."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        paths = [try_to_load_from_cache(hub_id, name, revision=revision) for name in ("modules.json", "config.json")]
    except HFValidationError:
        raise InputError(f"{hub_id!r} is neither a folder nor the id of a model on the hub") from None
    for path in paths:
        if isinstance(path, str):
            folder = Path(path).parent
            if any(True for pattern in _WEIGHTS for _ in folder.rglob(pattern)):
                return folder
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses transformers' progress bars and reports of unused weights while a model is loaded."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def environment_variable(name: str, value: str) -> Iterator[None]:
    """Sets a variable of the environment, which a library reads, for the time of a `with` block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def torch_dtype(precision: Precision) -> Any:
    """The PyTorch type of a precision."""
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def _load(location: str, source: Source, load: Callable[[Source], T]) -> T:
    try:
        # PyTorch reads nothing but weights, whatever a model's own settings say (`"weights_only": false`).
        with quiet(), environment_variable("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1"):
            return load(source)
    except HarnessError:
        raise
    except Exception as error:  # the libraries raise OSError, ValueError, KeyError, ... on a folder they cannot read
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"cannot load the model {location!r}: {lines[0]}") from error


def _commit(hub_id: str, revision: str | None) -> str:
    """The commit of a hub's model. It is asked for once: the libraries would try for a minute before they give up."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    remedy = "copy its folder here and use KIND:FOLDER"
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise InputError(f"model {hub_id!r} is not in the local cache and HF_HUB_OFFLINE is set; unset it, or {remedy}")
    try:
        commit = HfApi().model_info(hub_id, revision=revision, timeout=_PROBE_SECONDS).sha
    except RevisionNotFoundError:
        raise InputError(f"model {hub_id!r} has no revision {revision!r}") from None
    except RepositoryNotFoundError:
        raise InputError(f"the hub has no model {hub_id!r} (or it is private: log in first)") from None
    except Exception as error:  # whatever the network layer raises
        raise InputError(
            f"model {hub_id!r} is not in the local cache and the hub cannot be reached ({type(error).__name__}); "
            f"go online, or {remedy}"
        ) from error
    return str(commit)


def encode_by_length(
    sentences: Sequence[T],
    lengths: Sequence[int],
    encode_batch: Callable[[list[T]], NDArray[np.float32]],
    *,
    dim: int,
    batch_size: int,
    workers: int,
) -> NDArray[np.float32]:
    """The vectors of `sentences`, texts or what they were made into, shape (n, dim), row i for sentence i.

    Batches hold at most `batch_size` sentences of similar length and go longest first: too long a batch fails at
    once, and the last batches are small, so that no worker waits long. `encode_batch` is called from `workers`
    threads, with one PyTorch thread each where PyTorch is in use; from this thread, with PyTorch's settings as they
    are, where workers is 0.
    """
    vectors = np.empty((len(sentences), dim), dtype=np.float32)
    order = sorted(range(len(sentences)), key=lambda i: (-lengths[i], i))
    batch_size = min(batch_size, -(-len(order) // max(workers, 1))) or 1
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def fill(rows: list[int]) -> None:
        vectors[rows] = encode_batch([sentences[row] for row in rows])

    if workers == 0:
        for rows in batches:
            fill(rows)
    elif batches:
        with _one_torch_thread() as setup, ThreadPoolExecutor(workers, initializer=setup) as pool:
            try:
                for _ in pool.map(fill, batches):
                    pass
            except BaseException:
                pool.shutdown(cancel_futures=True)  # else the other batches run to the end before the error shows
                raise
    return vectors


def token_lengths(tokenizer: Any, sentences: Sequence[str], max_length: int | None) -> list[int]:
    """The number of tokens of each sentence, at most `max_length`; its characters if `tokenizer` cannot be called."""
    if not callable(tokenizer):
        return [len(text) for text in sentences]
    lengths: list[int] = []
    for start in range(0, len(sentences), _TOKENIZE_AT_ONCE):
        block = list(sentences[start : start + _TOKENIZE_AT_ONCE])
        # Without `verbose=False` it warns of texts that are too long for the model; they are cut later.
        tokens = tokenizer(block, return_attention_mask=False, verbose=False)["input_ids"]
        lengths += [min(len(ids), max_length or len(ids)) for ids in tokens]
    return lengths


def legal_text(text: str) -> str:
    """`text` without lone surrogates, which no tokenizer takes."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


@contextmanager
def _one_torch_thread() -> Iterator[Callable[[], None]]:
    """Sets PyTorch to one thread, and back at the end; yields a function that new threads must call."""
    torch = sys.modules.get("torch")
    if torch is None:  # another library runs the model, and need not wait for PyTorch
        yield lambda: None
        return
    before = torch.get_num_threads()

    def setup() -> None:
        torch.set_num_threads(1)  # the setting belongs to the thread that calls it

    setup()
    try:
        yield setup
    finally:
        torch.set_num_threads(before)

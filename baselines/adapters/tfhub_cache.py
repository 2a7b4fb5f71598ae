"""Where SavedModels are: folders, and handles of TensorFlow Hub, which its library fetches into a cache.

The library fetches handles of tfhub.dev (which leads to Kaggle Models) and of Kaggle Models into `$TFHUB_CACHE_DIR`,
here by default `models/tfhub` of the harness's cache: the library's own default is a temporary folder, where others may
put a model first. The checksum of what is fetched is pinned beside its folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from baselines.adapters.huggingface import environment_variable, model_folder
from harness.core.errors import InputError, one_line
from harness.core.files import joint_digest, write_atomically
from harness.encoders.cache import default_cache_dir

_MODEL_FILE = "saved_model.pb"
_LOG_LEVEL = "3"  # fatal errors only
_CACHE_VARIABLE = "TFHUB_CACHE_DIR"
_NETWORK_SECONDS = 20.0


def _digest(folder: Path) -> str:
    """SHA-256, in hexadecimal, over the names and contents of the files that make up a SavedModel."""
    paths = [folder / _MODEL_FILE, *folder.glob("variables/**/*"), *folder.glob("assets/**/*")]
    return joint_digest(folder, filter(Path.is_file, paths))


def find(location: str) -> tuple[Path, str]:
    """The folder of a SavedModel and its digest; a handle's is fetched if it is not in the cache.

    Raises:
        InputError: neither a folder with a SavedModel nor a handle, or it cannot be fetched, or its digest is not the
            one that was pinned when it was fetched.
    """
    folder = local_folder(location)
    if folder is not None:
        if not _is_saved_model(folder):
            raise InputError(f"{location!r} is no SavedModel: the folder has no {_MODEL_FILE}")
        return folder, _digest(folder)
    handle = handle_of(location)
    folder = cached_model(handle)
    if folder is None:
        return _fetch(handle)
    digest = _digest(folder)
    if not _is_pinned(folder, digest):
        raise InputError(f"{folder} is not what {handle} gave ({_pin(folder)} differs); delete it and fetch it again")
    return folder, digest


def local_folder(location: str) -> Path | None:
    """The folder at a location, if there is one; an address is never the name of a folder."""
    return None if re.match("https?:", location) else model_folder(location)


def handle_of(location: str) -> str:
    """The address of a hub's model, of which tfhub.dev may be left out. Raises InputError for other text."""
    if re.match("https?://", location):
        return location.rstrip("/")
    if re.fullmatch(r"\w[\w.-]*(/[\w.-]+)+/\d+", location):
        return f"https://tfhub.dev/{location}"
    raise InputError(f"{location!r} is neither a folder nor a handle such as google/LaBSE/2")


def cached_model(handle: str) -> Path | None:
    """The folder of a model in the cache, if it is there."""
    folder = _cache_folder(handle)
    return folder if _is_saved_model(folder) else None


def _is_saved_model(folder: Path) -> bool:
    return (folder / _MODEL_FILE).is_file()


def _cache_folder(handle: str) -> Path:
    """The folder in which the library keeps a model (https://www.tensorflow.org/hub/caching)."""
    cache = os.environ.get(_CACHE_VARIABLE) or default_cache_dir() / "models" / "tfhub"
    return Path(cache, hashlib.sha1(handle.encode()).hexdigest())


def _pin(folder: Path) -> Path:
    """The file with the digest of a model as it was first fetched."""
    return folder.with_name(f"{folder.name}.sha256")


def _is_pinned(folder: Path, digest: str) -> bool:
    """Whether this is the digest pinned for a folder. True without a pin: a user has put the model there."""
    pin = _pin(folder)
    return not pin.is_file() or pin.read_bytes().split()[:1] == [digest.encode()]


def _fetch(handle: str) -> tuple[Path, str]:
    """Fetches a model into the cache with the library, and pins its digest the first time.

    Returns the folder and the digest. A download that fails leaves nothing in the cache, and so does one that gives
    another model than the first time.
    """
    with quiet():
        import tensorflow_hub as hub

    folder = _cache_folder(handle)
    if folder.is_dir() and any(folder.iterdir()):  # the library would take it as it is
        raise InputError(
            f"{folder}, where {handle} belongs, has no {_MODEL_FILE}; delete it, or unpack the model into it"
        )
    print(f"downloading {handle}", file=sys.stderr)
    try:
        with environment_variable(_CACHE_VARIABLE, str(folder.parent)), _network_limit():
            hub.resolve(handle)
        if not _is_saved_model(folder):
            raise InputError(f"what came has no {_MODEL_FILE}")
        digest = _digest(folder)
        if not _pin(folder).is_file():
            write_atomically(_pin(folder), f"{digest}  {handle}\n".encode())
    except Exception as error:  # the network's, the archive's, TensorFlow's
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(
            f"cannot fetch {handle} ({one_line(error)}); download {handle}?tf-hub-format=compressed elsewhere and "
            f"unpack it into {folder}, or into any folder and use tfhub:FOLDER"
        ) from error
    if not _is_pinned(folder, digest):
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{handle} gave another model than the first time; to take it, delete {_pin(folder)}")
    return folder, digest


@contextmanager
def _network_limit() -> Iterator[None]:
    """A time limit on the network: the library sets none and would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_NETWORK_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses what TensorFlow writes to stderr when it starts and loads, some of it whatever the log level.

    A user who has set TF_CPP_MIN_LOG_LEVEL to another level than that gets it.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", _LOG_LEVEL) != _LOG_LEVEL:
        yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)

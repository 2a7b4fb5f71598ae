"""A content-addressed cache of sentence vectors on disk.

A vector's key is a hash of the sentence and, where the encoder uses it, the language. Each encoder fingerprint has a
folder of its own, with files that `harness.encoders.shards` writes and reads.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path

from harness.core import files
from harness.core.errors import InputError
from harness.core.escaping import terminal_line
from harness.encoders.encoder import Encoder
from harness.encoders.shards import ENDING, encoder_of
from harness.encoders.variant import Variant, full_of
from harness.encoders.vectors import Elsewhere, EncoderVectors, VariantVectors, bytes_of, claim


def default_cache_dir() -> Path:
    """`$HARNESS_CACHE`, else the user's cache folder. Raises InputError as `cache_folder`."""
    from platformdirs import user_cache_path

    return cache_folder(os.environ.get("HARNESS_CACHE") or user_cache_path("multilingual-embedding-harness"))


def cache_folder(given: str | Path) -> Path:
    """A cache folder as a user has named it, `~` expanded; it need not be there.

    Raises:
        InputError: there can be no such folder: an unknown user's, a name that is too long.
    """
    try:
        folder = files.user_path(given, "cache folder")
        with suppress(FileNotFoundError, NotADirectoryError):  # said where something is to be written
            folder.stat()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"cache folder {given} cannot be used ({reason}); set HARNESS_CACHE or give --cache-dir"
        ) from None
    return folder


def default_max_bytes() -> int:
    """`$HARNESS_CACHE_GB` in bytes, else 20 GB. Raises InputError if it is no number, or a negative one."""
    text = os.environ.get("HARNESS_CACHE_GB") or "20"
    try:
        n_bytes = float(text) * 1e9 if text.isascii() else -1.0
    except ValueError:
        n_bytes = -1.0
    if not (n_bytes >= 0 and isfinite(n_bytes)):
        raise InputError(f"HARNESS_CACHE_GB is a number of gigabytes, 0 or more, not {text!r}")
    return int(n_bytes)


class VectorCache:
    """The vectors of every encoder below one folder.

    When an encoder is opened, and while vectors are added, those of other encoders are deleted, the least recently used
    first, until at most `max_bytes` are left; but none that this or another process has open. Where that leaves more,
    a warning says so once.

    elsewhere: who encodes what is missing; by default this process.
    """

    def __init__(
        self, root: str | Path | None = None, max_bytes: int | None = None, elsewhere: Elsewhere | None = None
    ):
        self.root = (cache_folder(root) if root is not None else default_cache_dir()) / "vectors"
        self.max_bytes = default_max_bytes() if max_bytes is None else max_bytes
        self._elsewhere = elsewhere
        self._n_bytes = self._recount_above = 0  # in the cache, as far as is known; more than which are counted again
        self._has_warned = False

    def of(self, encoder: Encoder) -> EncoderVectors:
        """The cache of one encoder. It is not deleted as long as the returned object is in use.

        Of cut or quantised vectors it is that of the full ones.
        """
        if isinstance(encoder, Variant):
            return VariantVectors(*self._opened(encoder.base), self._elsewhere, encoder)
        return EncoderVectors(*self._opened(encoder), self._elsewhere)

    def _opened(self, encoder: Encoder) -> tuple[files.Claim, Encoder, Callable[[int], None]]:
        folder = self._folder(encoder)
        claimed = claim(folder)
        self._make_room(folder)
        return claimed, encoder, partial(self._grown, folder)

    def has(self, encoder: Encoder) -> bool:
        """Whether there is a folder for this encoder."""
        return self._folder(encoder).is_dir()

    def fingerprints(self) -> list[str]:
        """Those of the encoders whose vectors are here, the latest last."""
        found = (next(filter(None, map(encoder_of, files.listed(folder, ENDING))), None) for folder in self._folders())
        return [fingerprint for _, fingerprint in filter(None, found)]

    def size(self) -> dict[str, int]:
        """Bytes in the cache by encoder (its name and fingerprint)."""
        sizes: dict[str, int] = {}
        for folder in self._folders():
            shards = files.listed(folder, ENDING)
            if shards:
                encoder = " ".join(next(filter(None, map(encoder_of, shards)), ("?",)))
                sizes[encoder] = sizes.get(encoder, 0) + sum(map(bytes_of, shards))
        return sizes

    def clear(self) -> int:
        """Delete all vectors; returns the number of bytes freed."""
        freed = sum(_bytes_in(folder) for folder in self._folders())
        shutil.rmtree(self.root, ignore_errors=True)
        return freed

    def _folder(self, encoder: Encoder) -> Path:
        encoder = full_of(encoder)
        try:
            digest = blake2b(encoder.fingerprint.encode(), digest_size=16).hexdigest()
        except UnicodeEncodeError:
            raise InputError(
                f"encoder {encoder.name!r}: its fingerprint {encoder.fingerprint!r} holds half of a surrogate pair"
            ) from None
        return self.root / digest

    def _folders(self) -> list[Path]:
        """The encoders' folders, the least recently used first."""
        return sorted((path for path in files.listed(self.root) if path.is_dir()), key=_last_used)

    def _grown(self, folder: Path, n_bytes: int) -> None:
        """Count `n_bytes` that were added to an encoder's folder."""
        self._n_bytes += n_bytes
        if self._n_bytes > self._recount_above:
            self._make_room(folder)

    def _make_room(self, keep: Path) -> None:
        sizes = {}
        for folder in self._folders():
            with suppress(OSError):  # another user's
                files.remove_abandoned(files.listed(folder, files.SUFFIX))
            sizes[folder] = _bytes_in(folder)
        self._n_bytes = sum(sizes.values())
        for folder, size in sizes.items():
            if self._n_bytes > self.max_bytes and folder != keep and files.remove_unclaimed(folder):
                self._n_bytes -= size
        is_too_large = self._n_bytes > self.max_bytes
        # Other processes add too; but to count all files after every chunk would take quadratic time.
        later = self._n_bytes + max(self._n_bytes, self.max_bytes) // 10
        self._recount_above = later if is_too_large else min(later, self.max_bytes)
        if is_too_large and not self._has_warned:
            self._has_warned = True
            warning = (
                f"warning: the vectors in {self.root} take {_mb(self._n_bytes)}, more than the limit of "
                f"{_mb(self.max_bytes)}, and those that are left are in use; set HARNESS_CACHE_GB higher, or free the "
                "space afterwards: leaderboard cache clear"
            )
            print(terminal_line(warning), file=sys.stderr)


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"


# Other processes may delete what has just been listed.


def _last_used(folder: Path) -> float:
    with suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


def _bytes_in(folder: Path) -> int:
    with suppress(OSError):
        return sum(bytes_of(path) for path in folder.iterdir())
    return 0

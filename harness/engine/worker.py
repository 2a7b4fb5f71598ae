"""What a process of an engine does: it makes itself like the process that sent it work, and tells what was raised."""

from __future__ import annotations

import builtins
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core import errors
from harness.core.errors import HarnessError
from harness.core.threads import n_threads, using_threads
from harness.engine.engine import LoadError

_KNOWN = {error.__name__: error for error in (errors.InputError, errors.EncoderError, errors.VectorError)}
_KNOWN |= {"LanguageError": errors.LanguageError, "LoadError": LoadError}
_SENT = (  # a list, since any other name may be that of a secret
    "HARNESS_CACHE", "HARNESS_CACHE_GB", "HARNESS_DATA", "HARNESS_DEBUG", "HARNESS_MIRROR", "HARNESS_RESULTS",
    "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
)  # fmt: skip
_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>

_ours = ExitStack()  # what this process has taken over
_taken_over: Setting | None = None


@dataclass(frozen=True)
class Setting:
    """What work depends on in the process that sends it.

    Attributes:
        folder: the current one, to which relative paths and the user's own modules belong.
        path: where modules are looked for, beside those of the installation.
        threads: for encoding, BLAS, OpenMP and PyTorch.
        variables: of the environment, which say where caches are and the like; secrets stay where they are.
    """

    folder: str
    path: tuple[str, ...]
    threads: int
    variables: tuple[tuple[str, str], ...] = ()

    @classmethod
    def here(cls, *, hides_gpus: bool = False) -> Setting:
        """That of this process. With `hides_gpus` the work finds no GPU."""
        found = [(name, os.environ[name]) for name in _SENT if name in os.environ]
        variables = [(name, value) for name, value in found if not _has_password(value)]
        variables += [("CUDA_VISIBLE_DEVICES", "")] if hides_gpus else []
        return cls(os.getcwd(), tuple(sys.path), n_threads(), tuple(variables))  # noqa: PTH109


@dataclass(frozen=True)
class Told:
    """An exception on its way from one process to another: its type's name and its message."""

    kind: str
    message: str
    is_ours: bool

    @classmethod
    def of(cls, error: BaseException) -> Told:
        """What there is to tell of an error."""
        return cls(type(error).__name__, str(error), isinstance(error, HarnessError))

    def error(self) -> Exception:
        """An error of the same type where it is one of Python's or the harness's; else of one with the same name."""
        if self.is_ours:
            return _KNOWN.get(self.kind, HarnessError)(self.message)
        kind = getattr(builtins, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            with suppress(TypeError):  # UnicodeDecodeError, say, takes more than a message
                return kind(self.message)
        made: Exception = type(self.kind, (Exception,), {})(self.message)
        return made


def _has_password(value: str) -> bool:
    return "://" in value and "@" in value


def attempt(function: Callable[[Any], Any], piece: Any, setting: Setting) -> tuple[Any, Told | None]:
    """What a function returns for a piece, or what there is to tell of what it raises; in a worker."""
    try:
        _take_over(setting)
        return function(piece), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # by sys.exit too: another piece may go well
        return None, Told.of(error)


def _take_over(setting: Setting) -> None:
    global _taken_over
    if setting == _taken_over:
        return
    _ours.close()
    _end_with_parent()
    with suppress(OSError):  # on a machine that does not have it
        os.chdir(setting.folder)
    sys.path += [folder for folder in setting.path if folder not in sys.path]
    os.environ.update(setting.variables)
    _ours.enter_context(using_threads(setting.threads))
    _taken_over = setting


def _end_with_parent() -> None:
    """Have the kernel (Linux) end this process with its parent, the node's daemon, whatever it is doing then.

    It may be in compiled code that holds Python's lock for hours, and would notice nothing.
    """
    if sys.platform == "linux" and _name_of(os.getppid()) == "raylet":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _name_of(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    return ""

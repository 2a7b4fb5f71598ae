"""What the harness knows of an encoder before it is loaded, and what it needs to run on this machine."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from numbers import Real
from typing import Any

from harness.core.errors import InputError, MissingExtraError, one_line
from harness.encoders.containment import contained

_CPU_FIRST = " (for a CPU, PyTorch's build for it first: https://pytorch.org/get-started/locally)"

RunsCode = Callable[["str | None", Mapping[str, str]], bool]
"""Of a location and options, as a spec string has them: whether opening it runs code that they choose, or sends texts
to an address that they choose."""


def always(location: str | None, options: Mapping[str, str]) -> bool:
    """For a kind that runs code of whoever wrote the spec string, or sends texts where it says; and for one that nobody
    has examined."""
    return True


def never(location: str | None, options: Mapping[str, str]) -> bool:
    """For a kind that reads weights and settings, and nothing else."""
    return False


@dataclass(frozen=True)
class EncoderInfo:
    """What the harness knows of an alias or kind before it is loaded.

    Attributes:
        factory: called with the location first, if there is one, and the options of the spec string as keywords,
            converted to the annotated types (str, int, float, bool, Literal, each possibly `| None`; without an
            annotation, the type of the default). An option that falls to `**options` stays a string.
        location: what an alias opens (a hub id, say). A kind takes it from the spec string; one that has a location
            here is an alias too.
        is_kind: whether a spec string names the location (`KIND:LOCATION`).
        location_form: how a kind's location is written, for help texts (`DIR`, `package.module:factory`).
        options: an alias's own options; those of the spec string override them.
        dim: length of a vector, where it is known beforehand.
        licence: of the weights, as an SPDX identifier where there is one.
        cite: BibTeX entries of what is to be cited for it.
        languages: that the model was made for, ISO 639 codes; None: not known, or any. By default those of the
            package's file (see `harness.encoders.made_for`), which tables read without loading anything.
        backend: the library that runs the model.
        modules: the modules whose presence tells that the backend is installed. The message for those that are absent
            is `pip install` with their names, so choose some whose distributions are named alike.
        extra: the extra of *this* distribution that installs them (the message is then `pip install
            "multilingual-embedding-harness[EXTRA]"`); other packages leave it None.
        missing_mb: called with the location, tells how many megabytes must be downloaded before the first use
            (0: it is all here).
        fetch: downloads what the encoder needs, on request (`leaderboard encoders --fetch ALIAS`).
        runs_code: whether opening it runs code that the location or the options choose (`never`, or a function of
            both). To send texts, and perhaps a key, to an address of their choosing counts as yes, too. What only a
            record names is opened where this says no; by default it says yes. `trust_remote_code=true` counts as yes
            for every kind.
        recipe: for a model that no download brings, tells the command that makes it (None: it has been made here).
        description: one line for `leaderboard encoders`.
    """

    factory: Callable[..., Any]
    description: str
    backend: str
    location: str | None = None
    is_kind: bool = False
    location_form: str = "LOCATION"
    options: Mapping[str, str] = field(default_factory=dict)
    dim: int | None = None
    licence: str | None = None
    languages: tuple[str, ...] | None = None
    cite: tuple[str, ...] = ()
    extra: str | None = None
    modules: tuple[str, ...] = ()
    missing_mb: Callable[[str | None], float] | None = None
    fetch: Callable[[], object] | None = None
    recipe: Callable[[], str | None] | None = None
    runs_code: RunsCode = always

    def factory_at(self, location: str | None) -> Callable[..., Any]:
        """The function that takes the options. A subclass overrides this where the options depend on the location."""
        return self.factory if location is None else partial(self.factory, location)

    @property
    def is_installed(self) -> bool:
        """Whether the packages that it needs are here; imports none of them."""
        return all(map(_is_module, self.modules))

    @property
    def install_command(self) -> str:
        """The command that installs what is missing: the extra, else packages named like the absent modules."""
        if self.extra:
            return f'pip install "multilingual-embedding-harness[{self.extra}]"'
        return f"pip install {' '.join(name for name in self.modules if not _is_module(name))}"

    def check_installed(self, label: str, alias: str = "") -> None:
        """Raises MissingExtraError or InputError, in one line that says what to install, if a package is not here.

        alias: the encoder's, if it has one: what it needs after that is said, too.
        """
        if self.is_installed:
            return
        if self.extra:
            first = _CPU_FIRST if "torch" in self.modules and not _is_module("torch") else ""
            more: list[str] = []
            with suppress(InputError):  # what it must download cannot be told; it is said when it is tried
                more = self._steps(alias)[1:] if alias else []
            raise MissingExtraError(label, self.extra, "".join([first, *(f"; then {step}" for step in more)]))
        raise InputError(f"{label} needs: {self.install_command} (or the packages that have these modules)")

    @property
    def is_alias(self) -> bool:
        """Whether a spec string may be its name alone."""
        return not self.is_kind or self.location is not None

    @property
    def is_ready(self) -> bool:
        """Whether it runs on this machine as it is: an alias that needs nothing.

        Raises InputError where `missing_mb` or `recipe` fails.
        """
        return self.is_alias and self.is_installed and self.missing_recipe is None and self.download_mb == 0

    @property
    def download_mb(self) -> float:
        """How many megabytes must be downloaded before the first use. Raises InputError where `missing_mb` fails."""
        with self._asked("what {} must download"):
            mb = self.missing_mb(self.location) if self.missing_mb else 0.0
            if not (isinstance(mb, Real) and isfinite(mb) and mb >= 0):
                raise ValueError(f"missing_mb returned {mb!r}, which is no number of megabytes")
            return float(mb)

    @property
    def missing_recipe(self) -> str | None:
        """The command that makes the model, if it must be made first. Raises InputError where `recipe` fails."""
        with self._asked("whether {} has been made"):
            command = self.recipe() if self.recipe else None
            if not isinstance(command, str | None):
                raise ValueError(f"recipe returned {command!r}, which is neither a command nor None")
            return command

    @contextmanager
    def _asked(self, question: str) -> Iterator[None]:
        """Turns any failure of the encoder's package into one line; `{}` in `question` stands for the description."""
        try:
            with contained():
                yield
        except (Exception, SystemExit) as error:
            what = question.format(repr(self.description))
            raise InputError(f"cannot tell {what}: {one_line(error)}") from error

    def needs(self, alias: str) -> str | None:
        """The commands, with the megabytes they download, that make `alias` ready on this machine; None if it is.

        Of a kind, what its package needs. Raises InputError where `missing_mb` or `recipe` fails.
        """
        return "; ".join(self._steps(alias)) or None

    def _steps(self, alias: str) -> list[str]:
        commands = [] if self.is_installed else [self.install_command]
        if self.is_alias and (recipe := self.missing_recipe):
            commands.append(recipe)
        if self.is_alias and (mb := self.download_mb) > 0:
            size = f"({max(1, round(mb)):,} MB)"
            if recipe:
                commands[-1] += f" {size}"
            else:
                commands.append(f"leaderboard encoders --fetch {alias} {size}" if self.fetch else f"a download {size}")
        return commands


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (Exception, SystemExit):  # the package that holds it is not there, or fails; a module without a spec
        return name in sys.modules

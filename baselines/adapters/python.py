"""Anyone's own encoder: `python:package.module:factory?option=value`, with no package to build or to install."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, InputError, one_line
from harness.encoders.info import EncoderInfo, always
from harness.encoders.sides import missing_attributes


def find(location: str) -> Callable[..., Any]:
    """The factory at `package.module:factory`; an attribute that is an encoder already counts as its own factory.

    The current directory is searched first, as by `python -m`. The options of the spec string are those of the
    factory's signature, converted to its annotated types.

    Raises:
        InputError: no such module or attribute, or neither a factory nor an encoder. The factory that is returned
            raises one where the user's raises anything.
    """
    what = f"encoder {f'python:{location}'!r}"
    module_name, _, attribute = location.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), *attribute.split(".")]):
        raise InputError(f"{what}: write python:package.module:factory")
    _search_current_directory()
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script that runs and exits when it is imported is no module
        raise InputError(f"{what}: module {module_name} cannot be imported: {one_line(error)}") from error
    try:
        target = attrgetter(attribute)(module)
    except AttributeError:
        raise InputError(f"{what}: module {module_name} has no {attribute}") from None
    if not isinstance(target, type) and not missing_attributes(target):
        return lambda: target
    if not callable(target):
        raise InputError(f"{what}: {type(target).__name__} is neither an encoder nor a factory of one")

    @wraps(target)
    def factory(**options: Any) -> Any:
        try:
            return target(**options)
        except HarnessError:
            raise
        except Exception as error:
            raise InputError(f"{what}: {attribute} failed: {one_line(error)}") from error

    return factory


def _search_current_directory() -> None:
    with suppress(FileNotFoundError):  # deleted meanwhile: nothing can be found in it
        here = str(Path.cwd())
        if here not in sys.path and "" not in sys.path:
            sys.path.insert(0, here)
    importlib.invalidate_caches()  # the module may be younger than the last look into its folder


class _FoundByLocation(EncoderInfo):
    """The options are those of the factory that the location names."""

    def factory_at(self, location: str | None) -> Callable[..., Any]:
        factory: Callable[..., Any] = self.factory(location)
        return factory


python = _FoundByLocation(
    factory=find,
    description="an encoder of your own: a Python function that returns one, or the encoder itself",
    backend="python",
    is_kind=True,
    location_form="package.module:factory",
    runs_code=always,
)

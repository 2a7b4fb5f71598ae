"""Spec strings: `ALIAS` or `KIND:LOCATION`, each with `?option=value&option=value`; their options as arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import quote, unquote

from harness.core.errors import InputError, unknown_name
from harness.core.files import user_path
from harness.core.names import check_name
from harness.encoders.reduction import Quantize, Reduction, suffix_of
from harness.encoders.sides import SIDES

PROMPTS = tuple(f"prompt_{side}" for side in SIDES)
OWN_OPTIONS: Mapping[str, object] = {
    **{"normalize": bool, "truncate_dim": int, "quantize": Quantize},
    **dict.fromkeys(PROMPTS, str),
}
"""Options that the harness takes for every encoder (prompts: for every one that has a `prompt`), and their types.

A factory that names one of them has that one to itself.
"""

_SEPARATORS = re.compile(r"([=,:;])")  # between the paths of a value that has several parts


@dataclass(frozen=True)
class Spec:
    """A parsed spec string. `head` is the alias or the kind; `location` is None where the string has no `:`."""

    head: str
    location: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def stored_name(self) -> str:
        """The name under which results are stored: `name=`, else the alias, else the location's last component.

        A last component that is a version number (`.../LaBSE/2`) is passed over. Cut or quantised vectors have the
        name of the full ones with `@256`, `@int8` or `@256-int8` after it, unless there is `name=`.
        """
        if "name" in self.options:
            return check_name(self.options["name"], "encoder")
        return check_name(self._default_name() + suffix_of(self.options), "encoder")

    def base_name(self, reduction: Reduction) -> str:
        """The stored name of the vectors before this was done to them."""
        name = self.options.get("name", "")
        if name and name.endswith(reduction.suffix):
            return check_name(name.removesuffix(reduction.suffix), "encoder")
        others = {key: value for key, value in self.options.items() if key not in reduction.options}
        return check_name(self._default_name() + suffix_of(others), "encoder")

    def reduced(self, reduction: Reduction) -> Spec:
        """The spec of these vectors, which are full ones, cut or quantised."""
        named = {"name": self.options["name"] + reduction.suffix} if "name" in self.options else {}
        return Spec(self.head, self.location, {**self.options, **reduction.options, **named})

    def _default_name(self) -> str:
        if self.location is None:
            return self.head
        if self.head == "python":
            return re.split(r"[.:]", self.location)[-1]
        path = PurePath(self.location)
        return path.parent.name if path.name.isdecimal() and path.parent.name else path.name

    def __str__(self) -> str:
        """The spec string as it is recorded: it repeats the run, and of this machine's paths it has the last component.

        A location is such a path by its form; a value (or a part of it: `a=/home/me/w`) only if it is there now, since
        a prompt may begin with `/` or `~` too.
        """
        text = self.head
        if self.location is not None:
            text += ":" + (_last_component(self.location) if _is_path(self.location) else self.location)
        if self.options:
            values = {key: _without_paths(value) for key, value in self.options.items()}
            text += "?" + "&".join(f"{key}={quote(value, ' :/,@', errors='replace')}" for key, value in values.items())
        return text


@dataclass(frozen=True, kw_only=True)
class CheckedSpec(Spec):
    """A spec that has been checked as far as that is possible without loading the encoder.

    Attributes:
        factory: makes the encoder, called with options as keywords.
        types: the types of the options that the factory names.
        values: the converted options, of the alias and of the spec string.
    """

    factory: Callable[..., Any] = field(compare=False)
    types: Mapping[str, object] = field(compare=False)
    values: Mapping[str, object] = field(compare=False)

    @property
    def reduction(self) -> Reduction:
        """What the harness does to the vectors of the factory's encoder. Raises InputError as `Reduction`."""
        own: Mapping[str, Any] = self.arguments({})[1]
        return Reduction(own.get("truncate_dim"), own.get("quantize", "none"))

    @property
    def has_prompts(self) -> bool:
        """Whether it sets a prompt for queries or one for documents."""
        return any(key in self.values and key not in self.types for key in PROMPTS)

    def arguments(self, defaults: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """The arguments of the factory, and the values of those of `OWN_OPTIONS` that it leaves to the harness."""
        known = self.types.keys() | OWN_OPTIONS.keys()
        arguments = {key: value for key, value in defaults.items() if value is not None and key in known}
        arguments.update(self.values)
        own = {key: arguments.pop(key) for key in OWN_OPTIONS.keys() - self.types.keys() if key in arguments}
        return arguments, own


def _is_path(location: str) -> bool:
    is_absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    return is_absolute or location.startswith((".", "~", "file:"))


def _last_component(path: str) -> str:
    return PureWindowsPath(path).name or "."


def _without_paths(value: str) -> str:
    parts = [value] if _is_here(value) else _SEPARATORS.split(value)
    return "".join(_last_component(part) if _is_here(part) else part for part in parts)


def _is_here(text: str) -> bool:
    """Whether `text` is the absolute path of something on this machine; `/` and the like name nothing of it."""
    try:
        path = user_path(text.removeprefix("file://"))
        return path.is_absolute() and path.name != "" and path.exists()
    except (OSError, InputError, ValueError):  # too long for a path, `~` of an unknown user, a NUL
        return False


def parse_spec(text: str) -> Spec:
    """Parse a spec string.

    It is split at the first `?`; values are percent-decoded and never stripped; `+` is literal.

    Raises:
        InputError: no alias or kind, or an option that is not `key=value` or is given twice.
    """
    head, _, query = text.partition("?")
    head, colon, location = head.partition(":")
    if not head or (colon and not location):
        raise InputError(f"encoder {text!r} is neither ALIAS nor KIND:LOCATION")
    options: dict[str, str] = {}
    for item in query.split("&") if query else ():
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise InputError(f"encoder {text!r}: option {item!r} is not key=value")
        if key in options:
            raise InputError(f"encoder {text!r}: option {key!r} is given twice")
        options[key] = unquote(value)
    return Spec(head, location if colon else None, options)


def refuse_equal_names(specs: Iterable[Spec]) -> None:
    """Raises InputError where two of these would be stored under one name."""
    by_name: dict[str, Spec] = {}
    for spec in specs:
        other = by_name.setdefault(spec.stored_name, spec)
        if other is not spec:
            raise InputError(f"{other} and {spec} would be stored under one name; add name=... to one of them")


def signature_of(factory: Callable[..., Any]) -> inspect.Signature:
    """The signature of a factory; `(**options)` for a function written in C that does not tell its own."""
    try:
        return inspect.signature(factory)
    except (TypeError, ValueError):
        return inspect.Signature([inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)])


def option_types(factory: Callable[..., Any]) -> tuple[dict[str, object], bool]:
    """The options of a factory with their types, and whether it takes others too (`**options`)."""
    names = _globals(factory)
    parameters = signature_of(factory).parameters.values()
    types = {p.name: _type_of(p, names) for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return types, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _globals(factory: Any) -> dict[str, object]:
    """The names that a factory's annotations may use."""
    while isinstance(factory, partial) or hasattr(factory, "__wrapped__"):
        factory = factory.func if isinstance(factory, partial) else factory.__wrapped__
    function = getattr(factory, "__init__", None) if isinstance(factory, type) else factory
    return getattr(function, "__globals__", {})


def _type_of(parameter: inspect.Parameter, names: dict[str, object]) -> object:
    annotation = parameter.annotation
    if isinstance(annotation, str):  # `from __future__ import annotations`
        try:
            return eval(annotation, names)
        except Exception:  # a name that is imported for type checkers only, say
            annotation = parameter.empty
    if annotation is parameter.empty:
        return type(parameter.default) if isinstance(parameter.default, bool | int | float) else str
    return annotation


def converted(what: str, text: str, annotation: object) -> object:
    """The value `text` of the option `what` as the annotated type; of several types, the first that takes it.

    Raises:
        InputError: it is no value of that type.
    """
    if get_origin(annotation) in (Union, UnionType):
        *firsts, annotation = (kind for kind in get_args(annotation) if kind is not NoneType)
        for kind in firsts:
            try:
                return converted(what, text, kind)
            except InputError:
                continue
    if get_origin(annotation) is Literal:
        values = {str(value): value for value in get_args(annotation)}
        if text not in values:
            raise unknown_name(f"value of {what}", text, values)
        return values[text]
    if annotation is bool:
        if text.lower() not in ("true", "false", "1", "0"):
            raise InputError(f"{what} is true or false, not {text!r}")
        return text.lower() in ("true", "1")
    if annotation is int or annotation is float:
        try:
            return int(text) if annotation is int else float(text)
        except ValueError:
            kind = "a whole number" if annotation is int else "a number"
            raise InputError(f"{what} is {kind}, not {text!r}") from None
    return text

"""Finding encoders: every installed package may offer some through the entry-point group `harness.encoders`.

An entry point's name is an alias or the kind of a spec string; it points to an `EncoderInfo`, or to a plain
factory `def my_encoder(*, option=default, ...) -> Encoder`.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from harness.encoder import Encoder
from harness.errors import InputError, MissingExtraError, unknown_name
from harness.spec import Spec, parse_spec

GROUP = "harness.encoders"


@dataclass(frozen=True)
class EncoderInfo:
    """What the harness knows of an alias or kind before it is loaded.

    Attributes:
        factory: called with the location first, if there is one, and the options of the spec string as keywords,
            converted to the annotated types (str, int, float, bool, Literal, each possibly `| None`).
        location: what an alias opens (a hub id, say); a kind takes it from the spec string.
        is_kind: whether a spec string must name the location (`KIND:LOCATION`).
        options: an alias's own options; those of the spec string override them.
        dim: length of a vector, where it is known beforehand.
        licence: of the weights, as an SPDX identifier where there is one.
        backend: the library that runs the model.
        extra, modules: the extra that installs it, and the modules whose presence tells that it is installed.
        missing_mb: called with the location, tells how many megabytes must be downloaded before the first use
            (0: it is all here).
        fetch: downloads what the encoder needs, on request (`leaderboard encoders --fetch ALIAS`).
        description: one line for `leaderboard encoders`.
    """

    factory: Callable[..., Encoder]
    description: str
    backend: str
    location: str | None = None
    is_kind: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    dim: int | None = None
    licence: str | None = None
    extra: str | None = None
    modules: tuple[str, ...] = ()
    missing_mb: Callable[[str | None], float] | None = None
    fetch: Callable[[], object] | None = None

    @property
    def is_installed(self) -> bool:
        """Whether the packages that it needs are here; imports none of them."""
        return all(importlib.util.find_spec(module) is not None for module in self.modules)

    @property
    def is_ready(self) -> bool:
        """Whether it runs on this machine as it is: an alias, installed, with nothing to download."""
        if self.is_kind or not self.is_installed:
            return False
        return self.missing_mb is None or self.missing_mb(self.location) == 0


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def encoder_names() -> list[str]:
    """Every alias and kind that an installed package offers, sorted."""
    return sorted(_entry_points())


def encoder_info(name: str) -> EncoderInfo:
    """The entry of one alias or kind. Raises InputError, with the nearest matches, if there is none."""
    if name not in _entry_points():
        raise unknown_name("encoder", name, _entry_points())
    entry = _entry_points()[name]
    try:
        found = entry.load()
    except Exception as error:  # a third party's package may fail in any way
        raise InputError(f"encoder {name!r} ({entry.value}) cannot be imported: {error}") from error
    if isinstance(found, EncoderInfo):
        return found
    summary = (inspect.getdoc(found) or "").partition("\n")[0]
    return EncoderInfo(factory=found, description=summary, backend=entry.value.partition(".")[0])


def load_encoder(spec: str | Spec, **defaults: Any) -> Encoder:
    """Load the encoder that a spec string names.

    `defaults` (`device`, `batch_size`) apply where the encoder's factory takes such an option and the spec string
    does not set it; None means not given.

    Raises:
        InputError: unknown alias, kind or option (with the nearest matches), or a value of the wrong type.
        MissingExtraError: a package that it needs is not installed.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    info = encoder_info(spec.head)
    location = spec.location if info.is_kind else info.location
    if info.is_kind and not location:
        raise InputError(f"encoder {spec.head!r} needs a location: {spec.head}:LOCATION")
    if spec.location is not None and not info.is_kind:
        raise InputError(f"encoder {spec.head!r} takes no location (got {spec.location!r})")
    if not info.is_installed:
        if info.extra:
            raise MissingExtraError(f"encoder {spec.head!r}", info.extra)
        raise InputError(f"encoder {spec.head!r} needs the Python module(s) {', '.join(info.modules)}")
    given = {**info.options, **spec.options}
    given.pop("name", None)
    options = _convert(spec.head, info.factory, given)
    accepted = _option_types(info.factory)
    for key, value in defaults.items():
        if value is not None and accepted is not None and key in accepted:
            options.setdefault(key, value)
    if accepted is None or "name" in accepted:
        options["name"] = spec.stored_name
    encoder = info.factory(location, **options) if location is not None else info.factory(**options)
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"encoder {spec.head!r}: {type(encoder).__name__} lacks name, fingerprint, dim, uses_lang or encode"
        )
    return encoder if encoder.name == spec.stored_name else _Renamed(encoder, spec.stored_name)


class _Renamed:
    """An encoder under another name (for one whose factory takes no `name`)."""

    def __init__(self, encoder: Encoder, name: str):
        self._encoder, self.name = encoder, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._encoder, attribute)


def _option_types(factory: Callable[..., Encoder]) -> dict[str, Any] | None:
    """The keyword options of a factory and their annotated types; None if it takes any (`**options`)."""
    parameters = inspect.signature(factory).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    hints = get_type_hints(factory.__init__ if isinstance(factory, type) else factory)
    return {p.name: hints.get(p.name, str) for p in parameters if p.kind is p.KEYWORD_ONLY}


def _convert(head: str, factory: Callable[..., Encoder], given: Mapping[str, str]) -> dict[str, Any]:
    accepted = _option_types(factory)
    if accepted is None:
        return dict(given)
    options = {}
    for key, text in given.items():
        if key not in accepted:
            raise unknown_name(f"option of encoder {head!r}", key, accepted.keys() | {"name"})
        options[key] = _value(f"encoder {head!r}: option {key}", text, accepted[key])
    return options


def _value(what: str, text: str, annotation: Any) -> Any:
    """`text` as the annotated type."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation, *_) = [kind for kind in get_args(annotation) if kind is not NoneType]
    if get_origin(annotation) is Literal:
        if text not in get_args(annotation):
            raise unknown_name(what, text, get_args(annotation))
        return text
    if annotation is bool:
        if text.lower() not in ("true", "false", "1", "0"):
            raise InputError(f"{what} is true or false, not {text!r}")
        return text.lower() in ("true", "1")
    if annotation in (int, float):
        try:
            return annotation(text)
        except ValueError:
            raise InputError(f"{what} is a number, not {text!r}") from None
    return text

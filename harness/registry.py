"""Finding encoders: every installed package may offer some through the entry-point group `harness.encoders`.

An entry point's name is an alias or the kind of a spec string; it points to an `EncoderInfo`, or to a plain
factory `def my_encoder(*, option=default, ...) -> Encoder`.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from math import isfinite
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from harness.containment import contained
from harness.encoder import Encoder, check_vectors, normalise
from harness.errors import HarnessError, InputError, MissingExtraError, unknown_name
from harness.spec import Spec, parse_spec

GROUP = "harness.encoders"


RunsCode = Callable[["str | None", Mapping[str, str]], bool]
"""Of a location and options, as a spec string has them: whether opening it runs code that they choose."""


def always(location: str | None, options: Mapping[str, str]) -> bool:
    """For a kind that runs code of whoever wrote the spec string, or of which nobody has looked whether it does."""
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
        location: what an alias opens (a hub id, say); a kind takes it from the spec string.
        is_kind: whether a spec string names the location (`KIND:LOCATION`).
        location_optional: for a kind that is an alias too, where the spec string names no location: the factory is
            then called without one.
        location_form: how a kind's location is written, for help texts (`DIR`, `package.module:factory`).
        finds_factory: for a kind whose options depend on the location: `factory` is called with the location alone
            and returns the factory proper.
        options: an alias's own options; those of the spec string override them.
        dim: length of a vector, where it is known beforehand.
        licence: of the weights, as an SPDX identifier where there is one.
        backend: the library that runs the model.
        modules: the modules whose presence tells that the backend is installed. The message for those that are absent
            is `pip install` with their names, so choose some whose distributions are named alike.
        extra: the extra of *this* distribution that installs them (the message is then `pip install
            "multilingual-embedding-harness[EXTRA]"`); other packages leave it None.
        missing_mb: called with the location, tells how many megabytes must be downloaded before the first use
            (0: it is all here).
        fetch: downloads what the encoder needs, on request (`leaderboard encoders --fetch ALIAS`).
        runs_code: whether opening it runs code that the location or the options choose (`never`, or a function of
            both). What only a record names is opened where this says no; by default it says yes.
            `trust_remote_code=true` counts as yes for every kind.
        recipe: for a model that no download brings, tells the command that makes it (None: it has been made here).
        description: one line for `leaderboard encoders`.
    """

    factory: Callable[..., Any]
    description: str
    backend: str
    location: str | None = None
    is_kind: bool = False
    location_optional: bool = False
    location_form: str = "LOCATION"
    finds_factory: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    dim: int | None = None
    licence: str | None = None
    extra: str | None = None
    modules: tuple[str, ...] = ()
    missing_mb: Callable[[str | None], float] | None = None
    fetch: Callable[[], object] | None = None
    recipe: Callable[[], str | None] | None = None
    runs_code: RunsCode = always

    @property
    def is_installed(self) -> bool:
        """Whether the packages that it needs are here; imports none of them."""
        return all(map(_is_module, self.modules))

    @property
    def install_command(self) -> str:
        """What installs that which it lacks: the extra, or else packages of the names of the absent modules."""
        if self.extra:
            return f'pip install "multilingual-embedding-harness[{self.extra}]"'
        return f"pip install {' '.join(name for name in self.modules if not _is_module(name))}"

    def check_installed(self, label: str) -> None:
        """Raises MissingExtraError or InputError, in one line that says what to install, if a package is not here."""
        if self.is_installed:
            return
        if self.extra:
            raise MissingExtraError(label, self.extra)
        raise InputError(f"{label} needs: {self.install_command} (or the packages that have these modules)")

    @property
    def is_alias(self) -> bool:
        """Whether a spec string may be its name alone."""
        return not self.is_kind or self.location_optional

    @property
    def is_ready(self) -> bool:
        """Whether it runs on this machine as it is: an alias that needs nothing.

        Raises InputError where `missing_mb` or `recipe` fails.
        """
        return self.is_alias and self.is_installed and self.missing_recipe is None and self.download_mb == 0

    @property
    def download_mb(self) -> float:
        """How many megabytes must be downloaded before the first use. Raises InputError where `missing_mb` fails."""
        try:
            with contained():
                mb = self.missing_mb(self.location) if self.missing_mb else 0.0
            if not (isinstance(mb, Real) and isfinite(mb) and mb >= 0):
                raise ValueError(f"missing_mb returned {mb!r}, which is no number of megabytes")
            return float(mb)
        except (Exception, SystemExit) as error:  # a third party's function may fail in any way
            raise InputError(f"cannot tell what {self.description!r} must download: {one_line(error)}") from error

    @property
    def missing_recipe(self) -> str | None:
        """The command that makes the model, if it must be made first. Raises InputError where `recipe` fails."""
        try:
            with contained():
                command = self.recipe() if self.recipe else None
            if not isinstance(command, str | None):
                raise ValueError(f"recipe returned {command!r}, which is neither a command nor None")
            return command
        except (Exception, SystemExit) as error:
            raise InputError(f"cannot tell whether {self.description!r} has been made: {one_line(error)}") from error

    def needs(self, alias: str) -> str | None:
        """The commands, with the megabytes they download, that make `alias` ready on this machine; None if it is.

        Of a kind, what its package needs. Raises InputError where `missing_mb` or `recipe` fails.
        """
        commands = [] if self.is_installed else [self.install_command]
        if self.is_alias and (recipe := self.missing_recipe):
            commands.append(recipe)
        if self.is_alias and (mb := self.download_mb) > 0:
            size = f"({max(1, round(mb)):,} MB)"
            if recipe:
                commands[-1] += f" {size}"
            else:
                commands.append(f"leaderboard encoders --fetch {alias} {size}" if self.fetch else f"a download {size}")
        return "; ".join(commands) or None


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (Exception, SystemExit):  # the package that holds it is not there, or fails; a module without a spec
        return name in sys.modules


def one_line(error: BaseException) -> str:
    """An error of somebody else's code in one line: its type and the first line of its message."""
    if isinstance(error, HarnessError):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def failures_in_one_line(name: str) -> Iterator[None]:
    """An encoder may fail in any way; whatever it raises in a `with` block becomes an InputError of one line."""
    try:
        yield
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        if os.environ.get("HARNESS_DEBUG"):
            traceback.print_exc()
        raise InputError(f"encoder {name} failed: {one_line(error)}; HARNESS_DEBUG=1 prints where") from error


@cache
def _entry_points() -> dict[str, list[EntryPoint]]:
    """By name; several where packages disagree on what a name means."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        same_name = found.setdefault(entry.name, [])
        if all(entry.value != other.value for other in same_name):
            same_name.append(entry)
    return found


def encoder_names() -> list[str]:
    """Every alias and kind that an installed package offers, sorted."""
    return sorted(_entry_points())


def encoder_info(name: str) -> EncoderInfo:
    """The entry of one alias or kind.

    Raises:
        InputError: there is none (with the nearest matches), two packages offer it, it cannot be imported, or what it
            says of itself has the wrong type.
    """
    if name not in _entry_points():
        raise unknown_name("encoder", name, _entry_points())
    entry, *others = _entry_points()[name]
    if others:
        offers = ", ".join(f"{e.value} of {e.dist.name if e.dist else '?'}" for e in (entry, *others))
        raise InputError(f"encoder {name!r} is offered more than once ({offers}); uninstall all but one package")
    try:
        with contained():
            found = entry.load()
    except (Exception, SystemExit) as error:  # a third party's package may fail in any way
        raise InputError(f"encoder {name!r} ({entry.value}) cannot be imported: {one_line(error)}") from error
    if isinstance(found, EncoderInfo):
        _check_types(found, f"encoder {name!r} ({entry.value})")
        return found
    if not callable(found):
        raise InputError(f"encoder {name!r} ({entry.value}) is neither an EncoderInfo nor a factory")
    summary = (inspect.getdoc(found) or "").partition("\n")[0]
    return EncoderInfo(factory=found, description=summary, backend=entry.module.partition(".")[0])


def _check_types(info: EncoderInfo, label: str) -> None:
    """Raises InputError if an attribute is not of its type: a third party's package may write anything there."""
    for name, kind in _types_of_facts().items():
        try:
            msgspec.convert(getattr(info, name), kind)
        except msgspec.ValidationError as error:
            raise InputError(f"{label} has a wrong {name}: {error}") from None


@cache
def _types_of_facts() -> dict[str, Any]:
    """The attributes of EncoderInfo that are no functions, with their types. (What a function does is seen later.)"""
    return {name: kind for name, kind in get_type_hints(EncoderInfo).items() if not _is_function(kind)}


def _is_function(kind: Any) -> bool:
    return get_origin(kind) is Callable or any(map(_is_function, get_args(kind)))


def check_spec(spec: str | Spec) -> Spec:
    """The parsed spec, once all is checked that can be without loading the encoder.

    Raises:
        InputError: unknown alias, kind or option (with the nearest matches), or a value of the wrong type.
        MissingExtraError: a package that it needs is not installed.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    _call(spec, {})
    return spec


def load_encoder(spec: str | Spec, **defaults: Any) -> Encoder:
    """Load the encoder that a spec string names.

    `defaults` (`device`, `batch_size`) apply where the encoder takes such an option and the spec string does not set
    it; None means not given.

    Two options are for every encoder, whatever its factory takes: `name`, under which results are stored, and
    `normalize` (true or false), which scales every vector to unit L2 norm (zero vectors stay) and adds `|normalized`
    to the fingerprint. A factory whose signature names `normalize` has an option of its own: it gets the value, and
    nothing is done here. One that takes `**options` does not name it.

    Raises:
        InputError, MissingExtraError: see `check_spec`; or it turned out to be no encoder.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    load, normalize = _call(spec, defaults)
    with contained():
        encoder = load()
        lacks = missing_attributes(encoder)
    if lacks:
        raise InputError(f"{_label(spec)}: {type(encoder).__name__} is no encoder, it lacks {', '.join(lacks)}")
    if getattr(encoder, "name", None) != spec.stored_name:
        encoder = _Named(encoder, spec.stored_name)
    named: Encoder = encoder
    return _Normalised(named) if normalize else named


def runs_code(spec: Spec) -> bool:
    """Whether loading it runs code that the spec string chooses: then only a user may name it, and no record.

    Raises:
        InputError: see `encoder_info`.
    """
    info = encoder_info(spec.head)
    if spec.options.get("trust_remote_code", "false").lower() not in ("false", "0"):
        return True
    try:
        with contained():
            return info.runs_code(spec.location, spec.options) is not False
    except (Exception, SystemExit):  # a third party's function may fail in any way, and then has not said no
        return True


def missing_attributes(candidate: object) -> list[str]:
    """What an object lacks to be an encoder; the name may be missing, it comes from the spec string."""
    return [name for name in ("fingerprint", "dim", "uses_lang", "encode") if not hasattr(candidate, name)]


def _call(spec: Spec, defaults: Mapping[str, Any]) -> tuple[Callable[[], Any], bool]:
    """What loads a spec's encoder, and whether its vectors are to be normalised here.

    The former is the factory with the location and the options, checked and converted.
    """
    info, label = encoder_info(spec.head), _label(spec)
    if not spec.location and not info.is_alias:
        raise InputError(f"{label} needs a location: {spec.head}:{info.location_form}")
    if spec.location is not None and not info.is_kind:
        raise InputError(f"encoder {spec.head!r} takes no location (got {spec.location!r})")
    info.check_installed(label)
    location = spec.location or info.location
    if info.finds_factory:
        with contained():
            factory = info.factory(location)
    else:
        factory = info.factory if location is None else partial(info.factory, location)

    signature = _signature(factory)
    types, takes_any = _option_types(factory, signature)
    known = {"normalize": bool, **types}
    options: dict[str, Any] = {key: value for key, value in defaults.items() if value is not None and key in known}
    for key, text in {**info.options, **spec.options}.items():
        if key == "name":
            continue
        if key not in known and not takes_any:
            raise unknown_name(f"option of {label}", key, known.keys() | {"name"})
        options[key] = _value(f"{label}: option {key}", text, known.get(key, str))
    normalize = "normalize" not in types and options.pop("normalize", False)
    name = spec.stored_name  # in any case: a name that cannot be stored is refused before anything is loaded
    if "name" in types or takes_any:
        options["name"] = name
    try:
        signature.bind(**options)
    except TypeError as error:
        raise InputError(f"{label}: {error}") from None
    return partial(factory, **options), normalize


def _label(spec: Spec) -> str:
    return f"encoder {spec.head + (f':{spec.location}' if spec.location is not None else '')!r}"


class _Wrapper:
    """An encoder that is another one in all that a subclass does not change; its `device`, say, is the other's."""

    def __init__(self, encoder: Any):
        self._encoder = encoder

    # Not left to __getattr__: from Python 3.12 on, `isinstance(encoder, Encoder)` sees only what a class has.
    @property
    def name(self) -> str:
        return str(self._encoder.name)

    @property
    def fingerprint(self) -> str:
        return str(self._encoder.fingerprint)

    @property
    def dim(self) -> int:
        return int(self._encoder.dim)

    @property
    def uses_lang(self) -> bool:
        return bool(self._encoder.uses_lang)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        vectors: np.ndarray = self._encoder.encode(sentences, lang=lang)
        return vectors

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # copying and unpickling ask for some before `_encoder` is there
            raise AttributeError(attribute)
        return getattr(self._encoder, attribute)


class _Named(_Wrapper):
    """An encoder under the name of its spec string (for one whose factory takes no `name`)."""

    def __init__(self, encoder: Any, name: str):
        super().__init__(encoder)
        self._name = name

    @property
    def name(self) -> str:
        return self._name


class _Normalised(_Wrapper):
    """An encoder with its vectors scaled to unit L2 norm, in float32; zero vectors stay zero."""

    @property
    def fingerprint(self) -> str:
        return f"{self._encoder.fingerprint}|normalized"

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        return normalise(check_vectors(self._encoder.encode(sentences, lang=lang), sentences, self))


def _signature(factory: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(factory)
    except (TypeError, ValueError):  # some functions written in C do not tell theirs
        return inspect.Signature([inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)])


def _option_types(factory: Callable[..., Any], signature: inspect.Signature) -> tuple[dict[str, Any], bool]:
    """The options of a factory with their types, and whether it takes others too (`**options`)."""
    names = _globals(factory)
    parameters = signature.parameters.values()
    types = {p.name: _type(p, names) for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return types, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _globals(factory: Any) -> dict[str, Any]:
    """The names that a factory's annotations may use."""
    while isinstance(factory, partial) or hasattr(factory, "__wrapped__"):
        factory = factory.func if isinstance(factory, partial) else factory.__wrapped__
    function = getattr(factory, "__init__", None) if isinstance(factory, type) else factory
    return getattr(function, "__globals__", {})


def _type(parameter: inspect.Parameter, names: dict[str, Any]) -> Any:
    annotation = parameter.annotation
    if isinstance(annotation, str):  # `from __future__ import annotations`
        try:
            return eval(annotation, names)
        except Exception:  # a name that is imported for type checkers only, say
            annotation = parameter.empty
    if annotation is parameter.empty:
        return type(parameter.default) if isinstance(parameter.default, bool | int | float) else str
    return annotation


def _value(what: str, text: str, annotation: Any) -> Any:
    """`text` as the annotated type; of several, the first that takes it."""
    if get_origin(annotation) in (Union, UnionType):
        *firsts, annotation = (kind for kind in get_args(annotation) if kind is not NoneType)
        for kind in firsts:
            try:
                return _value(what, text, kind)
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
    if annotation in (int, float):
        try:
            return annotation(text)
        except ValueError:
            kind = "a whole number" if annotation is int else "a number"
            raise InputError(f"{what} is {kind}, not {text!r}") from None
    return text

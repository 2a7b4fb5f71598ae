"""Finding encoders: every installed package may offer some through the entry-point group `harness.encoders`.

An entry point's name is an alias or the kind of a spec string; it points to an `EncoderInfo`, or to a plain
factory `def my_encoder(*, option=default, ...) -> Encoder`.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from harness.core.errors import HarnessError, InputError, one_line, unknown_name
from harness.core.plugins import load_offer, offers
from harness.encoders.containment import contained
from harness.encoders.encoder import Encoder
from harness.encoders.info import EncoderInfo
from harness.encoders.made_for import GROUP, declared_languages
from harness.encoders.named import Named
from harness.encoders.reduction import Reduction
from harness.encoders.sides import AnyEncoder, TwoSided, joined, missing_attributes
from harness.encoders.spec import (
    OWN_OPTIONS,
    PROMPTS,
    CheckedSpec,
    Spec,
    converted,
    option_types,
    parse_spec,
    signature_of,
)
from harness.encoders.variant import Variant

_OURS = ("known_fingerprints", "dry_run")  # parameters of a factory that no spec string sets


@contextmanager
def failures_in_one_line(name: str) -> Iterator[None]:
    """Turns whatever an encoder raises in a `with` block into an InputError of one line."""
    try:
        yield
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        if os.environ.get("HARNESS_DEBUG"):
            traceback.print_exc()
        raise InputError(f"encoder {name} failed: {one_line(error)}; HARNESS_DEBUG=1 prints where") from error


def encoder_names() -> list[str]:
    """Every alias and kind that an installed package offers, sorted."""
    return sorted(offers(GROUP))


def encoder_info(name: str) -> EncoderInfo:
    """The entry of one alias or kind.

    Raises:
        InputError: there is none (with the nearest matches), two packages offer it, it cannot be imported, or what it
            says of itself has the wrong type.
    """
    with contained():
        offer, place = load_offer(GROUP, name, "encoder")
    if isinstance(offer, EncoderInfo):
        _check_types(offer, f"encoder {name!r} ({place})")
        if offer.languages is None and (declared := declared_languages(name)):
            return replace(offer, languages=declared.get(name))
        return offer
    if not callable(offer):
        raise InputError(f"encoder {name!r} ({place}) is neither an EncoderInfo nor a factory")
    summary = (inspect.getdoc(offer) or "").partition("\n")[0]
    return EncoderInfo(factory=offer, description=summary, backend=place.partition(":")[0].partition(".")[0])


def _check_types(info: EncoderInfo, label: str) -> None:
    """Raises InputError if an attribute is not of its type: a third party's package may write anything there."""
    for name, kind in _types_of_facts().items():
        try:
            msgspec.convert(getattr(info, name), kind)
        except msgspec.ValidationError as error:
            raise InputError(f"{label} has a wrong {name}: {error}") from None


@cache
def _types_of_facts() -> dict[str, object]:
    """The types of the attributes of EncoderInfo that are not functions. (A function is checked when it is called.)"""
    return {name: kind for name, kind in get_type_hints(EncoderInfo).items() if not _is_function(kind)}


def _is_function(kind: Any) -> bool:
    return get_origin(kind) is Callable or any(map(_is_function, get_args(kind)))


def check_spec(spec: str | Spec, **defaults: Any) -> CheckedSpec:
    """Parse a spec and check all that can be checked without loading the encoder.

    defaults: see `load_sides`.

    Raises:
        InputError: unknown alias, kind or option (with the nearest matches), or a value of the wrong type.
        MissingExtraError: a package that it needs is not installed.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    if spec.location is None and len(names := spec.head.split(",")) > 1 and {*names} <= {*encoder_names()}:
        each = " ".join(f"--encoder {name}" for name in names)
        raise InputError(f"encoder {spec.head!r} is {len(names)} encoders; give each by itself ({each})")
    info, label = encoder_info(spec.head), _label(spec)
    if not spec.location and not info.is_alias:
        raise InputError(f"{label} needs a location: {spec.head}:{info.location_form}")
    if spec.location is not None and not info.is_kind:
        raise InputError(f"encoder {spec.head!r} takes no location (got {spec.location!r})")
    info.check_installed(label, spec.head if spec.location is None else "")
    with contained():
        factory = info.factory_at(spec.location or info.location)
    types, takes_any = option_types(factory)
    known = {**OWN_OPTIONS, **{name: kind for name, kind in types.items() if name not in _OURS}}
    known = {key: kind for key, kind in known.items() if "prompt" in types or key in types or key not in PROMPTS}
    values = {}
    for key, text in {**info.options, **spec.options}.items():
        if key == "name":
            continue
        if key in PROMPTS and key not in known:
            raise InputError(f"{label} has no option prompt, and so no {key}; leave it out")
        if key not in known and not takes_any:
            raise unknown_name(f"option of {label}", key, known.keys() | {"name"})
        values[key] = converted(f"{label}: option {key}", text, known.get(key, str))
    name = spec.stored_name  # always read: a name that cannot be stored is refused before anything is loaded
    checked = CheckedSpec(spec.head, spec.location, spec.options, factory=factory, types=types, values=values)
    try:
        arguments, own = checked.arguments(defaults)
        reduction = _reduction(own, label)
        if "name" in types or takes_any:
            values["name"] = arguments["name"] = spec.base_name(reduction) if reduction else name
        signature_of(factory).bind(**arguments)
    except TypeError as error:
        raise InputError(f"{label}: {error}") from None
    return checked


def load_encoder(spec: str | Spec, **defaults: Any) -> Encoder:
    """Load the encoder that a spec string names, which encodes all texts alike; see `load_sides`.

    Raises:
        InputError, MissingExtraError: see `load_sides`; or it encodes queries and documents differently.
    """
    return of_one_side(load_sides(spec, **defaults))


def of_one_side(encoder: AnyEncoder) -> Encoder:
    """An encoder that encodes all texts alike. Raises InputError: it does not."""
    if isinstance(encoder, TwoSided):
        raise InputError(
            f"{encoder.name} has one prompt for queries and another one for documents; give one prompt=... for all"
        )
    return encoder


def load_sides(spec: str | Spec, **defaults: Any) -> AnyEncoder:
    """Load the encoder that a spec string names, or the two of a spec string with two prompts.

    `defaults` (`device`, `batch_size`) apply where the encoder takes such an option and the spec string does not set
    it; None means not given. Two of them are for encoders whose fingerprint a server tells, and no spec string sets
    them: `known_fingerprints`, a function that gives those of vectors and results, the latest last, so that what is
    the same but for rounding has the same fingerprint; and `dry_run` (true: send nothing, nothing will be encoded).

    Four options are for every encoder, whatever its factory takes: `name`, under which results are stored;
    `normalize` (true or false), which scales every vector to unit L2 norm (zero vectors stay) and adds `|normalized`
    to the fingerprint; and `truncate_dim` (a number) and `quantize` (int8 or binary), which make a `Variant`: its
    vectors are those of the full encoder, normalised, cut and quantised, in this order.

    Two are for every encoder whose factory takes `prompt`: `prompt_query` and `prompt_document`. The factory makes one
    encoder for queries and one for documents, with `prompt` set to these; where one is not given, that side has the
    `prompt` of the spec string or the encoder's own. They are one encoder if their fingerprints are equal. An encoder
    may have a method `with_prompt(prompt)`, which gives the same model with another prompt: then weights are loaded
    once, and usage is counted together; without, the factory is called twice.

    A factory whose signature names one of these options (but `name`) has it to itself: it gets the value, and nothing
    is done here. One that takes `**options` does not name it.

    Raises:
        InputError, MissingExtraError: see `check_spec`; or it turned out to be no encoder.
    """
    checked = spec if isinstance(spec, CheckedSpec) else check_spec(spec, **defaults)
    arguments, own = checked.arguments(defaults)
    reduction = _reduction(own, _label(checked))
    name, is_normalised = checked.base_name(reduction) if reduction else checked.stored_name, own.get("normalize")

    def finished(encoder: Any) -> Encoder:
        is_wrapped = is_normalised or getattr(encoder, "name", None) != name
        named: Encoder = Named(encoder, name, bool(is_normalised)) if is_wrapped else encoder
        return Variant(named, reduction, checked.stored_name) if reduction else named

    query, document = _opened(checked, arguments, own.get("prompt_query"), own.get("prompt_document"))
    return finished(query) if query is document else joined(finished(query), finished(document))


def _opened(checked: CheckedSpec, arguments: Mapping[str, object], query: Any, document: Any) -> tuple[Any, Any]:
    """What the factory makes for queries and for documents with these prompts; twice the same if there are none."""

    def made(prompt: Any) -> Any:
        return checked.factory(**arguments if prompt is None else {**arguments, "prompt": prompt})

    # The one that is made by a change of its prompt alone comes second: `with_prompt` cannot give an encoder its own.
    first, second = (query, document) if document is not None else (document, query)
    with contained():
        encoder = made(first)
        other = encoder if second is None else getattr(encoder, "with_prompt", made)(second)
        lacks = missing_attributes(encoder) or missing_attributes(other)
    if lacks:
        raise InputError(f"{_label(checked)}: {type(encoder).__name__} is no encoder, it lacks {', '.join(lacks)}")
    return (encoder, other) if document is not None else (other, encoder)


def _reduction(own: Mapping[str, Any], label: str) -> Reduction:
    """What is done to the vectors, from the values of `OWN_OPTIONS`."""
    try:
        return Reduction(own.get("truncate_dim"), own.get("quantize", "none"))
    except InputError as error:
        raise InputError(f"{label}: {error}") from None


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


def _label(spec: Spec) -> str:
    return f"encoder {spec.head + (f':{spec.location}' if spec.location is not None else '')!r}"

"""Short names for the paper's systems and the common multilingual models since; `aliases.toml` lists them.

Models on the Hugging Face hub are taken from its local cache if they are there. Models that were never published are
trained here, into `models/NAME` of the cache folder (`$HARNESS_CACHE`); a copy of such a folder from another machine
does as well. An entry point names an alias as an attribute of this module, with `_` for `-`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, Literal

import msgspec

from baselines.adapters.citations import cited
from baselines.adapters.huggingface import cached_snapshot, refuse_folder
from baselines.adapters.sentence_transformer import (
    SentenceTransformerEncoder,
    loader_of,
    mean_pooling,
    sentence_transformers,
)
from harness.core.errors import InputError
from harness.encoders.cache import default_cache_dir
from harness.encoders.info import EncoderInfo

_FILE = Path(__file__).with_name("aliases.toml")


class _Alias(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`cite`: keys in a `.bib` file."""

    description: str
    dim: int
    cite: list[str] = []


class HubModel(_Alias):
    """A model of the hub; with a `pooling`, a bare transformer that is pooled so."""

    location: str
    licence: str
    prompt: str | None = None
    pooling: Literal["mean"] | None = None


class TrainedModel(_Alias):
    """A model that `leaderboard COMMAND --name ALIAS` makes out of hub models and data sets."""

    command: str
    starts: list[str]
    data: str


class _DataSets(msgspec.Struct, forbid_unknown_fields=True):
    fetch: str
    mb: float


class _File(msgspec.Struct, forbid_unknown_fields=True):
    megabytes: dict[str, float]
    data: dict[str, _DataSets]
    hub: dict[str, HubModel]
    trained: dict[str, TrainedModel]


@cache
def _content() -> _File:
    return msgspec.toml.decode(_FILE.read_bytes(), type=_File)


@cache
def __getattr__(attribute: str) -> EncoderInfo:
    alias, content = attribute.replace("_", "-"), _content()
    if alias in content.hub:
        model = content.hub[alias]
        return hub_encoder(model, content.megabytes[model.location])
    if alias in content.trained:
        return _trained_encoder(alias, content.trained[alias], content)
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


def hub_encoder(model: HubModel, mb: float) -> EncoderInfo:
    """The registry's entry of a hub model whose download has `mb` megabytes."""
    kind = mean_pooling if model.pooling else sentence_transformers
    load = kind.factory

    @wraps(load)
    def load_from_hub(hub_id: str, **options: Any) -> SentenceTransformerEncoder:
        refuse_folder(hub_id)
        encoder: SentenceTransformerEncoder = load(hub_id, **options)
        return encoder

    return replace(
        kind,
        factory=load_from_hub,
        description=model.description,
        is_kind=False,
        location=model.location,
        options={} if model.prompt is None else {"prompt": model.prompt},
        dim=model.dim,
        licence=model.licence,
        cite=cited(*model.cite),
        missing_mb=lambda location: 0.0 if cached_snapshot(model.location) else mb,
        fetch=partial(load_from_hub, model.location),
    )


def _trained_encoder(alias: str, model: TrainedModel, content: _File) -> EncoderInfo:
    data = content.data[model.data]
    command = f"leaderboard data fetch {data.fetch} && leaderboard {model.command} --name {alias}"

    def model_path() -> Path:
        return default_cache_dir() / "models" / alias

    def trained_folder() -> Path:
        if not model_path().is_dir():
            raise InputError(f"encoder {alias!r} is not public, make it first: {command}")
        return model_path()

    def missing_mb(location: str | None) -> float:
        if model_path().is_dir():
            return 0.0
        return data.mb + sum(content.megabytes[start] for start in model.starts if not cached_snapshot(start))

    return replace(
        sentence_transformers,
        factory=loader_of(trained_folder, alias),
        description=model.description,
        is_kind=False,
        dim=model.dim,
        cite=cited(*model.cite),
        extra="train",
        missing_mb=missing_mb,
        recipe=lambda: None if model_path().is_dir() else command,
    )

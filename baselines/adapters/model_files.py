"""What the files of a saved sentence-transformers model say, read without sentence-transformers and without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from harness.core.errors import InputError
from harness.core.files import leads_out
from harness.core.schema import read_json

T = TypeVar("T")

MODULES_FILE = "modules.json"
SETTINGS_FILE = "config_sentence_transformers.json"


@dataclass(frozen=True)
class Module:
    """What is read of an entry of `modules.json`."""

    type: str
    path: str = ""

    @property
    def kind(self) -> str:
        """The class of the module, without its package."""
        return self.type.rpartition(".")[2]


@dataclass(frozen=True)
class Settings:
    """What is read of `config_sentence_transformers.json`.

    Attributes:
        prompts: what sentences begin with, by name.
        default_prompt_name: the prompt of every sentence for which none is named.
        truncate_dim: how many of the first components of a vector are kept.
    """

    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    truncate_dim: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def default_prompt(self) -> str:
        """What sentence-transformers puts before every sentence."""
        return (self.prompts or {}).get(self.default_prompt_name or "") or ""


def read_settings(folder: Path) -> Settings:
    """The settings of a model's folder; those of a folder without a file of them. Raises InputError."""
    path = folder / SETTINGS_FILE
    return read_model_file(path, Settings, "settings of sentence-transformers") if path.is_file() else Settings()


def listed_modules(folder: Path) -> list[Module] | None:
    """The modules of a sentence-transformers model, in order; None where the folder does not list any.

    Raises InputError if the list holds something else, or a module is outside the folder.
    """
    path = folder / MODULES_FILE
    if not path.exists():
        return None
    modules = read_model_file(path, list[Module], "list of modules")
    for module in modules:
        if module.path and leads_out(module.path):
            raise InputError(f"{path}: the folder {module.path!r} of a module is outside the model's")
    return modules


def read_model_file(path: Path, kind: type[T], what: str) -> T:
    """The content of a JSON file of a model's folder. Raises InputError if it is none, or no `what`."""
    try:
        return read_json(path, kind)
    except ValueError as error:
        raise InputError(f"{path}: no {what} ({error}); copy the model's folder again") from None

"""Corpora of parallel sentences by name: where they are fetched from, and how their files are read."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from harness.data.catalogue import DataSet, Download
from harness.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PARALLEL_FILE = Path(__file__).with_name("parallel.toml")
FOLDER = "parallel"


@dataclass(frozen=True)
class ParallelCorpus:
    """A public corpus of English with many other languages.

    Attributes:
        name, title, licence, home, citation, note: as in the catalogue of data sets.
        url, file: address and local name of a language pair, with `{pair}` in them.
        order: of the two languages in `{pair}` and in the columns.
        codes: the corpus's own code by ISO 639 code, where they differ.
        languages: those beside English; empty where the corpus has many.
        format: of the lines: `scored` (score, sentence, sentence), `words` (two words), or empty, told by the name.
        min_score: of `scored`.
        withdrawn: why it cannot be had; else empty.
    """

    name: str
    title: str
    licence: str
    home: str
    citation: str
    note: str = ""
    url: str = ""
    file: str = ""
    order: Literal["alphabetical", "english-first", "english-last"] = "alphabetical"
    codes: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    format: Literal["", "scored", "words"] = ""
    min_score: float | None = None
    withdrawn: str = ""

    @property
    def folder(self) -> str:
        """Where its files lie in the data directory."""
        return f"{FOLDER}/{self.name}"

    def refuse_withdrawn(self) -> None:
        """Raise InputError if the corpus cannot be had any more."""
        if self.withdrawn:
            raise InputError(f"{self.name} has been withdrawn ({self.withdrawn}); take another corpus, such as TED2020")

    def data_set(self, languages: Sequence[str]) -> DataSet:
        """What to fetch of it: one file for each language.

        Raises:
            InputError: the corpus has been withdrawn, or is known not to have a language.
        """
        self.refuse_withdrawn()
        for language in languages:
            if self.languages and language not in self.languages:
                raise InputError(
                    f"{self.name} has no {language}; it has English with {', '.join(self.languages)}; "
                    "name some of these with --languages"
                )
        downloads = [self._download(language) for language in dict.fromkeys(languages)]
        return DataSet(
            name=self.name,
            title=self.title,
            licence=self.licence,
            home=self.home,
            citation=self.citation,
            folder=self.folder,
            files=tuple(item.target.removesuffix(".gz") for item in downloads),
            checksums=MappingProxyType({}),
            downloads=tuple(downloads),
            note=self.note,
            on_request=True,
        )

    def _download(self, language: str) -> Download:
        own = self.codes.get(language, language)
        # The columns of a table are in the order of the corpus's own codes; the local name tells that order.
        english_is_first = {
            "alphabetical": own > "en",
            "english-first": True,
            "english-last": False,
        }[self.order]
        pair, local = ("-".join(("en", code) if english_is_first else (code, "en")) for code in (own, language))
        return Download((self.url.replace("{pair}", pair),), f"{self.folder}/{self.file.replace('{pair}', local)}")


@cache
def parallel_corpora() -> Mapping[str, ParallelCorpus]:
    """All of them by name, in the order of `parallel.toml`."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(PARALLEL_FILE.read_text(encoding="utf-8"))
    for table in tables.values():
        table["languages"] = tuple(table.get("languages", "").split())
    return MappingProxyType({name: ParallelCorpus(name=name, **table) for name, table in tables.items()})

"""Corpora of parallel sentences by name: where they are fetched from, and how their files are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from harness.core.errors import InputError, unknown_name
from harness.core.names import check_name
from harness.core.schema import read_tables
from harness.data.catalogue import DataSet, Download, catalogue
from harness.data.pair_formats import Pairs, read_moses_zip, read_scored, read_table, read_words

PARALLEL_FILE = Path(__file__).with_name("parallel.toml")
FOLDER = "parallel"


@dataclass(frozen=True)
class ParallelCorpus:
    """A public corpus of English with many other languages.

    Attributes:
        name, title, licence, home, note: as in the catalogue of data sets.
        citation: what to cite, in words.
        url, file: address and local name of a language pair, with `{pair}` in them.
        order: of the two languages in `{pair}` and in the columns.
        codes: the corpus's own code by ISO 639 code, where they differ.
        languages: those beside English; empty where the corpus has many.
        format: of the lines: `scored` (score, sentence, sentence), `words` (two words), or empty, told by the name.
        min_score: of `scored`.
        max_bytes: as in the catalogue of data sets, of a language pair.
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
    max_bytes: int = 20_000_000_000
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
            InputError: the corpus has been withdrawn, or is known not to have a language; a code that is none.
        """
        self.refuse_withdrawn()
        for language in languages:
            check_name(language, "language")
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
            folder=self.folder,
            files=tuple(item.target.removesuffix(".gz") for item in downloads),
            downloads=tuple(downloads),
            note=self.note,
            on_request=True,
            max_bytes=self.max_bytes,
        )

    def read(self, file: Path) -> Pairs:
        """The pairs of one of its files, in the order of the columns.

        Raises:
            InputError: as the reader of its format (below).
        """
        if file.name.endswith(".zip"):
            source, _, target = file.name.removeprefix(f"{self.name}.").partition(".")[0].partition("-")
            return read_moses_zip(file, source, target)
        return {"scored": read_scored, "words": read_words, "": read_table}[self.format](file)

    def _download(self, language: str) -> Download:
        remote = self.codes.get(language, language)
        # The columns of a table are in the order of the corpus's own codes; the local name tells that order.
        english_is_first = self.order == "english-first" or (self.order == "alphabetical" and remote > "en")
        pair, local = ("-".join(("en", code) if english_is_first else (code, "en")) for code in (remote, language))
        return Download((self.url.replace("{pair}", pair),), f"{self.folder}/{self.file.replace('{pair}', local)}")


@cache
def parallel_corpora() -> Mapping[str, ParallelCorpus]:
    """All of them by name, in the order of `parallel.toml`."""
    return MappingProxyType(read_tables(PARALLEL_FILE, ParallelCorpus))


def chosen_sets(names: Sequence[str], languages: Sequence[str] = ()) -> list[DataSet]:
    """The data sets of these names, and the corpora of parallel sentences, in these languages; all sets without names.

    Raises:
        InputError: an unknown name; languages without a corpus; what `ParallelCorpus.data_set` raises.
    """
    corpora = parallel_corpora()
    if languages and not any(name in corpora for name in names):
        raise InputError(f"--languages is for corpora of parallel sentences: {', '.join(corpora)}; name one of them")
    for name in names:
        if name not in corpora and name not in catalogue():
            raise unknown_name("data set", name, [*catalogue(), *corpora])
    return [
        corpora[name].data_set(languages) if name in corpora else catalogue()[name] for name in names or catalogue()
    ]

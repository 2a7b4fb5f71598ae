"""LASER's Tatoeba test set: up to 1,000 sentences and their English translations in each of 112 languages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.errors import InputError, unknown_name
from harness.core.text import REMEDY, read_lines
from harness.data.sources import DataDir, Source

_FOLDER, _RELEASE = "tatoeba", "v1"
_SIDE = re.compile(r"tatoeba\.([a-z]{2,3}(?:[-_][A-Za-z0-9]+)?)-eng\.(\1|eng)(?:\.gz)?")
LANGUAGES_FILE = Path(__file__).with_name("tatoeba_languages.tsv")


@dataclass(frozen=True)
class TatoebaLanguage:
    """A language of the test set.

    Attributes:
        code: LASER's, mostly ISO 639-3.
        iso639_1: the two-letter code, where the language has one.
        name: in English.
        pairs: number of sentence pairs published.
    """

    code: str
    iso639_1: str | None
    name: str
    pairs: int

    @property
    def lang(self) -> str:
        """What an encoder is told: ISO 639-1 where one exists, else LASER's code."""
        return self.iso639_1 or self.code


@dataclass(frozen=True)
class TatoebaPairs:
    """n sentences and their translations: `english[i]` translates `foreign[i]`; `lang` is the language of `foreign`."""

    subset: str
    foreign: list[str]
    english: list[str]
    lang: str


@cache
def languages() -> dict[str, TatoebaLanguage]:
    """The 112 languages by LASER's code, in alphabetical order of the codes."""
    rows = [line.split("\t") for line in read_lines(LANGUAGES_FILE)[1:]]
    return {code: TatoebaLanguage(code, iso or None, name, int(pairs)) for code, iso, name, pairs in rows}


_XTREME = (
    "ara heb vie ind jav tgl eus mal tam tel afr nld deu ell ben hin mar urd pes fra ita por spa bul rus jpn kat kor "
    "tha swh cmn kaz tur est fin hun"
)

GROUPS: dict[str, tuple[str, ...]] = {
    # Table 4 of Reimers & Gurevych (2020): languages with little training data.
    "paper": ("kat", "swh", "tgl", "tat"),
    # XTREME's Tatoeba task (Hu et al. 2020), 36 languages.
    "xtreme": tuple(_XTREME.split()),
    # The languages that the shipped student was trained for.
    "student": ("ara", "deu", "spa", "fra", "ita", "nld", "rus", "tur", "cmn"),
    "all": tuple(languages()),
}


def resolve_language(name: str) -> list[str]:
    """LASER's codes for a LASER code (`deu`), an ISO 639-1 code (`de`) or the name of a group (`xtreme`).

    An ISO 639-1 code means the one language that the table gives it: `ar` is `ara`, not `arq` or `arz`.

    Raises:
        InputError: unknown name; says which are near it.
    """
    table = languages()
    if name in GROUPS:
        return list(GROUPS[name])
    if name in table:
        return [name]
    by_iso = {language.iso639_1: code for code, language in table.items() if language.iso639_1}
    if name in by_iso:
        return [by_iso[name]]
    raise unknown_name("Tatoeba language or group", name, [*GROUPS, *table, *by_iso])


def tatoeba_sources(data: DataDir) -> dict[str, Source]:
    """The Tatoeba sets that are in `data`, not yet read: by folder, in alphabetical order of the codes.

    Keys are codes (`deu`), tagged `@sample` for the bundled sample. Of `tatoeba/v1/` only the 112 languages of the
    release count; a user's own `tatoeba-TAG/v1/` gives `CODE@TAG` for any code: two or three letters, with a suffix
    after `-` or `_` if need be (`deu`, `cmn_Hant`).

    Raises:
        InputError: one side of a language is there and the other is not (names the missing file); a folder with a bad
            tag.
    """
    folders: list[tuple[str, str | None, Iterable[str]]] = [(_FOLDER, None, languages())]
    for tag_of_folder, folder in data.stand_ins(_FOLDER).items():
        folders.append((folder, tag_of_folder, _codes_in(data.root / folder / _RELEASE)))
    sources: dict[str, Source] = {}
    for folder, folder_tag, codes in folders:
        tag = data.stand_in or folder_tag
        for code in codes:
            subset = f"{code}@{tag}" if tag else code
            stem = f"{folder}/{_RELEASE}/tatoeba.{code}-eng"
            files = data.find_all(f"{stem}.{code}", f"{stem}.eng")
            if files:
                sources.setdefault(subset, Source(subset, folder, files))
    return sources


def _codes_in(folder: Path) -> list[str]:
    matches = [_SIDE.fullmatch(path.name) for path in folder.glob("tatoeba.*")]
    # English has no English side.
    return sorted({match[1] for match in matches if match} - {"eng"})


def _lang(code: str) -> str:
    """Returns what an encoder is told for a code, which may be a user's own."""
    base = re.split("[-_]", code)[0]
    language = languages().get(base)
    return language.lang if language else base


def load_tatoeba(source: Source) -> TatoebaPairs:
    """Read one language.

    Raises:
        InputError: the two sides have different numbers of lines (names both files and numbers) or none.
    """
    foreign_path, english_path = source.files
    foreign, english = read_lines(foreign_path), read_lines(english_path)
    if len(foreign) != len(english):
        raise InputError(
            f"{foreign_path} has {len(foreign)} lines, but {english_path} has {len(english)}: line i of one must "
            f"translate line i of the other; {REMEDY}"
        )
    if not foreign:
        raise InputError(f"{foreign_path}: no sentences in it; {REMEDY}")
    code = source.subset.partition("@")[0]
    return TatoebaPairs(source.subset, foreign, english, _lang(code))

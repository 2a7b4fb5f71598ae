"""LASER's Tatoeba test set: up to 1,000 sentences and their English translations in each of 112 languages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.data.sources import DataDir, Source
from harness.data.text import read_lines
from harness.errors import InputError, unknown_name

FOLDER = "tatoeba/v1"
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
    """The Tatoeba sets that are in `data`, not yet read, in alphabetical order of LASER's codes.

    Keys are codes (`deu`), tagged `@sample` for the bundled sample. Only the 112 languages of the release count.

    Raises:
        InputError: one side of a language is there and the other is not; names the missing file.
    """
    mark = f"@{data.stand_in}" if data.stand_in else ""
    sources: dict[str, Source] = {}
    for code in languages():
        names = [f"{FOLDER}/tatoeba.{code}-eng.{side}" for side in (code, "eng")]
        found = [data.find(name) for name in names]
        files = tuple(path for path in found if path is not None)
        if len(files) == 1:
            missing = names[found.index(None)]
            raise InputError(f"{data.root / missing} is missing, but {files[0].name} is there; add it or remove both")
        if files:
            sources[code + mark] = Source(code + mark, "tatoeba", files)
    return sources


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
            "translate line i of the other; fetch both again"
        )
    if not foreign:
        raise InputError(f"{foreign_path}: no sentences in it; fetch it again")
    code = source.subset.partition("@")[0]
    return TatoebaPairs(source.subset, foreign, english, languages()[code].lang)

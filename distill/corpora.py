"""The corpora of parallel sentences in a data directory: in `parallel/`, and the training part of STSb Multi MT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.core.errors import InputError, unknown_name
from harness.core.files import user_path
from harness.core.text import iter_lines
from harness.data.catalogue import find_set
from harness.data.corpora import ENDINGS, NAME, Corpus, describe
from harness.data.parallel import FOLDER, parallel_corpora

STSB_TRAIN = "stsb-train"
_STSB_FILE = re.compile(r"stsb-([a-z]{2})-train\.csv(?:\.gz)?")


def find_corpora(
    data_dir: str | Path, names: Sequence[str] = (), languages: Sequence[str] = (), *, source_lang: str = "en"
) -> list[Corpus]:
    """The corpora of a data directory with `source_lang` on one side, sorted by name.

    They are in `parallel/` and its subfolders (see `harness.data.corpora`), and the training part of STSb Multi MT is
    `stsb-train.en-de` and so on. Licences are those that the table in the data directory's `SOURCES.md` gives (its
    first column names the file, its last one the licence), or else those of the public corpora.

    Args:
        data_dir: the data directory.
        names: which, as `tatoeba-manythings` (all its languages) or `tatoeba-manythings.en-de`; all if empty.
        languages: target languages; all if empty.
        source_lang: the language of the sources.

    Raises:
        InputError: a name that is not there (it says how to get it, or what is near it) or has been withdrawn; a
            language that no corpus has; one of two aligned files is missing; two files of one name.
    """
    root = user_path(data_dir)
    licences = _listed_licences(root / "SOURCES.md")
    corpora: dict[str, Corpus] = {}
    for files in _files_of_corpora(root / FOLDER):
        corpus = describe(files, source_lang, licence=licences.get(files[0].relative_to(root).as_posix(), ""))
        if source_lang not in (corpus.source_lang, corpus.target_lang):
            continue
        if corpus.name in corpora:
            first = corpora[corpus.name].files[0]
            raise InputError(f"{first} and {files[0]} are both {corpus.name}; remove one of them")
        corpora[corpus.name] = corpus
    corpora |= {corpus.name: corpus for corpus in _stsb_corpora(root, source_lang)}
    chosen = {full for name in names for full in _full_names(name, corpora, languages)} if names else set(corpora)
    present = {corpora[name].target_lang for name in chosen}
    for language in languages:
        if language not in present:
            raise InputError(
                f"no such corpus with {source_lang} and {language} in {root / FOLDER} (languages there: "
                f"{', '.join(sorted(present)) or 'none'}); `leaderboard data fetch TED2020 --languages {language}` "
                "gets one"
            )
    return [corpora[name] for name in sorted(chosen) if not languages or corpora[name].target_lang in languages]


def _files_of_corpora(folder: Path) -> Iterator[tuple[Path, ...]]:
    """The files in a folder and its subfolders that are named like a corpus; two aligned files are one item."""
    for path in sorted(path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file()):
        match = NAME.fullmatch(path.name)
        if match is None:
            continue
        name, first, second, ending = match.groups()
        ending = ending.removesuffix(".gz")
        if ending in (first, second):
            other = path.with_name(
                f"{path.name.removesuffix('.gz').removesuffix(ending)}{second if ending == first else first}"
            )
            sides = [side for side in (other, other.with_name(f"{other.name}.gz")) if side.is_file()]
            if not sides:
                raise InputError(f"{other} is missing, but {path.name} is there; add it or remove both")
            if ending == first:
                yield path, sides[0]
        elif ending in ENDINGS and (ENDINGS[ending] != "words" or _known_format(name) == "words"):
            yield (path,)


def _known_format(name: str | None) -> str:
    known = parallel_corpora().get(name or "")
    return known.format if known else ""


def _stsb_corpora(root: Path, source_lang: str) -> Iterator[Corpus]:
    paths = {
        match[1]: path for path in sorted((root / "stsb").glob("stsb-*")) if (match := _STSB_FILE.fullmatch(path.name))
    }
    for language in paths if source_lang in paths else ():
        if language != source_lang:
            yield Corpus(
                name=f"{STSB_TRAIN}.{source_lang}-{language}",
                files=(paths[source_lang], paths[language]),
                source_lang=source_lang,
                target_lang=language,
                licence=find_set("stsb").licence,
                format="stsb",
            )


def _full_names(name: str, present: Iterable[str], languages: Sequence[str]) -> list[str]:
    """The full names that a name stands for. Raises InputError."""
    bases = {full: full.rpartition(".")[0] for full in present}
    if full_names := [full for full, base in bases.items() if name in (full, base)]:
        return full_names
    known = parallel_corpora().get(name)
    if known is None:
        raise unknown_name("corpus", name, bases.values())
    known.refuse_withdrawn()
    codes = ",".join(languages) or "de"
    raise InputError(
        f"{name} is not in the data directory: `leaderboard data fetch {name} --languages {codes}` gets it"
    )


def _listed_licences(path: Path) -> dict[str, str]:
    """Licences by file from the rows `| file | ... | licence |` of a Markdown table; empty if there is no such file."""
    if not path.is_file():
        return {}
    rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in iter_lines(path) if "|" in line)
    return {cells[0]: cells[-1] for cells in rows if len(cells) > 1}

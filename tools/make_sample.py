#!/usr/bin/env python3
"""Make the bundled sample data from the hand-written tables in tools/sample/.

Run as ``python tools/make_sample.py``; it rewrites the files under
harness/sample/ in the original layouts of STS 2017, its extended language
pairs, KorSTS, the Tatoeba test sets (v1) and BUCC 2018.  The output is deterministic:
the same tables always give the same bytes.  Standard library only.
"""

import csv
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

Row = dict[str, str]
T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tools" / "sample"
OUT = ROOT / "harness" / "sample"

SEED = 2017

# STS 2017 tracks: name, column of the first sentence, column of the second.
STS_TRACKS = [
    ("track1.ar-ar", "ar_a", "ar_b"),
    ("track2.ar-en", "en_a", "ar_b"),  # English first, as in the original
    ("track3.es-es", "es_a", "es_b"),
    ("track4a.es-en", "es_a", "en_b"),
    ("track5.en-en", "en_a", "en_b"),
    ("track6.tr-en", "en_a", "tr_b"),  # English first, as in the original
]

# Extended STS 2017: sentence, sentence and score in one file.
STS_EXTENDED = [
    ("en-de", "en_a", "de_b"),
    ("fr-en", "fr_b", "en_a"),
    ("it-en", "it_b", "en_a"),
    ("nl-en", "nl_b", "en_a"),
]

# Tatoeba's three-letter codes and the columns of sentences.tsv.
TATOEBA = {
    "ara": "ar",
    "deu": "de",
    "spa": "es",
    "fra": "fr",
    "ita": "it",
    "nld": "nl",
    "rus": "ru",
    "tur": "tr",
    "cmn": "zh",
}

BUCC = ["de", "fr", "ru", "zh"]

README = """\
# Bundled sample data

A few small files in the layouts of the public data sets (STS 2017, its
extended language pairs, KorSTS, Tatoeba v1, BUCC 2018), so that the harness
can be tried and tested without a download.

- Every sentence, translation and similarity score was written for this
  project, for demonstration and tests. Nothing is taken from the public data
  sets, and scores on these files mean nothing beyond that.
- Licence: CC0 1.0 (public domain dedication).
- `calibration.tsv` has each of these sentences once, with its language. The
  scales of int8 vectors come from it, and its checksum is part of their
  fingerprints: a change of it makes other vectors.
- Made by `tools/make_sample.py` from the tables in `tools/sample/`. Do not edit
  the files here; edit the tables and run the script again.
"""


def read_table(name: str) -> list[Row]:
    """The rows of a tab-separated table with a header, as dictionaries."""
    with (TABLES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_lines(name: str, lines: Iterable[str]) -> None:
    """Write lines as UTF-8 with LF line ends and a final newline."""
    path = OUT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def make_sts(pairs: list[Row]) -> None:
    for track, first, second in STS_TRACKS:
        write_lines(f"sts17/STS.input.{track}.txt", [f"{p[first]}\t{p[second]}" for p in pairs])
        write_lines(f"sts17/STS.gs.{track}.txt", [p["score"] for p in pairs])
    for name, first, second in STS_EXTENDED:
        write_lines(f"sts17-extended/STS.{name}.txt", [f"{p[first]}\t{p[second]}\t{p['score']}" for p in pairs])


def make_korsts(pairs: list[Row]) -> None:
    header = ["genre", "filename", "year", "id", "score", "sentence1", "sentence2"]
    rows = [
        ["sample", "sample", "2026", f"{n:04d}", pair["score"], pair["sentence1"], pair["sentence2"]]
        for n, pair in enumerate(pairs)
    ]
    write_lines("korsts/sts-test.tsv", ["\t".join(row) for row in [header, *rows]])


def make_tatoeba(sentences: list[Row]) -> None:
    for code, lang in TATOEBA.items():
        stem = f"tatoeba/v1/tatoeba.{code}-eng"
        write_lines(f"{stem}.{code}", [s[lang] for s in sentences])
        write_lines(f"{stem}.eng", [s["en"] for s in sentences])


def numbered(lang: str, sentences: list[str], rng: random.Random) -> dict[str, str]:
    """Shuffle one side of a corpus and number it: {sentence: id}, in order."""
    sentences = list(sentences)
    rng.shuffle(sentences)
    ids = {s: f"{lang}-{n:09d}" for n, s in enumerate(sentences, 1)}
    if len(ids) != len(sentences):
        raise ValueError(f"a {lang} sentence occurs twice")
    return ids


def halves(items: list[T], rng: random.Random) -> dict[str, list[T]]:
    """Split shuffled items into a training half and a test half."""
    items = list(items)
    rng.shuffle(items)
    middle = len(items) // 2
    return {"training": items[:middle], "test": items[middle:]}


def make_bucc(sentences: list[Row], distractors: dict[str, list[str]], rng: random.Random) -> None:
    """Hide parallel sentences among distractors; other ones in each split."""
    for lang in BUCC:
        parallel = halves(sentences, rng)
        foreign = halves(distractors[lang], rng)
        english = halves(distractors["en"], rng)
        for split, pairs in parallel.items():
            xx = numbered(lang, [p[lang] for p in pairs] + foreign[split], rng)
            en = numbered("en", [p["en"] for p in pairs] + english[split], rng)
            stem = f"bucc2018/{lang}-en/{lang}-en.{split}"
            write_lines(f"{stem}.{lang}", [f"{i}\t{s}" for s, i in xx.items()])
            write_lines(f"{stem}.en", [f"{i}\t{s}" for s, i in en.items()])
            write_lines(f"{stem}.gold", sorted(f"{xx[p[lang]]}\t{en[p['en']]}" for p in pairs))


def make_calibration(sts: list[Row], korsts: list[Row], sentences: list[Row], others: dict[str, list[str]]) -> None:
    """Every sentence of the files above, once, with its language: what int8 vectors are calibrated with."""
    columns = {column for _, *pair in STS_TRACKS + STS_EXTENDED for column in pair}
    found = {(column[:2], row[column]) for column in columns for row in sts}
    found |= {("ko", row[column]) for column in ("sentence1", "sentence2") for row in korsts}
    found |= {(lang, row[lang]) for lang in ("en", *TATOEBA.values()) for row in sentences}
    found |= {(lang, sentence) for lang in ("en", *BUCC) for sentence in others[lang]}
    write_lines("calibration.tsv", [f"{lang}\t{sentence}" for lang, sentence in sorted(found)])


def main() -> None:
    sentences = read_table("sentences.tsv")
    distractors: dict[str, list[str]] = {}
    for row in read_table("distractors.tsv"):
        distractors.setdefault(row["lang"], []).append(row["sentence"])

    sts, korsts = read_table("sts.tsv"), read_table("korsts.tsv")
    make_sts(sts)
    make_korsts(korsts)
    make_tatoeba(sentences)
    make_bucc(sentences, distractors, random.Random(SEED))
    make_calibration(sts, korsts, sentences, distractors)
    write_lines("README.md", README.splitlines())
    count = sum(path.is_file() for path in OUT.rglob("*"))
    print(f"{count} files in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.data import DataDir
from harness.data.tatoeba import GROUPS, languages, load_tatoeba, resolve_language, tatoeba_sources
from harness.errors import InputError

Write = Callable[[str, "bytes | str"], Path]
V1 = "tatoeba/v1/tatoeba"


def test_reads_both_sides(write: Write, data: DataDir) -> None:
    write(f"{V1}.swh-eng.swh", " Habari\u2028 \nNdiyo\n")
    write(f"{V1}.swh-eng.eng.gz", gzip.compress(b"\xef\xbb\xbfHello\r\nYes"))
    write(f"{V1}.arq-eng.arq", "a\n")
    write(f"{V1}.arq-eng.eng", "b\n")
    write(f"{V1}.xyz-eng.xyz", "not one of the 112\n")
    assert list(tatoeba_sources(data)) == ["arq", "swh"]
    pairs = load_tatoeba(tatoeba_sources(data)["swh"])
    assert (pairs.subset, pairs.lang) == ("swh", "sw")
    assert pairs.foreign == [" Habari\u2028 ", "Ndiyo"] and pairs.english == ["Hello", "Yes"]
    sample = tatoeba_sources(DataDir(data.root, "sample"))
    assert list(sample) == ["arq@sample", "swh@sample"]
    assert load_tatoeba(sample["arq@sample"]).lang == "arq"
    assert load_tatoeba(sample["arq@sample"]).subset == "arq@sample"


def test_sides_of_different_length(write: Write, data: DataDir) -> None:
    write(f"{V1}.deu-eng.deu", "a\nb\nc\n")
    write(f"{V1}.deu-eng.eng", "a\nb\n")
    with pytest.raises(InputError, match=r"deu-eng\.deu has 3 lines, but .*deu-eng\.eng has 2"):
        load_tatoeba(tatoeba_sources(data)["deu"])


def test_a_side_is_missing(write: Write, data: DataDir) -> None:
    write(f"{V1}.deu-eng.deu", "a\n")
    with pytest.raises(InputError, match=r"tatoeba\.deu-eng\.eng is missing"):
        tatoeba_sources(data)


def test_no_sentences(write: Write, data: DataDir) -> None:
    write(f"{V1}.deu-eng.deu", "")
    write(f"{V1}.deu-eng.eng", "")
    with pytest.raises(InputError, match="no sentences"):
        load_tatoeba(tatoeba_sources(data)["deu"])


def test_bad_bytes_are_named(write: Write, data: DataDir) -> None:
    write(f"{V1}.deu-eng.deu", b"a\nb\n\xff\n")
    write(f"{V1}.deu-eng.eng", "a\nb\nc\n")
    with pytest.raises(InputError, match=r"deu-eng\.deu:3: not UTF-8"):
        load_tatoeba(tatoeba_sources(data)["deu"])


def test_the_table_of_languages() -> None:
    table = languages()
    assert len(table) == 112 and list(table) == sorted(table)
    assert sum(language.pairs for language in table.values()) == 88_877
    assert sum(language.iso639_1 is None for language in table.values()) == 28
    two = [language.iso639_1 for language in table.values() if language.iso639_1]
    assert len(two) == len(set(two)) and all(len(code) == 2 for code in two)
    expected = (
        "ara:ar cmn:zh swh:sw pes:fa zsm:ms nob:nb nno:nn ell:el lvs:lv est:et sqi:sq aze:az mon:mn kur:ku jav:jv"
    )
    for pair in expected.split():
        code, iso = pair.split(":")
        assert table[code].iso639_1 == table[code].lang == iso
    without = "ang arq arz ast awa ber cbk ceb csb dsb dtp gsw hsb kab kzj lfn max mhr nds nov orv pam pms swg tzl war"
    for code in [*without.split(), "wuu", "yue"]:
        assert table[code].iso639_1 is None and table[code].lang == code
    assert table["kat"].name == "Georgian" and table["kat"].pairs == 746


def test_groups() -> None:
    assert GROUPS["paper"] == ("kat", "swh", "tgl", "tat")
    assert len(GROUPS["all"]) == 112 and len(GROUPS["student"]) == 9 and len(GROUPS["xtreme"]) == 36
    xtreme = (
        "ar he vi id jv tl eu ml ta te af nl de el bn hi mr ur fa fr it pt es bg ru ja ka ko th sw zh kk tr et fi hu"
    )
    assert [languages()[code].iso639_1 for code in GROUPS["xtreme"]] == xtreme.split()
    assert set(GROUPS["student"]) <= set(languages())


@pytest.mark.parametrize(
    ("name", "codes"),
    [("deu", ["deu"]), ("de", ["deu"]), ("ar", ["ara"]), ("zh", ["cmn"]), ("paper", ["kat", "swh", "tgl", "tat"])],
)
def test_names_of_languages(name: str, codes: list[str]) -> None:
    assert resolve_language(name) == codes


def test_unknown_language() -> None:
    with pytest.raises(InputError, match="unknown Tatoeba language or group 'deuu'; did you mean 'deu'"):
        resolve_language("deuu")


def test_real_sets(real_sets: Callable[[str], DataDir]) -> None:
    sources = tatoeba_sources(real_sets("tatoeba/v1"))
    assert list(sources) == list(languages())
    sizes = {}
    for code, source in sources.items():
        foreign = source.files[0].read_bytes()
        pairs = load_tatoeba(source)
        sizes[code] = len(pairs.foreign)
        assert "".join(f"{sentence}\n" for sentence in pairs.foreign).encode() == foreign
    assert sizes == {code: language.pairs for code, language in languages().items()}
    assert sum(sizes.values()) == 88_877

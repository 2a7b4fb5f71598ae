from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import InputError
from harness.data import DataDir
from harness.data.bucc import bucc_sources
from harness.data.sts import sts_sources
from harness.data.tatoeba import GROUPS, languages, load_tatoeba, resolve_language, tatoeba_sources
from harness.tasks import get_task

Write = Callable[[str, "bytes | str"], Path]
V1 = "tatoeba/v1/tatoeba"


def put_language(write: Write, folder: str, code: str, suffix: str = "") -> None:
    for side, text in ((code, b"a\n"), ("eng", b"b\n")):
        write(f"{folder}/tatoeba.{code}-eng.{side}{suffix}", gzip.compress(text) if suffix else text)


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


def test_sets_of_ones_own(write: Write, data: DataDir) -> None:
    put_language(write, "tatoeba/v1", "scn")  # not one of the 112
    put_language(write, "tatoeba/v1", "deu")
    for code in ("scn", "deu", "kat", "de", "cmn_Hant", "zh-tw", "eng", "german"):
        put_language(write, "tatoeba-mine/v1", code)
    put_language(write, "tatoeba-a1-b/v1", "swh", ".gz")
    write("tatoeba-b/README.md", "no sets")
    write("tatoeba-Notes", "no folder")
    sources = tatoeba_sources(data)
    names = "deu swh@a1-b cmn_Hant@mine de@mine deu@mine kat@mine scn@mine zh-tw@mine"
    assert " ".join(sources) == names == " ".join(source.subset for source in sources.values())
    assert sources["deu"].dataset == "tatoeba" and sources["deu@mine"].dataset == "tatoeba-mine"
    langs = {name: load_tatoeba(source).lang for name, source in sources.items()}
    assert " ".join(langs.values()) == "de sw zh de de ka scn zh"


def test_a_side_of_ones_own_set_is_missing(write: Write, data: DataDir) -> None:
    write("tatoeba-mine/v1/tatoeba.scn-eng.eng", "a\n")
    with pytest.raises(InputError, match=r"tatoeba-mine/v1/tatoeba\.scn-eng\.scn is missing"):
        tatoeba_sources(data)


@pytest.mark.parametrize("tag", ["Mine", "a_b", "a@b", "ä", ""])
def test_bad_tags(write: Write, data: DataDir, tag: str) -> None:
    put_language(write, f"tatoeba-{tag}/v1", "deu")
    with pytest.raises(InputError, match=rf"tatoeba-{tag}: the tag '{tag}' is not made of a-z, 0-9 and -"):
        tatoeba_sources(data)


@pytest.mark.parametrize("sources", [tatoeba_sources, sts_sources, bucc_sources])
def test_the_tag_of_the_sample_is_taken(data: DataDir, sources: Callable[[DataDir], object]) -> None:
    for folder in ("tatoeba-sample", "sts17-extended-sample", "bucc2018-sample"):
        (data.root / folder).mkdir()
    with pytest.raises(InputError, match="-sample: the tag 'sample' is that of another set"):
        sources(data)


def test_averages_of_ones_own_sets(write: Write, data: DataDir) -> None:
    for code in GROUPS["paper"]:
        put_language(write, "tatoeba-mine/v1", code)
    put_language(write, "tatoeba/v1", "kat")
    averages = get_task("tatoeba").averages(tatoeba_sources(data))
    assert averages == {"avg-paper@mine": tuple(f"{code}@mine" for code in GROUPS["paper"])}


def test_sides_of_different_length(write: Write, data: DataDir) -> None:
    write(f"{V1}.deu-eng.deu", "a\nb\nc\n")
    write(f"{V1}.deu-eng.eng", "a\nb\n")
    with pytest.raises(
        InputError, match=r"deu-eng\.deu has 3 lines, but .*deu-eng\.eng has 2.*; correct it, or if it was fetched"
    ):
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

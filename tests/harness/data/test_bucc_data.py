from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import InputError
from harness.data import DataDir
from harness.data.bucc import bucc_sources, load_bucc

Write = Callable[[str, "bytes | str"], Path]
DE, EN, GOLD = (
    "bucc2018/de-en/de-en.training.de",
    "bucc2018/de-en/de-en.training.en",
    "bucc2018/de-en/de-en.training.gold",
)


def put_pair(write: Write, folder: str = "bucc2018", split: str = "training", gold: bool = True) -> None:
    stem = f"{folder}/de-en/de-en.{split}"
    write(f"{stem}.de", "de-000000001\tEins \nde-000000002\t zwei\nde-000000003\t\nde-000000004\tvier\u2028 4\n")
    write(f"{stem}.en", "en-000000009\tTwo\nen-000000010\tx\ty\nen-000000011\tOne\n")
    if gold:
        write(f"{stem}.gold", "de-000000002\ten-000000009\nde-000000001\ten-000000011\n")


def test_reads_sentences_as_they_are(write: Write, data: DataDir) -> None:
    put_pair(write)
    (source,) = bucc_sources(data).values()
    pair = load_bucc(source)
    assert (pair.subset, pair.lang1, pair.lang2, pair.test) == ("de-en", "de", "en", None)
    assert pair.training.sentences1 == ["Eins ", " zwei", "", "vier\u2028 4"]
    assert pair.training.sentences2 == ["Two", "x\ty", "One"]
    assert pair.training.gold.dtype == "int64" and pair.training.gold.tolist() == [[1, 0], [0, 2]]


def test_names_of_subsets_and_data_sets(write: Write, data: DataDir) -> None:
    put_pair(write)
    put_pair(write, "bucc-style/bucc2018")
    sources = bucc_sources(data)
    assert {name: source.dataset for name, source in sources.items()} == {
        "de-en": "bucc2018",
        "de-en@ntrex": "bucc-style",
    }
    assert list(bucc_sources(DataDir(data.root, "sample"))) == ["de-en@sample"]
    assert bucc_sources(DataDir(data.root / "bucc2018")) == {}


def test_test_split_with_and_without_gold(write: Write, data: DataDir) -> None:
    put_pair(write)
    put_pair(write, split="test", gold=False)
    assert load_bucc(bucc_sources(data)["de-en"]).test is None
    put_pair(write, split="test")
    pair = load_bucc(bucc_sources(data)["de-en"])
    assert pair.test is not None and pair.test.gold.tolist() == [[1, 0], [0, 2]]


def test_windows_files_bom_and_gzip(write: Write, data: DataDir) -> None:
    put_pair(write)
    expected = load_bucc(bucc_sources(data)["de-en"]).training
    for name in (DE, EN, GOLD):
        path = data.root / name
        write(f"{name}.gz", gzip.compress(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")))
        path.unlink()
    read = load_bucc(bucc_sources(data)["de-en"]).training
    assert read.sentences1 == expected.sentences1 and read.sentences2 == expected.sentences2
    assert read.gold.tolist() == expected.gold.tolist()


@pytest.mark.parametrize("name", [DE, EN, GOLD])
def test_a_training_file_is_missing(write: Write, data: DataDir, name: str) -> None:
    put_pair(write)
    (data.root / name).unlink()
    with pytest.raises(InputError, match=f"{Path(name).name} is missing"):
        bucc_sources(data)


def test_test_gold_without_sentences(write: Write, data: DataDir) -> None:
    put_pair(write)
    write("bucc2018/de-en/de-en.test.gold", "a\tb\n")
    with pytest.raises(InputError, match=r"de-en\.test\.de is missing"):
        bucc_sources(data)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (DE, "de-1\ta\nde-2\tb\nde-1\tc\n", r"training\.de:3: the id de-1 occurs twice"),
        (DE, "de-1\ta\nno tab\n", r"training\.de:2: expected an id, a tab and a sentence, found 'no tab'"),
        (DE, "de-1\ta\n\tno id\n", r"training\.de:2: expected an id"),
        (EN, "en-1\ta\n\n", r"training\.en:2: expected an id"),
        (EN, b"en-1\ta\nen-2\t\xff\n", r"training\.en:2: not UTF-8"),
        (
            GOLD,
            "de-000000001\ten-000000009\nde-7\ten-000000010\n",
            r"training\.gold:2: no id 'de-7' in de-en\.training\.de",
        ),
        (GOLD, "de-000000001\ten-7\n", r"training\.gold:1: no id 'en-7' in de-en\.training\.en"),
        (GOLD, "en-000000009\tde-000000001\n", r"training\.gold:1: no id 'en-000000009' in"),
        (
            GOLD,
            "de-000000001\ten-000000009\n" * 2,
            r"training\.gold:2: the id de-000000001 is in a pair on line 1 already",
        ),
        (
            GOLD,
            "de-000000002\ten-000000009\nde-000000001\ten-000000010\nde-000000001\ten-000000011\n",
            r"training\.gold:3: the id de-000000001 is in a pair on line 2 already",
        ),
        (
            GOLD,
            "de-000000001\ten-000000009\nde-000000002\ten-000000009\n",
            r"training\.gold:2: the id en-000000009 is in a pair on line 1 already",
        ),
        (GOLD, "de-000000001 en-000000009\n", r"training\.gold:1: expected two ids"),
        (GOLD, "de-000000001\ten-000000009\t1\n", r"training\.gold:1: expected two ids"),
        (GOLD, "de-000000001\t\n", r"training\.gold:1: expected two ids"),
        (GOLD, "", "no gold pairs"),
    ],
)
def test_bad_files(write: Write, data: DataDir, name: str, content: bytes | str, message: str) -> None:
    put_pair(write)
    write(name, content)
    with pytest.raises(InputError, match=message) as caught:
        load_bucc(bucc_sources(data)["de-en"])
    assert "\n" not in str(caught.value)


def test_sets_of_ones_own(write: Write, data: DataDir) -> None:
    put_pair(write)
    put_pair(write, "bucc2018-mine")
    put_pair(write, "bucc2018-mine", split="test")
    put_pair(write, "bucc-style/bucc2018")
    for kind, content in (("gsw", "a\tb\n"), ("fr", "c\td\n"), ("gold", "a\tc\n")):
        write(f"bucc2018-mine/gsw-fr/gsw-fr.training.{kind}", content)
        write(f"bucc2018/gsw-fr/gsw-fr.training.{kind}", content)
    write("bucc2018-mine/README.md", "no pair")
    sources = bucc_sources(data)
    assert list(sources) == ["de-en", "de-en@ntrex", "de-en@mine", "gsw-fr@mine"]
    assert sources["de-en@mine"].dataset == "bucc2018-mine"
    pair = load_bucc(sources["gsw-fr@mine"])
    assert (pair.subset, pair.lang1, pair.lang2, pair.test) == ("gsw-fr@mine", "gsw", "fr", None)
    assert pair.training.gold.tolist() == [[0, 0]]
    assert load_bucc(sources["de-en@mine"]).test is not None


def test_the_tag_of_the_stand_in_is_taken(write: Write, data: DataDir) -> None:
    put_pair(write, "bucc2018-ntrex")
    with pytest.raises(InputError, match="bucc2018-ntrex: the tag 'ntrex' is that of another set"):
        bucc_sources(data)


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "gold"), [("de-en", 980), ("fr-en", 933), ("ru-en", 740), ("zh-en", 666)])
def test_real_stand_in(real_sets: Callable[[str], DataDir], pair: str, gold: int) -> None:
    data = real_sets(f"bucc-style/bucc2018/{pair}")
    source = bucc_sources(data)[f"{pair}@ntrex"]
    read = load_bucc(source)
    assert read.test is not None
    assert len(read.training.gold) == len(read.test.gold) == gold
    # The plain way, on one split.
    xx, en, pairs = ([line.split("\t") for line in text(path).split("\n")[:-1]] for path in source.files[:3])
    rows1, rows2 = ({row[0]: number for number, row in enumerate(side)} for side in (xx, en))
    assert read.training.sentences1 == [row[1] for row in xx] and read.training.sentences2 == [row[1] for row in en]
    assert read.training.gold.tolist() == [[rows1[first], rows2[second]] for first, second in pairs]


def text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()

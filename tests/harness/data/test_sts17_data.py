from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import InputError
from harness.data import DataDir
from harness.data.sts import CROSS_LINGUAL, SAME_LANGUAGE, STS_SUBSETS, load_sts, sts_sources
from harness.tasks import get_task

Write = Callable[[str, "bytes | str"], Path]

TRACKS = {
    "en-en": ("track5.en-en", "en", "en"),
    "es-es": ("track3.es-es", "es", "es"),
    "ar-ar": ("track1.ar-ar", "ar", "ar"),
    "en-ar": ("track2.ar-en", "en", "ar"),
    "en-tr": ("track6.tr-en", "en", "tr"),
    "en-es": ("track4a.es-en", "es", "en"),
}


def put_track(write: Write, stem: str, pairs: int = 3, scores: int | None = None) -> tuple[Path, Path]:
    """A track whose sentences name their column and line."""
    return (
        write(f"sts17/STS.input.{stem}.txt", "".join(f"left {i}\tright {i}\n" for i in range(pairs))),
        write(
            f"sts17/STS.gs.{stem}.txt", "".join(f"{i % 6}.000000\n" for i in range(pairs if scores is None else scores))
        ),
    )


@pytest.mark.parametrize("subset", TRACKS)
def test_tracks_and_their_columns(write: Write, data: DataDir, subset: str) -> None:
    stem, lang1, lang2 = TRACKS[subset]
    put_track(write, stem)
    assert list(sts_sources(data)) == [subset]
    pairs = load_sts(sts_sources(data)[subset])
    assert (pairs.subset, pairs.lang1, pairs.lang2) == (subset, lang1, lang2)
    assert pairs.sentences1 == ["left 0", "left 1", "left 2"]
    assert pairs.sentences2 == ["right 0", "right 1", "right 2"]
    assert pairs.gold.dtype == "float64" and pairs.gold.tolist() == [0.0, 1.0, 2.0]


def test_order_and_tags(write: Write, data: DataDir) -> None:
    for stem in ("track4a.es-en", "track4b.es-en", "track5.en-en", "track6.tr-en"):
        put_track(write, stem)
    for name in ("sts17-extended/STS.nl-en", "sts17-extended/STS.en-de", "sts17-extended/STS.ko-ko"):
        write(f"{name}.txt", "a\tb\t1\n")
    for name in ("STS.fr-en", "STS.en-de", "more/STS.ja-en", "more/STS.es-en"):
        write(f"sts17-extended-deepl/{name}.txt", "a\tb\t1\n")
    names = ["en-en", "en-de", "en-tr", "en-es", "en-nl", "en-de@deepl", "en-fr@deepl", "en-es@deepl", "en-ja@deepl"]
    sources = sts_sources(data)
    assert list(sources) == names == [source.subset for source in sources.values()]
    assert sources["en-de"].dataset == "sts17-extended" and sources["en-de@deepl"].dataset == "sts17-extended-deepl"
    pairs = load_sts(sources["en-fr@deepl"])
    assert (pairs.lang1, pairs.lang2, pairs.subset) == ("fr", "en", "en-fr@deepl")
    sample = sts_sources(DataDir(data.root, stand_in="sample"))
    assert list(sample) == [
        f"{name}@sample" for name in ["en-en", "en-de", "en-tr", "en-es", "en-nl", "en-fr", "en-ja"]
    ]


def test_sets_of_ones_own_and_their_averages(write: Write, data: DataDir) -> None:
    for stem, _, _ in TRACKS.values():
        put_track(write, stem)
    for name in ("en-de", "fr-en", "it-en", "nl-en", "ko-ko", "more/ja-en"):
        folder, _, pair = name.rpartition("/")
        write(f"sts17-extended-mine/{folder}/STS.{pair}.txt", "a\tb\t1\n")
    write("sts17-extended-deepl/STS.en-de.txt", "a\tb\t1\n")
    sources = sts_sources(data)
    assert [name for name in sources if "@" in name] == [
        *("en-de@deepl", "en-de@mine", "en-fr@mine", "en-it@mine", "en-nl@mine", "ko-ko@mine", "en-ja@mine"),
    ]
    assert sources["en-ja@mine"].dataset == "sts17-extended-mine" and load_sts(sources["en-ja@mine"]).lang1 == "ja"
    assert list(get_task("sts17").averages(sources)) == ["avg-same", "avg-cross@mine"]
    joined = get_task("language-bias").sources(data)
    assert list(joined) == ["official6", "ten@mine"]
    assert joined["ten@mine"].dataset == "sts17+sts17-extended-mine"


def test_the_ten_sets() -> None:
    assert " ".join(STS_SUBSETS) == "en-en es-es ar-ar en-ar en-de en-tr en-es en-fr en-it en-nl"
    assert len(SAME_LANGUAGE) == 3 and len(CROSS_LINGUAL) == 7


def test_no_folder_no_sources(data: DataDir) -> None:
    assert sts_sources(data) == {}


def test_quotes_are_ordinary(write: Write, data: DataDir) -> None:
    write("sts17-extended/STS.en-de.txt", '"Hi," he said.\t"Hallo"\t4\n"a\tb"\t0\n')
    pairs = load_sts(sts_sources(data)["en-de"])
    assert pairs.sentences1 == ['"Hi," he said.', '"a'] and pairs.sentences2 == ['"Hallo"', 'b"']


def test_windows_files_and_gzip_give_the_same(write: Write, data: DataDir) -> None:
    text = "naïve \u2028\ta\t1.5\nb \u0085c\td\t2\n"
    write("sts17-extended/STS.en-de.txt", text)
    write("sts17-extended/STS.fr-en.txt", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    write("sts17-extended/STS.it-en.txt.gz", gzip.compress(text.rstrip("\n").encode()))
    expected = (["naïve \u2028", "b \u0085c"], ["a", "d"], [1.5, 2.0])
    for source in sts_sources(data).values():
        pairs = load_sts(source)
        assert (pairs.sentences1, pairs.sentences2, pairs.gold.tolist()) == expected


def test_track_6_counts_its_first_250_pairs(write: Write, data: DataDir) -> None:
    pairs, scores = put_track(write, "track6.tr-en", 500, 250)
    # 2.1336 * 250 = 533.4: the published mean is asserted for sets of 250.
    scores.write_text("2\n" * 200 + "2.668\n" * 50)
    read = load_sts(sts_sources(data)["en-tr"])
    assert len(read.sentences1) == len(read.sentences2) == len(read.gold) == 250
    assert read.sentences1[-1] == "left 249" and pairs.exists()


@pytest.mark.parametrize(
    ("stem", "pairs", "scores"),
    [("track5.en-en", 500, 250), ("track6.tr-en", 500, 249), ("track6.tr-en", 499, 250), ("track1.ar-ar", 3, 4)],
)
def test_other_lengths_are_errors(write: Write, data: DataDir, stem: str, pairs: int, scores: int) -> None:
    put_track(write, stem, pairs, scores)
    (source,) = sts_sources(data).values()
    with pytest.raises(InputError, match=rf"STS\.gs\.{stem}\.txt: {scores} scores for the {pairs} pairs of STS\.input"):
        load_sts(source)


@pytest.mark.parametrize("missing", [0, 1])
def test_half_a_track(write: Write, data: DataDir, missing: int) -> None:
    files = put_track(write, "track3.es-es")
    files[missing].unlink()
    with pytest.raises(InputError, match=rf"{files[missing].name} is missing, but {files[1 - missing].name} is there"):
        sts_sources(data)


@pytest.mark.parametrize("score", ["x", "", "5.2", "-1", "nan"])
def test_bad_scores(write: Write, data: DataDir, score: str) -> None:
    _, gold = put_track(write, "track1.ar-ar")
    gold.write_text(f"1\n{score}\n2\n")
    write("sts17-extended/STS.en-de.txt", f"a\tb\t1\na\tb\t{score}\n")
    for source, name in zip(sts_sources(data).values(), ("STS.gs.track1.ar-ar.txt:2", "STS.en-de.txt:2"), strict=True):
        with pytest.raises(InputError, match=f"{name}: "):
            load_sts(source)


@pytest.mark.parametrize("line", ["no tab", "a\tb\tc", ""])
def test_wrong_tabs(write: Write, data: DataDir, line: str) -> None:
    pairs, _ = put_track(write, "track1.ar-ar")
    pairs.write_text(f"a\tb\n{line}\nc\td\n")
    with pytest.raises(InputError, match=r"track1\.ar-ar\.txt:2: \d columns?, expected 2"):
        load_sts(sts_sources(data)["ar-ar"])
    write("sts17-extended/STS.en-de.txt", "a\tb\t1\nc\td\n")
    with pytest.raises(InputError, match=r"STS\.en-de\.txt:2: 2 columns, expected 3"):
        load_sts(sts_sources(data)["en-de"])


def test_bad_bytes_are_named(write: Write, data: DataDir) -> None:
    write("sts17-extended/STS.en-de.txt", b"a\tb\t1\na\tM\xfcll\t1\n")
    with pytest.raises(InputError, match=r"STS\.en-de\.txt:2: not UTF-8"):
        load_sts(sts_sources(data)["en-de"])


def test_empty_set(write: Write, data: DataDir) -> None:
    write("sts17-extended/STS.en-de.txt", "")
    with pytest.raises(InputError, match="no sentence pairs"):
        load_sts(sts_sources(data)["en-de"])


@pytest.mark.parametrize("subset", ["en-en", "en-nl"])
def test_scores_of_other_pairs_are_noticed(write: Write, data: DataDir, subset: str) -> None:
    if subset == "en-en":
        put_track(write, "track5.en-en", 250)
    else:
        write("sts17-extended/STS.nl-en.txt", "a\tb\t2\n" * 250)
    with pytest.raises(InputError, match=rf"do not belong to the pairs of {subset}.*published set 2\.2776"):
        load_sts(sts_sources(data)[subset])
    assert len(load_sts(sts_sources(DataDir(data.root, "sample"))[f"{subset}@sample"]).gold) == 250


def test_cut_sets_are_accepted(write: Write, data: DataDir) -> None:
    put_track(write, "track5.en-en", 249)
    assert len(load_sts(sts_sources(data)["en-en"]).gold) == 249


def test_real_mean_golds(real_sets: Callable[[str], DataDir]) -> None:
    data = real_sets("sts17")
    means = {"ar-ar": 2.2168, "en-ar": 2.1424, "es-es": 2.2312, "en-es": 2.1464, "en-en": 2.2776, "en-tr": 2.1336}
    sources = sts_sources(data)
    for subset, mean in means.items():
        pairs = load_sts(sources[subset])
        assert len(pairs.sentences1) == len(pairs.sentences2) == 250
        assert sum(pairs.gold.tolist()) / 250 == pytest.approx(mean, abs=1e-9)
    assert load_sts(sources["en-en"]).sentences1[0] == "A person is on a baseball team."
    assert load_sts(sources["en-es"]).sentences2[1] == "Kids are dancing."


def test_real_stand_ins(real_sets: Callable[[str], DataDir]) -> None:
    data = real_sets("sts17-extended-deepl")
    sources = {name: source for name, source in sts_sources(data).items() if name.endswith("@deepl")}
    names = " ".join(name.removesuffix("@deepl") for name in sources)
    assert names == "en-de en-fr en-it en-nl en-es en-ja en-pl en-pt en-ru en-zh"
    english = load_sts(sts_sources(data)["en-en"])
    for name, source in sources.items():
        pairs = load_sts(source)
        assert pairs.gold.tolist() == english.gold.tolist()
        if name == "en-de@deepl":
            assert pairs.sentences1 == english.sentences1
        else:
            assert pairs.sentences2 == english.sentences2

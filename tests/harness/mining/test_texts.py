"""Reading one's own text onto disk, against lists and dictionaries in memory."""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InputError, MissingExtraError
from harness.mining.texts import Reading, Sentences, read_sentences
from harness.mining.work import WorkDir, open_work

# Few characters, so that blank and repeated lines come up; of Python's line ends all but the line feed.
LINE = st.text(st.sampled_from("ab \r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\u00a0é\U0001f600"), max_size=4)
FILES = st.lists(st.lists(LINE, max_size=6), min_size=1, max_size=3)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A side that is of no interest."""
    (tmp_path / "other.en").write_text("xyz\n")
    return tmp_path / "other.en"


def read(files: Sequence[Path], other: Path, reading: Reading | None = None) -> Sentences:
    with tempfile.TemporaryDirectory() as folder:
        found = read_sentences([files, [other]], reading or Reading(), WorkDir(Path(folder)))[0]
        return Sentences(**{**vars(found), "sentences": list(found.sentences)})  # the folder goes


def flat(line: str) -> str:
    """A carriage return before the line feed is part of the line end; what else Python ends lines at is a blank."""
    return "".join(" " if len(f"a{one}a".splitlines()) == 2 else one for one in line.removesuffix("\r"))


@pytest.mark.slow
@settings(max_examples=70, deadline=None)
@given(files=FILES, low=st.integers(1, 3), high=st.integers(3, 5) | st.none(), dedup=st.booleans())
def test_what_is_read_and_left_out(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], low: int, high: int | None, dedup: bool
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "other.en").write_text("xyz\n")
    paths = [folder / f"text-{number}.de" for number in range(len(files))]
    for path, lines in zip(paths, files, strict=True):
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    numbered = [
        (flat(line), (path.name, number))
        for path, lines in zip(paths, files, strict=True)
        for number, line in enumerate(lines, start=1)
    ]
    written = [(line, place) for line, place in numbered if not line.isspace() and line]
    fitting = [(line, place) for line, place in written if low <= len(line) <= (high or 10)]
    expected = list({line: (line, place) for line, place in reversed(fitting)}.values())[::-1] if dedup else fitting
    expected.sort(key=numbered.index)
    reading = Reading(low, high, dedup)
    if not expected:
        with pytest.raises(InputError, match=r"no sentence in it|is empty"):
            read(paths, folder / "other.en", reading)
        return
    found = read(paths, folder / "other.en", reading)
    assert found.sentences == [line for line, _ in expected]
    assert [found.place(row) for row in range(len(expected))] == [place for _, place in expected]
    assert [numbered[line - 1][0] for line in found.lines] == found.sentences
    assert found.n_lines == len(numbered) and found.n_blank == len(numbered) - len(written)
    assert found.n_length == len(written) - len(fitting) and found.n_repeated == len(fitting) - len(expected)


DOCUMENT = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from(["eins", "zwei", "drei"])), min_size=1, max_size=9
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(sides=st.tuples(DOCUMENT, DOCUMENT), dedup=st.booleans())
def test_documents_that_both_sides_have_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, sides: tuple[list[tuple[str, str]], ...], dedup: bool
) -> None:
    folder = tmp_path_factory.getbasetemp()
    paths = [folder / "documents.de", folder / "documents.en"]
    for path, lines in zip(paths, sides, strict=True):
        path.write_text("".join(f"{name}\t{sentence}\n" for name, sentence in lines))
    shared = [name for name in dict.fromkeys(name for name, _ in sides[0]) if name in dict(sides[1])]
    reading = Reading(dedup=dedup, documents=True)
    with tempfile.TemporaryDirectory() as work:
        if not shared:
            with pytest.raises(InputError, match="no document in common"):
                read_sentences([[path] for path in paths], reading, WorkDir(Path(work)))
            return
        for found, lines in zip(
            read_sentences([[path] for path in paths], reading, WorkDir(Path(work))), sides, strict=True
        ):
            documents = [[sentence for name, sentence in lines if name == one] for one in shared]
            expected = [list(dict.fromkeys(document)) if dedup else document for document in documents]
            assert found.bounds is not None
            assert [
                found.sentences[start:end] for start, end in zip(found.bounds, found.bounds[1:], strict=False)
            ] == expected
            assert found.n_lines == len(lines)
            assert found.document is not None
            for row, sentence in enumerate(found.sentences):
                assert lines[found.place(row)[1] - 1] == (found.document(row), sentence)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a/1.de", "b/2.de"], ["1.de", "2.de"]),
        (["a/1.de", "b/1.de"], ["a/1.de", "b/1.de"]),
        (["a/1.de", "b/1.de", "b/c/1.de"], ["a/1.de", "b/1.de", "c/1.de"]),
        (["1.de", "b/1.de", "b/1.de"], ["1.de", "b/1.de", "b/1.de"]),
        (["a/\udcff.de"], [r"\udcff.de"]),  # a name that is not UTF-8
    ],
)
def test_files_are_told_apart(
    tmp_path: Path, other: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(dict.fromkeys(files)):
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text(f"{number}\nand {number}\n")
    found = read([Path(name) for name in files], other)
    wanted = [(name, line) for name in dict.fromkeys(names) for line in (1, 2)]
    assert [found.place(row) for row in range(len(found.sentences))] == wanted


def zstd(content: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression.zstd import compress

        return compress(content)
    return pytest.importorskip("zstandard").compress(content)


PACKED = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.mark.parametrize("ending", ["", *PACKED])
def test_packed_files_and_byte_order_mark(tmp_path: Path, other: Path, ending: str) -> None:
    parts = ["\ufeffeins\r\nzwei\r\n".encode(), b"eins\n" + b"x" * 200_000]
    pack = PACKED.get(ending, bytes)
    path = tmp_path / f"a.de{ending}"
    path.write_bytes(b"".join(map(pack, parts)))  # two members, as `cat` joins them
    found = read([path], other)
    assert found.sentences == ["eins", "zwei", "x" * 200_000] and found.lines.tolist() == [1, 2, 4]
    if not ending:
        return
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole[: len(whole) // 2], b"\xff" * 8 + whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"a.de{ending}: cannot be read"):
            read([path], other)


@pytest.mark.parametrize("ending", [".xz", ".zst"])
def test_what_unpacks_to_more_than_text_is_refused(
    tmp_path: Path, other: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.core.text._NO_MATTER", 1000)
    path = tmp_path / f"bomb.de{ending}"
    path.write_bytes(PACKED[ending](b"\n" * 3_000_000))
    with pytest.raises(InputError, match="unpacks to more than"):
        read([path], other)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python has it")
def test_the_package_for_zst_is_named(tmp_path: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.de.zst").write_bytes(b"any")
    with pytest.raises(
        MissingExtraError, match=r'a file .zst needs: pip install "multilingual-embedding-harness\[zstd'
    ):
        read([tmp_path / "a.de.zst"], other)


@pytest.mark.parametrize(
    ("content", "reading", "message"),
    [
        (b"", Reading(), "text.de: the file is empty"),
        (b"\n \n", Reading(), r"text.de: no sentence in it to mine \(2 blank lines"),
        (b"ein\n", Reading(4), r"text.de: no sentence in it to mine \(0 blank lines, 1 shorter"),
        (b"ein Satz\nid-2\tein Satz\n", Reading(), "text.de:2: a tab in the line"),
        (b"ein Satz\n\xff\n", Reading(), "text.de:2: not UTF-8"),
        (b"1\tein Satz\nohne\n", Reading(documents=True), "text.de:2: no tab in the line: expected `id TAB sentence`"),
        (b"1\tein Satz\tmehr\n", Reading(documents=True), "text.de:1: a tab in the sentence"),
        (b"ein Satz\n", Reading(9, 8), "9 characters or more and 8 or fewer"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, other: Path, content: bytes, reading: Reading, message: str) -> None:
    first, path = tmp_path / "first.de", tmp_path / "text.de"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read([path], other, reading)
    if ":2:" in message:  # the line of its own file, not of all
        first.write_bytes(content.splitlines(keepends=True)[0] * 3)
        with pytest.raises(InputError, match=message):
            read([first, path], other, reading)


@pytest.mark.parametrize("places", ["junk", "zip", "line", "object", "text"])
def test_places_whose_checksum_was_made_to_fit_are_refused(tmp_path: Path, other: Path, places: str) -> None:
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    sides = [[tmp_path / "a.de"], [other]]
    with open_work(tmp_path / "work") as work:
        read_sentences(sides, Reading(), work)
        file, noted = work.folder / "x.places.npy", work.folder / "texts.json"
        stored = np.load(file)
        stored[1, 2] = 3 if places == "line" else 2  # there are two
        np.save(file, stored.astype(object) if places == "object" else stored, allow_pickle=True)
        if places in ("junk", "zip"):
            file.write_bytes(b"junk" if places == "junk" else b"PK\x03\x04")
        texts = json.loads(noted.read_bytes())
        if places == "text":
            (work.folder / "x.text").write_bytes(b"")
        texts["x"]["places_crc32"] = zlib.crc32(file.read_bytes())
        texts["x"]["text_crc32"] = zlib.crc32((work.folder / "x.text").read_bytes())
        noted.write_text(json.dumps(texts))
        with pytest.raises(InputError, match=r"x\.places\.npy holds no places of sentences"):
            read_sentences(sides, Reading(), work)


def test_what_is_kept_is_checked(tmp_path: Path, other: Path) -> None:
    path, folder = tmp_path / "a.de", tmp_path / "work"
    path.write_text("eins\nzwei\n")
    sides = [[path], [other]]
    with open_work(folder) as work:
        assert list(read_sentences(sides, Reading(), work)[0].sentences) == ["eins", "zwei"]
        kept = {file.name: file.read_bytes() for file in folder.iterdir()}
        for name in ("x.text", "y.places.npy", "texts.json"):
            for damaged in (b"", b"\0" + kept[name][1:], kept[name][:-1], b"{}"):
                (folder / name).write_bytes(damaged)
                assert list(read_sentences(sides, Reading(), work)[0].sentences) == ["eins", "zwei"]
                assert (folder / name).read_bytes() == kept[name]
        with pytest.raises(InputError, match="holds another job, with another min_length; remove it"):
            read_sentences(sides, Reading(2), work)
        path.write_text("eins\ndrei\n")
        with pytest.raises(InputError, match=r"holds another job, with another a\.de \(file 1 of side 1\)"):
            read_sentences(sides, Reading(), work)
        for damaged in (b"", b"[]", b'{"texts": 1}', b"\xff", b'{"texts": {"files": 1}}'):
            (folder / "mining.json").write_bytes(damaged)
            with pytest.raises(InputError, match=r"mining\.json is damaged"):
                read_sentences(sides, Reading(), work)

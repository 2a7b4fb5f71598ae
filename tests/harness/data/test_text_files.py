from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.core.text import iter_lines, open_content, parse_number, read_lines
from harness.data.sources import content_sha256

# Everything that str.splitlines splits at, and that these files must not be split at.
NOT_LINE_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"

line = st.text(
    st.one_of(st.sampled_from(NOT_LINE_ENDS + "\ufeff\t\" '"), st.characters(codec="utf-8", exclude_characters="\n")),
    max_size=12,
).filter(lambda text: not text.endswith("\r"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("text")


@given(st.lists(line, max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.booleans())
def test_lines_survive_writing_and_reading(
    folder: Path, lines: list[str], end: str, last_end: bool, bom: bool, compress: bool
) -> None:
    if lines and not lines[-1]:
        last_end = True  # an empty last line without its end is not a line
    content = end.join(lines) + (end if last_end and lines else "")
    raw = b"\xef\xbb\xbf" * bom + content.encode()
    if not bom and raw.startswith(b"\xef\xbb\xbf"):
        return  # text that starts with U+FEFF cannot be told from a byte order mark
    path = folder / ("file.gz" if compress else "file")
    path.write_bytes(gzip.compress(raw, 1) if compress else raw)
    assert read_lines(path) == lines


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(f"a{NOT_LINE_ENDS}b\n c \n".encode())
    assert read_lines(path) == [f"a{NOT_LINE_ENDS}b", " c "]


def test_lone_bom_is_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbf")
    assert read_lines(path) == []


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_bad_bytes_name_file_and_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    raw = b"good\nalso good\nb\xe4d\n"
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    message = r"a\.txt(\.gz)?:3: not UTF-8 \(byte 0xe4 at byte 2 of the line\); convert it \(iconv .* NEW\), or if"
    with pytest.raises(InputError, match=message):
        read_lines(path)


def test_utf16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("text\n".encode("utf-16"))
    with pytest.raises(InputError, match="a:1: not UTF-8"):
        read_lines(path)


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-20], lambda raw: b"not gzip", lambda raw: raw[:30] + b"\0\xff\0\xff" + raw[34:]]
)
def test_damaged_gzip_is_one_line(tmp_path: Path, damage) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(damage(gzip.compress("".join(f"line {i * i}\n" for i in range(2000)).encode())))
    for read in (read_lines, content_sha256):
        with pytest.raises(InputError, match=r"a\.gz: cannot be read") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_what_unpacks_to_more_than_text_does_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(101_000_000), 1))
    for read in (read_lines, content_sha256):
        with pytest.raises(InputError, match=r"a\.gz: cannot be read \(it unpacks to more than 100,000,000 bytes\)"):
            read(path)


def test_lines_that_do_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*arguments: object) -> NoReturn:
        raise MemoryError

    path = tmp_path / "a"
    path.write_bytes(b"a\n")
    monkeypatch.setattr("harness.core.text.decoded_lines", no_memory)
    with pytest.raises(InputError, match=r"a: cannot be read \(not enough memory\)"):
        next(iter_lines(path))
    monkeypatch.setattr("harness.core.text.iter_lines", no_memory)
    with pytest.raises(InputError, match="a: its lines do not fit into memory"):
        read_lines(path)


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device", "elsewhere"), MemoryError(), EOFError()])
def test_what_fails_while_a_file_is_open_is_not_its_damage(tmp_path: Path, name: str, error: Exception) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(type(error)) as caught, open_content(path) as stream:
        stream.read(1)
        raise error
    assert caught.value is error and stream.closed


def test_a_disk_that_fails_while_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def readinto(self, buffer: object) -> NoReturn:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", lambda path, mode: Failing())
    for read in (read_lines, content_sha256):
        with pytest.raises(InputError, match=r"a: cannot be read \(Input/output error\)"):
            read(tmp_path / "a")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: cannot be read"):
        next(iter_lines(tmp_path / "nowhere"))


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("5.000000", 5.0), (" 2.4 ", 2.4), (".5", 0.5), ("4e-1", 0.4)])
def test_numbers(text: str, value: float) -> None:
    assert parse_number(text, Path("gs"), 1, low=0, high=5) == value


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "2,4", "1_0", "٣", "2.4\t", "0x1", "5.01", "-0.1", "1e9"])
def test_not_a_score(text: str) -> None:
    with pytest.raises(InputError, match="gs:7: "):
        parse_number(text, Path("gs"), 7, low=0, high=5)

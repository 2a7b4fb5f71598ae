from __future__ import annotations

import gzip
import hashlib
import json
import socket
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from archives import tarred, zipped
from http_files import Site

from harness.core.errors import InputError
from harness.data import DataDir
from harness.data.catalogue import DataSet, Download, catalogue, find_set
from harness.data.fetch import Fetched, fetch_set
from harness.data.inventory import read_pins
from harness.data.sts import load_sts, sts_sources
from harness.data.transfer import Network, TransferError, discard, download, mirrored, unpack

CONTENT = bytes(range(256)) * 1000
ONCE: dict[str, Any] = {"limit": 10**6, "network": Network(attempts=1, timeout=5, wait=0)}
TWICE, THRICE = ({**ONCE, "network": replace(ONCE["network"], attempts=attempts)} for attempts in (2, 3))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def one_file(expected: bytes | None = CONTENT, urls: tuple[str, ...] = ("https://example.org/d/a.bin",)) -> DataSet:
    return DataSet(
        name="demo",
        title="A set",
        licence="CC0",
        home="https://example.org",
        folder="demo",
        files=("demo/a.bin",),
        checksums={} if expected is None else {"demo/a.bin": sha256(expected)},
        downloads=(Download(urls, "demo/a.bin"),),
    )


def one_archive(files: dict[str, bytes], members: tuple[str, ...] = ("*.txt",), known: bool = True) -> DataSet:
    return replace(
        one_file(),
        files=tuple(f"demo/{name}" for name in files),
        checksums={f"demo/{name}": sha256(content) for name, content in files.items()} if known else {},
        downloads=(Download(("https://example.org/d/a.archive",), "demo", members),),
    )


def network(site: Site, attempts: int = 3) -> Network:
    return Network(mirror=site.url, attempts=attempts, timeout=5, wait=0)


def everything(root: Path) -> list[str]:
    """The files in a folder, locks left out."""
    paths = (path for path in root.rglob("*") if not path.is_dir() and path.suffix != ".lock")
    return sorted(path.relative_to(root).as_posix() for path in paths)


def test_full_download(site: Site, tmp_path: Path) -> None:
    site.files["/a.bin"] = CONTENT
    part = tmp_path / "a.bin.part"
    seen: list[tuple[str, int, int | None]] = []
    download(f"{site.url}/a.bin", part, **ONCE, progress=lambda *now: seen.append(now))
    assert part.read_bytes() == CONTENT
    assert seen[-1] == ("a.bin", len(CONTENT), len(CONTENT)) and site.requests == [("/a.bin", None)]


def test_truncated_download_is_resumed(site: Site, tmp_path: Path) -> None:
    site.files["/a.bin"] = CONTENT
    site.cut_after = [100_000, 50_000]
    part = tmp_path / "part"
    download(f"{site.url}/a.bin", part, **THRICE)
    assert part.read_bytes() == CONTENT
    assert [asked for _, asked in site.requests] == [None, "bytes=100000-", "bytes=150000-"]


def test_attempts_are_bounded_and_what_arrived_stays(site: Site, tmp_path: Path) -> None:
    site.files["/a.bin"] = CONTENT
    site.cut_after = [1000, 1000, 1000]
    part = tmp_path / "part"
    with pytest.raises(TransferError, match="the connection ended after 2000 of 256000 bytes"):
        download(f"{site.url}/a.bin", part, **TWICE)
    assert part.read_bytes() == CONTENT[:2000]


@pytest.mark.parametrize("if_range", [True, False])
@pytest.mark.parametrize("validator", ["ETag", "Last-Modified"])
def test_a_file_that_changed_meanwhile_is_downloaded_anew(
    site: Site, tmp_path: Path, validator: str, if_range: bool
) -> None:
    site.validators, site.if_range = (validator,), if_range
    site.files["/a.bin"] = CONTENT
    site.cut_after = [100_000]
    part = tmp_path / "part"
    with pytest.raises(TransferError):
        download(f"{site.url}/a.bin", part, **ONCE)
    site.files["/a.bin"], site.modified = CONTENT[::-1], "Sun, 22 Nov 2026 10:00:00 GMT"
    download(f"{site.url}/a.bin", part, **TWICE)
    assert part.read_bytes() == CONTENT[::-1] and site.requests[1] == ("/a.bin", "bytes=100000-")
    assert len(site.requests) == (2 if if_range else 3)


@pytest.mark.parametrize("validators", [(), ("weak",)])
def test_without_a_validator_a_download_begins_anew(site: Site, tmp_path: Path, validators: tuple[str, ...]) -> None:
    site.validators = validators
    site.files["/a.bin"] = CONTENT
    site.cut_after = [100_000]
    download(f"{site.url}/a.bin", tmp_path / "part", **TWICE)
    assert (tmp_path / "part").read_bytes() == CONTENT and site.requests == [("/a.bin", None)] * 2


def test_a_piece_from_another_address_is_not_gone_on_with(site: Site, tmp_path: Path) -> None:
    site.validators = ("Last-Modified",)
    site.files = {"/a.bin": CONTENT, "/mirror/a.bin": CONTENT[::-1]}
    site.cut_after = [100_000]
    part = tmp_path / "part"
    with pytest.raises(TransferError):
        download(f"{site.url}/a.bin", part, **ONCE)
    download(f"{site.url}/mirror/a.bin", part, **ONCE)
    assert part.read_bytes() == CONTENT[::-1]


def test_server_that_ignores_range(site: Site, tmp_path: Path) -> None:
    site.files["/a.bin"] = CONTENT
    site.ranges = False
    site.cut_after = [100_000]
    part = tmp_path / "part"
    download(f"{site.url}/a.bin", part, **TWICE)
    assert part.read_bytes() == CONTENT and len(site.requests) == 2


def test_part_that_is_complete_or_too_long(site: Site, tmp_path: Path) -> None:
    site.files["/a.bin"] = CONTENT
    part = tmp_path / "part"
    download(f"{site.url}/a.bin", part, **ONCE)
    download(f"{site.url}/a.bin", part, **ONCE)
    assert part.read_bytes() == CONTENT and site.requests[1:] == [("/a.bin", "bytes=256000-")]
    part.write_bytes(CONTENT + b"more")
    download(f"{site.url}/a.bin", part, **TWICE)
    assert part.read_bytes() == CONTENT
    discard(part)
    assert everything(tmp_path) == []


@pytest.mark.parametrize(("status", "asked"), [(503, 3), (429, 3), (404, 1), (403, 1)])
def test_which_errors_are_retried(site: Site, tmp_path: Path, status: int, asked: int) -> None:
    site.files["/a.bin"] = CONTENT
    site.statuses = [status] * 5
    with pytest.raises(TransferError, match=f"HTTP {status}"):
        download(f"{site.url}/a.bin", tmp_path / "part", **THRICE)
    assert len(site.requests) == asked


def test_a_server_that_drips_is_given_up(site: Site, tmp_path: Path) -> None:
    site.files["/a.bin"] = CONTENT
    site.pause, site.piece = 0.02, 1
    with pytest.raises(TransferError, match="too slow"):
        download(f"{site.url}/a.bin", tmp_path / "part", 10**6, Network(attempts=1, timeout=0.3))


def test_more_than_the_limit_is_not_downloaded(site: Site, tmp_path: Path) -> None:
    site.files["/a.bin"] = CONTENT
    site.raw["/endless.bin"] = b"HTTP/1.0 200 OK\r\n\r\n" + CONTENT
    for name in ("a.bin", "endless.bin"):
        with pytest.raises(TransferError, match="the file has more than 100,000 bytes"):
            download(f"{site.url}/{name}", tmp_path / "part", 100_000, Network())
    assert len(site.requests) == 2 and everything(tmp_path) == []


def answer(head: str, body: bytes = CONTENT) -> bytes:
    return f"HTTP/1.0 {head}\r\n\r\n".encode("latin-1") + body


ODD_ANSWERS = {
    "negative chunk": answer("200 OK\r\nTransfer-Encoding: chunked", b"-5\r\nhello\r\n0\r\n\r\n").replace(
        b"1.0", b"1.1"
    ),
    "no chunk": answer("200 OK\r\nTransfer-Encoding: chunked", b"x\r\nhello\r\n0\r\n\r\n").replace(b"1.0", b"1.1"),
    "another part": answer("206 OK\r\nContent-Range: bytes 9-10/11", b"xx"),
    "a part of nonsense": answer(f"206 OK\r\nContent-Range: bytes {'9' * 5000}-{'9' * 5001}/*", b"xx"),
    "nothing beyond": answer("416 OK\r\nContent-Range: bytes */0", b""),
    "open bracket": answer("302 Found\r\nLocation: http://[::1"),
    "long label": answer(f"302 Found\r\nLocation: http://{'a' * 64}.example/"),
    "no ASCII": answer("302 Found\r\nLocation: http://\xe9..x/"),
    "blanks": answer("302 Found\r\nLocation: http://a b/"),
    "file": answer("302 Found\r\nLocation: file:///etc/passwd"),
    "ftp": answer("302 Found\r\nLocation: ftp://127.0.0.1/a"),
    "loop": answer("302 Found\r\nLocation: /d/a.bin"),
    "own words": answer("500 \x1b]0;title\x07"),
    "no HTTP": b"\x1b]0;title\x07\n\n",
    "nothing": b"",
}


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_odd_answers_are_one_line(site: Site, data: DataDir, name: str) -> None:
    site.raw["/d/a.bin"] = ODD_ANSWERS[name]
    with pytest.raises(InputError, match="demo was not fetched") as caught:
        fetch_set(one_file(None), data, network(site, attempts=1))
    assert str(caught.value).isprintable() and not (data.root / "checksums.sha256").exists()


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1", "x"])
def test_a_length_that_is_no_number_is_not_known(site: Site, data: DataDir, length: str) -> None:
    site.raw["/d/a.bin"] = answer(f"200 OK\r\nContent-Length: {length}")
    fetch_set(one_file(), data, network(site, attempts=1))
    assert (data.root / "demo/a.bin").read_bytes() == CONTENT


def test_mirror_takes_scheme_and_host() -> None:
    assert mirrored("https://a.org/x/y.zip?v=1", None) == "https://a.org/x/y.zip?v=1"
    assert mirrored("https://a.org/x/y.zip?v=1", "http://m:8/") == "http://m:8/x/y.zip?v=1"
    assert mirrored("https://a.org/x", "https://m.org/laser/") == "https://m.org/laser/x"
    for bad in (
        "file:///etc",
        "m.org",
        "ftp://m.org",
        "http://[::1",
        "http://é..x",
        f"http://{'a' * 64}.org",
        "http://m:x",
    ):
        with pytest.raises(InputError, match="mirror"):
            mirrored("https://a.org/x", bad)


def test_a_file_is_fetched_once(site: Site, data: DataDir) -> None:
    site.files["/d/a.bin"] = CONTENT
    result = fetch_set(one_file(), data, network(site))
    assert (result.new, result.kept, result.pinned) == (("demo/a.bin",), (), ())
    assert (data.root / "demo/a.bin").read_bytes() == CONTENT and everything(data.root) == ["demo/a.bin"]
    assert fetch_set(one_file(), data, network(site)).kept == ("demo/a.bin",)
    assert len(site.requests) == 1


def test_an_interrupted_fetch_goes_on(site: Site, data: DataDir) -> None:
    site.files["/d/a.bin"] = CONTENT
    site.cut_after = [60_000]
    with pytest.raises(InputError, match="ended after 60000 of 256000 bytes"):
        fetch_set(one_file(), data, network(site, attempts=1))
    assert everything(data.root) == ["demo/a.bin.part", "demo/a.bin.part.origin"]
    fetch_set(one_file(), data, network(site))
    assert site.requests[-1] == ("/d/a.bin", "bytes=60000-") and everything(data.root) == ["demo/a.bin"]


def test_a_stale_part_is_thrown_away(site: Site, data: DataDir) -> None:
    site.files["/d/a.bin"] = CONTENT
    (data.root / "demo").mkdir()
    (data.root / "demo/a.bin.part").write_bytes(b"of another version")
    fetch_set(one_file(), data, network(site))
    assert (data.root / "demo/a.bin").read_bytes() == CONTENT and everything(data.root) == ["demo/a.bin"]
    assert site.requests == [("/d/a.bin", None)]  # what the piece is of was not known


def test_wrong_checksum(site: Site, data: DataDir) -> None:
    site.files["/d/a.bin"] = b"something else"
    with pytest.raises(InputError, match=f"is {sha256(b'something else')}, expected {sha256(CONTENT)}"):
        fetch_set(one_file(), data, network(site))
    assert everything(data.root) == []


def test_next_address_is_tried(site: Site, data: DataDir) -> None:
    site.files["/good/a.bin"] = CONTENT
    site.files["/changed/a.bin"] = b"something else"
    urls = tuple(f"https://example.org/{folder}/a.bin" for folder in ("gone", "changed", "good"))
    fetch_set(one_file(urls=urls), data, network(site))
    assert (data.root / "demo/a.bin").read_bytes() == CONTENT


def test_a_file_of_the_user_is_not_replaced(site: Site, data: DataDir) -> None:
    (data.root / "demo").mkdir()
    (data.root / "demo/a.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match="not the published file"):
        fetch_set(one_file(), data, network(site))
    assert (data.root / "demo/a.bin").read_bytes() == b"mine" and not site.requests


def test_unknown_checksum_is_pinned(site: Site, data: DataDir) -> None:
    site.files["/d/a.bin"] = CONTENT
    assert fetch_set(one_file(None), data, network(site)).pinned == ("demo/a.bin",)
    assert (data.root / "checksums.sha256").read_text() == f"{sha256(CONTENT)}  demo/a.bin\n"
    (data.root / "demo/a.bin").unlink()
    assert fetch_set(one_file(None), data, network(site)).pinned == ()
    (data.root / "demo/a.bin").unlink()
    site.files["/d/a.bin"] = b"changed"
    with pytest.raises(InputError, match=f"expected {sha256(CONTENT)}"):
        fetch_set(one_file(None), data, network(site))


def test_a_file_that_is_there_is_pinned(site: Site, data: DataDir) -> None:
    (data.root / "demo").mkdir()
    (data.root / "demo/a.bin.gz").write_bytes(gzip.compress(CONTENT))
    result = fetch_set(one_file(None), data, network(site))
    assert (result.new, result.kept, result.pinned) == ((), ("demo/a.bin",), ("demo/a.bin",))
    assert (data.root / "checksums.sha256").read_text() == f"{sha256(CONTENT)}  demo/a.bin\n"
    (data.root / "demo/a.bin.gz").write_bytes(gzip.compress(b"changed"))
    with pytest.raises(InputError, match="sha256 differs"):
        fetch_set(one_file(None), data, network(site))


def test_an_empty_file_that_is_there_is_not_pinned(site: Site, data: DataDir) -> None:
    (data.root / "demo").mkdir()
    (data.root / "demo/a.bin").touch()
    with pytest.raises(InputError, match=r"demo/a\.bin: nothing in it; .*move it away"):
        fetch_set(one_file(None), data, network(site))
    assert everything(data.root) == ["demo/a.bin"]


def together(*calls: Callable[[], Fetched]) -> list[Fetched]:
    """What the calls return that begin at one time."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Fetched]) -> Fetched:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.parametrize("is_resumed", [False, True])
def test_of_two_that_fetch_one_set_one_waits(site: Site, data: DataDir, is_resumed: bool) -> None:
    site.files["/d/a.bin"] = CONTENT
    if is_resumed:
        site.cut_after = [50_000]
        with pytest.raises(InputError):
            fetch_set(one_file(None), data, network(site, attempts=1))
    site.pause = 0.02
    fetch = partial(fetch_set, one_file(None), data, network(site))
    results = together(fetch, fetch, fetch)
    assert sorted(result.new for result in results) == [(), (), ("demo/a.bin",)]
    assert (data.root / "demo/a.bin").read_bytes() == CONTENT and len(site.requests) == 1 + is_resumed
    assert read_pins(data) == {"demo/a.bin": sha256(CONTENT)}


def test_sets_that_are_fetched_at_one_time_lose_no_pin(
    site: Site, data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_pins(data: DataDir) -> dict[str, str]:
        pins = read_pins(data)
        time.sleep(0.05)
        return pins

    monkeypatch.setattr("harness.data.fetch.read_pins", slow_pins)
    site.files["/d/a.bin"] = CONTENT
    sets = [
        replace(
            one_file(None),
            name=name,
            folder=name,
            files=(f"{name}/a.bin",),
            downloads=(Download(("https://example.org/d/a.bin",), f"{name}/a.bin"),),
        )
        for name in ("one", "two", "three", "four")
    ]
    together(*(partial(fetch_set, dataset, data, network(site)) for dataset in sets))
    assert read_pins(data) == {f"{dataset.name}/a.bin": sha256(CONTENT) for dataset in sets}


def test_a_set_that_is_whole_needs_no_writing(site: Site, data: DataDir) -> None:
    (data.root / "demo").mkdir()
    (data.root / "demo/a.bin").write_bytes(CONTENT)
    assert fetch_set(one_file(), data, network(site)).kept == ("demo/a.bin",)
    assert [path.name for path in data.root.iterdir()] == ["demo"]


def test_a_kill_leaves_no_file_without_a_pin(site: Site, data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    site.files["/d/a.archive"] = zipped({"x.txt": b"1", "y.txt": b"2"})
    (data.root / "checksums.sha256").write_text(f"{sha256(b'0')}  other/z.txt\n")
    replace_file = Path.replace

    def killed_at_y(self: Path, target: Path) -> Path:
        if Path(target).name == "y.txt":
            raise KeyboardInterrupt
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", killed_at_y)
    dataset = one_archive({"x.txt": b"1", "y.txt": b"2"}, known=False)
    with pytest.raises(KeyboardInterrupt):
        fetch_set(dataset, data, network(site))
    assert (data.root / "demo/x.txt").is_file() and not (data.root / "demo/y.txt").exists()
    pins = {"other/z.txt": sha256(b"0"), "demo/x.txt": sha256(b"1"), "demo/y.txt": sha256(b"2")}
    assert read_pins(data) == pins
    monkeypatch.undo()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert fetch_set(dataset, data, network(site)).new == ("demo/y.txt",) and read_pins(data) == pins


def test_what_a_killed_process_was_unpacking_is_deleted(site: Site, data: DataDir) -> None:
    site.files["/d/a.bin"] = CONTENT
    for name in (".demo.new", ".other.new"):
        (data.root / name).mkdir()
        (data.root / name / "x.txt").write_bytes(b"x")
    fetch_set(one_file(), data, network(site))
    assert everything(data.root) == [".other.new/x.txt", "demo/a.bin"]  # another set's may be at work
    assert not (data.root / ".demo.new").exists()


def test_dead_server_says_what_to_do_by_hand(data: DataDir) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        mirror = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(InputError) as caught:
        fetch_set(one_file(), data, Network(mirror, attempts=2, timeout=5, wait=0))
    message = str(caught.value)
    assert "refused" in message and "https://example.org/d/a.bin" in message and "into demo/" in message
    assert "\n" not in message and everything(data.root) == []


@pytest.mark.parametrize("make", [zipped, tarred])
def test_archives_lose_their_folders(site: Site, data: DataDir, make: Any) -> None:
    files = {"x.txt": b"1\n", "y.txt": b"2\n"}
    site.files["/d/a.archive"] = make({"top/x.txt": b"1\n", "./top/deep/y.txt": b"2\n", "top/readme.md": b"no"})
    assert set(fetch_set(one_archive(files), data, network(site)).new) == {"demo/x.txt", "demo/y.txt"}
    assert everything(data.root) == ["demo/x.txt", "demo/y.txt"]
    # One file gone: it comes back, the other is left as it is.
    (data.root / "demo/x.txt").unlink()
    result = fetch_set(one_archive(files), data, network(site))
    assert (result.new, result.kept) == (("demo/x.txt",), ("demo/y.txt",))


UNSAFE = {
    "up.zip": zipped({"x.txt": b"1", "../y.txt": b"2"}),
    "inner-up.zip": zipped({"x.txt": b"1", "a/../../y.txt": b"2"}),
    "backslash.zip": zipped({"x.txt": b"1", "..\\y.txt": b"2"}),
    "absolute.zip": zipped({"x.txt": b"1", "/tmp/y.txt": b"2"}),
    "drive.zip": zipped({"x.txt": b"1", "C:/y.txt": b"2"}),
    "link.zip": zipped({"x.txt": b"1", "y.txt": "/etc/passwd"}, links=("y.txt",)),
    "up.tar": tarred({"x.txt": b"1", "../y.txt": b"2"}),
    "absolute.tar": tarred({"x.txt": b"1", "/tmp/y.txt": b"2"}),
    "link.tar": tarred({"x.txt": b"1"}, {"y.txt": "/etc/passwd"}),
    "unwanted-link.tar": tarred({"x.txt": b"1"}, {"folder": ".."}),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_archives_are_refused_whole(site: Site, data: DataDir, name: str) -> None:
    site.files["/d/a.archive"] = UNSAFE[name]
    with pytest.raises(InputError, match="the archive is not safe to unpack"):
        fetch_set(one_archive({"x.txt": b"1"}), data, network(site))
    assert everything(data.root) == [] and everything(data.root.parent) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html><p>not found", "a web page came"),
        (b"not found", "not a zip or tar archive"),
        (zipped({"x.txt": b"1" * 5000})[:-30], "not a zip or tar archive"),
        (tarred({"x.txt": bytes(range(256)) * 99})[:200], "damaged"),
        (zipped({"a/x.txt": b"1", "b/x.txt": b"2"}), "two files called x.txt"),
        (zipped({"y.txt": b"1"}), "the archive lacks x.txt"),
        (zipped({"x.txt": b"2"}), "sha256 of demo/x.txt"),
    ],
)
def test_bad_archives(site: Site, data: DataDir, content: bytes, message: str) -> None:
    site.files["/d/a.archive"] = content
    with pytest.raises(InputError, match=message):
        fetch_set(one_archive({"x.txt": b"1"}), data, network(site))
    assert everything(data.root) == []


ODD_NAMES = ("x.txt\n0", "\x1b[31m.txt", "a\0b.txt", "\udcff.txt", "Icon\r", "z.txt", "d\n/é.txt")


@pytest.mark.parametrize("make", [zipped, tarred])
def test_only_what_the_set_has_is_taken_from_an_archive(site: Site, data: DataDir, make: Any) -> None:
    names = [name for name in ODD_NAMES if make is tarred or "\udcff" not in name]
    site.files["/d/a.archive"] = make({**dict.fromkeys(names, b"no"), "x.txt": b"1"})
    dataset = one_archive({"x.txt": b"1"}, members=("*",), known=False)
    assert fetch_set(dataset, data, network(site)).pinned == ("demo/x.txt",)
    assert everything(data.root) == ["checksums.sha256", "demo/x.txt"]
    assert read_pins(data) == {"demo/x.txt": sha256(b"1")}


TEXT = "".join(f"{i * i}\n" for i in range(20_000)).encode()


def flipped(content: bytes, place: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 0xFF
    return bytes(changed)


GZ, XZ = (tarred({"x.txt": b"1", "y.txt": TEXT}, mode=mode) for mode in ("w:gz", "w:xz"))
LZMA = zipped({"x.txt": TEXT}, method=zipfile.ZIP_LZMA)
DAMAGED = {
    "checksum of tar.gz": flipped(GZ, -6),
    "checksum far behind the end of tar": flipped(gzip.compress(tarred({"x.txt": b"1"}, mode="w") + bytes(10**6)), -6),
    "end of tar.gz": GZ[:-8],
    "an unwanted member of tar.gz": flipped(GZ, len(GZ) // 2),
    "tar.xz": flipped(XZ, len(XZ) // 2),
    "end of tar.xz": XZ[:-20],
    "LZMA in zip": flipped(LZMA, len(LZMA) // 2),
    "start of LZMA in zip": flipped(LZMA, 45),
    "tar": tarred({"x.txt": TEXT}, mode="w")[:5000],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archives_are_noticed(site: Site, data: DataDir, name: str) -> None:
    site.files["/d/a.archive"] = DAMAGED[name]
    with pytest.raises(InputError, match="not a zip or tar archive, or a damaged one"):
        fetch_set(one_archive({"x.txt": b"1"}, known=False), data, network(site))
    assert everything(data.root) == []


def test_archives_damaged_anywhere_are_one_line(tmp_path: Path) -> None:
    random = Random(0)
    (tmp_path / "out").mkdir()
    whole = [tarred({"x.txt": TEXT[:999]}, mode=f"w:{kind}") for kind in ("gz", "bz2", "xz", "")]
    whole += [zipped({"x.txt": TEXT[:999]}, method=method) for method in (0, 8, 12, 14)]
    for content in whole * 20:
        damaged = bytearray(content[: random.choice([len(content), random.randrange(1, len(content))])])
        for _ in range(3):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        (tmp_path / "a").write_bytes(damaged)
        try:
            unpack(tmp_path / "a", tmp_path / "out", ["x.txt"], 10**6)
        except TransferError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("make", [zipped, partial(tarred, mode="w:gz"), partial(tarred, mode="w:xz")])
@pytest.mark.parametrize("size", [2_000_000, 110_000_000])
def test_a_bomb_leaves_nothing(site: Site, data: DataDir, make: Any, size: int) -> None:
    if size > 10**8 and make is not zipped:
        pytest.skip("one of them is enough")
    site.files["/d/a.archive"] = make({"x.txt": bytes(size)})
    dataset = one_archive({"x.txt": b"1"}, known=False)
    dataset = replace(dataset, max_bytes=1_000_000) if size < 10**8 else dataset
    limit = "1,000,000" if size < 10**8 else "100,000,000"
    with pytest.raises(InputError, match=f"it unpacks to more than {limit} bytes"):
        fetch_set(dataset, data, network(site))
    assert everything(data.root) == [] and list((data.root / "demo").iterdir()) == []


def test_the_limit_is_for_all_members_together(tmp_path: Path) -> None:
    sparse = tarfile.TarInfo("x.txt")
    sparse.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": "5000000"}
    with tarfile.open(tmp_path / "holes.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(sparse)
    files = {name: b"1" * 600_000 for name in ("x.txt", "y.txt")}
    (tmp_path / "two.zip").write_bytes(zipped(files))
    (tmp_path / "two.tar").write_bytes(tarred(files, mode="w"))
    (tmp_path / "out").mkdir()
    for name in ("two.zip", "two.tar", "holes.tar"):
        with pytest.raises(TransferError, match="it unpacks to more than 1,000,000 bytes"):
            unpack(tmp_path / name, tmp_path / "out", ["x.txt", "y.txt"], 1_000_000)
    # What is passed over in a zip archive is not unpacked.
    assert unpack(tmp_path / "two.zip", tmp_path / "out", ["y.txt"], 1_000_000) == ["y.txt"]


def test_a_reason_names_no_remedy_for_a_file_that_is_kept(site: Site, data: DataDir) -> None:
    """What came is gone; the remedy of the reader is for a file of the user's own."""
    for pair in ("en-de", "fr-en", "it-en", "nl-en"):
        site.files[f"{REVISION}/{pair}.jsonl.gz"] = copy_of({"sentence1": "a", "sentence2": "b", "score": 9})
    with pytest.raises(InputError, match=r"the score 9\.0 is outside 0 to 5") as raised:
        fetch_set(find_set("sts17-extended"), data, network(site, attempts=1))
    assert "fetch it again" not in str(raised.value)


def test_unpack_alone(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(tarred({"d/a.txt": b"a", "d/b.csv": b"b"}, mode="w:gz"))
    (tmp_path / "out").mkdir()
    assert unpack(archive, tmp_path / "out", ["b.csv", "c.csv"], 10**6) == ["b.csv"]
    assert (tmp_path / "out/b.csv").read_bytes() == b"b"


def test_sets_that_cannot_be_downloaded(data: DataDir) -> None:
    for dataset in catalogue().values():
        if not dataset.downloads:
            with pytest.raises(InputError, match=rf"{dataset.name} cannot be downloaded: .*{dataset.folder}/"):
                fetch_set(dataset, data)


def test_the_extended_sets_from_their_archive(site: Site, data: DataDir) -> None:
    names = ["STS.en-de.txt", "STS.fr-en.txt", "STS.it-en.txt", "STS.nl-en.txt", "STS.en-en.txt"]
    content = "a\tb\t1\nc\td\t2\n"
    archive = zipped({f"STS2017-extended/{name}": content for name in names} | {"__MACOSX/._STS.en-de.txt": b""})
    site.files["/reimers/sentence-transformers/datasets/STS2017-extended.zip"] = archive
    result = fetch_set(find_set("sts17-extended"), data, network(site))
    assert len(result.pinned) == 4
    assert list(sts_sources(data)) == ["en-de", "en-fr", "en-it", "en-nl"]
    assert load_sts(sts_sources(data)["en-fr"]).lang1 == "fr"


REVISION = "/datasets/mteb/sts17-crosslingual-sts/resolve/faeb762787bd10488a50c8b5be4a3b82e411949c/test"


def copy_of(*records: object) -> bytes:
    return gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode())


def test_the_extended_sets_from_copies_where_the_archive_is_gone(site: Site, data: DataDir) -> None:
    for pair in ("en-de", "fr-en", "it-en", "nl-en"):
        record = {"sentence1": f'a "{pair}"', "sentence2": "b", "score": 3.4, "lang": pair}
        site.files[f"{REVISION}/{pair}.jsonl.gz"] = copy_of(record, {**record, "score": 0})
    result = fetch_set(find_set("sts17-extended"), data, network(site, attempts=1))
    assert len(result.new) == len(result.pinned) == 4
    pairs = load_sts(sts_sources(data)["en-fr"])
    assert (pairs.sentences1[0], pairs.lang1, pairs.gold.tolist()) == ('a "fr-en"', "fr", [3.4, 0])
    assert not [name for name in everything(data.root) if ".part" in name]


def test_copies_that_are_in_place_are_pinned_though_others_fail(site: Site, data: DataDir) -> None:
    for pair in ("en-de", "fr-en"):
        site.files[f"{REVISION}/{pair}.jsonl.gz"] = copy_of({"sentence1": "a", "sentence2": pair, "score": 1})
    with pytest.raises(InputError, match="sts17-extended was not fetched"):
        fetch_set(find_set("sts17-extended"), data, network(site, attempts=1))
    names = ["sts17-extended/STS.en-de.txt", "sts17-extended/STS.fr-en.txt"]
    assert everything(data.root) == ["checksums.sha256", *names]
    assert read_pins(data) == {name: sha256((data.root / name).read_bytes()) for name in names}


GOOD = gzip.compress(b"".join(b"%d\n" % (i * i) for i in range(2000)))
CORRUPT = GOOD[:30] + b"\0\xff\0\xff" + GOOD[34:]  # zlib.error, which is no OSError


@pytest.mark.parametrize(
    "copy",
    [
        b"no gzip",
        gzip.compress(b"no json"),
        CORRUPT,
        copy_of({"sentence1": "a", "score": 1}),
        copy_of({"sentence1": "a\tb", "sentence2": "c", "score": 1}),
        copy_of([1, 2]),
    ],
    # Not the bytes themselves: gzip writes the time into them, and test names must not change.
    ids=["no gzip", "no JSON", "damaged", "a key is missing", "a tab in a sentence", "no object"],
)
def test_a_copy_of_another_form_is_refused(site: Site, data: DataDir, copy: bytes) -> None:
    site.files[f"{REVISION}/en-de.jsonl.gz"] = copy
    with pytest.raises(InputError, match="copy"):
        fetch_set(find_set("sts17-extended"), data, network(site, attempts=1))
    assert everything(data.root) == []


def test_real_sts17_from_archives(site: Site, data: DataDir, real_sets: Any) -> None:
    folder = real_sets("sts17").root / "sts17"
    uploads = "/semeval2017/task1/data/uploads"
    for kind, name in (("input", "sts2017.eval.v1.1.zip"), ("gs", "sts2017.gs.zip")):
        files: dict[str, bytes | str] = {
            f"STS2017/{path.name}": path.read_bytes() for path in folder.glob(f"STS.{kind}.*")
        }
        site.files[f"{uploads}/{name}"] = zipped(files)
    assert len(fetch_set(find_set("sts17"), data, network(site)).new) == 14
    assert not (data.root / "checksums.sha256").exists()

"""Whatever a file holds, a command ends in an exit code that means something, and writes nowhere else.

Files that a user may get from others (results, caches, archives, data sets) are mutated at random, with fixed
seeds. By default so many that it takes seconds; `make test-nightly` tries thousands.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import random
import shutil
import signal
import string
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard
from gate_runs import leaderboard_here
from http_files import Site, serve
from mteb_files import OLD_STS, sts_entry, task_result, tatoeba_entry, write
from speeds import measurement

from harness.data.sources import SAMPLE_DIR
from harness.speed.store import SpeedStore

pytestmark = pytest.mark.slow

INPUTS = int(os.environ.get("HARNESS_MUTATIONS", "180"))
GROUPS = 12  # tests, so that they can run side by side
SECONDS = 60  # after which a command counts as hanging

ENCODER = "chargrams?dim=64"
RUN = ["run", "--encoder", ENCODER, "--data-dir", "data", "--results", "results"]
CHECK = ["check", "--against", "results", "--data-dir", "data", "--encoder", "chargrams", "--junit", "junit.xml"]
RESULTS = ["--results", "results"]
SIDES = [f"data/tatoeba/v1/tatoeba.deu-eng.{lang}" for lang in ("deu", "eng")]
MINE = ["mine", *SIDES, "--encoder", ENCODER, "--work-dir", "mining", "--out", "pairs.tsv"]
PACKED = ["texts/a.deu.xz", "texts/a.eng.zst"]
OF_RESULTS = [
    ["show", *RESULTS],
    ["show", *RESULTS, "--published", "--format", "json"],
    ["show", *RESULTS, "--format", "csv"],
    ["show", *RESULTS, "--format", "latex"],
    ["show", *RESULTS, "--record", "chargrams/sts17/en-en"],
    ["report", *RESULTS],
    ["export", *RESULTS, "--out", "exported"],
    [*RUN, "--subset", "en-en"],
    [*CHECK, "--subset", "en-en", "--format", "github"],
    [*CHECK, "--run", "others"],
]
COMMANDS: dict[str, list[list[str]]] = {
    "results/records/*/*.json": OF_RESULTS,
    "results/statistics/*.json": OF_RESULTS[:8],
    "results/speed/*.json": [OF_RESULTS[0], OF_RESULTS[2], OF_RESULTS[5], ["speed", "no-such-encoder", *RESULTS]],
    "results/imported/*/*/*.json": [OF_RESULTS[1], OF_RESULTS[5]],
    "results/rows/*/*/*.npz": [["run", *RUN[1:], "--task", "sts17"], [*CHECK, "--run", "others"]],
    "packed/records/*/rows.zip": [
        ["rows", "--results", "packed"],
        ["rows", "--results", "packed", "--pack"],
        ["best", "--results", "packed"],
        [*RUN[:-1], "packed", "--task", "sts17", "--save-rows"],
    ],
    "mteb/*/*/*.json": [["import", "mteb", *RESULTS], ["import", "mteb/LaBSE/0123456789/STS17.json", *RESULTS]],
    "cache/vectors/*/*.shard": [[*RUN, "--fresh", "--task", "sts17"], ["cache", "size"]],
    "data/*/*": [[*RUN, "--results", "new"], CHECK, ["data", "verify", "--data-dir", "data"]],
    "data/*/*/*": [[*RUN, "--results", "new", "--task", "tatoeba"], ["data", "status", "--data-dir", "data"]],
    "mining/[a-z]*": [MINE, [*MINE, "--out", "again.tsv", "--margin", "distance"]],
    "texts/*": [["mine", *PACKED, "--encoder", ENCODER], ["mine", *PACKED, "--encoder", ENCODER, "--documents"]],
    "site/*": [["data", "fetch", "sts17-extended", "--data-dir", "fetched"]],
}

HOSTILE: list[object] = [
    *(None, True, False, 0, -1, 7, 1e308, -0.5, 2**63, float("nan"), float("inf")),
    *("", " ", "x" * 5000, "../../escaped", "/tmp/escaped", "a\nb", "a|b", "<script>", "\x1b[31m", "=1+1", "\ud800"),
    *("python:os:system?command=touch escaped", "student?name=../../escaped", "avg-same", "ten", "–", "é\u202e", "٣"),
    *([], {}, [[]], [None], {"a": None}, {"reason": 1}, ["en-en", "en-en"], [1, "a"]),
]
RAW = ["[" * 100_000, '{"a":' * 50_000, "1" + "0" * 400, "1e999", '"\\ud800"', "nul", "", "NaN", "\x00"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small data directory, results with all that belongs to them, a cache, results of mteb, archives."""
    folder = tmp_path_factory.mktemp("base")
    for pattern in ("sts17/*track5*", "sts17/*track3*", "tatoeba/v1/*deu*", "korsts/*"):
        for path in SAMPLE_DIR.glob(pattern):
            target = folder / "data" / path.relative_to(SAMPLE_DIR)
            target.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_bytes().splitlines(keepends=True)
            target.write_bytes(b"".join(lines[:20]))
    entries = [sts_entry("ar-ar", 0.69), sts_entry("es-en", None)]
    write(folder / "mteb/LaBSE/0123456789/STS17.json", task_result("STS17", entries))
    write(folder / "mteb/LaBSE/0123456789/model_meta.json", {"name": "somebody/LaBSE", "revision": "0123456789"})
    write(folder / "mteb/old/0123456789/STS17.json", OLD_STS)
    write(folder / "mteb/old/0123456789/Tatoeba.json", task_result("Tatoeba", [tatoeba_entry("kat-eng", 0.5, 0.4)]))
    names = ("STS.en-de.txt", "STS.fr-en.txt", "STS.it-en.txt", "STS.nl-en.txt")
    (folder / "site").mkdir()
    with zipfile.ZipFile(folder / "site/sets.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.write(SAMPLE_DIR / "sts17-extended" / name, f"STS2017-extended/{name}")
    with tarfile.open(folder / "site/sets.tar.gz", "w:gz") as packed:
        for name in names:
            packed.add(SAMPLE_DIR / "sts17-extended" / name, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HARNESS_CACHE", str(folder / "cache"))
        assert leaderboard_here(*RUN) == 0
        assert leaderboard_here("import", "mteb", *RESULTS) == 0
        assert leaderboard_here(*MINE) == 0
        (folder / "texts").mkdir()
        (folder / PACKED[0]).write_bytes(lzma.compress((folder / SIDES[0]).read_bytes()))
        (folder / PACKED[1]).write_bytes(zstandard.compress((folder / SIDES[1]).read_bytes()))
        SpeedStore("results").merge(measurement("chargrams", 0.001))
        shutil.copytree("results", "others")
        shutil.copytree("results", "packed")
        assert leaderboard_here("run", "--encoder", "chargrams?dim=32&name=second", *RUN[3:-1], "packed") == 0
        assert leaderboard_here("rows", "--pack", "--results", "packed") == 0
        for folder_of_rows in ("packed/rows", "packed/statistics"):
            shutil.rmtree(folder_of_rows)
        yield folder


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_file_breaks_a_command(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], group: int
) -> None:
    monkeypatch.setattr("harness.data.transfer.time.sleep", lambda seconds: None)  # before a download is tried again
    work = tmp_path / "outside" / "work"
    for number in range(group, INPUTS, GROUPS):
        chance = random.Random(number)
        shutil.copytree(base, work)
        monkeypatch.chdir(work)
        monkeypatch.setenv("HARNESS_CACHE", str(work / "cache"))
        pattern = chance.choice(list(COMMANDS))
        path = chance.choice(sorted(path for path in work.glob(pattern) if path.is_file()))
        done = mutate(path, chance)
        for command in chance.sample(COMMANDS[pattern], min(2, len(COMMANDS[pattern]))):
            with at_most(SECONDS), mirrored(path) as environment:
                for name, value in environment.items():
                    monkeypatch.setenv(name, value)
                code = leaderboard_here(*command)
            printed = capsys.readouterr()
            told = f"input {number}, {path.relative_to(work)} {done}: {' '.join(command)}: {code}\n{printed.err[-999:]}"
            errors = [line for line in printed.err.splitlines() if line.startswith("error: ")]
            assert code in (0, 1, 2, 3) and "Traceback" not in printed.err, told
            assert code != 2 or len(errors) == 1, told
            assert [*tmp_path.iterdir(), *work.parent.iterdir()] == [work.parent, work], told
            touched = [path for path in work.rglob("escaped") if path.is_file()]  # a folder may have a model's name
            assert not touched and not Path("/tmp/escaped").exists(), told
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(work)


@contextmanager
def mirrored(path: Path) -> Iterator[dict[str, str]]:
    """A server that has a mutated archive in the place of the published one."""
    if path.parent.name != "site":
        yield {}
        return
    content = path.read_bytes() if path.is_file() else b""
    at = ("/reimers/sentence-transformers/datasets/STS2017-extended.zip", "/datasets/STS2017-extended.zip")
    with serve(Site(dict.fromkeys(at, content))) as site:
        yield {"HARNESS_MIRROR": site.url}


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def hang(*_: object) -> None:
        raise AssertionError(f"nothing came of it in {seconds} s")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def mutate(path: Path, chance: random.Random) -> str:
    """Change a file in one of many ways; says in which."""
    ways: list[Callable[[Path, random.Random], str]] = [_flip, _cut, _insert, _zeros, _swap, _other_kind]
    if path.suffix == ".json":
        ways += [_value] * 12 + [_raw] * 3
    elif path.name == "rows.zip":
        ways += [_index] * 12
    elif path.parts[-2] not in ("site", "mining") and path.suffix not in (".npz", ".shard", ".xz", ".zst"):
        ways += [_text] * 8
    elif path.suffix == ".npz":
        ways += [_array] * 4
    return chance.choice(ways)(path, chance)


def _flip(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return f"bit flipped in byte {place}"


def _cut(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    place = chance.choice([0, 1, len(content) - 1, chance.randrange(len(content))])
    path.write_bytes(content[:place])
    return f"cut at {place}"


def _insert(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    place = chance.randrange(len(content) + 1)
    path.write_bytes(content[:place] + chance.randbytes(chance.choice([1, 2, 40])) + content[place:])
    return f"bytes inserted at {place}"


def _zeros(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    start, end = sorted((chance.randrange(len(content)), chance.randrange(len(content))))
    path.write_bytes(content[:start] + bytes(end - start) + content[end:])
    return f"zeros from {start} to {end}"


def _swap(path: Path, chance: random.Random) -> str:
    content = path.read_bytes()
    a, b, c = sorted(chance.randrange(len(content)) for _ in range(3))
    path.write_bytes(content[:a] + content[b:c] + content[a:b] + content[c:])
    return f"pieces swapped at {a}, {b}, {c}"


def _other_kind(path: Path, chance: random.Random) -> str:
    path.unlink()
    kinds = ["folder", "loop", "fifo", "empty", "gone", "pickle"]
    if path.parts[-2] == "texts":
        kinds.remove("fifo")  # mining reads pipes, and waits for who writes
    kind = chance.choice(kinds)
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "empty":
        path.touch()
    elif kind == "pickle":
        path.write_bytes(b"cos\nsystem\n(S'touch escaped'\ntR.")
    return kind


def _value(path: Path, chance: random.Random) -> str:
    """Something else in the place of one of the values, or of one of the names."""
    content = json.loads(path.read_text(encoding="utf-8"))
    places = list(_places(content))
    place = chance.choice(places)
    container: Any = content
    for key in place[:-1]:
        container = container[key]
    new = chance.choice(HOSTILE)
    way = chance.choice(["replaced", "replaced", "replaced", "removed", "renamed", "twice"])
    if way == "removed":
        del container[place[-1]]
    elif way == "renamed" and isinstance(container, dict):
        container[str(new)] = container.pop(place[-1])
    elif way == "twice" and isinstance(container, list):
        container.append(container[place[-1]])
    else:
        container[place[-1]] = new
    path.write_text(json.dumps(content))
    return f"{'.'.join(map(str, place))} {way}: {new!r:.60}"


def _places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in pairs:
        yield (*above, key)
        yield from _places(value, (*above, key))


def _raw(path: Path, chance: random.Random) -> str:
    """What `json.dumps` does not write, in the place of a value."""
    text, new = path.read_text(encoding="utf-8"), chance.choice(RAW)
    places = [place for place in range(len(text)) if text.startswith(": ", place)]
    place = chance.choice(places) + 2
    end = min(end for end in (text.find(mark, place) for mark in ",\n}]") if end >= 0)
    path.write_text(chance.choice([new, text[:place] + new + text[end:]]))
    return f"{new:.20} at {place}"


def _text(path: Path, chance: random.Random) -> str:
    lines = path.read_bytes().split(b"\n")
    place = chance.randrange(len(lines))
    junk = [
        *(b"", b"\t", b"\t\t\t", b"a\tb\tnan", b"a\tb\t1e400", b"a\tb\t-1", b"\xff\xfe", b"\xed\xa0\x80", b"\x00"),
        *(b"\xef\xbb\xbf", b"\r", b"\x0c", "٣".encode(), "\u2028".encode(), b"x" * 100_000, b'"', b"5.1", b"=1\t=2\t3"),
    ]
    way = chance.choice(["replaced", "added", "removed", "reversed", "doubled"])
    if way == "replaced":
        lines[place] = chance.choice(junk)
    elif way == "added":
        lines.insert(place, chance.choice(junk))
    elif way == "removed":
        del lines[place]
    elif way == "reversed":
        lines.reverse()
    else:
        lines *= 2
    path.write_bytes(b"\n".join(lines))
    return f"line {place} {way}: {lines[min(place, len(lines) - 1)]!r:.40}"


def _array(path: Path, chance: random.Random) -> str:
    """Columns of other shapes and types."""
    import numpy as np

    with np.load(path) as rows:
        columns = {key: rows[key] for key in rows.files}
    key = chance.choice(list(columns))
    made = [np.zeros(0), np.zeros((2, 2)), np.array(1.0), np.array(["a"]), np.full(20, np.nan), np.zeros(20, complex)]
    way = chance.choice(["replaced", "removed", "renamed"])
    old = columns.pop(key)
    if way == "replaced":
        columns[key] = chance.choice(made)
    elif way == "renamed":
        columns["".join(chance.choices(string.ascii_letters, k=4))] = old
    buffer = io.BytesIO()
    np.savez(buffer, **columns)
    path.write_bytes(buffer.getvalue())
    return f"column {key} {way}"


def _index(path: Path, chance: random.Random) -> str:
    """Packed rows whose index says something else."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    index = path.with_name("index.json")
    index.write_bytes(members["index.json"])
    done = chance.choice([_value, _value, _value, _raw_index])(index, chance)
    members["index.json"] = index.read_bytes()
    index.unlink()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return done


def _raw_index(path: Path, chance: random.Random) -> str:
    path.write_text(new := chance.choice(RAW))
    return f"{new:.20}"

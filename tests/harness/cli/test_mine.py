"""`leaderboard mine` as a user drives it, against mining in plain loops."""

from __future__ import annotations

import gzip
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import encoders
import numpy as np
import pytest
from command_line import one_line_error
from mining_oracle import mine_oracle, unit_vectors

from harness import load_encoder, mining
from harness.cli import main
from harness.cli.mine import BackendChoice, MarginChoice, RetrievalChoice

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]
Pair = tuple[float, str, str]

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")

# Translations that share spellings, so that character n-grams find them; the last of each side has none.
GERMAN = [
    "Die Universität Heidelberg wurde 1386 gegründet.",
    "Wolfgang Amadeus Mozart komponierte 41 Sinfonien.",
    "Im Juli 1969 landete Apollo 11 auf dem Mond.",
    "Die Temperatur sinkt auf 12 Grad Celsius.",
    "Marie Curie erhielt 1911 den Nobelpreis für Chemie.",
    "Morgen bleibt es schön.",
]
ENGLISH = [
    "Temperatures fall to 12 degrees Celsius.",
    "In July 1969 Apollo 11 landed on the moon.",
    "Heidelberg University was founded in 1386.",
    "Marie Curie received the Nobel Prize in Chemistry in 1911.",
    "Wolfgang Amadeus Mozart composed 41 symphonies.",
    "Nobody had expected this.",
]
TRANSLATIONS = {(GERMAN[g], ENGLISH[e]) for g, e in enumerate([2, 4, 1, 0, 3])}

ENCODERS = (
    inspect.getsource(encoders)
    + """
import time

class Telling(Letters):
    uses_lang = True

    def __init__(self, kind):
        super().__init__()
        self.kind, self.fingerprint = kind, kind

    def encode(self, sentences, *, lang=None):
        from harness.core.errors import LanguageError

        if self.kind == "crashing":
            raise RuntimeError("out of\\nletters")
        if lang not in ("de", "en"):
            raise LanguageError(f"letters: {lang!r} is unknown")
        if len(sentences) > 1:  # not the one that shows whether the language is known
            with open("encoded.txt", "a") as log:
                log.write("".join(sentence + "\\n" for sentence in sentences))
        if self.kind == "waiting" and lang == "en" and len(sentences) > 1:
            time.sleep(60)
        return super().encode(sentences)

def letters(*, kind="plain"): return Telling(kind)

def waiting():  # the same vectors
    encoder = Telling("waiting")
    encoder.fingerprint = "plain"
    return encoder

def unloadable(): raise FileNotFoundError("no weights")
"""
)


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "news.de").write_text("".join(f"{line}\n" for line in GERMAN), encoding="utf-8")
    (tmp_path / "news.en").write_text("".join(f"{line}\n" for line in ENGLISH), encoding="utf-8")
    (tmp_path / "own.py").write_text(ENCODERS)
    monkeypatch.chdir(tmp_path)


def parsed(text: str) -> list[Pair]:
    rows = [line.split("\t") for line in text.removesuffix("\n").split("\n")] if text else []
    return [(float(score), source, target) for score, source, target in rows]


def expected(
    german: list[str], english: list[str], *, k: int = 4, margin: str = "ratio", retrieval: str = "max"
) -> list[Pair]:
    """What is to be mined from distinct sentences."""
    encoder = load_encoder("chargrams")
    x, y = (unit_vectors(encoder.encode(side)) for side in (german, english))
    pairs, scores = mine_oracle(x, y, k, margin, retrieval)
    return [(score, german[i], english[j]) for score, (i, j) in zip(scores, pairs, strict=True)]


def assert_same(found: list[Pair], wanted: list[Pair]) -> None:
    assert [pair[1:] for pair in found] == [pair[1:] for pair in wanted]
    assert [pair[0] for pair in found] == pytest.approx([pair[0] for pair in wanted], abs=6e-7)


def called(*arguments: str) -> int:
    """The exit code of the command in this process: a new one for every call would take half a minute."""
    with pytest.raises(SystemExit) as exited:
        main(["mine", *arguments])
    assert isinstance(exited.value.code, int)
    return exited.value.code


def mined(*arguments: str, files: tuple[str, str] = ("news.de", "news.en")) -> list[Pair]:
    assert called(*files, "--encoder", "chargrams", *arguments, "--out", "mined.tsv") == 0
    return parsed(Path("mined.tsv").read_text(encoding="utf-8"))


def test_translations_come_first(leaderboard: Leaderboard, tmp_path: Path) -> None:
    fresh = {"HARNESS_CACHE": str(tmp_path / "cache")}
    command = ["mine", "news.de", "news.en", "--encoder", "chargrams", "--out"]
    done = leaderboard(*command, "new/pairs.tsv", **fresh)
    assert done.returncode == 0 and done.stdout == ""
    found = parsed((tmp_path / "new" / "pairs.tsv").read_text(encoding="utf-8"))
    assert {pair[1:] for pair in found[: len(TRANSLATIONS)]} == TRANSLATIONS
    assert_same(found, expected(GERMAN, ENGLISH))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pairs.tsv"]
    assert done.stderr.splitlines() == [
        "news.de (de): 6 lines, 6 sentences to mine",
        "news.en (en): 6 lines, 6 sentences to mine",
        "chargrams: 12 of 12 sentences encoded, the others were there",
        f"{len(found)} pairs mined, {len(found)} written (k:4|margin:ratio|retrieval:max|backend:exact)",
    ]
    again = leaderboard(*command, "-", **fresh)
    assert again.stdout.encode() == (tmp_path / "new" / "pairs.tsv").read_bytes()
    assert "chargrams: 0 of 12 sentences encoded" in again.stderr
    # Searched, and taken from a job's folder: the same pairs by the same protocol.
    said = [leaderboard(*command, "-", "--work-dir", "work", **fresh).stderr.splitlines()[-2] for _ in range(2)]
    assert said == [done.stderr.splitlines()[-1]] * 2


@pytest.mark.parametrize(
    ("k", "margin", "retrieval"),
    [(2, "distance", "intersect"), (3, "absolute", "forward"), (1, "ratio", "backward"), (50, "ratio", "max")],
)
def test_protocols(k: int, margin: str, retrieval: str) -> None:
    found = mined("-k", str(k), "--margin", margin, "--retrieval", retrieval)
    assert_same(found, expected(GERMAN, ENGLISH, k=k, margin=margin, retrieval=retrieval))


def test_what_the_options_offer_is_what_mining_takes() -> None:
    assert [choice.value for choice in MarginChoice] == list(get_args(mining.Margin))
    assert [choice.value for choice in RetrievalChoice] == list(get_args(mining.Retrieval))
    assert [choice.value for choice in BackendChoice] == list(get_args(mining.Backend))


def test_threshold_and_top() -> None:
    whole = mined()
    third = whole[2][0]
    assert mined("--threshold", repr(third)) == whole[:3]  # as it is printed: the pair itself included
    assert mined("--threshold", "1e6") == []
    assert mined("--top", "2") == whole[:2]
    assert mined("--top", "1000") == whole


def test_blank_repeated_short_and_long_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["", *GERMAN[:3], "Kurz.", GERMAN[0], " \t ", *GERMAN[3:], "Lang. " * 50, GERMAN[5]]
    with gzip.open(tmp_path / "noisy.de.gz", "wt", encoding="utf-8", newline="\r\n") as file:
        file.write("\n".join(lines))
    files = ("noisy.de.gz", "news.en")
    bounds = ["--min-length", "6", "--max-length", "100"]
    assert_same(mined(*bounds, files=files), expected(GERMAN, ENGLISH))
    assert capsys.readouterr().err.splitlines()[0] == (
        "noisy.de.gz (de): 12 lines, 6 sentences to mine (dropped: 2 blank, 2 too short or too long, 2 repeated)"
    )
    kept = [line for line in lines if 6 <= len(line) <= 100]
    assert len(kept) == 8
    found = mined(*bounds, "--no-dedup", "--retrieval", "forward", files=files)
    assert_same(found, expected(kept, ENGLISH, retrieval="forward"))


def test_line_ends_within_a_sentence_become_blanks(tmp_path: Path) -> None:
    english = [line.replace(" ", "\u2028", 1).replace(" ", "\r", 1) for line in ENGLISH]
    (tmp_path / "odd.en").write_bytes("\n".join(english).encode())
    assert mined(files=("news.de", "odd.en")) == mined()


def test_output_is_utf_8_whatever_the_locale(leaderboard: Leaderboard) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = leaderboard("mine", "news.de", "news.en", "--encoder", "chargrams", **plain)
    assert done.returncode == 0, done.stderr
    assert parsed(done.stdout) == mined()


def test_gz_output_is_compressed_and_the_same_every_time(tmp_path: Path) -> None:
    out = tmp_path / "pairs.tsv.gz"
    command = ["news.de", "news.en", "--encoder", "chargrams", "--out"]
    assert called(*command, "pairs.tsv.gz") == 0
    first = out.read_bytes()
    assert parsed(gzip.decompress(first).decode()) == mined()
    (tmp_path / "link.tsv.gz").symlink_to(out)
    out.write_bytes(b"old")
    assert called(*command, "link.tsv.gz") == 0
    assert out.read_bytes() == first and (tmp_path / "link.tsv.gz").is_symlink()


def test_languages_come_from_the_names_or_the_options(leaderboard: Leaderboard, tmp_path: Path) -> None:
    whole = leaderboard("mine", "news.de", "news.en", "--encoder", "python:own:letters")
    assert whole.returncode == 0, whole.stderr
    (tmp_path / "news.de").rename(tmp_path / "news.txt")
    (tmp_path / "news.en").rename(tmp_path / "news.xx")
    command = ["mine", "news.txt", "news.xx", "--encoder", "python:own:letters"]
    message = one_line_error(leaderboard(*command))
    assert "news.txt: its name does not end in a language" in message and "--src-lang" in message
    assert "'xx' is unknown" in one_line_error(leaderboard(*command, "--src-lang", "de"))
    assert leaderboard(*command, "--src-lang", "de", "--trg-lang", "en").stdout == whole.stdout
    assert mined(files=("news.txt", "news.xx"))  # an encoder that needs no language needs none


def test_interrupted_it_goes_on_from_the_cache(tmp_path: Path) -> None:
    def start(encoder: str) -> subprocess.Popen[bytes]:
        command = [LEADERBOARD, "mine", "news.de", "news.en", "--out", "pairs.tsv"]
        environment = {**os.environ, "HARNESS_CACHE": str(tmp_path / "cache")}
        return subprocess.Popen(
            [*command, "--encoder", f"python:own:{encoder}"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE
        )

    log = tmp_path / "encoded.txt"
    run = start("waiting")  # in the second file
    while not (log.exists() and ENGLISH[0] in log.read_text()):
        time.sleep(0.02)
        assert run.poll() is None
    os.kill(run.pid, signal.SIGINT)
    errors = run.communicate(timeout=10)[1].decode()
    assert run.returncode == 130 and "run the same command again" in errors and "Traceback" not in errors
    assert not list(tmp_path.glob("*pairs.tsv*"))
    log.unlink()
    again = start("letters")
    assert again.wait(60) == 0 and (tmp_path / "pairs.tsv").stat().st_size > 0
    assert sorted(log.read_text().splitlines()) == sorted(ENGLISH)


def test_an_interrupted_search_goes_on_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = np.random.default_rng(0).integers(ord("a"), ord("z") + 1, size=(6500, 12), dtype=np.uint8)
    for language, rows in (("de", letters[:6400]), ("en", letters[6400:])):
        (tmp_path / f"long.{language}").write_bytes(b"".join(row.tobytes() + b"\n" for row in rows))
    whole = mined("--backend", "numpy", files=("long.de", "long.en"))
    command = ["long.de", "long.en", "--encoder", "chargrams", "--backend", "numpy", "--out", "pairs.tsv"]
    searched: list[int] = []

    def interrupt(watcher: object, progress: mining.Progress) -> None:
        searched.append(progress.done)
        if len(searched) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("harness.cli.mining_progress.MiningWatcher.searching", interrupt)
    assert called(*command, "--work-dir", "state") == 130
    assert list(tmp_path.glob("state/exact-k4.state/*")) and not list(tmp_path.glob("*pairs.tsv*"))
    assert called(*command, "--work-dir", "state") == 0
    assert searched == sorted(set(searched)) and searched[-1] == 6400 * 100  # no block twice
    assert parsed((tmp_path / "pairs.tsv").read_text()) == whole


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["news.de", "news.fr"], ["no file news.fr"]),
        (["news.de", "."], ["news.de is given for both sides"]),
        (["news.de", "empty"], ["no file empty"]),
        (["news.de", "news.de"], ["given for both sides"]),
        (["news.de", "./../{folder}/news.de"], ["given for both sides"]),
        (["news.de", "news.en", "--threshold", "1", "--top", "5"], ["--threshold and --top exclude"]),
        (["news.de", "news.en", "--threshold", "nan"], ["--threshold", "nan"]),
        (["news.de", "news.en", "--threshold", "high"], ["--threshold", "number"]),
        (["news.de", "news.en", "--top", "0"], ["--top"]),
        (["news.de", "news.en", "-k", "0"], ["--neighbours"]),
        (["news.de", "news.en", "--min-length", "-1"], ["--min-length"]),
        (["news.de", "news.en", "--min-length", "9", "--max-length", "8"], ["9 characters or more and 8 or fewer"]),
        (["news.de", "news.en", "--min-length", "1000"], ["news.de: no sentence in it to mine"]),
        (["news.de", "news.en", "--margin", "quotient"], ["--margin", "quotient", "ratio"]),
        (["news.de", "news.en", "--retrieval", "best"], ["--retrieval", "best", "intersect"]),
        (["news.de", "news.en", "--backend", "abacus"], ["--backend", "abacus", "numpy"]),
        (["news.de", "news.en", "--src-lang", "German"], ["--src-lang", "'German'"]),
        (["news.de", "news.en", "--out", "."], ["--out", "no ordinary file"]),
        (["news.de", "news.en", "--out", "/dev/null"], ["--out", "no ordinary file"]),
        (["news.de", "news.en", "--out", "news.en"], ["--out", "would replace"]),
        (["news.de", "news.en", "--out", "news.de/pairs.tsv"], ["pairs.tsv", "cannot be written"]),
        (["news.de", "news.en", "--cache-dir", "news.de"], ["cannot be written", "--cache-dir"]),
        (["news.de", "empty.en"], ["empty.en", "is empty"]),
        (["news.de", "table.en"], ["table.en:2: a tab"]),
        (["news.de", "latin.en"], ["latin.en:1: not UTF-8"]),
        (["news.de", "broken.en.gz"], ["broken.en.gz: cannot be read"]),
        (["news.de", "news.en", "--encoder", "chargram"], ["unknown encoder 'chargram'", "'chargrams'"]),
        (["news.de", "news.en", "--checkpoint", "state"], ["--checkpoint is now --work-dir"]),
        (["news.de", "news.en", "--work-dir", "news.de"], ["news.de", "cannot be written"]),
        (["news.de", "news.en", "--work-dir", ".."], [".. is not empty and holds no mining job"]),
        (["news.de", "news.en", "--documents"], ["news.de:1: no tab in the line: expected `id TAB sentence`"]),
        (["news.de", "news.en", "--documents", "--backend", "faiss"], ["--documents", "--backend faiss"]),
    ],
)
def test_wrong_use_gives_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], parts: list[str]
) -> None:
    (tmp_path / "empty.en").write_bytes(b"")
    (tmp_path / "table.en").write_bytes(b"one\ntwo\tcolumns\n")
    (tmp_path / "latin.en").write_bytes("naïve\n".encode("latin-1"))
    (tmp_path / "broken.en.gz").write_bytes(gzip.compress(b"one\n" * 1000)[:-9])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code = called("--encoder", "chargrams", *(word.format(folder=tmp_path.name) for word in arguments))
    printed = capsys.readouterr()
    message = one_line_error(subprocess.CompletedProcess([], code, printed.out, printed.err))
    for part in parts:
        assert part in message
    assert "Value error" not in message  # the library's words
    assert printed.out == "" and {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("encoder", "part"),
    [
        ("unloadable", "encoder 'python:own:unloadable': unloadable failed: FileNotFoundError: no weights"),
        ("letters?kind=crashing", "encoder python:own:letters?kind=crashing failed: RuntimeError: out of"),
    ],
)
def test_an_encoder_that_fails_gives_one_line(leaderboard: Leaderboard, encoder: str, part: str) -> None:
    done = leaderboard("mine", "news.de", "news.en", "--encoder", f"python:own:{encoder}", "--out", "pairs.tsv")
    assert part in one_line_error(done)


def test_files_and_an_encoder_are_needed(leaderboard: Leaderboard) -> None:
    assert "--encoder" in one_line_error(leaderboard("mine", "news.de", "news.en"))
    assert "FILE.en" in one_line_error(leaderboard("mine", "news.de", "--encoder", "chargrams"))


NOISY = """
import os
from own import Telling

os.system("echo importing")

class Noisy(Telling):
    def encode(self, sentences, *, lang=None):
        print("encoding")
        os.system("echo working")
        os.chdir("elsewhere")
        return super().encode(sentences, lang=lang)

def loud():
    print("loading")
    os.chdir("elsewhere")
    return Noisy("plain")

def forgetful():
    encoder = Telling("forgetful")
    encoder.encode = lambda sentences, *, lang: None
    return encoder
"""


@pytest.fixture
def noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those encoders, in this process."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "elsewhere").mkdir()
    yield
    for name in ("own", "noisy"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("noisy")
def test_an_encoders_own_output_and_folder_are_not_ours(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = []
    for factory in ("own:letters", "noisy:loud"):
        spec = f"python:{factory}?name=letters"
        assert called("news.de", "news.en", "--encoder", spec, "--cache-dir", factory) == 0
        printed.append(capfd.readouterr())
    assert printed[0].out and printed[1].out == printed[0].out
    assert {"importing", "loading", "encoding", "working"} <= set(printed[1].err.splitlines())
    assert not list((tmp_path / "elsewhere").rglob("*.shard")) and list((tmp_path / "noisy:loud").rglob("*.shard"))


@pytest.mark.usefixtures("noisy")
def test_an_encode_without_return_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert called("news.de", "news.en", "--encoder", "python:noisy:forgetful?name=letters") == 2
    assert "error: encoder 'letters' returned NoneType for 1 sentences" in capfd.readouterr().err

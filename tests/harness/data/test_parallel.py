from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from archives import zipped
from http_files import Site
from typer.testing import CliRunner, Result

from harness.cli.data import app
from harness.core.errors import InputError
from harness.data.parallel import parallel_corpora

NAMES = "GlobalVoices TED2020 NewsCommentary WikiMatrix Tatoeba Europarl OpenSubtitles2018 UNPC MUSE Wikititles JW300"
OPUS = "/OPUS-TED2020/v1/moses"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def fetch(site: Site, root: Path, *arguments: str) -> Result:
    return run("fetch", *arguments, "--data-dir", str(root), "--mirror", site.url)


def test_every_corpus_is_described() -> None:
    assert " ".join(parallel_corpora()) == NAMES
    for corpus in parallel_corpora().values():
        assert corpus.title and corpus.licence and corpus.citation and corpus.home.startswith("https://")
        assert "\n" not in corpus.note + corpus.withdrawn
        if not corpus.withdrawn:
            assert corpus.url.count("{pair}") == corpus.file.count("{pair}") == 1
            assert corpus.file.startswith(f"{corpus.name}.")
            assert corpus.data_set(corpus.languages or ["de"]).files


@pytest.mark.parametrize(
    ("name", "language", "url", "target"),
    [
        ("TED2020", "de", "object.pouta.csc.fi/OPUS-TED2020/v1/moses/de-en.txt.zip", "de-en.txt.zip"),
        ("TED2020", "zh", "object.pouta.csc.fi/OPUS-TED2020/v1/moses/en-zh_cn.txt.zip", "en-zh.txt.zip"),
        ("Tatoeba", "zh", "object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses/cmn-en.txt.zip", "zh-en.txt.zip"),
        ("WikiMatrix", "ar", "dl.fbaipublicfiles.com/laser/WikiMatrix/v1/WikiMatrix.ar-en.tsv.gz", "ar-en.tsv.gz"),
        ("MUSE", "de", "dl.fbaipublicfiles.com/arrival/dictionaries/en-de.txt", "en-de.txt"),
        ("Wikititles", "zh", "data.statmt.org/wikititles/v2/wikititles-v2.zh-en.tsv.gz", "zh-en.tsv.gz"),
    ],
)
def test_addresses(name: str, language: str, url: str, target: str) -> None:
    (download,) = parallel_corpora()[name].data_set([language]).downloads
    assert download.urls == (f"https://{url}",) and download.target == f"parallel/{name}/{name}.{target}"


def test_fetch(site: Site, tmp_path: Path) -> None:
    site.files = {
        f"{OPUS}/de-en.txt.zip": zipped({"TED2020.de-en.de": "Hallo.\n", "TED2020.de-en.en": "Hello.\n"}),
        f"{OPUS}/en-fr.txt.zip": zipped({"TED2020.en-fr.fr": "Salut.\n", "TED2020.en-fr.en": "Hello.\n"}),
    }
    done = fetch(site, tmp_path, "TED2020", "--languages", "de, fr")
    assert done.exit_code == 0, done.exception
    assert "CC BY-NC-ND" in done.stderr and "2 files fetched" in done.stderr
    for pair in ("de-en", "en-fr"):
        found = tmp_path / f"parallel/TED2020/TED2020.{pair}.txt.zip"
        assert found.read_bytes() == site.files[f"{OPUS}/{pair}.txt.zip"]
    assert (tmp_path / "checksums.sha256").read_text().count("  parallel/TED2020/") == 2
    done = run("verify", "TED2020", "--data-dir", str(tmp_path))
    assert done.exit_code == 0 and done.stdout.count("OK ") == 2
    done = fetch(site, tmp_path, "TED2020", "--languages", "de")
    assert "0 files fetched, 1 were there" in done.stderr and len(site.requests) == 2
    # Another file at the same address is not taken for the one that was there first.
    (tmp_path / "parallel/TED2020/TED2020.de-en.txt.zip").unlink()
    site.files[f"{OPUS}/de-en.txt.zip"] = zipped({"TED2020.de-en.de": "Andere\n"})
    assert "sha256 of" in str(fetch(site, tmp_path, "TED2020", "--languages", "de").exception)


def test_fetch_of_compressed_tables(site: Site, tmp_path: Path) -> None:
    path = "/laser/WikiMatrix/v1/WikiMatrix.de-en.tsv.gz"
    content = gzip.compress(b"1.2\teins\tone\n")
    target = tmp_path / "parallel/WikiMatrix/WikiMatrix.de-en.tsv.gz"
    site.files = {path: content[:-9]}
    done = fetch(site, tmp_path, "WikiMatrix", "--languages", "de")
    assert "WikiMatrix.de-en.tsv.gz: cannot be read" in str(done.exception) and not target.exists()
    assert not (tmp_path / "checksums.sha256").exists()
    site.files = {path: content}
    assert fetch(site, tmp_path, "WikiMatrix", "--languages", "de").exit_code == 0
    assert target.read_bytes() == content
    for again in (fetch(site, tmp_path, "WikiMatrix", "--languages", "de"), run("verify", "--data-dir", str(tmp_path))):
        assert again.exit_code == 0
    target.write_bytes(gzip.compress(b"1.2\tzwei\ttwo\n"))
    assert "not the published file" in str(fetch(site, tmp_path, "WikiMatrix", "--languages", "de").exception)
    assert run("verify", "WikiMatrix", "--data-dir", str(tmp_path)).exit_code == 1


def test_a_page_instead_of_an_archive(site: Site, tmp_path: Path) -> None:
    site.files = {f"{OPUS}/de-en.txt.zip": b"<html>moved</html>"}
    done = fetch(site, tmp_path, "TED2020", "--languages", "de")
    assert "a web page came instead of the file" in str(done.exception) and not (tmp_path / "checksums.sha256").exists()
    assert list((tmp_path / "parallel/TED2020").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["JW300"], "JW300 has been withdrawn"),
        (["JW300", "--languages", "de"], "JW300 has been withdrawn"),
        (["TED2020"], "TED2020 has many languages: say which, as in --languages de,ar"),
        (["UNPC", "--languages", "ar,de"], "UNPC has no de; it has English with ar, es, fr, ru, zh"),
        (["TED2002"], "unknown data set 'TED2002'; did you mean 'TED2020'"),
        (["sts17", "--languages", "de"], "--languages is for corpora of parallel sentences"),
        (["--languages", "de"], "--languages is for corpora of parallel sentences"),
        (["TED2020", "--languages", "xx"], "TED2020 was not fetched (HTTP 404"),
        (["TED2020", "--languages", "../../../x"], "language name '../../../x' cannot name a folder"),
        (["TED2020", "--languages", "a\nb"], r"language name 'a\nb' cannot name a folder"),
        (["TED2020", "--languages", "a" * 300], "language name 'aaaaaaaaaaaaaaaaaaaa'... has 300 characters"),
    ],
)
def test_bad_usage(site: Site, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = fetch(site, tmp_path, *arguments)
    assert isinstance(done.exception, InputError) and message in str(done.exception)
    assert "\n" not in str(done.exception) and bool(site.requests) == ("HTTP" in message)

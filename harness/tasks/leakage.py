"""Which sentences are evaluated on, so that training data can be kept free of them."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from harness.core.errors import InputError
from harness.data import DataDir, bundled_sample
from harness.data.sts import read_multi_mt, read_original
from harness.protocol import all_tasks


def normal_form(text: str) -> str:
    """What of a text counts in a comparison: its letters and digits, in NFKC and lower case. May be empty."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).lower()))


class EvaluationSentences:
    """A set of sentences; `text in sentences` compares normal forms. Texts without a letter or digit are in none.

    It holds a hash of 8 bytes for each distinct form: with a million of them, fewer than one text in 10^12 is taken
    for a sentence that it is not.

    Args:
        sentences: those of one set, or by set.

    Attributes:
        counts: how many distinct sentences each set has, by its name.
    """

    def __init__(self, sentences: Iterable[str] | Mapping[str, Iterable[str]]):
        sets = sentences if isinstance(sentences, Mapping) else {"": sentences}
        forms: set[int] = set()
        self.counts: dict[str, int] = {}
        for name, texts in sets.items():
            own = {_hash(form) for text in texts if (form := normal_form(text))}
            self.counts[name] = len(own)
            forms |= own
        self._hashes = array("Q", sorted(forms))

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, text: str) -> bool:
        form = normal_form(text)
        if not form:
            return False
        value = _hash(form)
        place = bisect_left(self._hashes, value)
        return place < len(self._hashes) and self._hashes[place] == value

    @property
    def digest(self) -> str:
        """sha256 of the set: equal for equal sets of sentences."""
        return hashlib.sha256(b"".join(value.to_bytes(8, "little") for value in self._hashes)).hexdigest()


def evaluation_sets() -> dict[str, Callable[[DataDir], Iterable[str]]]:
    """What reads the evaluated sentences in a data directory: by task, and STSb's dev and test parts.

    Raises:
        InputError: an installed task cannot be imported.
    """
    sets = {task.name: task.sentences for task in all_tasks() if task.sentences}
    of_task = sets.get("stsb")  # another package may have a task of this name
    return {**sets, "stsb": (lambda data: chain(of_task(data), _stsb(data))) if of_task else _stsb}


def evaluation_sentences(data: DataDir, names: Iterable[str]) -> EvaluationSentences:
    """The sentences of some of the `evaluation_sets` that are in `data`, stand-ins included.

    Raises:
        InputError: a set is damaged.
    """
    return EvaluationSentences({name: evaluation_sets()[name](data) for name in names})


def leakage_guard(data: DataDir) -> EvaluationSentences:
    """The sentences of every evaluation set in `data` and of the bundled sample: what no student may be trained on.

    Raises:
        InputError: there is no evaluation set in `data`, or one is damaged.
    """
    bundled = bundled_sample()
    is_sample = data.root == bundled.root
    sets = evaluation_sets()
    in_data = {} if is_sample else {name: read(data) for name, read in sets.items()}
    sample = (text for read in sets.values() for text in read(bundled))
    guard = EvaluationSentences({**in_data, "sample": sample})
    if not is_sample and not any(count for name, count in guard.counts.items() if name != "sample"):
        raise InputError(
            f"{data.root} holds no evaluation set, so training data cannot be kept free of evaluation sentences; "
            "get them with `leaderboard data fetch sts17 tatoeba stsb`"
        )
    return guard


def _stsb(data: DataDir) -> Iterator[str]:
    """The dev and test parts: they hold the sentences of STS 2017 and their translations."""
    translations = _files(data, "stsb/stsb-*-dev.csv", "stsb/stsb-*-test.csv")
    originals = _files(data, "stsb/original-en/sts-dev.csv", "stsb/original-en/sts-test.csv")
    for row in chain(*map(read_multi_mt, translations), *map(read_original, originals)):
        yield row.sentence1
        yield row.sentence2


def _files(data: DataDir, *patterns: str) -> list[Path]:
    """The files that match, plain or `.gz`."""
    return sorted(path for pattern in patterns for end in ("", ".gz") for path in data.root.glob(pattern + end))


def _hash(form: str) -> int:
    return int.from_bytes(hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")

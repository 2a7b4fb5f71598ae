"""What a job will take: from an encoder and a search whose speed is known."""

from __future__ import annotations

import pytest

from harness.mining import approximate, estimate
from harness.mining.approximate import Speed
from harness.mining.estimate import Estimate, duration, encoding_seconds, exact_seconds, gigabytes


class Clock:
    """Encodes with a second a call and so many a sentence, and the first time 100 more."""

    def __init__(self, a_sentence: float):
        self.now, self.a_sentence, self.calls = 0.0, a_sentence, list[int]()

    def __call__(self) -> float:
        return self.now

    def encode(self, sentences: list[str]) -> None:
        self.now += len(sentences) * self.a_sentence + (0 if self.calls else 100)
        self.calls.append(len(sentences))


@pytest.mark.parametrize("a_sentence", [1.0, 1e-2, 1e-4])
def test_encoding_is_measured_on_few_sentences_and_without_the_start(a_sentence: float) -> None:
    clock = Clock(a_sentence)
    texts = ["a sentence"] * 100_000
    seconds = encoding_seconds(texts, 50_000, clock.encode, clock)
    assert seconds == pytest.approx(50_000 * a_sentence)
    assert sum(clock.calls) <= 0.02 * 50_000 and (sum(clock.calls[1:]) * a_sentence < 70)


@pytest.mark.parametrize("n", [5, 17, 6000])
def test_the_start_does_not_count_where_there_is_little_to_encode(n: int) -> None:
    clock = Clock(2e-3)
    assert encoding_seconds(["a sentence"] * n, n, clock.encode, clock) == pytest.approx(n * 2e-3)


def test_nothing_to_encode_takes_no_time() -> None:
    clock = Clock(1.0)
    assert encoding_seconds(["a"], 0, clock.encode, clock) == 0 and not clock.calls


def test_a_search_is_measured_at_two_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sizes = Clock(0), []

    def nearest(x: list[float], y: list[float], k: int, *, backend: str) -> None:
        sizes.append((len(x), len(y)))
        clock.now += 2e-5 * (len(x) + len(y)) + 1e-8 * len(x) * len(y)

    monkeypatch.setattr(estimate, "nearest", nearest)
    monkeypatch.setattr(estimate.time, "perf_counter", clock)
    n, m = 3_000_000, 1_000_000
    assert exact_seconds(n, m, 64, 4, "float32") == pytest.approx(2e-5 * (n + m) + 1e-8 * n * m)
    assert len(sizes) == 3
    assert exact_seconds(1000, 1000, 64, 4, "auto") < 0.1 and len(sizes) == 3  # not worth it


def test_an_approximate_search_takes_what_its_parts_take() -> None:
    speed = Speed(product=1e-11, code=1e-9, query=1e-4, threads=2)
    assert approximate.choose_index(2_000_000, 256) == "IVF4096,PQ128x4fs;nprobe=256"
    training = 10 * 40 * 4096 * 4096 * 256 * 1e-11
    assigning = (1_000_000 + 2_000_000) * 4096 * 256 * 1e-11
    scanning = 1_000_000 * (2_000_000 * 256 / 4096 * 1e-9 + 1e-4) / 2
    assert speed.seconds(1_000_000, 2_000_000, 256) == pytest.approx(training + assigning + scanning)
    assert speed.seconds(100, 1000, 8) == pytest.approx(100 * 1000 * 8 * 1e-11 + 100 * 1e-4 / 2)  # Flat


def test_the_speed_of_an_approximate_search_is_measured() -> None:
    pytest.importorskip("faiss")
    speed = approximate.measured_speed(15, 4)
    assert 0 < speed.product < 1e-6 and 0 <= speed.code < 1e-4 and 0 < speed.query < 1 and speed.threads >= 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (3600 * 5 + 1200, "5 h 20 min"),
        (3600 * 76, "3 d 4 h"),
        (float("nan"), "unknown"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_sizes_and_the_whole_line() -> None:
    assert (gigabytes(0), gigabytes(4.2e8), gigabytes(4.25e10)) == ("1 MB", "420 MB", "42.5 GB")
    line = str(Estimate(4_000_000, (600.0, 600.0), 7200.0, True, 10**9, 5 * 10**9))
    assert line == (
        "4,000,000 sentences, about 2 h 20 min (encoding 20 min, approximate search 2 h 0 min), 1.0 GB of memory "
        "beside the encoder's, 5.0 GB of disk"
    )


def test_what_is_known_counts_where_a_part_is_not() -> None:
    nan = float("nan")
    estimate = Estimate(20, (nan, 60.0), 9e6, False, 10**9, 10**9, cache=10**9)
    assert estimate.seconds == 9e6 + 60
    assert str(estimate).startswith("20 sentences, at least 104 d 4 h (encoding unknown, search 104 d 4 h), 1.0 GB")
    assert str(estimate).endswith(" 2.0 GB of disk")

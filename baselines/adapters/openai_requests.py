"""How sentences are put into requests to a server, and what these cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from baselines.adapters.huggingface import legal_text
from baselines.adapters.openai_client import Answer
from harness.core.errors import EncoderError

_MILLION = 1e6


@dataclass(frozen=True)
class Requests:
    """How sentences are put into requests; see `load`."""

    prompt: str
    truncate: int | None
    batch_size: int
    max_characters: int
    concurrency: int

    def text(self, sentence: str) -> str:
        """What is sent of a sentence; of a blank one nothing."""
        return self.prompt + legal_text(sentence)[: self.truncate] if sentence.strip() else ""

    def batches(self, texts: Mapping[int, str]) -> Iterator[list[int]]:
        """The keys of texts, a list a request, in their order; one place in each request is for the probe."""
        batch: list[int] = []
        size = 0
        for row, text in texts.items():
            if batch and (len(batch) + 1 >= self.batch_size or size + len(text) > self.max_characters):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += len(text)
        if batch:
            yield batch


class Meter:
    """Counts requests and tokens, and keeps what they cost below a limit.

    How many tokens a request will have is estimated by the largest number of tokens a character so far.
    """

    def __init__(self, host: str, price: float | None, max_cost: float | None):
        self.price, self._host, self._max_cost = price, host, max_cost
        self._lock = threading.Lock()
        self._n_requests, self._tokens, self._has_tokens = 0, 0.0, False
        self._rate = 0.0  # tokens a character
        self._under_way = 0  # characters

    @property
    def usage(self) -> dict[str, float]:
        """Requests that were answered, tokens as the server reports them, and their cost if a price was given."""
        with self._lock:
            counted: dict[str, float] = {"requests": self._n_requests}
            if self._has_tokens:
                counted["tokens"] = self._tokens
            if self.price is not None:
                counted["cost"] = self._tokens * self.price / _MILLION
            return counted

    def check(self, texts: Sequence[str]) -> None:
        """Raises EncoderError if these texts, beside those under way, would cost too much."""
        with self._lock:
            self._check(sum(map(len, texts)))

    def _check(self, n_characters: int) -> None:
        if self.price is None or self._max_cost is None:
            return
        spent = self._tokens * self.price / _MILLION
        more = (self._under_way + n_characters) * self._rate * self.price / _MILLION
        if spent + more > self._max_cost:
            raise EncoderError(
                f"max_cost={self._max_cost:g}: {spent:.6g} is spent, and what comes next would cost about {more:.2g}; "
                "what is paid is kept: run it again, with a higher max_cost if need be, to go on"
            )

    @contextmanager
    def counted(self, texts: Sequence[str]) -> Iterator[Callable[[Answer], None]]:
        """A request, in a `with` block, which passes the answer to what it gets. Raises EncoderError as `check`."""
        n_characters = sum(map(len, texts))
        with self._lock:
            self._check(n_characters)
            self._under_way += n_characters

        def count(answer: Answer) -> None:
            if answer.tokens is None and self.price is not None:
                raise EncoderError(f"{self._host} does not report tokens, so that no cost is known; leave out price")
            with self._lock:
                self._n_requests += 1
                if answer.tokens is not None:
                    self._has_tokens = True
                    self._tokens += answer.tokens
                    self._rate = max(self._rate, answer.tokens / max(n_characters, 1))

        try:
            yield count
        finally:
            with self._lock:
                self._under_way -= n_characters

"""`openai:MODEL?base_url=...`: any server with OpenAI's embeddings endpoint, OpenAI's own among them.

The others (Text Embeddings Inference, vLLM, Ollama, LM Studio, infinity, llama-server, LiteLLM) take the same requests.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from math import ceil, isfinite, log10

import numpy as np
from numpy.typing import NDArray

from baselines.adapters.openai_client import Address, RefusedError, Server, address_of
from baselines.adapters.openai_probes import N_SHORT, PROBES, SAME, nearest_sketch, sketch, unlike
from baselines.adapters.openai_requests import Meter, Requests
from harness.core.errors import EncoderError, InputError, VectorError
from harness.core.escaping import terminal_line
from harness.encoders.encoder import Conditions, Encoder, PartialError
from harness.encoders.info import EncoderInfo, always

_WEIGHTS = r"weights:([0-9a-f]{64})\|norm:(unit|any)"
_UNIT = 1e-2  # how far the norms of unit vectors may be from 1
_ROUNDING = 1e-7  # of a 1 - cosine of float32 vectors: so much is nothing

_Keep = Callable[[list[int], NDArray[np.float32]], None]
"""Takes rows and their vectors."""


class OpenAIEncoder:
    """Sentences to vectors through a server; `lang` is ignored. A blank text is not sent and has the zero vector.

    Requests are halved where the server refuses them. The last text of each is a probe: if its vector is not what it
    was when the encoder was opened, another model answers now, and no vector of the request is returned.

    Attributes:
        chunk_size: sentences that are under way at once; after so many the cache keeps them, and a kill loses no more.
        price: of 10^6 tokens, if the user has given one.
        sent_text: gives what is sent of a sentence.
    """

    uses_lang = False
    device = "remote"

    def __init__(
        self,
        name: str,
        server: Server,
        requests: Requests,
        meter: Meter,
        *,
        asked: Callable[[str], str],
        known: Sequence[str],
    ):
        """asked: what the fingerprint begins with, of a prompt. known: fingerprints from before, the latest last."""
        self._asked, self._known = asked, known
        self.name, self.sent_text, self.price = name, requests.text, meter.price
        self.chunk_size = (requests.batch_size - 1) * requests.concurrency  # a request each, with its probe
        self._server, self._host, self._requests, self._meter = server, server.host, requests, meter
        self._has_warned = False
        texts = [self._requests.text(probe) for probe in PROBES]
        self._probes = self._request(texts)
        self.dim = self._probes.shape[1]
        if not self._probes.any(axis=1).all():
            raise EncoderError(f"{self._host} answered zero vectors for words")
        self._spread = unlike(self._probes, self._of_length(self._request(texts)))
        start = asked(requests.prompt)
        self.fingerprint = f"{start}|{self._weights(start, known)}"
        if self._spread > SAME:
            _warn(f"{name}: {self._host} gives two equal requests vectors with a cosine of {1 - self._spread:.4f}")

    def with_prompt(self, prompt: str) -> OpenAIEncoder:
        """The same model with another prompt; what both send is counted, and limited, together."""
        requests = replace(self._requests, prompt=prompt)
        return OpenAIEncoder(self.name, self._server, requests, self._meter, asked=self._asked, known=self._known)

    @property
    def conditions(self) -> Conditions:
        """How much two equal requests differed: 1 - cosine, rounded up to a power of ten; a mark where it is much."""
        found: Conditions = {"repeatability": 10.0 ** ceil(log10(self._spread)) if self._spread > _ROUNDING else 0.0}
        return {**found, "repeatable": "no"} if self._spread > SAME else found

    @property
    def usage(self) -> dict[str, float]:
        """Requests that were answered, tokens as the server reports them, and their cost if a price was given."""
        return self._meter.usage

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim).

        Raises:
            EncoderError: the server cannot be reached or does not serve this model to this key, another model answers
                than at first, what it answers is no vectors, or `max_cost` is reached.
            RefusedError: it refuses a text.
            PartialError: one of these, and some requests were answered.
        """
        vectors, has_vector = np.zeros((len(sentences), self.dim), dtype=np.float32), np.zeros(len(sentences), bool)
        texts = {row: text for row, text in enumerate(map(self.sent_text, sentences)) if text}

        def keep(rows: list[int], found: NDArray[np.float32]) -> None:
            vectors[rows], has_vector[rows] = found, True

        batches = list(self._requests.batches(texts))
        probes = [number % N_SHORT for number in range(len(batches))]
        self._meter.check([*texts.values(), *(self._requests.text(PROBES[probe]) for probe in probes)])
        stop, failure = threading.Event(), None
        pool = ThreadPoolExecutor(self._requests.concurrency, "openai", self._server.stop_at, (stop,))
        try:
            under_way = [
                pool.submit(self._batch, {row: texts[row] for row in rows}, probe, keep)
                for rows, probe in zip(batches, probes, strict=True)
            ]
            for future in as_completed(under_way):
                if failure is None and (failure := future.exception()) is not None:
                    stop.set()  # no more is sent; what is under way costs, and is waited for
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()
        if failure is None:
            return vectors
        if not (has_vector.any() and isinstance(failure, Exception)):
            raise failure
        raise PartialError(np.flatnonzero(has_vector), vectors[has_vector], failure) from failure

    def _batch(self, texts: Mapping[int, str], probe: int, keep: _Keep) -> None:
        """Ask for the vectors of texts, and give them to `keep` as they come; each request has the probe with it."""
        rows, sent = list(texts), [*texts.values(), self._requests.text(PROBES[probe])]
        if len(rows) == 1:
            keep(rows, self._probed(self._request(sent), probe))
            return
        try:
            found = self._once(sent)
        except RefusedError as error:
            self._tell_of_halves(error)
            for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                self._batch({row: texts[row] for row in part}, probe, keep)
        else:
            keep(rows, self._probed(found, probe))

    def _probed(self, found: NDArray[np.float32], probe: int) -> NDArray[np.float32]:
        """All but the last, which is a probe's."""
        distance = unlike(self._of_length(found)[-1:], self._probes[probe : probe + 1])
        if distance > max(SAME, 4 * self._spread):
            raise VectorError(
                f"another model answers at {self._host} than when this run began (cosine {1 - distance:.4f} to the "
                "vector of the same text); what it answered is not kept"
            )
        return found[:-1]

    def _of_length(self, found: NDArray[np.float32]) -> NDArray[np.float32]:
        if found.shape[1] != self.dim:
            raise VectorError(f"{self._host} answered vectors of {found.shape[1]} numbers, {self.dim} before")
        return found

    def _request(self, texts: list[str]) -> NDArray[np.float32]:
        """The vectors of texts, asked for at once or, where the server refuses that, in halves."""
        try:
            return self._once(texts)
        except RefusedError as error:
            if len(texts) == 1:
                raise
            self._tell_of_halves(error)
        half = len(texts) // 2
        parts = [self._request(part) for part in (texts[:half], texts[half:])]
        if parts[0].shape[1] != parts[1].shape[1]:
            raise VectorError(f"{self._host} answered vectors of different lengths")
        return np.concatenate(parts)

    def _once(self, texts: list[str]) -> NDArray[np.float32]:
        with self._meter.counted(texts) as count:
            answer = self._server.embed(texts)
            count(answer)
            return answer.vectors

    def _tell_of_halves(self, error: RefusedError) -> None:
        if not self._has_warned:
            self._has_warned = True
            _warn(f"{error}; they are sent in halves: a smaller batch_size or max_characters saves requests")

    def _weights(self, asked: str, known: Iterable[str]) -> str:
        """What identifies the model in the fingerprint: as it was called before, if one of `known` is of this model."""
        norms = np.linalg.norm(self._probes, axis=1)
        norm = "unit" if bool((np.abs(norms - 1) < _UNIT).all()) else "any"
        found = sketch(self._probes)
        before = _known_weights(asked, known)
        same = nearest_sketch(found, [weights for weights, other in before if other == norm], self._spread)
        if before and same is None:
            _warn(
                f"{self.name}: another model answers at {self._host} than before; vectors and results of the two are "
                "kept apart"
            )
        return f"weights:{same or found}|norm:{norm}"


class _Unopened:
    """In place of an encoder where nothing may be sent: what is known of it without asking the server.

    Attributes:
        dim: 0, unless the user has chosen how long vectors are.
    """

    uses_lang = False

    def __init__(
        self, name: str, requests: Requests, price: float | None, dim: int, *, asked: str, known: Iterable[str]
    ):
        self.name, self.sent_text, self.price, self.dim = name, requests.text, price, dim
        before = _known_weights(asked, known)
        weights, norm = before[-1] if before else ("unknown", "any")
        self.fingerprint = f"{asked}|weights:{weights}|norm:{norm}"

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        raise EncoderError(f"{self.name} was opened for a dry run, which sends nothing")


def _known_weights(asked: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """The sketch and the kind of norms in those of the fingerprints that are of this server, model and options."""
    found = (re.match(re.escape(f"{asked}|") + _WEIGHTS, fingerprint) for fingerprint in known)
    return [(match[1], match[2]) for match in found if match]


def _warn(message: str) -> None:
    print(terminal_line(f"warning: {message}"), file=sys.stderr)


def load(
    model: str,
    *,
    name: str,
    base_url: str | None = None,
    key_env: str | None = None,
    dimensions: int | None = None,
    prompt: str = "",
    truncate: int | None = None,
    batch_size: int = 256,
    max_characters: int = 200_000,
    concurrency: int = 4,
    retries: int = 8,
    timeout: float = 120.0,
    price: float | None = None,
    max_cost: float | None = None,
    known_fingerprints: Callable[[], Iterable[str]] | None = None,
    dry_run: bool = False,
) -> Encoder:
    """Open a model of a server, which is asked twice for the vectors of 16 probes (some 500 tokens in all).

    Args:
        model: its name there.
        name: under which results are stored.
        base_url: the server's address, `http://HOST:PORT/v1`; by default $OPENAI_BASE_URL, else OpenAI.
        key_env: the name of the environment variable with the key; by default $OPENAI_API_KEY, which only OpenAI and
            the server of $OPENAI_BASE_URL get.
        dimensions: of the vectors, for models that shorten them; the server does it.
        prompt: what every text begins with.
        truncate: characters after which a text is cut. By default a text that is too long for the server fails its
            subset.
        batch_size, max_characters: the most texts and characters of a request; more than one text.
        concurrency: the most requests at once.
        retries: how often a request is sent again after 429, 5xx or a lost connection; the client waits in between, as
            long as the server says (at most two minutes).
        timeout: seconds for a request.
        price: of 10^6 tokens, in any currency; the records then have the cost.
        max_cost: of all that is sent until the encoder is opened again, in the same currency: of one encoder in one
            run. Nothing is sent that would probably exceed it.
        known_fingerprints: gives fingerprints from before, the latest last; by default those of the vector cache.
        dry_run: send nothing; what is returned cannot encode.

    Raises:
        InputError: an option that does not fit, no server at the address, no key.
    """
    _check_options(
        positive={
            "dimensions": dimensions,
            "truncate": truncate,
            "max_characters": max_characters,
            "concurrency": concurrency,
            "timeout": timeout,
            "max_cost": max_cost,
        },
        amounts={"retries": retries, "price": price},
    )
    if batch_size < 2:
        raise InputError(f"openai: batch_size must be at least 2 (a probe goes with each request), not {batch_size}")
    if max_cost is not None and price is None:
        raise InputError("openai: max_cost needs price=..., that of 10^6 tokens")
    address = address_of(base_url, key_env, needs_key=not dry_run)
    asked = partial(_asked, address, model, dimensions, truncate)
    known = list((known_fingerprints or _cached_fingerprints)())
    requests = Requests(prompt, truncate, batch_size, max_characters, concurrency)
    if dry_run:
        return _Unopened(name, requests, price, dimensions or 0, asked=asked(prompt), known=known)
    server = Server(address, model, dimensions=dimensions, concurrency=concurrency, retries=retries, timeout=timeout)
    meter = Meter(server.host, price, max_cost)
    try:
        return OpenAIEncoder(name, server, requests, meter, asked=asked, known=known)
    except RefusedError as error:
        raise InputError(f"openai:{model}: {error}") from None


def _check_options(positive: Mapping[str, float | None], amounts: Mapping[str, float | None]) -> None:
    for option, value in positive.items():
        if value is not None and not (value > 0 and isfinite(value)):
            raise InputError(f"openai: {option} must be above 0, not {value}")
    for option, value in amounts.items():
        if value is not None and not (value >= 0 and isfinite(value)):
            raise InputError(f"openai: {option} must be 0 or more, not {value}")


def _asked(address: Address, model: str, dimensions: int | None, truncate: int | None, prompt: str) -> str:
    """What the fingerprint begins with: the server, the model's name and the options."""
    options = {"dimensions": dimensions, "prompt": repr(prompt) if prompt else None, "truncate": truncate}
    parts = [f"openai/{address.host}", f"model:{model}"]
    return "|".join(parts + [f"{option}:{value}" for option, value in options.items() if value is not None])


def _cached_fingerprints() -> list[str]:
    from harness.encoders.cache import VectorCache

    return VectorCache().fingerprints()


openai = EncoderInfo(
    factory=load,
    description="a model of OpenAI, or of any server with its API (base_url=http://HOST:PORT/v1)",
    backend="openai",
    is_kind=True,
    location_form="MODEL",
    extra="remote",
    modules=("openai",),
    runs_code=always,  # it sends texts, and perhaps a key, to an address that the spec string chooses
)

"""Requests to a server with OpenAI's embeddings endpoint, through the `openai` package, and what can go wrong."""

from __future__ import annotations

import binascii
import os
import re
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, TypedDict
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EncoderError, InputError, VectorError
from harness.core.escaping import visible
from harness.core.schema import Amount, decoded

OPENAI = "https://api.openai.com/v1"
_OPENAI_KEY = "OPENAI_API_KEY"
_NO_KEY = "none"  # the client wants one; servers that need none do not look at it
_MOST_BYTES = 1 << 28  # of an answer: 2,048 vectors of 4,096 numbers take 45 MB in base64, 180 MB in digits
_MOST_TO_SAY = 200  # characters of a server's own words
_CONNECT = 10.0  # seconds
_TOO_MUCH = (400, 413, 422)  # what servers say of too many or too long texts
_NOT_COPIED = ("content-encoding", "content-length", "transfer-encoding")


class RefusedError(Exception):
    """The server refuses these texts; fewer of them, or shorter ones, it may take."""


class _StoppedError(BaseException):
    """Nobody waits for the answer any more. Not an Exception, which the client would meet with another try."""


class _EndlessError(BaseException):
    """An answer that does not end. Nor is it worth another try."""


class _NobodyError(BaseException):
    """No connection, and there has been none before: the address may be wrong, and the user hears of it at once."""


@dataclass(frozen=True)
class Answer:
    """Vectors, float32 (n, dim), in the order of the texts, and the tokens that the server has counted, if it has."""

    vectors: NDArray[np.float32]
    tokens: float | None


class _Vector(TypedDict):
    index: int
    embedding: str | list[float | None]


class _Usage(TypedDict, total=False):
    prompt_tokens: Amount | None


class _Needed(TypedDict):
    data: list[_Vector]


class _Body(_Needed, total=False):
    usage: _Usage | None


@dataclass(frozen=True)
class Address:
    """Where a server is, and the key that it gets.

    Attributes:
        url: without user name, password, query.
        key: None: none. It is not shown.
    """

    url: str
    key: str | None

    @property
    def host(self) -> str:
        """With the port, if the address has one."""
        return urlsplit(self.url).netloc.lower()

    def __repr__(self) -> str:
        return f"Address({self.url!r})"


def address_of(base_url: str | None, key_env: str | None, *, needs_key: bool = True) -> Address:
    """The server at `base_url`, else at $OPENAI_BASE_URL, else OpenAI.

    key_env: the name of the environment variable that holds the key. By default $OPENAI_API_KEY goes to OpenAI and to
    the server of $OPENAI_BASE_URL, and no key to a server that a spec string names: OpenAI's is none of its business.
    needs_key: whether something will be sent.

    Raises:
        InputError: no address, one that holds a password, OpenAI's without https, no such variable, a value that is no
            key.
    """
    url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI)
    is_openai = urlsplit(url).hostname == urlsplit(OPENAI).hostname
    if is_openai and urlsplit(url).scheme != "https":
        raise InputError(f"openai: over http everybody on the way reads texts and key; write base_url={OPENAI}")
    if key_env is not None and not re.fullmatch("[A-Z_][A-Z0-9_]{0,99}", key_env):
        raise InputError(
            "openai: key_env is the name of an environment variable (capital letters, digits and _), never the key"
        )
    if not needs_key:
        return Address(url, None)
    name = key_env or (_OPENAI_KEY if is_openai or not base_url else None)
    key = os.environ.get(name, "").strip() if name else ""
    if not key and key_env:
        raise InputError("openai: the environment variable that key_env names is not set; set it to the key")
    if not key and is_openai:
        raise InputError(
            f"openai: OpenAI needs a key: set {_OPENAI_KEY}, or give the name of another variable, key_env=NAME; for "
            "another server give base_url=http://HOST:PORT/v1"
        )
    if not re.fullmatch(r"[!-~]*", key):  # the error of the HTTP library would show it
        raise InputError(f"openai: the value of {name} is no key: it has blanks, or characters that are not ASCII")
    return Address(url, key or None)


def _checked_url(text: str) -> str:
    if "@" in text:  # whatever it is, it is not repeated
        raise InputError(
            "openai: base_url has an @: leave out user name and password; key_env=NAME names the variable of a key"
        )
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not text.isascii() or not text.isprintable() or " " in text:
        raise InputError(f"openai: base_url={text!r} is no address; write http://HOST:PORT/v1")
    if parts.query or parts.fragment or text.endswith(("?", "#")):  # may hold a key
        raise InputError("openai: leave out of base_url what begins with ? or #; write http://HOST:PORT/v1")
    url = text.rstrip("/")
    if url.endswith("/embeddings"):
        raise InputError(f"openai: leave /embeddings out of base_url, it is added: {url.removesuffix('/embeddings')}")
    return url


class Server:
    """One model of a server.

    Args:
        concurrency: the most requests at once. After a 429 it is half as many, then slowly more again.
        retries, timeout: of the client, for each request; `timeout` in seconds.
    """

    def __init__(
        self,
        address: Address,
        model: str,
        *,
        dimensions: int | None,
        concurrency: int,
        retries: int,
        timeout: float,
    ):
        import openai

        self._address, self._model, self._retries, self._timeout = address, model, retries, timeout
        self._options: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}
        self._thread = threading.local()
        limits = openai.Timeout(timeout, connect=min(timeout, _CONNECT))
        self._client = openai.OpenAI(
            api_key=address.key or _NO_KEY,
            base_url=address.url,
            max_retries=retries,
            timeout=limits,
            http_client=_transport()(self._thread, _Gate(concurrency), timeout, limits, address.key),
        )

    @property
    def host(self) -> str:
        """With the port, if the address has one."""
        return self._address.host

    def stop_at(self, event: threading.Event) -> None:
        """In this thread, from now on, send nothing once `event` is set."""
        self._thread.stop = event

    def embed(self, texts: list[str]) -> Answer:
        """The vectors of texts.

        Raises:
            RefusedError: too many texts, or a text that is too long.
            EncoderError: no server, no key, no such model, too many requests; an answer that is none.
        """
        import openai

        try:
            raw = self._client.embeddings.with_raw_response.create(
                model=self._model, input=texts, encoding_format="base64", **self._options
            )
        except openai.APIStatusError as error:
            self._explain(error, texts)
        except openai.APITimeoutError:
            raise EncoderError(
                f"{self._address.host} did not answer within {self._timeout:g} s; give timeout=SECONDS or batch_size=N"
            ) from None
        except (openai.APIConnectionError, _NobodyError) as error:
            reason = self._words(str(error.__cause__ or error))
            remedy = "start the server, or give base_url=http://HOST:PORT/v1"
            raise EncoderError(f"no connection to {self._address.host} ({reason}); {remedy}") from None
        except _EndlessError as error:
            raise EncoderError(f"{self._address.host} {error}; is it a server of embeddings?") from None
        except openai.OpenAIError as error:
            raise EncoderError(f"{self._address.host}: {self._words(str(error))}") from None
        return self._read(raw.content, len(texts))

    def _read(self, content: bytes, n_texts: int) -> Answer:
        host = self._address.host
        try:
            try:
                body = decoded(content, _Body)
            except ValueError:
                body = decoded(content, _Body, allow_nan=True)  # some servers write NaN, which JSON does not have
        except ValueError as error:
            words = self._words(str(error))
            raise EncoderError(f"{host} did not answer with embeddings ({words}){self._path_hint}") from None
        if len(body["data"]) != n_texts:
            raise VectorError(f"{host} answered {len(body['data'])} vectors for {n_texts} texts")
        by_index = {entry["index"]: entry["embedding"] for entry in body["data"]}
        if by_index.keys() != set(range(n_texts)):
            raise VectorError(f"{host} answered vectors whose indices are not 0 to {n_texts - 1}, each once")
        rows = [_row(by_index[index], host) for index in range(n_texts)]
        if len({len(row) for row in rows}) != 1 or not len(rows[0]):
            raise VectorError(f"{host} answered vectors of different lengths, or empty ones")
        vectors = np.stack(rows)
        if not np.isfinite(vectors).all():
            raise VectorError(f"{host} answered NaN or infinity")
        return Answer(vectors, (body.get("usage") or {}).get("prompt_tokens"))

    def _explain(self, error: Any, texts: list[str]) -> NoReturn:
        """Raise what an answer with another status than 200 means."""
        code, host = error.status_code, self._address.host
        said = f"{code}: {self._words(_message(error))}"
        if code in _TOO_MUCH:
            if len(texts) > 1:
                raise RefusedError(f"{host} refuses {len(texts)} texts at once ({said})") from None
            what = f"a text of {len(texts[0]):,} characters ({said})"
            raise RefusedError(f"{host} refuses {what}; truncate=N cuts texts after N characters") from None
        if 300 <= code < 400:
            target = self._words(error.response.headers.get("location", "nowhere"))
            what = f"redirects to {target}, where nothing is sent; if you trust it, give it as base_url"
        elif code in (401, 403):
            what = f"does not accept the key ({said})" if self._address.key else f"wants a key ({said})"
            what += "; set an environment variable to the key and give its name: key_env=NAME"
        elif code in (404, 405):
            what = f"has no model {self._model!r} at {self._address.url}/embeddings ({said}){self._path_hint}"
        elif code == 429:
            what = f"takes no more requests now ({said}); run the same command again later"
        else:
            what = f"failed {self._retries + 1} times ({said})"
        raise EncoderError(f"{host} {what}") from None

    @property
    def _path_hint(self) -> str:
        return "" if "/v1" in self._address.url else f"; most servers want base_url={self._address.url}/v1"

    def _words(self, text: str) -> str:
        """What a server or a library says, in a line of some length and without the key, which some repeat."""
        if self._address.key:
            text = text.replace(self._address.key, "[key]")
        if text.lstrip().startswith("<"):
            return "an HTML page"
        line = visible(" ".join(text.split()))
        return line if len(line) <= _MOST_TO_SAY else line[:_MOST_TO_SAY] + "..."


def _message(error: Any) -> str:
    """The words of an error: OpenAI has `error.message`, others `detail`, `message` or `error`, or plain text."""
    body: Any = error.body
    for name in ("message", "detail", "error"):
        if isinstance(body, dict) and body.get(name):
            body = body[name]
    return str(body or error.response.text or "without a reason")


def _row(embedding: str | list[float | None], host: str) -> NDArray[np.float32]:
    if isinstance(embedding, list):
        with np.errstate(over="ignore"):
            return np.array(embedding, dtype=np.float32)
    try:
        return np.frombuffer(b64decode(embedding, validate=True), dtype="<f4")
    except (ValueError, binascii.Error):
        raise VectorError(f"{host} answered vectors that are neither lists of numbers nor float32 in base64") from None


class _Gate:
    """Lets a few requests through at once: half as many after a 429, and one more after each round without."""

    def __init__(self, most: int):
        self._most, self._limit = most, float(most)
        self._n_active = self._n_cuts = 0
        self._changed = threading.Condition()

    @contextmanager
    def passing(self) -> Iterator[int]:
        """A request, in a `with` block; gives a number to tell with its status."""
        with self._changed:
            self._changed.wait_for(lambda: self._n_active < int(self._limit))
            self._n_active += 1
            n_cuts = self._n_cuts
        try:
            yield n_cuts
        finally:
            with self._changed:
                self._n_active -= 1
                self._changed.notify_all()

    def heard(self, status: int, n_cuts: int) -> None:
        """A request has this status. Of those that were under way together, one 429 counts."""
        with self._changed:
            if status != 429:
                self._limit = min(self._most, self._limit + 1 / self._limit)
            elif n_cuts == self._n_cuts:
                self._limit = max(1.0, self._limit / 2)
                self._n_cuts += 1


@cache
def _transport() -> Any:
    """The class of the HTTP client below `openai`'s: that decides when to try again, this one what a request may do.

    It follows no redirects, which would take the texts to another host; sends no key but the address's, and no headers
    that `openai` takes from environment variables; has as many requests under way as the gate lets through; and reads
    at most 256 MB of an answer, for at most `timeout` seconds.
    """
    import openai

    class Transport(openai.DefaultHttpxClient):
        def __init__(self, thread: threading.local, gate: _Gate, timeout: float, limits: Any, key: str | None):
            super().__init__(timeout=limits, follow_redirects=False)
            self._thread, self._gate, self._seconds = thread, gate, timeout
            self._own = {
                "Accept": "application/json",
                "Content-Type": "application/json",
                "User-Agent": f"OpenAI/Python {openai.__version__}",
                **({"Authorization": f"Bearer {key}"} if key else {}),
            }
            self._has_connected = False

        def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            with self._gate.passing() as n_cuts:
                stop = getattr(self._thread, "stop", None)
                if stop is not None and stop.is_set():
                    raise _StoppedError
                options["follow_redirects"] = False
                method, url, content, extensions = request.method, request.url, request.content, request.extensions
                sent = self.build_request(method, url, content=content, headers=self._own, extensions=extensions)
                try:
                    response = super().send(sent, stream=True, **options)
                except Exception as error:
                    if not self._has_connected and type(error).__name__.startswith("Connect"):
                        raise _NobodyError(str(error)) from error
                    raise
                self._has_connected = True
                try:
                    body = self._body(response)
                finally:
                    response.close()
                self._gate.heard(response.status_code, n_cuts)
            headers = [(name, value) for name, value in response.headers.items() if name.lower() not in _NOT_COPIED]
            return type(response)(response.status_code, headers=headers, content=body, request=request)

        def _body(self, response: Any) -> bytes:
            end, body = time.monotonic() + self._seconds, bytearray()
            for part in response.iter_bytes():
                body += part
                if len(body) > _MOST_BYTES:
                    raise _EndlessError(f"sent more than {_MOST_BYTES >> 20} MB in one answer")
                if time.monotonic() > end:
                    raise _EndlessError(f"did not come to the end of an answer within {self._seconds:g} s")
            return bytes(body)

    return Transport

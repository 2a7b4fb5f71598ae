"""A server with OpenAI's embeddings endpoint for the tests: a local encoder's vectors, with faults as asked for."""

from __future__ import annotations

import base64
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

Fault = int | str
"""A status, or: cut (the connection), drip (a byte now and then), shuffle, lists, fewer, more, twice (an index), short
(vectors), junk (in base64), nan, infinity, silent (no tokens), html, huge, endless, nonsense."""


@dataclass
class Service:
    """What the server holds, how it behaves, and what it has been asked.

    `encode` gives the vectors. `plan`: the faults of the next requests, one entry each. `retry_after`: seconds, sent
    with each 429. `most`: texts that it takes at once. `refuses`: a part of texts that it refuses. `price`: tokens a
    character. `pause`: seconds before each answer. `noise`: of each number. `says`: the message of errors.
    `location`: where a 307 leads. `bodies`, `headers`: what came; `answered`: how often each text was paid for.
    """

    encode: Callable[[Sequence[str]], np.ndarray]
    plan: list[Fault] = field(default_factory=list)
    retry_after: str | None = "0.01"
    most: int = 2048
    refuses: str = "\0"
    rate: float = 0.25
    pause: float = 0.0
    noise: float = 0.0
    says: str = "no"
    location: str = ""
    on_request: Callable[[int], None] = lambda number: None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    tokens: float = 0.0
    n_active: int = 0
    most_active: list[int] = field(default_factory=list)
    url: str = ""
    lock: Any = field(default_factory=threading.Lock)

    @property
    def sizes(self) -> list[int]:
        """How many texts each request had."""
        return [len(body["input"]) for body in self.bodies]

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        with self.lock:
            vectors = np.asarray(self.encode(texts), np.float32)
        scale = np.abs(vectors).mean() * self.noise
        return vectors + np.random.default_rng().normal(scale=scale, size=vectors.shape).astype(np.float32)


@contextmanager
def serve(service: Service) -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with service.lock:
                number = len(service.bodies)
                service.bodies.append({**body, "path": self.path})
                service.headers.append(dict(self.headers))
                fault = service.plan.pop(0) if service.plan else None
                service.n_active += 1
                service.most_active.append(service.n_active)
            try:
                service.on_request(number)
                time.sleep(service.pause)
                self.answer(body, fault)
            finally:
                with service.lock:
                    service.n_active -= 1

        def answer(self, body: dict[str, Any], fault: Fault | None) -> None:
            texts = body["input"]
            if fault == "cut":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if isinstance(fault, int) or len(texts) > service.most or any(service.refuses in text for text in texts):
                status = fault if isinstance(fault, int) else 413 if len(texts) > service.most else 400
                extra = {"Retry-After": service.retry_after} if status == 429 and service.retry_after else {}
                extra |= {"Location": service.location} if 300 <= status < 400 else {}
                self.send(json.dumps({"error": {"message": service.says}}).encode(), status, **extra)
                return
            if fault in ("html", "nonsense"):
                content = b"<html><script>alert(1)</script></html>" if fault == "html" else b'{"answer": 42}'
                self.send(content, 200, **{"Content-Type": "text/html"})
                return
            if fault in ("huge", "endless"):
                self.flood(is_slow=fault == "endless")
                return
            self.send(self.embeddings(body, fault), 200)

        def embeddings(self, body: dict[str, Any], fault: Fault | None) -> bytes:
            texts = body["input"]
            vectors = service.vectors(texts)
            if "dimensions" in body:
                vectors = vectors[:, : body["dimensions"]]
            if fault in ("nan", "infinity"):
                vectors[0, 0] = np.nan if fault == "nan" else np.inf
            if fault == "short":
                vectors = vectors[:, :-1]
            as_list = fault in ("lists", "nan-lists") or body.get("encoding_format") != "base64"
            if fault == "nan-lists":
                vectors[0, 0] = np.nan
            data = [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": vector.tolist() if as_list else base64.b64encode(vector.tobytes()).decode(),
                }
                for index, vector in enumerate(vectors)
            ]
            if fault == "shuffle":
                random.Random(1).shuffle(data)
            elif fault == "fewer":
                data.pop()
            elif fault == "more":
                data.append({**data[-1], "index": len(data)})
            elif fault == "twice":
                data[-1]["index"] = 0
            elif fault == "junk":
                data[0]["embedding"] = "not base64!"
            n_tokens = round(sum(map(len, texts)) * service.rate)
            with service.lock:
                service.answered.update(texts)
                service.tokens += n_tokens
            answer = {"object": "list", "data": data, "model": body["model"]}
            if fault != "silent":
                answer["usage"] = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
            return json.dumps(answer).encode()

        def send(self, content: bytes, status: int, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def flood(self, *, is_slow: bool) -> None:
            """An answer without an end, a byte now and then or as fast as it is read."""
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            while True:  # until the client goes away
                self.wfile.write(b" " if is_slow else b" " * (1 << 20))
                time.sleep(0.05 if is_slow else 0)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: object) -> None:
            """A client that went away is no error."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A small HTTP server for the tests: files from memory, with the misbehaviour that is asked for."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server holds and how it behaves.

    `ranges`, `if_range`: whether it knows these headers. `validators`: those that it sends, `ETag` (strong), `weak`
    (a weak ETag) or `Last-Modified` (`modified`). `cut_after`: the next answers break off after so many bytes, one
    entry an answer. `statuses`: the next answers are these errors. `pause`: seconds before each `piece` bytes of a
    body. `raw`: what is sent for a path, head and all. `requests` are the paths asked for with their Range headers.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    if_range: bool = True
    validators: tuple[str, ...] = ("ETag",)
    modified: str = "Sat, 21 Nov 2026 10:00:00 GMT"
    cut_after: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    pause: float = 0.0
    piece: int = 1 << 14
    raw: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def headers(self, content: bytes) -> dict[str, str]:
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        known = {"ETag": ("ETag", tag), "weak": ("ETag", f"W/{tag}"), "Last-Modified": ("Last-Modified", self.modified)}
        return dict(known[name] for name in self.validators)


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.requests.append((self.path, wanted))
            if self.path in site.raw:
                self.wfile.write(site.raw[self.path])
                return
            content = site.files.get(self.path)
            if site.statuses or content is None:
                self.send_error(site.statuses.pop(0) if site.statuses else 404)
                return
            validators = site.headers(content)
            if not site.ranges or (
                site.if_range and self.headers.get("If-Range", "") not in ("", *validators.values())
            ):
                wanted = None
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted else 0  # type: ignore[index]
            if wanted and start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = content[start:]
            if wanted:
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            for name, value in validators.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            body = body[: site.cut_after.pop(0)] if site.cut_after else body
            for begin in range(0, len(body), site.piece if site.pause else len(body) or 1):
                time.sleep(site.pause)
                self.wfile.write(body[begin : begin + site.piece] if site.pause else body)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            """A client that went away is no error."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

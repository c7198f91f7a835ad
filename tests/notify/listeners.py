"""Real servers on this computer that receive notifications."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Heard:
    """What a web server was sent, and what it answers: status after status, the last one for good."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=lambda: [200])
    answer: threading.Event = field(default_factory=threading.Event)


@contextmanager
def web_server(*statuses: int, silent: bool = False) -> Iterator[Heard]:
    """A server that keeps what is posted; a silent one takes it and does not answer."""
    heard = Heard(statuses=list(statuses) or [200])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            heard.headers.append(dict(self.headers))
            if silent:
                heard.answer.wait(10)
                return
            status = heard.statuses.pop(0) if len(heard.statuses) > 1 else heard.statuses[0]
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", heard.url)
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    heard.url = f"http://127.0.0.1:{server.server_port}/hook/s3cret-path"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        heard.answer.set()
        server.shutdown()
        server.server_close()

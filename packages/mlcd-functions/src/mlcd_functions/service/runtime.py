"""The Runtime API of one environment: what `awslambdaric` inside it talks to.

    GET  /2018-06-01/runtime/invocation/next              waits for an event
    POST /2018-06-01/runtime/invocation/<id>/response     the handler's answer
    POST /2018-06-01/runtime/invocation/<id>/error        the handler raised
    POST /2018-06-01/runtime/init/error                   the handler could not be loaded

Each environment has a listener of its own on the loopback, so that it is known by the port who is asking: on the computer's, or
on that of its own network (see isolation.py).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mlcd_functions.service.callers import OwnUsersServer

BASE = "/2018-06-01/runtime"


@dataclass
class Invocation:
    """One event on its way through an environment."""

    request_id: str
    payload: bytes
    arn: str
    deadline: float  # seconds since the epoch
    answered: threading.Event = field(default_factory=threading.Event)
    answer: bytes = b""
    error: str = ""  # Handled or Unhandled; empty: it went well


class RuntimeApi:
    """Hands events to the environment's process and takes its answers."""

    def __init__(self, listener: socket.socket | None = None) -> None:
        self.ready = threading.Event()  # the process has asked for its first event
        self.init_error = b""
        self._current: Invocation | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._server = _listen(self) if listener is None else _listen_inside(self, listener)

    @property
    def address(self) -> str:
        """What AWS_LAMBDA_RUNTIME_API is to say."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def offer(self, invocation: Invocation) -> None:
        """Give the process this event when it asks."""
        with self._changed:
            self._current = invocation
            self._changed.notify_all()

    def next(self) -> Invocation | None:
        """The next event, waited for; None: there will be none."""
        self.ready.set()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting() is not None)
            invocation = self._waiting()
            return None if self._closed else invocation

    def answer(self, request_id: str, body: bytes, error: str = "") -> bool:
        """Take the answer of the event that is being handled; whether it was."""
        with self._changed:
            current = self._current
            if current is None or current.request_id != request_id or current.answered.is_set():
                return False
            current.answer, current.error = body, error
            self._current = None
            current.answered.set()
            return True

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def _waiting(self) -> Invocation | None:
        return self._current


def _listen(api: RuntimeApi) -> ThreadingHTTPServer:
    handler: Callable[..., BaseHTTPRequestHandler] = type("_Bound", (_Requests,), {"api": api})
    server = OwnUsersServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.1,), name="runtime", daemon=True).start()
    return server


def _listen_inside(api: RuntimeApi, listener: socket.socket) -> ThreadingHTTPServer:
    """Serve a listener in the environment's own network, to which nobody else has access."""
    handler: Callable[..., BaseHTTPRequestHandler] = type("_Bound", (_Requests,), {"api": api})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.server_address = listener, listener.getsockname()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.1,), name="runtime", daemon=True).start()
    return server


class _Requests(BaseHTTPRequestHandler):
    """One connection from the environment."""

    api: RuntimeApi
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        invocation = self.api.next() if self.path == f"{BASE}/invocation/next" else None
        if invocation is None:
            self._reply(410, b'{"errorMessage": "no more events"}')
            return
        self._reply(
            200,
            invocation.payload,
            {
                "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                "Lambda-Runtime-Deadline-Ms": str(int(invocation.deadline * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": invocation.arn,
                "Lambda-Runtime-Trace-Id": f"Root=1-{invocation.request_id}",
            },
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == f"{BASE}/init/error":
            self.api.init_error = body or b"{}"
            self._reply(202, b"{}")
            return
        _, _, rest = self.path.partition(f"{BASE}/invocation/")
        request_id, _, kind = rest.partition("/")
        taken = kind in ("response", "error") and self.api.answer(
            request_id, body, "Unhandled" if kind == "error" else ""
        )
        self._reply(202 if taken else 400, b"{}" if taken else b'{"errorMessage": "no such invocation"}')

    def _reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is http.server's
        """Quiet: the log is the function's."""

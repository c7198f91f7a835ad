"""Passes what one machine was sent on to the others of its task: `relay serve` there, `relay fetch` here, spec on stdin.

    serve   {"address": "10.0.0.4", "port": 20123, "token": "…", "answers": 6, "idle_seconds": 60,
             "archives": [["/var/lib/mlcd/tasks/t1/copy", ["train.py", "data"]], …]}
    fetch   {"urls": ["http://10.0.0.4:20123/…/0", …], "folders": ["/var/lib/mlcd/tasks/t1/copy", …], "seconds": 20}

A archive travels as a plain tar stream: between machines of one cloud the network is faster than packing. It ends with the
connection; one that breaks off lacks the zeros with which every archive ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any

from mlcd.clouds.remote.agent.limits import DIRECT

_AGAIN_SECONDS = 0.2
_END_BYTES = 1024  # of zeros, at the end of every archive


class Relay(ThreadingMixIn, HTTPServer):
    """Answers whoever knows the token, until all have been served or nobody asks any more."""

    daemon_threads = True

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__((spec["address"], spec["port"]), _Answer)
        self.spec = spec
        self.answered = 0
        self.asked_at = time.monotonic()

    def run(self) -> None:
        """Serve, and end."""
        self.timeout = 0.5
        while self.answered < self.spec["answers"] and not self._idle():
            self.handle_request()

    def _idle(self) -> bool:
        return bool(time.monotonic() - self.asked_at > self.spec["idle_seconds"])


class _Answer(BaseHTTPRequestHandler):
    server: Relay

    def do_GET(self) -> None:
        """Send an archive as a tar stream."""
        spec = self.server.spec
        archives = {f"/{spec['token']}/{number}": one for number, one in enumerate(spec["archives"])}
        if self.path not in archives:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self._stream(*archives[self.path])
        self.server.answered += 1

    def _stream(self, folder: str, names: list[str]) -> None:
        with subprocess.Popen(["tar", "-cf", "-", "-C", folder, "--", *names], stdout=subprocess.PIPE) as tar:
            assert tar.stdout is not None
            while block := tar.stdout.read(1 << 20):
                self.wfile.write(block)
                self.server.asked_at = time.monotonic()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name that it has there
        """The token is nobody's business."""


def fetch(spec: dict[str, Any]) -> None:
    """Unpack every archive into its folder; fails where one does not arrive whole."""
    for url, folder in zip(spec["urls"], spec["folders"]):  # noqa: B905  # Python 3.9
        Path(folder).mkdir(parents=True, exist_ok=True)
        with _open(url, spec["seconds"]) as answer, _unpacking(folder) as tar:
            assert tar.stdin is not None
            whole = pour(answer, tar.stdin)
        if tar.returncode or not whole:
            sys.exit(f"{folder} did not arrive whole")


def pour(source: Any, target: Any) -> bool:
    """Copy a tar stream; whether it came to its end."""
    last = b""
    while block := source.read(1 << 20):
        target.write(block)
        last = (last + block)[-_END_BYTES:]
    return last == bytes(_END_BYTES)


def _open(url: str, seconds: float) -> Any:
    """The answer, once whoever serves has begun to."""
    until = time.monotonic() + seconds
    while True:
        try:
            return DIRECT.open(url, timeout=30)
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN_SECONDS)


def _unpacking(folder: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["tar", "-xf", "-", "-C", folder], stdin=subprocess.PIPE)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    Relay(given).run() if sys.argv[1] == "serve" else fetch(given)

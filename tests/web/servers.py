"""Servers really started, and people who use them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlcd.remote import RemoteClient
from mlcd.remote.connection import Connection

PASSWORD = "correct horse battery"


class Server:
    """`mlcd serve` in a process of its own, killed and started again at will."""

    def __init__(self, home: Path, *options: str, **environ: str) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self._environ = environ
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlcd.cli.main", "serve", "--port", str(self.port), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_the_tests,
                env={
                    **os.environ,
                    "MLCD_HOME": str(self.home),
                    "MLCD_LOCAL_CORES": "2",
                    "MLCD_LOCAL_USD_PER_CORE_HOUR": "1.0",
                    **self._environ,
                },
            )
        self._await_health()

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(120)

    def log(self) -> str:
        return (self.home / "server.log").read_text()

    def setup_token(self) -> str:
        return next(line for line in reversed(self.log().splitlines()) if len(line) == 32 and " " not in line.strip())

    def _await_health(self) -> None:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                    assert json.load(answer)["status"] == "ok"
                    return
            except OSError:
                assert self.process is not None
                assert self.process.poll() is None, self.log()
                time.sleep(0.1)
        raise AssertionError(f"the server did not start:\n{self.log()}")


@contextmanager
def served(home: Path, *options: str, **environ: str) -> Iterator[Server]:
    server = Server(home, *options, **environ)
    try:
        server.start()
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.end()


def _die_with_the_tests() -> None:
    """Have Linux end the server if the tests are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def remote(server: Server, token: str = "") -> RemoteClient:
    return RemoteClient(server.url, token)


def connection(server: Server, token: str = "") -> Connection:
    return Connection(server.url, token)

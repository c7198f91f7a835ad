"""Runs on a rented machine: Valkey for the functions of one task, until nobody has used it for a while.

Standard library and mlcd's worker only, Python 3.9 or newer. It reports one step once Valkey answers, which tells the runner of
the functions that they can begin. Where that runner is gone, and the functions with it, nobody is connected any more, and it
ends: then the machine is given back.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time

from mlcd.worker.api import report

_CLIENTS = re.compile(rb"connected_clients:(\d+)")
_START_SECONDS = 60.0
_LOOK_SECONDS = 2.0


def main() -> int:
    """Start Valkey, say that it answers, and watch it."""
    port, memory_mb = int(os.environ["VALKEY_PORT"]), int(os.environ["VALKEY_MEMORY_MB"])
    password = os.environ.pop("VALKEY_PASSWORD")
    server = start(port, memory_mb, password)
    try:
        wait_until_it_answers(server, port, password)
        report(step=1, samples=1)
        return watch(server, port, password, float(os.environ["VALKEY_IDLE_SECONDS"]))
    finally:
        server.kill()


def start(port: int, memory_mb: int, password: str) -> subprocess.Popen[bytes]:
    """Its settings come by standard input: the password is on no command line and no disk."""
    settings = (
        f"bind * -::*\nport {port}\nrequirepass {password}\nmaxmemory {memory_mb}mb\nmaxmemory-policy noeviction\n"
        'save ""\nappendonly no\nloglevel warning\n'
    )
    server = subprocess.Popen(["./valkey-server", "-"], stdin=subprocess.PIPE)
    assert server.stdin is not None
    with server.stdin as pipe:
        pipe.write(settings.encode())
    return server


def wait_until_it_answers(server: subprocess.Popen[bytes], port: int, password: str) -> None:
    """Return once it does; SystemExit where it does not."""
    give_up_at = time.monotonic() + _START_SECONDS
    while clients(port, password) is None:
        if server.poll() is not None or time.monotonic() > give_up_at:
            sys.exit(f"Valkey does not answer; its exit code: {server.poll()}")
        time.sleep(0.05)


def watch(server: subprocess.Popen[bytes], port: int, password: str, idle_seconds: float) -> int:
    """Return 0 once nobody was connected for so long, 1 where the server has ended."""
    used_at = time.monotonic()
    while server.poll() is None:
        if clients(port, password) != 0:  # one that is too busy to answer is in use
            used_at = time.monotonic()
        if time.monotonic() - used_at > idle_seconds:
            return 0
        time.sleep(_LOOK_SECONDS)
    return 1


def clients(port: int, password: str) -> int | None:
    """How many others are connected; None: it does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as server:
            server.sendall(f"AUTH {password}\r\nINFO clients\r\nQUIT\r\n".encode())
            answer = b""
            while more := server.recv(4096):
                answer += more
    except OSError:
        return None
    found = _CLIENTS.search(answer)
    return int(found[1]) - 1 if found else None


if __name__ == "__main__":
    sys.exit(main())

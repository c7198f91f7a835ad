"""The way out of a function's own network: an HTTP proxy that the service runs at a listener inside it.

    CONNECT host:port HTTP/1.1            a connection to anywhere: HTTPS, and mlcd's own stores
    GET http://host/path HTTP/1.1         a request, one for each connection

Functions listen in their own networks alone, so none of them can be reached from here.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

_CHUNK_BYTES = 256 << 10
_HEAD_BYTES = 64 << 10
_SECONDS = 30.0  # to connect, and to say where to


class Proxy:
    """Serves one function until it is closed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end with the function."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _serve(connection: socket.socket) -> None:
    with connection, suppress(OSError, ValueError):
        connection.settimeout(_SECONDS)
        head, rest = _head(connection)
        host, port, first = _destination(head)
        try:
            there = socket.create_connection((host, port), timeout=_SECONDS)
        except OSError as error:
            connection.sendall(f"HTTP/1.1 502 {type(error).__name__}\r\nContent-Length: 0\r\n\r\n".encode())
            return
        with there:
            if first:
                there.sendall(first + rest)
            else:
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                there.sendall(rest)
            _join(connection, there)


def _head(connection: socket.socket) -> tuple[bytes, bytes]:
    """The head of the request, and what came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(_CHUNK_BYTES)
        if not more or len(data) > _HEAD_BYTES:
            raise ValueError("no request")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _destination(head: bytes) -> tuple[str, int, bytes]:
    """Host, port, and what to send there first; nothing: a connection is all that was asked for."""
    line, _, fields = head.partition(b"\r\n")
    method, target, version = line.decode("latin-1").split(" ", 2)
    if method == "CONNECT":
        place = urlsplit(f"//{target}")
        return str(place.hostname), place.port or 443, b""
    url = urlsplit(target)
    if url.scheme != "http" or not url.hostname:
        raise ValueError(f"no address: {target}")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [
        field for field in fields.split(b"\r\n") if field and not field.lower().startswith((b"proxy-", b"connection:"))
    ]
    lines = [f"{method} {path} {version}".encode("latin-1"), *kept, b"Connection: close"]
    return url.hostname, url.port or 80, b"\r\n".join(lines) + b"\r\n\r\n"


def _join(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both sides have ended."""
    for each in (one, other):
        each.settimeout(None)
        with suppress(OSError):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=_carry, args=(other, one), daemon=True)
    back.start()
    _carry(one, other)
    back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    buffer = memoryview(bytearray(_CHUNK_BYTES))
    with suppress(OSError):
        while count := source.recv_into(buffer):
            target.sendall(buffer[:count])
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)

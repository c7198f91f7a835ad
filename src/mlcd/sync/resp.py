"""A Redis or Valkey connection that moves large values without copying them.

Values are sent from the caller's memory and received into it. Commands are sent without waiting for their replies; the
replies are read, in order, when one of them is of interest. Errors of the skipped ones are raised then.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Any, Union
from urllib.parse import unquote, urlsplit

import numpy as np

from mlcd.errors import UserError
from mlcd.sync.errors import StoreFull, StoreLost, SyncError
from mlcd.sync.store import Bytes

Argument = Union[bytes, int, str, "Bytes"]
Reply = Any  # bytes, int, None, or a list of replies

_SMALL = 4096  # bytes read ahead when looking for the head of a reply
_LARGE = 16384  # arguments from here on are sent from where they lie
_MOST_PARTS = 512  # of one call of sendmsg; the kernel takes 1024
_SOCKET_BUFFER = 1 << 20  # bytes on their way, so that both directions are in use at a time


class Connection:
    """One connection to one server."""

    def __init__(self, url: str, timeout_s: float = 60.0) -> None:
        self.name, self._socket = _connect(url, timeout_s)
        self._parts: list[Any] = []  # of commands not sent yet
        self._small = bytearray()
        self._ahead = bytearray()  # read but not looked at
        self._skipped = 0  # replies that nobody is interested in
        _sign_in(self, url)

    def command(self, *arguments: Argument) -> None:
        """Queue a command whose reply is of no interest unless it is an error."""
        self._queue(arguments)
        self._skipped += 1

    def flush(self) -> None:
        """Send what is queued."""
        self._end_small()
        parts, self._parts = self._parts, []
        try:
            for start in range(0, len(parts), _MOST_PARTS):
                _send_all(self._socket, parts[start : start + _MOST_PARTS])
        except OSError as error:
            raise self._lost(error) from error

    def ask(self, *arguments: Argument) -> Reply:
        """Send a command and give its reply."""
        self.request(*arguments)
        self.flush()
        self.catch_up()
        return self.reply()

    def request(self, *arguments: Argument) -> None:
        """Queue a command whose reply will be read with reply() or value_into()."""
        self._queue(arguments)

    def catch_up(self) -> None:
        """Read the replies that nobody is interested in, up to here."""
        while self._skipped:
            self._skipped -= 1
            self.reply()

    def reply(self) -> Reply:
        """The next reply."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"-":
            raise _refused(self.name, rest.decode(errors="replace"))
        size = int(rest)
        if size < 0:
            return None
        return self._bulk(size) if kind == b"$" else [self.reply() for _ in range(size)]

    def value_into(self, into: Bytes) -> bool:
        """Read a value, the next reply, into an array of just its size; False where there is no such key."""
        line = self._line()
        if line[:1] == b"-":
            raise _refused(self.name, line[1:].decode(errors="replace"))
        size = int(line[1:])
        if size < 0:
            return False
        if size != into.nbytes:
            raise SyncError(f"A parcel of {size} bytes came from {self.name} where {into.nbytes} were due.")
        self._fill(into.data)
        self._fill(memoryview(bytearray(2)))
        return True

    def close(self) -> None:
        """Hang up; twice is quiet."""
        self._socket.close()

    def _queue(self, arguments: Sequence[Argument]) -> None:
        small = self._small
        small += b"*%d\r\n" % len(arguments)
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                small += b"$%d\r\n" % argument.nbytes
                small = self._add_array(argument)
                small += b"\r\n"
            else:
                raw = argument if isinstance(argument, bytes) else str(argument).encode()
                small += b"$%d\r\n%b\r\n" % (len(raw), raw)

    def _add_array(self, array: Bytes) -> bytearray:
        if array.nbytes < _LARGE:
            self._small += array.data
        else:
            self._end_small()
            self._parts.append(array.data)
        return self._small

    def _end_small(self) -> None:
        if self._small:
            self._parts.append(self._small)
            self._small = bytearray()

    def _line(self) -> bytes:
        while (end := self._ahead.find(b"\r\n")) < 0:
            self._ahead += self._read(_SMALL)
        line = bytes(self._ahead[:end])
        del self._ahead[: end + 2]
        return line

    def _bulk(self, size: int) -> bytes:
        whole = bytearray(size + 2)
        self._fill(memoryview(whole))
        return bytes(whole[:size])

    def _fill(self, into: memoryview) -> None:
        done = min(len(self._ahead), len(into))
        into[:done] = self._ahead[:done]
        del self._ahead[:done]
        try:
            while done < len(into):
                count = self._socket.recv_into(into[done:])
                if not count:
                    raise ConnectionResetError("it hung up")
                done += count
        except OSError as error:
            raise self._lost(error) from error

    def _read(self, most: int) -> bytes:
        try:
            data = self._socket.recv(most)
            if not data:
                raise ConnectionResetError("it hung up")
            return data
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> StoreLost:
        return _lost(self.name, error)


def _connect(url: str, timeout_s: float) -> tuple[str, socket.socket]:
    address = urlsplit(url)
    if not address.hostname:
        raise UserError("The URL of the parameter store names no host.", "Use redis://[:PASSWORD@]HOST:PORT.")
    host, port = address.hostname, address.port or 6379
    try:
        plain = socket.create_connection((host, port), timeout=timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        if address.scheme == "rediss":
            return f"{host}:{port}", ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        return f"{host}:{port}", plain
    except OSError as error:
        raise _lost(f"{host}:{port}", error) from error


def _sign_in(connection: Connection, url: str) -> None:
    address = urlsplit(url)
    if address.password:
        user = [unquote(address.username)] if address.username else []
        connection.ask("AUTH", *user, unquote(address.password))


def _send_all(to: socket.socket, parts: list[Any]) -> None:
    if isinstance(to, ssl.SSLSocket):
        for part in parts:
            to.sendall(part)
        return
    sent = to.sendmsg(parts)
    for part in parts:
        if sent < len(part):
            to.sendall(memoryview(part)[sent:])
        sent = max(0, sent - len(part))


def _lost(name: str, error: OSError) -> StoreLost:
    return StoreLost(
        f"The parameter store at {name} cannot be reached: {error}.",
        "Start it again, then a new generation of workers.",
    )


def _refused(name: str, message: str) -> SyncError:
    if message.startswith("OOM"):
        return StoreFull(
            f"The parameter store at {name} is out of memory.",
            "Give it more memory, or spread the shards over more servers.",
        )
    if message.startswith(("LOADING", "READONLY", "MASTERDOWN")):
        return StoreLost(f"The parameter store at {name} does not serve: {message}.")
    return SyncError(f"The parameter store at {name} refused: {message}.")

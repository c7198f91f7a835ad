"""Connections to Redis or Valkey that move large values without copying them.

A Pipeline never blocks: commands are queued and sent as fast as the network takes them, values are sent from the caller's
memory and received into it, and each reply goes to the handler of its command, in order. A Connection sends one command and
waits for its reply.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mlcd.errors import UserError
from mlcd.sync.errors import StoreFull, StoreLost, SyncError
from mlcd.sync.store import Bytes
from mlcd.sync.valkey.commands import Argument, Writer

Reply = Any  # bytes, int, None, or a list of replies
Handler = Callable[[Reply], None]
Reading = Generator[None, None, Any]  # goes on when there is more to read

SERVER_TIMEOUT_S = 60.0  # with a server that does not answer
_SMALL = 4096  # bytes read ahead when looking for the head of a reply
_WORTH_WAKING = 64 << 10  # bytes that have come; more would bound the window of the connection
_MOST_PARTS = 512  # of one call of sendmsg; the kernel takes 1024
_SOCKET_BUFFER = 1 << 20  # bytes on their way
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """One connection to one server, for one command at a time."""

    def __init__(self, url: str, timeout_s: float = SERVER_TIMEOUT_S) -> None:
        self._pipeline = Pipeline(url, timeout_s)
        self._timeout_s = timeout_s

    def ask(self, *arguments: Argument) -> Reply:
        """Send a command and give its reply."""
        replies: list[Reply] = []
        self._pipeline.ask(*arguments, then=replies.append)
        while not replies:
            self._pipeline.send()
            self._await()
            self._pipeline.receive()
        return replies[0]

    def close(self) -> None:
        """Close it; twice is harmless."""
        self._pipeline.socket.close()

    def _await(self) -> None:
        poll = select.poll()
        poll.register(self._pipeline.socket, select.POLLIN | (select.POLLOUT if self._pipeline.sending else 0))
        if not poll.poll(self._timeout_s * 1000):
            raise _lost(self._pipeline.name, TimeoutError("timed out"))


class Pipeline:
    """One connection that never blocks, with any number of commands under way."""

    def __init__(self, url: str, timeout_s: float = SERVER_TIMEOUT_S) -> None:
        self.name, self.socket = _connect(url, timeout_s)
        self._writer = Writer()
        self._parts: deque[memoryview] = deque()  # on their way out
        self._ahead = bytearray()  # read but not looked at
        self._due: deque[tuple[Bytes | None, Handler | None]] = deque()  # replies, in their order
        self._woken_at = 1  # bytes that have come
        self._reading = self._read_replies()
        self._sign_in(url)

    @property
    def sending(self) -> bool:
        """Whether there is something to send."""
        return bool(self._parts)

    def ask(self, *arguments: Argument, then: Handler | None = None, into: Bytes | None = None) -> None:
        """Queue a command; its reply is handed on, or is a value that is read into an array (None: there is no such key)."""
        self._writer.add(arguments)
        self._due.append((into, then))

    def send(self) -> bool:
        """Send what the network takes now; whether it took anything."""
        self._parts.extend(self._writer.take())
        sent = 0
        try:
            while self._parts:
                sent += self._send_some()
        except _WOULD_BLOCK:
            pass
        except OSError as error:
            raise _lost(self.name, error) from error
        return sent > 0

    def receive(self) -> None:
        """Take what has come."""
        next(self._reading)

    def _sign_in(self, url: str) -> None:
        address = urlsplit(url)
        if address.password:
            user = [unquote(address.username)] if address.username else []
            self.ask("AUTH", *user, unquote(address.password))

    def _send_some(self) -> int:
        first = self._parts[0]
        if isinstance(self.socket, ssl.SSLSocket):
            sent = self.socket.send(first)
        else:
            sent = self.socket.sendmsg([self._parts[each] for each in range(min(len(self._parts), _MOST_PARTS))])
        left = sent
        while self._parts and left >= len(self._parts[0]):
            left -= len(self._parts.popleft())
        if left:
            self._parts[0] = self._parts[0][left:]
        return sent

    def _read_replies(self) -> Reading:
        while True:
            while not self._due:
                self._wake_at(1)
                yield
            into, then = self._due[0]
            reply = yield from (self._reply() if into is None else self._value(into))
            self._due.popleft()
            if then is not None:
                then(reply)

    def _reply(self) -> Reading:
        line = yield from self._line()
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
        if kind == b"$":
            return (yield from self._bulk(size))
        replies = []
        for _ in range(size):
            replies.append((yield from self._reply()))
        return replies

    def _value(self, into: Bytes) -> Reading:
        line = yield from self._line()
        if line[:1] == b"-":
            raise _refused(self.name, line[1:].decode(errors="replace"))
        size = int(line[1:])
        if size < 0:
            return None
        if size != into.nbytes:
            raise SyncError(f"A parcel of {size} bytes came from {self.name} where {into.nbytes} were due.")
        yield from self._fill(into.data)
        yield from self._fill(memoryview(bytearray(2)))
        return into

    def _line(self) -> Reading:
        while (end := self._ahead.find(b"\r\n")) < 0:
            more = bytearray(_SMALL)
            count = yield from self._some(memoryview(more))
            self._ahead += more[:count]
        line = bytes(self._ahead[:end])
        del self._ahead[: end + 2]
        return line

    def _bulk(self, size: int) -> Reading:
        whole = bytearray(size + 2)
        yield from self._fill(memoryview(whole))
        return bytes(whole[:size])

    def _fill(self, into: memoryview) -> Reading:
        done = min(len(self._ahead), len(into))
        into[:done] = self._ahead[:done]
        del self._ahead[:done]
        while done < len(into):
            done += yield from self._some(into[done:])

    def _wake_at(self, due: int) -> None:
        """Be woken when there is enough to be worth it, not with every packet."""
        enough = 1 if isinstance(self.socket, ssl.SSLSocket) or due <= _SMALL else min(due, _WORTH_WAKING)
        if enough != self._woken_at:
            self._woken_at = enough
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, enough)

    def _some(self, into: memoryview) -> Reading:
        """Read at least one byte, as soon as there is one."""
        while True:
            try:
                count = self.socket.recv_into(into)
            except _WOULD_BLOCK:
                self._wake_at(len(into))
                yield
                continue
            except OSError as error:
                raise _lost(self.name, error) from error
            if not count:
                raise _lost(self.name, ConnectionResetError("it closed the connection"))
            return count


def _connect(url: str, timeout_s: float) -> tuple[str, socket.socket]:
    address = urlsplit(url)
    if not address.hostname:
        raise UserError("The URL of the parameter store has no host.", "Use redis://[:PASSWORD@]HOST:PORT.")
    host, port = address.hostname, address.port or 6379
    try:
        plain = _opened(host, port, address.query, timeout_s)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        if address.scheme == "rediss":
            plain = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        plain.setblocking(False)
        return f"{host}:{port}", plain
    except OSError as error:
        raise _lost(f"{host}:{port}", error) from error


def _opened(host: str, port: int, query: str, timeout_s: float) -> socket.socket:
    """A connection by the socket in the file system that the URL names, by the proxy of a function, or straight."""
    if path := parse_qs(query).get("socket"):
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(timeout_s)
        plain.connect(path[0])
        return plain
    proxy = urlsplit(os.environ.get("MLCD_PROXY", ""))
    there = (proxy.hostname, proxy.port) if proxy.hostname and proxy.port else (host, port)
    plain = socket.create_connection(there, timeout=timeout_s)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy.hostname:
        _ask_proxy(plain, f"{host}:{port}")
    return plain


def _ask_proxy(plain: socket.socket, place: str) -> None:
    """Have the proxy connect us; byte by byte, since what follows is the server's."""
    plain.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = plain.recv(1)
        if not byte:
            raise ConnectionResetError("the function's proxy closed the connection")
        head += byte
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise ConnectionRefusedError(head.partition(b"\r\n")[0].decode("latin-1"))


def _lost(name: str, error: OSError) -> StoreLost:
    """What a broken connection is reported as."""
    return StoreLost(
        f"The parameter store at {name} cannot be reached: {error}.",
        "Restart it, then start a new generation of workers.",
    )


def _refused(name: str, message: str) -> SyncError:
    """What a server's error is reported as."""
    if message.startswith("OOM"):
        return StoreFull(
            f"The parameter store at {name} is out of memory.",
            "Give it more memory, or spread the shards over more servers.",
        )
    if message.startswith(("LOADING", "READONLY", "MASTERDOWN")):
        return StoreLost(f"The parameter store at {name} is not ready: {message}.")
    return SyncError(f"The parameter store at {name} refused: {message}.")

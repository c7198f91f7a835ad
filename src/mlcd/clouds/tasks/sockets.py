"""Bytes that came in by the TCP connections of processes, from the kernel's own count of each connection.

Asked for by Linux's NETLINK_SOCK_DIAG (man 7 sock_diag), which needs no rights:

    request   nlmsghdr (16 bytes) · inet_diag_req_v2 (56): family, protocol, which extras, states, no address
    answer    nlmsghdr · inet_diag_msg (72), its ports at 4 and 6, its addresses at 8 and 24, its inode at 68 ·
              attributes; INET_DIAG_INFO holds tcp_info
    tcp_info  tcpi_bytes_received at 128, since Linux 4.2

It travels to machines: standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

_SOCK_DIAG = 4  # of the protocols of AF_NETLINK
_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_DONE, _ERROR = 3, 2
_INFO = 2
# All states but listening, closed and waiting to be forgotten.
_CONNECTED = 0xFFF & ~(1 << 10 | 1 << 7 | 1 << 6)
_HEADER = struct.Struct("=IHHII")
_INODE_AT, _MESSAGE_BYTES = 68, 72
_RECEIVED_AT = 128
_BUFFER_BYTES = 1 << 17
_PATIENCE_SECONDS = 1.0
_MARK = "socket:["


class Connection(NamedTuple):
    """One end of a TCP connection."""

    received_bytes: int
    here: bytes  # port and address
    there: bytes


Connections = Mapping[int, Connection]  # by inode


class Received:
    """What some processes have received from others so far, by the connections that they hold."""

    def __init__(self) -> None:
        self.bytes: float | None = None  # the kernel does not say
        self._known: dict[int, int] = {}  # connections by inode, with what each has received

    def count(self, connections: Connections | None, pids: Iterable[int]) -> None:
        """Add what has come in since the last look, by connections that are new too; not what they send each other."""
        if connections is None:
            return
        held = {inode: connections[inode] for inode in sockets_of(pids) & connections.keys()}
        ours = {one.here for one in held.values()}
        now = {inode: one.received_bytes for inode, one in held.items() if one.there not in ours}
        more = sum(max(0, count - self._known.get(inode, 0)) for inode, count in now.items())
        self.bytes, self._known = (self.bytes or 0.0) + more, now


def tcp_connections() -> dict[int, Connection] | None:
    """Each TCP connection of this computer by its inode; None: the kernel does not say."""
    found: dict[int, Connection] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
            kernel.settimeout(_PATIENCE_SECONDS)
            for family in (socket.AF_INET, socket.AF_INET6):
                found.update(_connections(kernel, family))
    except OSError:  # another system, or a container that forbids it
        return None
    return found


def sockets_of(pids: Iterable[int]) -> set[int]:
    """The inodes of the sockets that these processes hold."""
    return {inode for pid in pids for inode in _held(pid)}


def _held(pid: int) -> Iterator[int]:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # it has ended, or is somebody else's
        for name in os.listdir(folder):  # noqa: PTH208  names alone, and many
            with suppress(OSError):
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
                if target.startswith(_MARK):
                    yield int(target[len(_MARK) : -1])


def _connections(kernel: socket.socket, family: int) -> Iterator[tuple[int, Connection]]:
    asked = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _CONNECTED)
    kernel.send(_HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + asked)
    while True:
        for kind, message in _messages(kernel.recv(_BUFFER_BYTES)):
            if kind == _ERROR:
                raise OSError("the kernel does not list connections")
            if kind == _DONE:
                return
            if (received := _received(message)) is not None:
                here, there = message[4:6] + message[8:24], message[6:8] + message[24:40]
                yield struct.unpack_from("=I", message, _INODE_AT)[0], Connection(received, here, there)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, place)
        yield kind, data[place + _HEADER.size : place + length]
        place += (length + 3) & ~3


def _received(message: bytes) -> int | None:
    place = _MESSAGE_BYTES
    while place + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, place)
        if kind == _INFO and length >= 4 + _RECEIVED_AT + 8:
            return int(struct.unpack_from("=Q", message, place + 4 + _RECEIVED_AT)[0])
        place += max(4, (length + 3) & ~3)
    return None

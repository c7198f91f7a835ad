"""Every worker and every server behind a link of its own, as functions and their stores are: namespaces, a switch, tc.

    with shaped_network() as network:
        host = network.add(mbit=150)              a namespace with an address and a link of this speed, both ways
        enter(host.namespace)                     in a fresh process: everything it opens from now on is there
        network.carried()                         bytes so far, of every link and direction

It needs root, and leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from mlcd_emulate.emulation import Emulation, port_of
from mlcd_emulate.network import NAMESPACES, Link, make_switch, namespaces_of
from mlcd_emulate.system import run_tool, try_tool

_LIBC = ctypes.CDLL(None, use_errno=True)
_NETWORK_NAMESPACE = 0x40000000  # CLONE_NEWNET of Linux
_PARENT_DEATH_SIGNAL = 1
_START_SECONDS = 90.0  # of any server


@dataclass(frozen=True)
class Host:
    """A place behind a link."""

    namespace: str
    address: str
    port: str  # the switch's end of its link


@dataclass
class Network:
    """A switch and the hosts on it."""

    emulation: Emulation
    range: IPv4Network
    hosts: list[Host] = field(default_factory=list)

    def add(self, mbit: float) -> Host:
        """One more host, with a link of this speed."""
        address = self.range.network_address + 10 + len(self.hosts)
        link = Link(self.emulation, address)
        link.make(self.range.prefixlen, mbit)
        self.hosts.append(Host(link.namespace, str(address), port_of(address)))
        return self.hosts[-1]

    def carried(self) -> dict[str, int]:
        """Bytes that each link has carried so far, "ADDRESS up" and "ADDRESS down"."""
        shown = json.loads(run_tool("ip", "-n", self.emulation.switch, "-s", "-json", "link", "show"))
        counts = {link["ifname"]: link["stats64"] for link in shown}
        both = ((host, counts[host.port]) for host in self.hosts)
        return {
            f"{host.address} {way}": count[side]["bytes"]
            for host, count in both
            for way, side in (("up", "rx"), ("down", "tx"))
        }


@contextmanager
def shaped_network() -> Iterator[Network]:
    """A switch of its own; everything is removed at the end, also after SIGTERM."""
    emulation = Emulation(f"s{os.getpid() % 10**8}", Path(tempfile.gettempdir()))
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield Network(emulation, make_switch(emulation))
    finally:
        for namespace in namespaces_of(emulation):
            try_tool("ip", "netns", "del", namespace)
        try_tool("ip", "link", "del", emulation.link)
        signal.signal(signal.SIGTERM, before)


def enter(namespace: str) -> None:
    """Move this process, which has one thread only, into a network namespace."""
    with (NAMESPACES / namespace).open() as opened:
        if _LIBC.setns(opened.fileno(), _NETWORK_NAMESPACE):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


@contextmanager
def opened_inside(host: Host | None, opens: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    """What a context gives that is opened in a process on the host, for as long as it is needed here."""
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_keep_open, args=(host, opens, its))
    process.start()
    its.close()  # with the process gone nobody holds that end, and waiting for it ends
    try:
        yield _first_word(mine, process)
    finally:
        with suppress(BrokenPipeError):
            mine.send("end")
        process.join(30)
        process.kill()


def _first_word(pipe: Connection, process: multiprocessing.Process) -> Any:
    """What the process has opened; one that could not open it has said why and ended, or says nothing at all.

    Its children may outlive it and hold its end of the pipe, so that waiting for the pipe alone might not end.
    """
    if pipe not in wait([pipe, process.sentinel], _START_SECONDS) and not pipe.poll():
        why = "said nothing within" if process.is_alive() else "ended within"
        raise SystemExit(f"A server did not start: it {why} {_START_SECONDS:.0f} s, see above.")
    try:
        return pipe.recv()
    except EOFError:
        raise SystemExit("A server did not start: see above.") from None


def _keep_open(host: Host | None, opens: Callable[[], AbstractContextManager[Any]], pipe: Any) -> None:
    _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if host is not None:
        enter(host.namespace)
    with opens() as opened:
        pipe.send(opened)
        pipe.recv()


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)

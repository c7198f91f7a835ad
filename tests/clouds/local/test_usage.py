"""What each node uses, measured on real processes."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlcd.clouds.local import usage
from mlcd.clouds.local.preparation import LocalNode
from mlcd.clouds.local.usage import UsageMeter
from mlcd.clouds.tasks.gpus import GpuUse
from mlcd.clouds.tasks.programs import Program
from mlcd.clouds.tasks.sockets import Received, sockets_of, tcp_connections
from mlcd.core.progress import Usage
from mlcd.platforms.base import Node

SENDS = """
import socket, time
there = socket.create_connection(("127.0.0.1", {port}))
while True:
    there.sendall(bytes(100_000))
    until = time.monotonic() + 0.02
    while time.monotonic() < until: pass
"""
RECEIVES = """
import socket
server = socket.create_server(("127.0.0.1", {port}))
connection, _ = server.accept()
while connection.recv(1_000_000): pass
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[LocalNode]]:
    """One that works and sends, one that receives."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = [_node(tmp_path, rank, program.format(port=port)) for rank, program in enumerate((SENDS, RECEIVES))]
    made[1].start([Program(f"exec {sys.executable} program1.py", os.environ)])
    _await_listener(port)
    made[0].start([Program(f"exec {sys.executable} program0.py", os.environ)])
    yield made
    for node in made:
        node.kill()


def test_cpu_memory_and_network_are_told_apart_by_node(nodes: list[LocalNode], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "SLOW_SECONDS", 0.1)
    meter = UsageMeter(nodes, memory_gib=[0.0, 0.0])
    if tcp_connections() is None:
        pytest.skip("this kernel does not list connections")
    seen = _await(meter, lambda seen: seen.nodes[1].network_mbps > 1.0 and seen.nodes[0].cpu_share > 0.0)
    sender, receiver = seen.nodes
    assert sender.cpu_share > receiver.cpu_share
    assert sender.network_mbps == 0.0
    assert receiver.network_mbps is not None
    assert 0.0 < seen.network_mbps < receiver.network_mbps, "the mean over the nodes, nothing else of the computer"
    assert sender.memory_gib > 0.0
    assert receiver.memory_gib > 0.0
    assert (sender.gpu_share, sender.gpu_memory_gib) == (None, None)
    assert seen.peak_memory_gib >= max(sender.memory_gib, receiver.memory_gib)
    assert 0.0 < seen.cpu_share <= 1.0


def test_gpus_are_those_of_their_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {
        "0": GpuUse("0", 1.0, 8.0),
        "1": GpuUse("1", 0.5, 2.0),
        "2": GpuUse("2", 0.0, 1.0),
        "3": GpuUse("3", 0.5, 0.5),
    }
    monkeypatch.setattr(usage, "gpu_use", lambda ids: tuple(busy[id_] for id_ in ids))
    gpus = (("0", "1"), ("2", "3"))
    meter = UsageMeter([_node(tmp_path, rank, "", ids) for rank, ids in enumerate(gpus)], memory_gib=[0.0, 0.0])
    meter.sample()
    assert [node.gpu_share for node in meter.usage.nodes] == [0.75, 0.25]
    assert [node.gpu_memory_gib for node in meter.usage.nodes] == [8.0, 1.0]
    assert (meter.usage.gpu_share, meter.usage.peak_gpu_memory_gib) == (0.5, 8.0)
    without = UsageMeter([_node(tmp_path, 0, "")], memory_gib=[0.0])
    without.sample()
    assert (without.usage.nodes[0].gpu_share, without.usage.nodes[0].gpu_memory_gib) == (None, None)


def test_a_kernel_that_does_not_list_connections_leaves_the_network_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "tcp_connections", lambda: None)
    meter = UsageMeter([_node(tmp_path, 0, "")], memory_gib=[0.0])
    meter.sample()
    assert meter.usage.nodes[0].network_mbps is None


@pytest.mark.parametrize("address", [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_the_bytes_of_a_connection_are_counted(address: tuple[str, socket.AddressFamily]) -> None:
    host, family = address
    if tcp_connections() is None:
        pytest.skip("this kernel does not list connections")
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this computer has no {host}")
    with server, socket.create_connection(server.getsockname()[:2]) as sender:
        receiver, _ = server.accept()
        with receiver:
            sender.sendall(bytes(70_000))
            left = 70_000
            while left:
                left -= len(receiver.recv(left))
            inode = os.fstat(receiver.fileno()).st_ino
            assert (tcp_connections() or {})[inode].received_bytes == 70_000
            assert inode in sockets_of([os.getpid()])


def test_what_processes_of_one_node_send_each_other_is_no_traffic() -> None:
    if tcp_connections() is None:
        pytest.skip("this kernel does not list connections")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            sender.sendall(bytes(1000))
            receiver.recv(1000)
            received = Received()
            received.count(tcp_connections(), [os.getpid()])
            assert received.bytes == 0.0


def _node(folder: Path, rank: int, program: str, gpus: tuple[str, ...] = ()) -> LocalNode:
    (folder / f"program{rank}.py").write_text(program)
    described = Node(rank, ("127.0.0.1",), 1, cores=1, gpus=gpus)
    processors = frozenset(os.sched_getaffinity(0))
    return LocalNode(described, processors, folder, folder / f"node{rank}.log")


def _await_listener(port: int) -> None:
    """Until it listens, without connecting: it takes one connection only."""
    wanted = f":{port:04X} 00000000:0000 0A"
    give_up_at = time.monotonic() + 60.0
    while wanted not in Path("/proc/net/tcp").read_text():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def _await(meter: UsageMeter, happened: Callable[[Usage], bool]) -> Usage:
    give_up_at = time.monotonic() + 60.0
    while time.monotonic() < give_up_at:
        meter.sample()
        if happened(meter.usage):
            return meter.usage
        time.sleep(0.1)
    raise AssertionError(meter.usage)

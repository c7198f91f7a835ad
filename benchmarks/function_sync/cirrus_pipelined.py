"""Cirrus's way at its best: the central server sends each part back as soon as all have sent theirs.

Both directions of the server's link are in use at a time. For every worker the server has a thread that adds what it receives
and one that sends what is complete. It takes nothing from a worker that is more than a few parts ahead of the slowest, so that
the link's capacity goes to those that the others wait for. There are two sums, taken in turns: a worker that is ahead fills the one while the other
still goes out, and cannot be further ahead, for it would need parts that the others have not sent.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event

import numpy as np
from cirrus import receive

_PART = 1 << 16  # bytes
_AHEAD = 2  # parts that a worker may be ahead


class PipelinedCirrus:
    """One worker: it sends in one thread and receives in another."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.steps = {"UL-grad": 0.0, "DL-grad": 0.0}

    def all_reduce(self, gradient: np.ndarray) -> None:
        """A part of the gradient is overwritten only by its sum, which the server has after the part was sent."""
        began_s, data = time.perf_counter(), gradient.view(np.uint8).data
        sender = threading.Thread(target=self._send, args=(data, began_s))
        sender.start()
        receive(self._socket, data)
        sender.join()
        self.steps["DL-grad"] += time.perf_counter() - began_s

    def _send(self, data: memoryview, began_s: float) -> None:
        self._socket.sendall(data)
        self.steps["UL-grad"] += time.perf_counter() - began_s


@dataclass
class _Sum:
    """One of the two sums: what has been added to each part, and in which iteration it was complete."""

    total: np.ndarray
    world_size: int
    added: list[int] = field(init=False)
    complete: list[int] = field(init=False)
    locks: list[threading.Lock] = field(init=False)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        parts = -(-self.total.nbytes // _PART)
        self.added, self.complete = [0] * parts, [-1] * parts
        self.locks = [threading.Lock() for _ in range(parts)]

    def part(self, number: int) -> np.ndarray:
        """The memory of one part."""
        return self.total[number * (_PART // 4) : (number + 1) * (_PART // 4)]

    def add(self, number: int, values: np.ndarray, iteration: int) -> None:
        """The first of an iteration overwrites what was there."""
        with self.locks[number]:
            if self.added[number]:
                self.part(number).__iadd__(values)
            else:
                self.part(number)[:] = values
            self.added[number] = (self.added[number] + 1) % self.world_size
            done = not self.added[number]
        if done:
            with self.changed:
                self.complete[number] = iteration
                self.changed.notify_all()

    def await_part(self, number: int, iteration: int, ended: threading.Event) -> None:
        """Return once all workers' parts are in."""
        with self.changed:
            self.changed.wait_for(lambda: self.complete[number] == iteration or ended.is_set())
        if ended.is_set():
            raise ConnectionResetError


def serve_pipelined(listening: socket.socket, world_size: int, parameters: int, ready: Event) -> None:
    """The server: it ends with the first worker that goes."""
    sums = [_Sum(np.zeros(parameters, np.float32), world_size) for _ in range(2)]
    ended = threading.Event()
    ready.set()
    connections = [listening.accept()[0] for _ in range(world_size)]
    threads = [
        threading.Thread(target=_attend, args=(work, connection, sums, ended))
        for connection in connections
        for work in (_receive_all, _send_all)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _attend(work, connection: socket.socket, sums: list[_Sum], ended: threading.Event) -> None:  # type: ignore[no-untyped-def]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _AHEAD * _PART)
    iteration = 0
    try:
        while True:
            work(connection, sums[iteration % 2], iteration, ended)
            iteration += 1
    except OSError:
        ended.set()
        for each in sums:
            with each.changed:
                each.changed.notify_all()


def _receive_all(worker: socket.socket, total: _Sum, iteration: int, ended: threading.Event) -> None:
    place = np.empty(_PART // 4, np.float32)
    for number in range(len(total.complete)):
        if number >= _AHEAD:
            total.await_part(number - _AHEAD, iteration, ended)
        values = place[: total.part(number).size]
        receive(worker, values.view(np.uint8).data)
        total.add(number, values, iteration)


def _send_all(worker: socket.socket, total: _Sum, iteration: int, ended: threading.Event) -> None:
    for number in range(len(total.complete)):
        total.await_part(number, iteration, ended)
        worker.sendall(total.part(number).view(np.uint8).data)

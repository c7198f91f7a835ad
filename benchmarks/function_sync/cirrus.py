"""Cirrus's way: one central server that every worker sends its whole gradient to and gets the sum from.

The server has a thread for every worker, which adds what it receives to the sum part by part, while it is still in the
processor's cache; when all have sent theirs, all threads send the sum back.
"""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event

import numpy as np

_PART = 1 << 20  # bytes
_START_SECONDS = 60.0


class Cirrus:
    """One worker of Cirrus."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.steps = {"UL-grad": 0.0, "DL-grad": 0.0}

    def all_reduce(self, gradient: np.ndarray) -> None:
        began_s = time.perf_counter()
        self._socket.sendall(gradient.view(np.uint8).data)
        uploaded_s = time.perf_counter()
        receive(self._socket, gradient.view(np.uint8).data)
        self.steps["UL-grad"] += uploaded_s - began_s
        self.steps["DL-grad"] += time.perf_counter() - uploaded_s


Serve = Callable[[socket.socket, int, int, Event], None]  # listening socket, workers, parameters, ready


def start_server(
    serve: Serve, world_size: int, parameters: int, address: str = "127.0.0.1"
) -> tuple[multiprocessing.Process, int]:
    """The server in a process of its own, and its port."""
    listening = socket.create_server((address, 0), backlog=world_size)
    ready = multiprocessing.Event()
    process = multiprocessing.Process(target=serve, args=(listening, world_size, parameters, ready), daemon=True)
    process.start()
    if not ready.wait(_START_SECONDS):
        process.kill()
        raise SystemExit(f"Cirrus' server was not ready after {_START_SECONDS:.0f} s.")
    port = int(listening.getsockname()[1])
    listening.close()
    return process, port


def serve_whole(listening: socket.socket, world_size: int, parameters: int, ready: Event) -> None:
    """The server that sends the sum when it has all of it."""
    total = np.zeros(parameters, np.float32)
    lock, turn = threading.Lock(), threading.Barrier(world_size)
    ready.set()
    connections = [listening.accept()[0] for _ in range(world_size)]
    threads = [threading.Thread(target=_attend, args=(each, total, lock, turn)) for each in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _attend(worker: socket.socket, total: np.ndarray, lock: threading.Lock, turn: threading.Barrier) -> None:
    worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    place = np.empty(_PART // 4, np.float32)
    try:
        while True:
            for start in range(0, total.size, place.size):
                part = place[: min(place.size, total.size - start)]
                receive(worker, part.view(np.uint8).data)
                with lock:
                    total[start : start + part.size] += part
            turn.wait()
            worker.sendall(total.view(np.uint8).data)
            if turn.wait() == 0:  # everybody has the sum
                total[:] = 0
            turn.wait()
    except (ConnectionError, threading.BrokenBarrierError):
        turn.abort()


def receive(source: socket.socket, into: memoryview) -> None:
    """Fill the memory."""
    done = 0
    while done < len(into):
        count = source.recv_into(into[done:])
        if not count:
            raise ConnectionResetError
        done += count

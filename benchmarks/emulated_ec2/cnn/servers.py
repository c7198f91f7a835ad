"""The same network with parameter servers: each keeps a share of the weights, and no worker waits for another.

A worker sends every server its share of the gradient and gets that server's weights back. Started by mlcd with
`topology: ps`; the workers' ranks come first.
"""

from __future__ import annotations

import os
import select
import socket
import time
from itertools import count

import numpy as np
from train import (
    RANK,
    RATE,
    SHARE,
    bites,
    descend,
    differentiate,
    flat,
    hand_back,
    load_digits,
    prompt,
    receive,
    resume,
)

import mlcd

WORKERS, SERVERS = int(os.environ["MLCD_WORKERS"]), int(os.environ["MLCD_SERVERS"])
ADDRESSES = [address.rsplit(":", 1) for address in os.environ["MLCD_SERVER_ADDRESSES"].split(",")]


def main() -> None:
    if os.environ["MLCD_ROLE"] == "server":
        serve(parts(flat(resume()))[RANK - WORKERS].copy(), int(ADDRESSES[RANK - WORKERS][1]))
    else:
        work()


def parts(everything: np.ndarray) -> list[np.ndarray]:
    """The share of each server."""
    return np.array_split(everything, SERVERS)


def serve(share: np.ndarray, port: int) -> None:
    """Step with whatever gradient comes first, until all workers have left."""
    with socket.create_server(("", port), backlog=WORKERS) as server:
        workers = [prompt(server.accept()[0]) for _ in range(WORKERS)]
    while workers:
        for worker in select.select(workers, [], [])[0]:
            try:
                share -= RATE / (SHARE * WORKERS) * receive(worker, len(share))
                worker.sendall(share.tobytes())
            except ConnectionError:  # it has left
                workers.remove(worker)


def work() -> None:
    images, labels = load_digits()
    weights = resume()
    servers = [reach(host, int(port)) for host, port in ADDRESSES]
    draw = np.random.default_rng(RANK)
    for step in count(1):
        rows = draw.integers(0, 1437, SHARE)
        gradient = np.sum([flat(differentiate(weights, images[few], labels[few])) for few in bites(rows)], axis=0)
        before = flat(weights)
        descend(weights, (before - exchange(servers, gradient)) / RATE)
        mlcd.report(step=step, samples=step * SHARE)
        if mlcd.stopping():
            break
    if RANK == 0:
        hand_back(weights, images[1437:], labels[1437:])


def exchange(servers: list[socket.socket], gradient: np.ndarray) -> np.ndarray:
    """Send each server its share of the gradient; all weights, as the servers have them now."""
    shares = parts(gradient)
    for server, share in zip(servers, shares, strict=True):
        server.sendall(share.tobytes())
    return np.concatenate([receive(server, len(share)) for server, share in zip(servers, shares, strict=True)])


def reach(host: str, port: int) -> socket.socket:
    while True:
        try:
            return prompt(socket.create_connection((host, port), 60))
        except ConnectionRefusedError:  # it is not there yet
            time.sleep(0.1)


if __name__ == "__main__":
    main()

"""Workers that exchange so many parameters with servers in each step, on sockets: the standard library alone.

Each server keeps its share of a regression's weights and steps with whatever gradient comes first; a worker gets the share
back. The gradient is of one weight, the others travel along: what a step sends is what the test asks for.
"""

from __future__ import annotations

import os
import select
import socket
import time
from array import array
from pathlib import Path

import mlcd

PARAMETERS = int(os.environ.get("PARAMETERS", "50000"))
PAUSE_SECONDS = float(os.environ.get("PAUSE_SECONDS", "0.1"))
BATCH, RATE, WANTED = 8, 0.05, 3.0
RANK, WORKERS, SERVERS = (int(os.environ[name]) for name in ("RANK", "MLCD_WORKERS", "MLCD_SERVERS"))
ADDRESSES = [address.rsplit(":", 1) for address in os.environ["MLCD_SERVER_ADDRESSES"].split(",")]
SHARE_BYTES = 4 * (PARAMETERS // SERVERS)


def serve(port: int) -> None:
    weights = array("f", bytes(SHARE_BYTES))
    with socket.create_server(("", port), backlog=WORKERS) as server:
        workers = [server.accept()[0] for _ in range(WORKERS)]
    while workers:
        for worker in select.select(workers, [], [])[0]:
            gradient = receive(worker)
            if len(gradient) < SHARE_BYTES:
                workers.remove(worker)  # it has left
                continue
            weights[0] -= RATE * memoryview(gradient).cast("f")[0]
            worker.sendall(weights.tobytes())


def work() -> None:
    servers = [reach(host, int(port)) for host, port in ADDRESSES]
    weight = 0.0
    for step, _ in enumerate(mlcd.steps(range(10**9)), start=1):
        gradient = array("f", bytes(SHARE_BYTES))
        gradient[0] = 2.0 * (weight - WANTED)
        for server in servers:
            server.sendall(gradient.tobytes())
        shares = [receive(server) for server in servers]
        weight = array("f", shares[0])[0]
        time.sleep(PAUSE_SECONDS)
        mlcd.report(samples=step * BATCH)
    if RANK == 0:
        output = Path(os.environ["MLCD_OUTPUT_DIR"])
        output.mkdir(parents=True, exist_ok=True)
        (output / "weight.txt").write_text(f"{weight:.3f}")


def receive(there: socket.socket) -> bytes:
    got = bytearray()
    while len(got) < SHARE_BYTES and (more := there.recv(SHARE_BYTES - len(got))):
        got += more
    return bytes(got)


def reach(host: str, port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection((host, port), 60)
        except ConnectionRefusedError:  # it is not there yet
            time.sleep(0.1)


if __name__ == "__main__":
    if os.environ["MLCD_ROLE"] == "server":
        serve(int(ADDRESSES[RANK - WORKERS][1]))
    else:
        work()

"""Trains a convolutional network on scikit-learn's digits in NumPy, on any number of machines.

Gradients are added up by the first rank and sent back to all, over plain sockets. There is no framework, so a rank is at
its first step after a quarter of a CPU second, where torch alone takes two to four: many machines can be tried in a minute.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import socket
import time
from itertools import count
from pathlib import Path

import numpy as np

import mlcd

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SHARE = mlcd.local_batch_size(256)
CHANNELS, HIDDEN = 8, 48
BITE = 16
RATE = 0.2
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))

Weights = list[np.ndarray]


def main() -> None:
    images, labels = load_digits()
    weights = resume()
    peers = join()
    draw = np.random.default_rng(RANK + 1000 * len(weights))
    for step in count(1):
        rows = draw.integers(0, 1437, SHARE)
        gradient = sum(flat(differentiate(weights, images[few], labels[few])) for few in bites(rows))
        total = all_reduce(np.append(gradient, np.float32(mlcd.stopping())), peers)
        descend(weights, total[:-1] / (SHARE * RANKS))
        mlcd.report(step=step, samples=step * SHARE)
        if total[-1]:  # one of us has been asked to end, or all work is done
            break
    with mlcd.checkpoint() as folder:
        np.savez(folder / "weights.npz", *weights)
    if RANK == 0:
        hand_back(weights, images[1437:], labels[1437:])


def bites(rows: np.ndarray) -> list[np.ndarray]:
    """A batch in pieces whose numbers stay in the processor's cache, also where others use it in between."""
    return [rows[begin : begin + BITE] for begin in range(0, len(rows), BITE)]


# ------------------------------------------------------------------------------------------------ the network


def resume() -> Weights:
    """The newest checkpoint, else fresh weights: the same on all ranks."""
    folder = mlcd.last_checkpoint()
    if folder is not None:
        return list(np.load(folder / "weights.npz").values())
    draw = np.random.default_rng(0)
    shapes = [(9, CHANNELS), (9 * CHANNELS, 2 * CHANNELS), (16 * 2 * CHANNELS, HIDDEN), (HIDDEN, 10)]
    scaled = [draw.normal(scale=(2 / rows) ** 0.5, size=(rows, columns)) for rows, columns in shapes]
    return [weight.astype(np.float32) for weight in scaled]


def forward(weights: Weights, images: np.ndarray) -> tuple[np.ndarray, ...]:
    """Two convolutions, a mean over each 2 × 2 pixels, and two layers to ten scores; all that the way back needs."""
    patches = neighbours(images[..., None])
    first = np.maximum(patches @ weights[0], 0.0)
    more = neighbours(first)
    second = np.maximum(more @ weights[1], 0.0)
    pooled = second.reshape(len(images), 4, 2, 4, 2, -1).mean(axis=(2, 4)).reshape(len(images), -1)
    hidden = np.maximum(pooled @ weights[2], 0.0)
    return patches, first, more, second, pooled, hidden, hidden @ weights[3]


def differentiate(weights: Weights, images: np.ndarray, labels: np.ndarray) -> Weights:
    """The gradient of the cross entropy, summed over the images."""
    patches, first, more, second, pooled, hidden, scores = forward(weights, images)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = chances / chances.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1.0
    above = (errors @ weights[3].T) * (hidden > 0)
    back = (above @ weights[2].T).reshape(len(labels), 4, 1, 4, 1, -1) / 4.0
    back = np.broadcast_to(back, (len(labels), 4, 2, 4, 2, back.shape[-1])).reshape(second.shape)
    back = back * (second > 0)
    below = spread(back @ weights[1].T, CHANNELS) * (first > 0)
    return [along(patches, below), along(more, back), pooled.T @ above, hidden.T @ errors]


def neighbours(pixels: np.ndarray) -> np.ndarray:
    """Each pixel with its eight neighbours, channels last."""
    padded = np.pad(pixels, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifted = [padded[:, row : row + 8, column : column + 8] for row in range(3) for column in range(3)]
    return np.concatenate(shifted, axis=-1)


def spread(gradients: np.ndarray, channels: int) -> np.ndarray:
    """The way back through `neighbours`."""
    padded = np.zeros((len(gradients), 10, 10, channels), dtype=np.float32)
    for place in range(9):
        row, column = divmod(place, 3)
        part = gradients[..., place * channels : (place + 1) * channels]
        padded[:, row : row + 8, column : column + 8] += part
    return padded[:, 1:9, 1:9]


def along(inputs: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    product: np.ndarray = inputs.reshape(-1, inputs.shape[-1]).T @ gradients.reshape(-1, gradients.shape[-1])
    return product


def flat(arrays: Weights) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays])


def descend(weights: Weights, gradient: np.ndarray) -> None:
    begin = 0
    for weight in weights:
        weight -= RATE * gradient[begin : begin + weight.size].reshape(weight.shape)
        begin += weight.size


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's file, without loading scikit-learn; the last 360 images are to test with."""
    found = importlib.util.find_spec("sklearn")
    assert found is not None
    assert found.submodule_search_locations
    file = Path(found.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(file, "rt") as text:
        table = np.loadtxt(text, delimiter=",", dtype=np.float32)
    table = table[np.random.default_rng(1).permutation(len(table))]
    return table[:, :64].reshape(-1, 8, 8) / np.float32(16), table[:, 64].astype(int)


def hand_back(weights: Weights, images: np.ndarray, labels: np.ndarray) -> None:
    right = forward(weights, images)[-1].argmax(axis=1) == labels
    OUTPUT.mkdir(parents=True, exist_ok=True)
    np.savez(OUTPUT / "weights.npz", *weights)
    (OUTPUT / "metrics.json").write_text(json.dumps({"test_accuracy": float(right.mean())}))


# ----------------------------------------------------------------------------------------------- the others


def join() -> list[socket.socket]:
    """Connections to all others at the first rank, to the first rank at the others."""
    address = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29400"))
    if RANKS == 1:
        return []
    if RANK == 0:
        with socket.create_server(("", address[1]), backlog=RANKS) as server:
            return [prompt(server.accept()[0]) for _ in range(RANKS - 1)]
    while True:
        try:
            return [prompt(socket.create_connection(address, 60))]
        except ConnectionRefusedError:  # the first rank is not there yet
            time.sleep(0.1)


def prompt(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(60)
    return connection


def all_reduce(values: np.ndarray, peers: list[socket.socket]) -> np.ndarray:
    """The sum over all ranks."""
    if RANK == 0:
        for peer in peers:
            values = values + receive(peer, len(values))
        for peer in peers:
            peer.sendall(values.tobytes())
        return values
    peers[0].sendall(values.tobytes())
    return receive(peers[0], len(values))


def receive(peer: socket.socket, length: int) -> np.ndarray:
    data = bytearray(4 * length)
    rest = memoryview(data)
    while rest:
        got = peer.recv_into(rest)
        if not got:
            raise ConnectionError("a rank is gone")
        rest = rest[got:]
    return np.frombuffer(data, dtype=np.float32)


if __name__ == "__main__":
    main()

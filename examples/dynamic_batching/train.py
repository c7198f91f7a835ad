"""One job whose batch grows while it trains: NumPy on scikit-learn's digits, on any number of functions.

From epoch GROWS_AT on, a step takes 16 times as many images, as large batches do no harm once the gradient's noise has
grown. mlcd sees it from steps and samples. Runs as it is, too (`python train.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import mlcd
from mlcd.sync import join

SMALL, LARGE, GROWS_AT = 32, 512, int(os.environ.get("GROWS_AT", "300"))
EPOCHS = 10_000 if "MLCD_TASK_ID" in os.environ else 400  # under mlcd the job's `work` says when to end
HIDDEN = int(os.environ.get("HIDDEN", "4096"))
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))
RATE = 0.05

Weights = list[np.ndarray]


def main() -> None:
    images, labels, test_images, test_labels = load_data()
    weights, epoch = resume()
    step, done, loss, stop = 0, 0, 0.0, False
    with join() as group:
        while epoch < EPOCHS and not stop:
            for share, batch_size in shares(len(labels), epoch):
                loss, gradients = loss_and_gradients(weights, images[share], labels[share])
                signs = np.array([loss, float(mlcd.stopping())])
                group.all_reduce([*gradients, signs])
                growth = (batch_size / SMALL) ** 0.5
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= growth * RATE / batch_size * gradient
                loss, stop = float(signs[0]) / batch_size, bool(signs[1])
                step, done = step + 1, done + len(share)
                mlcd.report(step=step, samples=done, loss=loss)
                if stop:  # all ranks see the same signs, so all leave the loop here
                    break
            else:
                epoch += 1
                save(weights, epoch)
                mlcd.report(test_accuracy=accuracy(weights, test_images, test_labels))
    if RANK == 0:
        hand_back(weights, {"test_accuracy": accuracy(weights, test_images, test_labels)})


def load_data() -> tuple[np.ndarray, ...]:
    """Images as rows of 64 numbers, their labels, and the same to test with."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    images, labels = digits.data[order] / 16.0, digits.target[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def shares(count: int, epoch: int) -> Iterator[tuple[np.ndarray, int]]:
    """This rank's part of each batch of the epoch, and the size of the batch."""
    size = SMALL if epoch < GROWS_AT else LARGE
    order = np.random.default_rng(epoch).permutation(count)
    for begin in range(0, count, size):
        batch = order[begin : begin + size]
        yield batch[RANK::RANKS], len(batch)


def resume() -> tuple[Weights, int]:
    """The newest checkpoint with the epochs done, else fresh weights: the same on all ranks."""
    folder = mlcd.last_checkpoint()
    if folder is not None:
        saved = np.load(folder / "model.npz")
        return [saved[name] for name in NAMES], int(saved["epoch"])
    random = np.random.default_rng(0)
    first = random.normal(scale=(2 / 64) ** 0.5, size=(64, HIDDEN))
    second = random.normal(scale=(2 / HIDDEN) ** 0.5, size=(HIDDEN, 10))
    return [first, np.zeros(HIDDEN), second, np.zeros(10)], 0


NAMES = ("first", "first_bias", "second", "second_bias")


def loss_and_gradients(weights: Weights, images: np.ndarray, labels: np.ndarray) -> tuple[float, Weights]:
    """Sums over this rank's samples."""
    first, first_bias, second, second_bias = weights
    hidden = np.maximum(images @ first + first_bias, 0.0)
    scores = hidden @ second + second_bias
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -float(np.log(chances[rows, labels] + 1e-12).sum())
    chances[rows, labels] -= 1.0
    back = (chances @ second.T) * (hidden > 0)
    return loss, [images.T @ back, back.sum(axis=0), hidden.T @ chances, chances.sum(axis=0)]


def accuracy(weights: Weights, images: np.ndarray, labels: np.ndarray) -> float:
    first, first_bias, second, second_bias = weights
    scores = np.maximum(images @ first + first_bias, 0.0) @ second + second_bias
    return float((scores.argmax(axis=1) == labels).mean())


def save(weights: Weights, epoch: int) -> None:
    with mlcd.checkpoint() as folder:
        np.savez(folder / "model.npz", epoch=epoch, **dict(zip(NAMES, weights, strict=True)))


def hand_back(weights: Weights, metrics: dict[str, float]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    np.savez(OUTPUT / "model.npz", **dict(zip(NAMES, weights, strict=True)))
    (OUTPUT / "metrics.json").write_text(json.dumps(metrics))


if __name__ == "__main__":
    main()

"""Trains a small network on scikit-learn's digits with NumPy alone, on any number of functions.

Functions cannot reach each other: the gradients go through mlcd.sync. Runs as it is, too (`python train.py`).

    HIDDEN      width of the hidden layer, by default 64
    DATA        a folder with .npz files of `images` and `labels` to train on instead of scikit-learn's digits
    PREVIOUS    a folder with the model.npz to go on from
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import mlcd
from mlcd.sync import Group, join

EPOCHS = 10_000 if "MLCD_TASK_ID" in os.environ else 30  # under mlcd the job's `work` says when to end
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
HIDDEN = int(os.environ.get("HIDDEN", "64"))
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))
SHARE = mlcd.local_batch_size(64)  # of each batch, for this rank
RATE = 0.1 * mlcd.lr_scale()

Data = tuple[np.ndarray, np.ndarray]
Weights = list[np.ndarray]


def main() -> None:
    train, test = load_data()
    weights = resume()
    sampler = mlcd.ElasticSampler(len(train[1]), batch_size=SHARE * RANKS)
    done, stop = 0, False
    metrics: dict[str, float] = {}
    with join() as group:
        before = group.restore(weights, sampler.samples_seen)  # as others have it, if this function is new
        while sampler.epoch < EPOCHS and not stop:
            for share in shares(sampler):
                loss, stop = step(group, weights, (train[0][share], train[1][share]))
                done += len(share)
                mlcd.report(step=done // SHARE, samples=done, loss=loss)
                group.keep(weights, before + done * RANKS)
                if stop:
                    break
            metrics = {"loss": loss, "test_accuracy": accuracy(weights, test)}
            mlcd.report(test_accuracy=metrics["test_accuracy"])
            save(weights)
    if RANK == 0:
        hand_back(weights, metrics)


def load_data() -> tuple[Data, Data]:
    """Images as rows of 64 numbers with their labels: to train on, and to test with."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target
    order = np.random.default_rng(1).permutation(len(labels))
    test = order[1437:]
    if not os.environ.get("DATA"):
        return (images[order[:1437]], labels[order[:1437]]), (images[test], labels[test])
    files = [np.load(file) for file in sorted(Path(os.environ["DATA"]).glob("*.npz"))]
    came = (
        np.concatenate([file["images"] for file in files]),
        np.concatenate([file["labels"] for file in files]),
    )
    return came, (images[test], labels[test])


def resume() -> Weights:
    """The newest checkpoint, else the model of the phase before, else fresh weights: the same on all ranks."""
    previous = os.environ.get("PREVIOUS")
    folder = mlcd.last_checkpoint() or (Path(previous) if previous else None)
    if folder is not None:
        saved = np.load(folder / "model.npz")
        return [saved[name] for name in ("first", "first_bias", "second", "second_bias")]
    random = np.random.default_rng(0)
    first = random.normal(scale=(2 / 64) ** 0.5, size=(64, HIDDEN))
    second = random.normal(scale=(2 / HIDDEN) ** 0.5, size=(HIDDEN, 10))
    return [first, np.zeros(HIDDEN), second, np.zeros(10)]


def shares(sampler: mlcd.ElasticSampler) -> Iterator[list[int]]:
    """This rank's part of each batch, to the end of the epoch."""
    share: list[int] = []
    for index in sampler:
        share.append(index)
        if len(share) == SHARE:
            yield share
            share = []


def step(group: Group, weights: Weights, batch: Data) -> tuple[float, bool]:
    """One step of all ranks: the mean loss, and whether one of them has been asked to end; all see the same."""
    loss, gradients = loss_and_gradients(weights, batch)
    signs = np.array([loss, float(mlcd.stopping())])
    group.all_reduce([*gradients, signs])
    samples = len(batch[1]) * RANKS
    for weight, gradient in zip(weights, gradients, strict=True):
        weight -= RATE / samples * gradient
    return float(signs[0]) / samples, bool(signs[1])


def loss_and_gradients(weights: Weights, batch: Data) -> tuple[float, Weights]:
    """Sums over this rank's samples."""
    first, first_bias, second, second_bias = weights
    images, labels = batch
    hidden = np.maximum(images @ first + first_bias, 0.0)
    scores = hidden @ second + second_bias
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    loss = -float(np.log(chances[np.arange(len(labels)), labels] + 1e-12).sum())
    errors = chances
    errors[np.arange(len(labels)), labels] -= 1.0
    back = (errors @ second.T) * (hidden > 0)
    return loss, [images.T @ back, back.sum(axis=0), hidden.T @ errors, errors.sum(axis=0)]


def accuracy(weights: Weights, test: Data) -> float:
    first, first_bias, second, second_bias = weights
    scores = np.maximum(test[0] @ first + first_bias, 0.0) @ second + second_bias
    return float((scores.argmax(axis=1) == test[1]).mean())


def save(weights: Weights) -> None:
    with mlcd.checkpoint() as folder:
        write(weights, folder)


def hand_back(weights: Weights, metrics: dict[str, float]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    write(weights, OUTPUT)
    (OUTPUT / "metrics.json").write_text(json.dumps(metrics))


def write(weights: Weights, folder: Path) -> None:
    names = ("first", "first_bias", "second", "second_bias")
    np.savez(folder / "model.npz", **dict(zip(names, weights, strict=True)))


if __name__ == "__main__":
    main()

"""Trains a small network on scikit-learn's digits with JAX on several functions, which cannot reach each other.

The same program trains on several nodes of `local`, and alone (`python train.py`).
"""

from __future__ import annotations

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import mlcd
from mlcd.sync import join
from mlcd.sync.jax import average, keep, restore

EPOCHS = int(os.environ.get("EPOCHS", "40"))
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))
RATE = 0.1

Weights = dict[str, jax.Array]


def main() -> None:
    images, labels, test_images, test_labels = load_data()
    weights, step = resume()
    with join() as group:
        weights, step = restore(weights, step, group)  # as others have it, if this function is new
        batch = mlcd.local_batch_size(64)
        mine = slice(group.rank, 1408, group.world_size)  # as many whole batches on every rank
        rows = np.arange(1408)[mine].reshape(-1, batch)
        stop = False
        while step < EPOCHS * len(rows) and not stop:
            part = rows[step % len(rows)]
            loss, slopes = loss_and_slopes(weights, images[part], labels[part])
            wish = jnp.float32(mlcd.stopping())
            loss, slopes, wish = average((loss, slopes, wish), group)  # all ranks end after the same step
            weights, stop = update(weights, slopes), bool(wish > 0)
            step += 1
            mlcd.report(step=step, samples=step * batch, loss=float(loss))
            keep(weights, step, group)
            if step % len(rows) == 0:
                print(f"epoch {step // len(rows) - 1} loss={float(loss):.6f}", flush=True)
                mlcd.report(test_accuracy=accuracy(weights, test_images, test_labels))
            if step % len(rows) == 0 or stop:
                with mlcd.checkpoint() as folder:
                    np.savez(folder / "state.npz", step=step, **weights)
    if group.rank == 0:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        np.savez(OUTPUT / "model.npz", **weights)
        print(f"test_accuracy={accuracy(weights, test_images, test_labels):.4f}")


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Four fifths to train on, one to test with."""
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    images, labels = (digits.data / 16).astype(np.float32)[order], digits.target[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def resume() -> tuple[Weights, int]:
    """The weights of the newest checkpoint and the steps behind them, or fresh ones: the same on all ranks."""
    folder = mlcd.last_checkpoint()
    if folder is not None:
        state = np.load(folder / "state.npz")
        weights = {name: jnp.asarray(state[name]) for name in ("w1", "b1", "w2", "b2")}
        return weights, int(state["step"])
    random = np.random.default_rng(0)
    fresh = {
        "w1": jnp.asarray(random.normal(0, 64**-0.5, (64, 128)), jnp.float32),
        "b1": jnp.zeros(128),
        "w2": jnp.asarray(random.normal(0, 128**-0.5, (128, 10)), jnp.float32),
        "b2": jnp.zeros(10),
    }
    return fresh, 0


def logits(weights: Weights, images: jax.Array) -> jax.Array:
    return jax.nn.relu(images @ weights["w1"] + weights["b1"]) @ weights["w2"] + weights["b2"]


def loss_of(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits(weights, images)), labels[:, None], axis=1)
    return -chosen.mean()


loss_and_slopes = jax.jit(jax.value_and_grad(loss_of))


@jax.jit
def update(weights: Weights, slopes: Weights) -> Weights:
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, slopes)


def accuracy(weights: Weights, images: np.ndarray, labels: np.ndarray) -> float:
    return float((logits(weights, jnp.asarray(images)).argmax(1) == labels).mean())


if __name__ == "__main__":
    main()

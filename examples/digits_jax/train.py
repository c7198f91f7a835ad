"""Trains a small network on scikit-learn's handwritten digits with JAX, on one node or on several.

Runs as it is (`python train.py`) and under mlcd, which starts it once on every node.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

import mlcd

NODES = int(os.environ.get("JAX_NUM_PROCESSES", "1"))
NODE = int(os.environ.get("JAX_PROCESS_ID", "0"))
SAMPLES = float(os.environ.get("MLCD_WORK_SAMPLES") or 30 * 1437)
LOCAL_BATCH = mlcd.local_batch_size(64 // NODES)
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))
RATE = 0.1

Weights = dict[str, jax.Array]


def main() -> None:
    if NODES > 1:
        jax.distributed.initialize(num_processes=NODES, process_id=NODE)
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    images, labels, test_images, test_labels = load_data()
    weights, done, own = start()  # samples of all nodes, and of this one
    while done < SAMPLES:
        rows = np.random.default_rng((int(done), NODE)).integers(0, len(labels), LOCAL_BATCH)
        weights, loss = train_step(weights, share(mesh, images[rows]), share(mesh, labels[rows]))
        done, own = done + LOCAL_BATCH * NODES, own + LOCAL_BATCH
        step = int(own // LOCAL_BATCH)
        mlcd.report(step=step, samples=own)
        if step % 50 == 0:
            mlcd.report(loss=float(loss), test_accuracy=accuracy(weights, test_images, test_labels))
            stopping = any_node(mlcd.stopping())
            if stopping or step % 250 == 0:
                save(weights, done, own)
            if stopping:
                break
    hand_back(weights, accuracy(weights, test_images, test_labels))


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Four fifths to train on, one to test with."""
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    images, labels = (digits.data / 16).astype(np.float32)[order], digits.target[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def start() -> tuple[Weights, float, float]:
    """The weights of the newest checkpoint and the samples behind it, or fresh ones."""
    folder = mlcd.last_checkpoint()
    if folder is not None:
        state = np.load(folder / "state.npz")
        weights = {name: jnp.asarray(state[name]) for name in ("w1", "b1", "w2", "b2")}
        return weights, float(state["done"]), float(state["own"])
    random = np.random.default_rng(0)
    fresh = {
        "w1": jnp.asarray(random.normal(0, 64**-0.5, (64, 128)), jnp.float32),
        "b1": jnp.zeros(128),
        "w2": jnp.asarray(random.normal(0, 128**-0.5, (128, 10)), jnp.float32),
        "b2": jnp.zeros(10),
    }
    return fresh, 0.0, 0.0


def share(mesh: Mesh, rows: np.ndarray) -> jax.Array:
    """This node's rows as its part of the global batch."""
    return jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("batch")), rows)


def logits(weights: Weights, images: jax.Array) -> jax.Array:
    return jax.nn.relu(images @ weights["w1"] + weights["b1"]) @ weights["w2"] + weights["b2"]


def loss_of(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits(weights, images)), labels[:, None], axis=1)
    return -chosen.mean()


@jax.jit
def train_step(weights: Weights, images: jax.Array, labels: jax.Array) -> tuple[Weights, jax.Array]:
    """One step on the global batch: the mean over it is where the nodes exchange."""
    loss, slopes = jax.value_and_grad(loss_of)(weights, images, labels)
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, slopes), loss


def accuracy(weights: Weights, images: np.ndarray, labels: np.ndarray) -> float:
    own = {name: jnp.asarray(np.asarray(weight.addressable_data(0))) for name, weight in weights.items()}
    return float((logits(own, jnp.asarray(images)).argmax(1) == labels).mean())


def any_node(wish: bool) -> bool:
    """Whether one of the nodes has it: they end after the same step, or one would wait for ever."""
    return bool(multihost_utils.process_allgather(np.array([wish])).any()) if NODES > 1 else wish


def save(weights: Weights, done: float, own: float) -> None:
    with mlcd.checkpoint() as folder:
        np.savez(folder / "state.npz", done=done, own=own, **numbers(weights))


def hand_back(weights: Weights, test_accuracy: float) -> None:
    if NODE == 0:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        np.savez(OUTPUT / "model.npz", **numbers(weights))
        (OUTPUT / "metrics.json").write_text(json.dumps({"test_accuracy": test_accuracy}))
        print(f"test_accuracy={test_accuracy:.4f}")


def numbers(weights: Weights) -> dict[str, np.ndarray]:
    return {name: np.asarray(weight.addressable_data(0)) for name, weight in weights.items()}


if __name__ == "__main__":
    main()

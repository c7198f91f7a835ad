"""Trains a small network on scikit-learn's handwritten digits with TensorFlow.

    one node              MultiWorkerMirroredStrategy alone
    several               the same; the nodes exchange their gradients in every step
    topology: ps          ParameterServerStrategy; the chief hands steps to the workers, which run without waiting for each other

Runs as it is (`python train.py`) and under mlcd, which sets TF_CONFIG.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import mlcd

CONFIG = json.loads(os.environ.get("TF_CONFIG", "{}"))
KIND = CONFIG.get("task", {}).get("type", "worker")
NODES = len(CONFIG.get("cluster", {}).get("worker", [""]))
CHIEF = KIND == "chief" or CONFIG.get("task", {}).get("index", 0) == 0
SAMPLES = float(os.environ.get("MLCD_WORK_SAMPLES") or 30 * 1437)
LOCAL_BATCH = mlcd.local_batch_size(64 // NODES)
STEPS = 50  # between two looks at how it goes
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))


def main() -> None:
    if "ps" in CONFIG.get("cluster", {}):
        with_parameter_servers()
    else:
        mirrored()


def mirrored() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, optimizer = make_model(), tf.keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    batches = iter(strategy.distribute_datasets_from_function(lambda context: batches_of(NODES, context)))

    @tf.function
    def train() -> tf.Tensor:
        def step(batch: Any) -> tf.Tensor:
            return learn(model, optimizer, *batch)

        losses = [strategy.run(step, args=(next(batches),)) for _ in range(STEPS)]
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses[-1], axis=None)

    @tf.function
    def add_up(wish: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(wish,)), axis=None)

    loop(model, train, STEPS * LOCAL_BATCH, NODES, lambda wish: bool(add_up(tf.constant(float(wish))) > 0))


def with_parameter_servers() -> None:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    threads = NODES + 2  # a node of one core would have a single one, and wait for itself for ever
    if KIND != "chief":
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=KIND,
            task_index=resolver.task_id,
            protocol="grpc",
            config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads),
        )
        server.join()  # until mlcd ends it, when the chief is done
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
    with strategy.scope():
        model, optimizer = make_model(), tf.keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    batches = iter(coordinator.create_per_worker_dataset(lambda: batches_of(1, None)))

    @tf.function
    def step(batches: Any) -> tf.Tensor:
        return strategy.run(lambda batch: learn(model, optimizer, *batch), args=(next(batches),))

    def train() -> tf.Tensor:
        losses = [coordinator.schedule(step, args=(batches,)) for _ in range(STEPS)]
        coordinator.join()
        return losses[-1].fetch()

    loop(model, train, STEPS * LOCAL_BATCH, 1, bool)


def loop(
    model: tf.keras.Model,
    train: Callable[[], tf.Tensor],
    samples: int,
    counting: int,
    any_node: Callable[[bool], bool],
) -> None:
    """So many samples at a time on each of so many nodes that count, until all are done or one is asked to stop."""
    done, own = resume(model)
    while done < SAMPLES:
        loss = float(train())
        done, own = done + samples * counting, own + samples
        mlcd.report(samples=own, loss=loss, test_accuracy=accuracy(model))
        stopping = any_node(mlcd.stopping())
        if stopping or own % (5 * samples) == 0:
            save(model, done, own)
        if stopping:
            break
    if CHIEF:
        hand_back(model)


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Four fifths to train on, one to test with."""
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    images, labels = (digits.data / 16).astype(np.float32)[order], digits.target[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def batches_of(parts: int, context: Any) -> tf.data.Dataset:
    """This node's part of the data, without an end."""
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    if context is not None:
        data = data.shard(parts, context.input_pipeline_id)
    return data.shuffle(2000).repeat().batch(LOCAL_BATCH, drop_remainder=True)


IMAGES, LABELS, TEST_IMAGES, TEST_LABELS = load_data()


def make_model() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Dense(128, activation="relu"), layers.Dense(10)])
    model.build((None, 64))
    return model


def learn(model: tf.keras.Model, optimizer: Any, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """One step on one batch; a strategy adds the gradients of its nodes up, so each gives its share of the mean."""
    sharing = tf.distribute.get_replica_context().num_replicas_in_sync
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True)))
        part = loss / sharing
    slopes = tape.gradient(part, model.trainable_variables)
    optimizer.apply_gradients(zip(slopes, model.trainable_variables, strict=True))
    return loss


def accuracy(model: tf.keras.Model) -> float:
    first, bias, second, last = (weight.numpy() for weight in model.trainable_variables)
    return float(((np.maximum(TEST_IMAGES @ first + bias, 0) @ second + last).argmax(1) == TEST_LABELS).mean())


def save(model: tf.keras.Model, done: float, own: float) -> None:
    with mlcd.checkpoint() as folder:
        np.savez(folder / "state.npz", *[w.numpy() for w in model.trainable_variables], done=done, own=own)


def resume(model: tf.keras.Model) -> tuple[float, float]:
    """Samples of all nodes and of this one that the newest checkpoint, if there is one, has behind it."""
    folder = mlcd.last_checkpoint()
    if folder is None:
        return 0.0, 0.0
    state = np.load(folder / "state.npz")
    for number, weight in enumerate(model.trainable_variables):
        weight.assign(state[f"arr_{number}"])
    return float(state["done"]), float(state["own"])


def hand_back(model: tf.keras.Model) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    model.save(OUTPUT / "model.keras")
    found = accuracy(model)
    (OUTPUT / "metrics.json").write_text(json.dumps({"test_accuracy": found}))
    print(f"test_accuracy={found:.4f}")


if __name__ == "__main__":
    main()

"""Trains a small network on scikit-learn's handwritten digits with MXNet's distributed key-value store.

Started by mlcd as worker, server or scheduler: in the latter two `import mxnet` goes to work and never comes back.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

if "bool" not in vars(np):
    np.bool = np.bool_  # gone from NumPy since 1.24, used by MXNet 1.9.1
import mxnet as mx
from sklearn.datasets import load_digits

import mlcd

WORKERS = int(os.environ.get("DMLC_NUM_WORKER", "1"))
SAMPLES = float(os.environ.get("MLCD_WORK_SAMPLES") or 30 * 1437)
LOCAL_BATCH = mlcd.local_batch_size(64 // WORKERS)
WISH = 1_000_000  # its key in the store, beyond those of the parameters
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))


def main() -> None:
    mx.random.seed(0)
    store = mx.kv.create("dist_sync" if "DMLC_ROLE" in os.environ else "local")
    images, labels, test_images, test_labels = load_data()
    net = make_net()
    done, own = resume(net)  # samples of all workers, and of this one
    store.init(WISH, mx.nd.zeros(1))
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=store, update_on_kvstore=False
    )  # the servers add up, so that the store can carry our wish to stop as well
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    while done < SAMPLES:
        rows = np.random.default_rng((int(done), store.rank)).integers(0, len(labels), LOCAL_BATCH)
        with mx.autograd.record():
            loss = loss_of(net(mx.nd.array(images[rows])), mx.nd.array(labels[rows])).mean()
        loss.backward()
        trainer.step(WORKERS)
        done, own = done + LOCAL_BATCH * WORKERS, own + LOCAL_BATCH
        step = int(own // LOCAL_BATCH)
        mlcd.report(step=step, samples=own, loss=float(loss.asscalar()))
        if step % 50 == 0:
            mlcd.report(test_accuracy=accuracy(net, test_images, test_labels))
        if step % 250 == 0:
            save(net, done, own)
        if step % 20 == 0 and any_worker(store, mlcd.stopping()):
            save(net, done, own)
            break
    if store.rank == 0:
        hand_back(net, accuracy(net, test_images, test_labels))


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Four fifths to train on, one to test with."""
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    images, labels = (digits.data / 16).astype(np.float32)[order], digits.target[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def make_net() -> mx.gluon.nn.Sequential:
    net = mx.gluon.nn.Sequential()
    net.add(mx.gluon.nn.Dense(128, in_units=64, activation="relu"), mx.gluon.nn.Dense(10, in_units=128))
    net.initialize(mx.init.Xavier())
    return net


def any_worker(store: mx.kvstore.KVStore, wish: bool) -> bool:
    """Whether one of the workers has it: they end after the same step, or one would wait for ever."""
    sum_of_all = mx.nd.zeros(1)
    store.push(WISH, mx.nd.array([float(wish)]))
    store.pull(WISH, out=sum_of_all)
    return bool(sum_of_all.asscalar() > 0)


def accuracy(net: mx.gluon.nn.Sequential, images: np.ndarray, labels: np.ndarray) -> float:
    return float((net(mx.nd.array(images)).asnumpy().argmax(1) == labels).mean())


def save(net: mx.gluon.nn.Sequential, done: float, own: float) -> None:
    with mlcd.checkpoint() as folder:
        net.save_parameters(str(folder / "net.params"))
        (folder / "counts.json").write_text(json.dumps([done, own]))


def resume(net: mx.gluon.nn.Sequential) -> tuple[float, float]:
    folder = mlcd.last_checkpoint()
    if folder is None:
        return 0.0, 0.0
    net.load_parameters(str(folder / "net.params"))
    done, own = json.loads((folder / "counts.json").read_text())
    return done, own


def hand_back(net: mx.gluon.nn.Sequential, test_accuracy: float) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    net.save_parameters(str(OUTPUT / "model.params"))
    (OUTPUT / "metrics.json").write_text(json.dumps({"test_accuracy": test_accuracy}))
    print(f"test_accuracy={test_accuracy:.4f}")


if __name__ == "__main__":
    main()

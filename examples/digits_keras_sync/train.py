"""Trains a small network on scikit-learn's digits with Keras on several functions, which cannot reach each other.

The same program trains on several nodes of `local`, and alone (`python train.py`).
"""

import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_digits

import mlcd
from mlcd.sync import join
from mlcd.sync.keras import share

EPOCHS = int(os.environ.get("EPOCHS", "20"))
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))

keras.utils.set_random_seed(0)
digits = load_digits()
order = np.random.default_rng(1).permutation(len(digits.target))
images, labels = (digits.data / 16).astype("float32")[order], digits.target[order]
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)],
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
with join() as group:
    share(model, group)
    own = slice(group.rank, 1408, group.world_size)  # as many whole batches on every rank
    model.fit(
        images[own],
        labels[own],
        batch_size=mlcd.local_batch_size(64),
        epochs=EPOCHS,
        shuffle=False,
        validation_data=(images[1437:], labels[1437:]),
        callbacks=[keras.callbacks.BackupAndRestore("state")],
        verbose=2,
    )
if group.rank == 0:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    model.save(OUTPUT / "model.keras")

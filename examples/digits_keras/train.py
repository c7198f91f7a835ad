"""Trains a small network on scikit-learn's handwritten digits with Keras' own `fit`. It knows nothing of mlcd."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_digits

EPOCHS = int(os.environ.get("EPOCHS", "30"))
BATCH = int(os.environ.get("MLCD_BATCH_SIZE", "64"))  # the size to try, where the job leaves it open

keras.utils.set_random_seed(0)
digits = load_digits()
order = np.random.default_rng(1).permutation(len(digits.target))
images, labels = (digits.data / 16).astype("float32")[order], digits.target[order]
model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(
    images[:1437],
    labels[:1437],
    batch_size=BATCH,
    epochs=EPOCHS,
    validation_data=(images[1437:], labels[1437:]),
    callbacks=[keras.callbacks.BackupAndRestore("state")],
    verbose=2,
)
model.save("model.keras")

"""Keras programs that know nothing of mlcd, in processes of their own, with real TensorFlow."""

from __future__ import annotations

import importlib.util
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from worker.programs import finish, start, wait_for
from worker.sessions import lines

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"),
]

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}

MODEL = """
import numpy as np, keras, tensorflow as tf
keras.utils.set_random_seed(0)
x = np.random.rand(103, 8).astype("float32")
y = (x.sum(1) > 4).astype("int32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""


def metrics_of(folder: Path) -> dict[str, Any]:
    """The last value of each."""
    return {name: value for line in lines(folder / "progress") for name, value in line.get("metrics", {}).items()}


def test_steps_and_samples_are_exact_and_a_validation_counts_for_nothing(tmp_path: Path) -> None:
    program = """
model.compile("adam", loss, metrics=["accuracy"])
model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(10), epochs=3, validation_data=(x, y), verbose=0)
model.fit(x, y, batch_size=100, epochs=2, verbose=0)
model.compile("sgd", loss, steps_per_execution=4)
model.fit(x, y, batch_size=10, epochs=1, verbose=0)
model.evaluate(x, y, verbose=0)
model.predict(x, verbose=0)
"""
    finish(start(MODEL + program, tmp_path, **QUIET))
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"], last["end"]) == (3 * 11 + 2 * 2 + 11, 6 * 103, True)
    found = metrics_of(tmp_path)
    assert found["mlcd/parameters"] == 8 * 16 + 16 + 16 * 2 + 2
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= found.keys()


def test_a_train_step_of_the_program_and_accumulated_gradients_are_counted(tmp_path: Path) -> None:
    program = """
class Own(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            error = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(error, weights), weights))
        return {"own": error}

model = Own(model.inputs, model.outputs)
model.compile(keras.optimizers.SGD(0.01, gradient_accumulation_steps=2), loss)
model.fit(x[:100], y[:100], batch_size=10, epochs=2, verbose=0)
"""
    finish(start(MODEL + program, tmp_path, **QUIET))
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"]) == (10, 200)
    assert metrics_of(tmp_path)["own"] > 0


def test_a_stop_ends_fit_and_the_program_goes_on_to_save(tmp_path: Path) -> None:
    program = """
model.compile("adam", loss)
model.fit(x, y, epochs=10**6, verbose=0, callbacks=[keras.callbacks.BackupAndRestore("state")])
model.save("model.keras")
"""
    process = start(MODEL + program, tmp_path, **QUIET)
    progress = tmp_path / "progress"
    wait_for(lambda: (progress / "rank-0.jsonl").exists() and lines(progress)[-1]["steps"] > 20)
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert lines(progress)[-1]["end"]
    assert (tmp_path / "model.keras").exists()
    saved = json.loads((tmp_path / "state" / "training_metadata.json").read_text())
    assert saved["epoch"] == lines(progress)[-1]["samples"] // 103, "an epoch that was cut short is done again"


def test_fit_ends_when_the_work_is_done(tmp_path: Path) -> None:
    program = """
model.compile("adam", loss)
model.fit(x, y, batch_size=50, epochs=10**6, verbose=0)
"""
    finish(start(MODEL + program, tmp_path, MLCD_WORK_SAMPLES=10_000, **QUIET))
    assert lines(tmp_path / "progress")[-1]["samples"] >= 10_000


def test_a_program_whose_keras_is_not_known_trains_uncounted(tmp_path: Path) -> None:
    """mlcd looks for a method of the trainer that an older Keras does not have."""
    program = (
        """
import mlcd.worker.keras_fit.train_function as ours
del ours.hook_trainer
"""
        + MODEL
        + """
model.compile("adam", loss)
model.fit(x, y, verbose=0)
"""
    )
    assert "mlcd: steps are not counted" in finish(start(program, tmp_path, **QUIET))


def test_measuring_the_noise_changes_nothing_of_the_training(tmp_path: Path) -> None:
    program = """
layers = keras.layers
model = keras.Sequential([
    keras.Input((8,)), layers.Dense(16, activation="relu", kernel_regularizer="l2"), layers.BatchNormalization(),
    layers.Dropout(0.3), layers.Dense(2),
])
model.compile("adam", loss)
model.fit(x, y, batch_size=20, epochs=12, verbose=0)
print("weights", " ".join(f"{float(abs(w).sum()):.4f}" for w in model.get_weights()))
"""
    weights = []
    for noise in (0, 1):
        folder = tmp_path / str(noise)
        folder.mkdir()
        weights.append(finish(start(MODEL + program, folder, MLCD_NOISE=noise, **QUIET)).split("weights")[1])
        assert ("mlcd/grad_noise" in metrics_of(folder)) == bool(noise)
    assert weights[0] == weights[1]

"""Keras programs that know nothing of mlcd, in processes of their own, with real TensorFlow."""

from __future__ import annotations

import importlib.util
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from worker.programs import PATIENCE_S, finish, start, wait_for
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


def test_a_loop_over_train_on_batch_is_counted_to_its_last_step(tmp_path: Path) -> None:
    program = """
model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=3), loss)
for _ in range(40):
    model.train_on_batch(x[:20], y[:20])
"""
    finish(start(MODEL + program, tmp_path, **QUIET))
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"]) == (40 // 3, 800)


def test_accumulation_of_one_model_does_not_divide_the_steps_of_another(tmp_path: Path) -> None:
    program = """
model.compile("sgd", loss)
model.fit(x[:100], y[:100], batch_size=10, verbose=0)
model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=5), loss)
model.fit(x[:100], y[:100], batch_size=10, verbose=0)
"""
    finish(start(MODEL + program, tmp_path, **QUIET))
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"]) == (10 + 2, 200)


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


STEPS = """
class Scored(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            error = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(error, weights), weights))
        return {"loss": error}

class Own(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            error = loss(y, self(x, training=True))
        weights = self.trainable_variables
        for weight, slope in zip(weights, tape.gradient(error, weights)):
            weight.assign_sub(0.1 * slope)
        return {"loss": error}

class Branching(Scored):
    def train_step(self, data):
        return tf.cond(tf.reduce_sum(data[0]) > 0, lambda: super(Branching, self).train_step(data), lambda: {"loss": 0.0})

class Narrow(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        assert "apply" not in vars(self), "somebody has put a method of its own in the place of this one"
        return super().apply(grads, trainable_variables)

inputs, outputs = model.inputs, model.outputs
kept = model.get_weights()
for name, kind, options in (
    ("default", keras.Model, {"optimizer": "adam"}),
    ("jit", keras.Model, {"optimizer": "adam", "jit_compile": True}),
    ("eager", keras.Model, {"optimizer": "adam", "run_eagerly": True}),
    ("several steps", keras.Model, {"optimizer": "adam", "steps_per_execution": 4}),
    ("scored", Scored, {"optimizer": "sgd", "jit_compile": False}),
    ("no optimizer", Own, {"optimizer": None, "jit_compile": False}),
    ("branching", Branching, {"optimizer": "sgd", "jit_compile": False}),
    ("narrow", keras.Model, {"optimizer": Narrow(0.1)}),
    ("clipped", keras.Model, {"optimizer": keras.optimizers.Adam(global_clipnorm=0.01, use_ema=True)}),
):
    model.set_weights(kept)
    tried = kind(inputs, outputs)
    tried.compile(loss=loss, **options)
    if tried.optimizer is not None:
        tried.optimizer.build(tried.trainable_variables)
    tried.fit(x, y, batch_size=20, epochs=2, shuffle=False, verbose=0)
    tried.fit(x[:3], y[:3], batch_size=1, shuffle=False, verbose=0)
    print("case", name, [repr(float(abs(one.astype("float64")).sum())) for one in tried.get_weights()])
"""


def test_no_kind_of_step_is_broken_or_changed_by_being_measured(tmp_path: Path) -> None:
    """Measured at every step; where it cannot be, the program is told in a line, and trains as it would."""
    always = """
import os
if os.environ.get("MLCD_NOISE") == "1":
    from mlcd.worker.keras_fit import noise
    noise.Schedule.due = lambda self, step: True
"""
    outputs = []
    for noise in (0, 1):
        folder = tmp_path / str(noise)
        folder.mkdir()
        outputs.append(finish(start(MODEL + always + STEPS, folder, MLCD_NOISE=noise, **QUIET)))
        last = lines(folder / "progress")[-1]
        assert last["samples"] == 9 * (2 * 103 + 3)
    bare, measured = ([line for line in output.splitlines() if line.startswith("case")] for output in outputs)
    assert len(bare) == 9
    assert bare == measured
    told = [line for line in outputs[1].splitlines() if "mlcd:" in line]
    assert 3 <= len(told) <= 5
    assert all(len(line) < 300 for line in told)


def test_a_step_that_has_no_memory_for_measuring_is_not_measured_again(tmp_path: Path) -> None:
    program = """
from mlcd.worker.keras_fit import noise
noise.Schedule.due = lambda self, step: True
tries = []
make = noise.NoiseWatch.__init__

def full(iterator):
    tries.append(1)
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

def watch(self, *of):
    make(self, *of)
    self._measuring = full

noise.NoiseWatch.__init__ = watch
model.compile("adam", loss)
found = model.fit(x[:100], y[:100], batch_size=10, epochs=2, verbose=0)
print("epochs", len(found.history["loss"]), "tries", len(tries), "steps", int(model.optimizer.iterations))

def full(iterator):
    tf.debugging.Assert(False, ["the program's own"])

model.compile("sgd", loss)
model.fit(x, y, verbose=0)
"""
    process = start(MODEL + program, tmp_path, MLCD_NOISE=1, **QUIET)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert "epochs 2 tries 1 steps 20" in output
    assert "there is no memory for measuring it" in output
    assert process.returncode != 0, "what the program itself raises in a step is raised"
    assert "InvalidArgumentError" in output


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

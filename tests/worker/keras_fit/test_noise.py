"""The gradient noise of Keras programs is the known one, however it is measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from worker.programs import finish, start
from worker.sessions import lines

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"),
]

DIMENSIONS, SPREAD = 10, 1.5
# As in worker/pytorch/test_noise.py: a regression at a fixed distance δ of ones from the truth.
SIGNAL = float(DIMENSIONS)
VARIANCE = (DIMENSIONS + 1) * SIGNAL + DIMENSIONS * SPREAD**2

REGRESSION = """
import numpy as np, keras, tensorflow as tf
from mlcd.worker.keras_fit import noise
from mlcd.worker.noise import NoiseMeter

scales = []
noise.Schedule.due = lambda self, step: True
noise.NoiseMeter = lambda: NoiseMeter(scales.append)
random = np.random.default_rng(0)
x = random.normal(size=(32 * 600, 10)).astype("float32")
y = (1.5 * random.normal(size=(len(x), 1)) - x.sum(1, keepdims=True)).astype("float32")

class HalfSquaredError(keras.losses.Loss):
    def call(self, wanted, found):
        return 0.5 * keras.ops.sum((wanted - found) ** 2, axis=-1)

def train(strategy, rate=0.0, precision="float32"):
    keras.config.set_dtype_policy(precision)
    with strategy.scope():
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((10,)), layer])
        model.compile(keras.optimizers.SGD(rate), HalfSquaredError())
    model.fit(x, y, batch_size=32, shuffle=False, verbose=0)
    known = [noise.noise_scale for noise in scales[100:] if noise.noise_scale is not None]
    print("scale", sum(known) / len(known), "groups", scales[-1].groups, "seen", len(scales))
"""


def found(output: str) -> tuple[float, float, int]:
    words = output.split("scale ")[-1].split()
    return float(words[0]), float(words[2]), int(words[4])


def test_splitting_the_batch_finds_the_known_noise_in_half_precision_too(tmp_path: Path) -> None:
    program = f"""{REGRESSION}
for precision in ("float32", "mixed_float16"):
    train(tf.distribute.get_strategy(), precision=precision)
    scales.clear()
"""
    output = finish(start(program, tmp_path, MLCD_NOISE=1, TF_CPP_MIN_LOG_LEVEL="3"))
    single, half = (found(f"scale {part}") for part in output.split("scale ")[1:])
    assert single[1:] == (2, 600)
    assert half[2] > 590, "a step or two overflow and are left out"
    assert single[0] == pytest.approx(VARIANCE / SIGNAL, rel=0.15)
    assert half[0] == pytest.approx(VARIANCE / SIGNAL, rel=0.15)


def test_replicas_find_the_known_noise_and_are_counted(tmp_path: Path) -> None:
    program = f"""{REGRESSION}
config = tf.config.LogicalDeviceConfiguration()
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [config] * 4)
x, y = x[:-5], y[:-5]  # the last batch is shared unevenly
train(tf.distribute.MirroredStrategy([f"CPU:{{number}}" for number in range(4)]))
"""
    scale, groups, _ = found(finish(start(program, tmp_path, MLCD_NOISE=1, TF_CPP_MIN_LOG_LEVEL="3")))
    assert groups == 4
    assert scale == pytest.approx(VARIANCE / SIGNAL, rel=0.15)
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"]) == (600, 32 * 600 - 5)


def test_halves_are_those_of_the_batch_with_embeddings_and_regularisation(tmp_path: Path) -> None:
    """What the probe finds in one pass is what two passes over the halves of the batch find."""
    program = """
import numpy as np, keras, tensorflow as tf
from mlcd.worker.keras_fit.gradient_probe import GradientProbe

words = np.random.default_rng(0).integers(0, 20, (15, 5))
labels = (words.sum(1) > 45).astype("int32")
layers = keras.layers
model = keras.Sequential([
    layers.Embedding(20, 6), layers.GlobalAveragePooling1D(), layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.1)),
])
model.build((None, 5))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.0), loss)

def squared(rows):
    with tf.GradientTape() as tape:
        error = loss(labels[rows], model(words[rows])) + sum(model.losses)
    slopes = tape.gradient(error, [one.value for one in model.trainable_variables])
    return sum(float(tf.reduce_sum(tf.convert_to_tensor(slope) ** 2)) for slope in slopes)

probe = GradientProbe(model)
step = tf.function(probe.measuring(model.train_step))
with probe.watching():
    step((tf.constant(words), tf.constant(labels)))
norms = probe.read()
even, odd = np.arange(0, 15, 2), np.arange(1, 15, 2)
wanted = squared(even) * 8 / 15 + squared(odd) * 7 / 15
print("found", norms.local / wanted, norms.mean / squared(np.arange(15)), norms.local_batch, norms.global_batch)
"""
    output = finish(start(program, tmp_path, TF_CPP_MIN_LOG_LEVEL="3"))
    local, mean, half, whole = (float(word) for word in output.split("found")[1].split())
    assert (half, whole) == (7.5, 15)
    assert local == pytest.approx(1.0, rel=1e-4)
    assert mean == pytest.approx(1.0, rel=1e-4)

"""Keras models and JAX arrays are exchanged between workers in processes of their own, through shared memory."""

from __future__ import annotations

import importlib.util
import shutil
import uuid
from pathlib import Path

import pytest

from mlcd.sync import remove_segments
from worker.programs import finish, start
from worker.sessions import lines

KERAS = """
import numpy as np, keras
from mlcd.sync import join
from mlcd.sync.keras import share

x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
with join() as group:
    share(model, group)
    model.fit(x[group.rank :: 2], x[group.rank :: 2, :1], batch_size=16, epochs=1000, verbose=0)
print("weights", *(f"{weight.sum():.6f}" for weight in model.get_weights()))
"""

JAX = """
import os
os.environ["MLCD_SYNC_KEEP"] = os.path.abspath("kept-" + os.environ["RANK"])
import jax
from mlcd.errors import UserError
from mlcd.sync import join
from mlcd.sync.jax import average, broadcast, keep, restore

with join() as group:
    tree = {"a": jax.numpy.full((3,), float(group.rank)), "b": (jax.numpy.float32(group.rank),)}
    print("mean", average(tree, group)["a"].tolist(), float(broadcast(tree, group, root=1)["b"][0]))
    keep({**tree, "a": tree["a"] + 5}, 7 + group.rank, group)
    newest, step = restore(tree, 0, group)
    print("restored", step, newest["a"].tolist(), float(newest["b"][0]))
    try:
        jax.jit(lambda array: average(array, group))(tree["a"])
    except UserError as error:
        print("refused", error)
"""


KEPT = """
import os
os.environ["MLCD_SYNC_KEEP"] = os.path.abspath("kept-" + os.environ["RANK"])
import numpy as np, keras
from mlcd.sync import join
from mlcd.sync.keras import share

class Lost(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == int(os.environ["LOST_AT"]):
            os._exit(9)

keras.utils.set_random_seed(int(os.environ["RANK"]))
x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
with join(timeout_s=5) as group:
    share(model, group)
    model.fit(x[group.rank :: 2], x[group.rank :: 2, :1], batch_size=16, epochs=1000, verbose=0, shuffle=False, callbacks=[Lost()])
print("weights", int(model.optimizer.iterations), *(f"{weight.sum():.6f}" for weight in model.get_weights()))
"""


def on_two_workers(program: str, folder: Path, **variables: object) -> list[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    place = {"WORLD_SIZE": 2, "MLCD_SYNC_URL": f"shm://{name}", "TF_CPP_MIN_LOG_LEVEL": 3, **variables}
    try:
        return [finish(one) for one in [start(program, folder, RANK=rank, **place) for rank in range(2)]]
    finally:
        remove_segments(name)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed")
def test_keras_workers_stay_alike_and_end_with_the_last_step_of_the_work(tmp_path: Path) -> None:
    first, second = on_two_workers(KERAS, tmp_path, MLCD_WORK_SAMPLES=3200)
    assert first.split("weights")[1] == second.split("weights")[1]
    for rank in range(2):
        last = lines(tmp_path / "progress", rank)[-1]
        assert (last["steps"], last["samples"]) == (100, 1600)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed")
def test_keras_workers_go_on_from_the_last_step_of_those_that_are_left(tmp_path: Path) -> None:
    whole = on_two_workers(KEPT, tmp_path, MLCD_WORK_SAMPLES=640, LOST_AT=-1)
    for folder in tmp_path.glob("kept-*"):
        shutil.rmtree(folder)
    with pytest.raises(AssertionError):
        on_two_workers(KEPT, tmp_path, MLCD_WORK_SAMPLES=640, LOST_AT=16)  # as many steps as two epochs have
    shutil.rmtree(tmp_path / "kept-0")
    (tmp_path / "progress" / "rank-0.jsonl").unlink()
    first, second = on_two_workers(KEPT, tmp_path, MLCD_WORK_SAMPLES=640, LOST_AT=-1)
    assert first.split("weights ")[1] == second.split("weights ")[1] == whole[0].split("weights ")[1]
    assert first.split("weights ")[1].startswith("20 ")
    last = lines(tmp_path / "progress", 0)[-1]
    assert (last["steps"], last["samples"]) == (20, 320)
    again = on_two_workers(KEPT, tmp_path, MLCD_WORK_SAMPLES=640, LOST_AT=-1)
    assert again[0].split("weights ")[1] == first.split("weights ")[1], "all was done: no step more"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_jax_trees_are_averaged_outside_of_jitted_functions_only(tmp_path: Path) -> None:
    for output in on_two_workers(JAX, tmp_path):
        assert "restored 8 [6.0, 6.0, 6.0] 1.0" in output
        assert "mean [0.5, 0.5, 0.5] 1.0" in output
        assert "refused Workers cannot exchange arrays inside a jitted function" in output

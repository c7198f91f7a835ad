"""Ranks of TensorFlow and of JAX agree on the step after which they end, though only one of them was asked to."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
from pathlib import Path

import pytest

from mlcd.worker.service_stores import ServiceStore
from worker.programs import finish, free_port, start, wait_for
from worker.sessions import lines

JAX = """
import os, time
import jax
jax.distributed.initialize(num_processes=2, process_id=int(os.environ["RANK"]))
from jax.experimental import multihost_utils
import numpy as np

def exchange(step):
    multihost_utils.process_allgather(np.array([step]))
"""
TENSORFLOW = """
import time
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()

@tf.function
def add_up(step):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(step,)), axis=None)

def exchange(step):
    add_up(tf.constant(float(step)))
"""
LOOP = """
import mlcd
for step in mlcd.steps([batch] for batch in range(100_000)):
    exchange(step[0])
    time.sleep(0.01)
print("ended after", step[0])
"""
SAVES = """
import mlcd
saved = []
for step in mlcd.steps([number] for number in range(300)):
    exchange(step[0])
    time.sleep(0.005)
    if mlcd.checkpoint_due():
        saved.append(step[0])
print("saved after", *saved)
"""


def test_a_store_counts_and_sets_once() -> None:
    kept: dict[str, str] = {}
    store = ServiceStore(lambda key, value: kept.setdefault(key, value) is value, lambda key, there: kept.get(key))
    assert not store.check(["step"])
    assert store.compare_set("step", "", "seven") == b"seven"
    assert store.compare_set("step", "", "eight") == b"seven"
    assert [store.add("heard", 0), store.add("heard", 1), store.add("heard", 1), store.add("heard", 0)] == [0, 1, 2, 2]
    assert store.check(["step"])


def test_what_was_set_is_told_though_the_service_is_slow() -> None:
    """TensorFlow's says of a key that is there that there is none, where the answer takes longer than one waits for it."""
    kept: dict[str, str] = {}
    insert = lambda key, value: kept.setdefault(key, value) is value  # noqa: E731
    store = ServiceStore(insert, lambda key, there: kept.get(key) if there else None)
    assert not store.check(["step"])
    assert store.compare_set("step", "", "seven") == b"seven"
    assert store.compare_set("step", "", "eight") == b"seven"
    assert store.get("step") == b"seven"


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "program"), [("jax", JAX), ("tensorflow", TENSORFLOW)])
def test_ranks_that_train_in_step_end_after_the_same_one(tmp_path: Path, framework: str, program: str) -> None:
    ranks = start_ranks(program + LOOP, tmp_path, framework)
    progress = tmp_path / "progress"
    wait_for(lambda: (progress / "rank-0.jsonl").exists() and lines(progress)[-1]["steps"] > 5)
    ranks[0].send_signal(signal.SIGTERM)
    ended = [finish(rank).split("ended after")[1].split()[0] for rank in ranks]
    assert ended[0] == ended[1]


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "program"), [("jax", JAX), ("tensorflow", TENSORFLOW)])
def test_ranks_that_train_in_step_save_after_the_same_ones(tmp_path: Path, framework: str, program: str) -> None:
    ranks = start_ranks(program + SAVES, tmp_path, framework, MLCD_SAVE_SECONDS=0.4)
    first, second = [finish(rank).split("saved after")[1].split() for rank in ranks]
    assert first == second
    assert len(first) >= 2, "in at least 1.5 seconds of training"


def start_ranks(program: str, folder: Path, framework: str, **more: object) -> list[subprocess.Popen[str]]:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    return [start_rank(program, folder, rank, addresses, **more) for rank in range(2)]


def start_rank(program: str, folder: Path, rank: int, addresses: list[str], **more: object) -> subprocess.Popen[str]:
    place = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    return start(
        program,
        folder,
        RANK=rank,
        WORLD_SIZE=2,
        JAX_COORDINATOR_ADDRESS=addresses[0],
        TF_CONFIG=json.dumps(place),
        TF_CPP_MIN_LOG_LEVEL=3,
        **more,
    )

"""Keras and JAX programs train on two functions that cannot reach each other as they do in one process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from function_tasks import Field, log_of
from mlcd.core.machines import Deployment
from mlcd.core.task import Task, TaskState

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EPOCHS = 2
GLOBAL_BATCH = 64

pytestmark = pytest.mark.slow


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    opened = Field(tmp_path / "home")
    yield opened
    opened.end_everything()


def trained(field: Field, tmp_path: Path, example: str, platform: str) -> Task:
    """On two functions, to its end."""
    workdir = tmp_path / "program"
    shutil.copytree(EXAMPLES / example, workdir)
    envs = {"EPOCHS": str(EPOCHS), "TF_CPP_MIN_LOG_LEVEL": "3"}
    task = field.task("python train.py", platform=platform, workdir=str(workdir), envs=envs)
    deployment: Deployment = replace(field.deployment(2), batch_size=GLOBAL_BATCH)
    status = field.wait(field.cloud.launch(task, deployment, {}))
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task), log_of(task, 1))
    assert status.progress.samples == EPOCHS * 1408
    return task


def alone(tmp_path: Path, example: str) -> str:
    """What the program prints in one process with the same global batch; its model is in the folder `outputs`."""
    env = {**os.environ, "EPOCHS": str(EPOCHS), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(EXAMPLES / example / "train.py")]
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout


def test_keras_learns_on_two_functions_what_it_learns_in_one_process(field: Field, tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    task = trained(field, tmp_path, "digits_keras_sync", "tensorflow")
    ours, theirs = (keras_losses(log) for log in (log_of(task), alone(tmp_path, "digits_keras_sync")))
    assert ours == pytest.approx(theirs, abs=2e-4)


def keras_losses(log: str) -> list[float]:
    """The validation losses that `fit` prints: of the same images on every rank."""
    words = log.split()
    return [float(words[place + 1]) for place, word in enumerate(words) if word == "val_loss:"]


def test_jax_learns_on_two_functions_what_it_learns_in_one_process(field: Field, tmp_path: Path) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    task = trained(field, tmp_path, "digits_jax_sync", "jax")
    ours, theirs = (losses(log) for log in (log_of(task), alone(tmp_path, "digits_jax_sync")))
    assert len(ours) == EPOCHS
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def losses(log: str) -> list[float]:
    return [float(line.split("loss=")[1]) for line in log.splitlines() if "loss=" in line]

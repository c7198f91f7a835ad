"""The workflows' job files load, and their parts do what their READMEs say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mlcd.core.jobfile import load_job

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["digits_numpy", "dynamic_batching", "online_learning", "architecture_search"])
def test_the_job_file_loads_without_a_word(name: str) -> None:
    loaded = load_job(EXAMPLES / name / "job.yaml")
    assert loaded.notices == ()
    assert (loaded.job.cloud, loaded.job.search.kinds) == ("functions", ("function",))
    assert Path(loaded.job.workdir).resolve() == EXAMPLES / "digits_numpy"


@pytest.mark.slow
def test_the_program_learns_the_digits_as_it_is(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MLCD_")}
    program = EXAMPLES / "digits_numpy" / "train.py"
    subprocess.run([sys.executable, str(program)], cwd=tmp_path, env={**env, "OMP_NUM_THREADS": "1"}, check=True)
    metrics = json.loads((tmp_path / "outputs" / "metrics.json").read_text())
    assert metrics["test_accuracy"] >= 0.95


@pytest.mark.slow
def test_the_program_whose_batch_grows_learns_the_digits_as_it_is(tmp_path: Path) -> None:
    loaded = load_job(EXAMPLES / "dynamic_batching" / "one_job.yaml")
    assert loaded.notices == ()
    env = {name: value for name, value in os.environ.items() if not name.startswith("MLCD_")}
    program = Path(loaded.job.workdir) / "train.py"
    smaller = {"HIDDEN": "64", "GROWS_AT": "20", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(program)], cwd=tmp_path, env={**env, **smaller}, check=True)
    metrics = json.loads((tmp_path / "outputs" / "metrics.json").read_text())
    assert metrics["test_accuracy"] >= 0.95


def test_the_controller_moves_towards_what_did_better() -> None:
    workflow = load("architecture_search")
    controller = workflow.Controller(np.random.default_rng(0))
    for _ in range(20):
        choice = controller.propose()
        controller.learn(choice, reward=0.95 if workflow.WIDTHS[choice] == 128 else 0.9)
    assert workflow.WIDTHS[int(controller.chances.argmax())] == 128


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_workflow", EXAMPLES / name / "workflow.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

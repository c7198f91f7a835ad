"""A small training on functions, what one process makes of it, and functions that are killed."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from function_tasks import Field
from mlcd.clouds.tasks.processes import marked
from mlcd.core.task import Task

PROGRAM = Path(__file__).with_name("numpy_program.py")


def training(field: Field, tmp_path: Path, **envs: str) -> Task:
    workdir = tmp_path / "program"
    workdir.mkdir(exist_ok=True)
    shutil.copy(PROGRAM, workdir / "train.py")
    return field.task("python train.py", workdir=str(workdir), envs=envs)


def curve(log: str) -> dict[int, float]:
    """Step → loss; a step that was done again after a loss counts as it was done last."""
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss (\S+)$", log, re.M)}


def one_process(tmp_path: Path, steps: int) -> dict[int, float]:
    env = {**os.environ, "STEPS": str(steps)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    return curve(done.stdout)


def kill_one(field: Field, chance: random.Random) -> int:
    """Kill every process of one function that is at work; how many functions were killed."""
    alive = sorted(field.environments())
    if not alive:
        return 0
    for pid in marked(chance.choice(alive)):
        os.kill(pid, signal.SIGKILL)
    return 1

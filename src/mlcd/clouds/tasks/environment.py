"""The environment that a task's processes get: the user's own, then where things are, then the platform's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mlcd.clouds.tasks.processes import MARKER
from mlcd.core.task import Task, TaskFolder

# Threads that wait must not spin: on a computer that has other work to do, two spinning threads of a GRU were
# twelve times slower than two that sleep (0.47 against 5.7 steps/s), and on a quiet one it hardly shows.
POLITE_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}


def node_environment(
    task: Task, folder: TaskFolder, marker: Path, secrets: Mapping[str, str]
) -> dict[str, str]:
    """What every process of a task gets; the platform's own variables go on top."""
    return {
        **POLITE_THREADS,
        **_inherited(os.environ),
        "PYTHONUNBUFFERED": "1",  # a log that is read while it is written
        **task.envs,
        **secrets,
        "MLCD_PROGRESS_DIR": str(folder.progress),
        "MLCD_CHECKPOINT_DIR": str(checkpoint_folder(task, folder)),
        "MLCD_OUTPUT_DIR": str(folder.outputs),
        MARKER: str(marker),
    }


def with_bundle(env: Mapping[str, str], bundle: Mapping[str, str]) -> dict[str, str]:
    """The environment with the worker's; its module path goes before the user's, not instead of it."""
    paths = [paths for paths in (bundle.get("PYTHONPATH"), env.get("PYTHONPATH")) if paths]
    joined = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    return {**env, **bundle, **joined}


def checkpoint_folder(task: Task, folder: TaskFolder) -> Path:
    """The job's checkpoints; a task that names none, as a probe does, gets a folder of its own."""
    return Path(task.checkpoints) if task.checkpoints else folder.root / "checkpoints"


def _inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment as their shell has it, with the Python that runs mlcd first where no other is active."""
    env = {name: value for name, value in environ.items() if not name.startswith("MLCD_")}
    in_venv = sys.prefix != sys.base_prefix
    if in_venv and not env.get("VIRTUAL_ENV") and not env.get("CONDA_PREFIX"):
        env["VIRTUAL_ENV"] = sys.prefix
        env["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), env.get("PATH", os.defpath)])
    return env

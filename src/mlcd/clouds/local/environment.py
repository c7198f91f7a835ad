"""The environment that a task's processes get: the user's own, then ours, then the platform's."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from mlcd.clouds.local.processes import MARKER
from mlcd.core.serial import to_data
from mlcd.core.task import Task, TaskFolder
from mlcd.platforms.base import Node

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_LOOPBACK = "lo"


def node_environment(
    task: Task, folder: TaskFolder, marker: Path, node: Node, processes: int, secrets: Mapping[str, str]
) -> dict[str, str]:
    """What every process of a node gets; the platform's own variables go on top."""
    return {
        **_inherited(os.environ),
        **_limits(node, processes),
        **_network(),
        "PYTHONUNBUFFERED": "1",  # a log that is read while it is written
        **task.envs,
        **secrets,
        **_contract(task, folder),
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


def _limits(node: Node, processes: int) -> dict[str, str]:
    """As many threads as there are cores for each process, and only the GPUs that were rented."""
    threads = str(max(1, node.cores // max(1, processes)))
    return {**dict.fromkeys(_THREADS, threads), "CUDA_VISIBLE_DEVICES": ",".join(node.gpus)}


def _network() -> dict[str, str]:
    """All nodes are on this computer: gloo and nccl need not guess the interface from the host's name."""
    known = {name for _, name in socket.if_nameindex()}
    return {"GLOO_SOCKET_IFNAME": _LOOPBACK, "NCCL_SOCKET_IFNAME": _LOOPBACK} if _LOOPBACK in known else {}


def _contract(task: Task, folder: TaskFolder) -> dict[str, str]:
    """What mlcd.worker and the program may rely on, on every cloud."""
    return {
        "MLCD_TASK_ID": task.id,
        "MLCD_JOB_ID": task.job_id,
        "MLCD_PROGRESS_DIR": str(folder.progress),
        "MLCD_CHECKPOINT_DIR": str(checkpoint_folder(task, folder)),
        "MLCD_CHECKPOINT_KEEP": str(task.checkpoint_keep),
        "MLCD_OUTPUT_DIR": str(folder.outputs),
        "MLCD_SAMPLES_BEFORE": f"{task.samples_before:.0f}",
        **({"MLCD_WORK_SAMPLES": f"{task.samples_before + task.samples:.0f}"} if task.samples else {}),
        **({"MLCD_TARGET": json.dumps(to_data(task.until))} if task.until is not None else {}),
    }

"""Variables that every platform gives its processes; the paths are the cloud's."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from ipaddress import ip_address

from mlcd.core.machines import Deployment
from mlcd.core.serial import to_data
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.worker.startup import PLACES

TASK_SECRET = "MLCD_TASK_SECRET"  # noqa: S105  # a variable; all nodes of a task, and nobody else, know it from the cloud
_ROUNDING = 1e-6  # of samples: work is multiplied and divided on its way here
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_PLACE = re.compile(rf"\$\{{?(?:{'|'.join(PLACES)})\b")


def one_process(task: Task, deployment: Deployment, node: Node, more: Mapping[str, str] | None = None) -> Process:
    """The command, once on this node, where it is either a worker or a parameter server."""
    env = {
        **node_environment(task, deployment, node, processes=1),
        **rank_environment(task, deployment, node, processes=1, local_rank=0),
    }
    return Process(task.run, {**env, **(more or {})}, serves=is_server(deployment, node))


def is_server(deployment: Deployment, node: Node) -> bool:
    """Whether the node keeps parameters; the last ones do, so that the first one trains, saves and logs."""
    return node.rank >= deployment.workers


def node_environment(task: Task, deployment: Deployment, node: Node, processes: int) -> dict[str, str]:
    """What all processes of a node have in common; so many run on each that trains."""
    return {
        **contract(task),
        **roles(deployment, node, processes),
        **batch_sizes(deployment, deployment.workers * processes),
        **learning_rate(task, deployment),
        **skypilot_aliases(node),
        "NODE_RANK": str(node.rank),
        "MASTER_ADDR": node.addresses[0],
        "MASTER_PORT": str(node.port),
        "CUDA_VISIBLE_DEVICES": ",".join(node.gpus),  # none rented: none seen
        **unless_chosen(task, dict.fromkeys(_THREADS, str(max(1, node.cores // processes)))),
        **unless_chosen(task, loopback_interface(node)),
    }


def rank_environment(task: Task, deployment: Deployment, node: Node, processes: int, local_rank: int) -> dict[str, str]:
    """Which rank of how many, as torchrun says it; parameter servers, one on a node, come after all workers."""
    workers = deployment.workers * processes
    serving = is_server(deployment, node)
    rank = workers + node.rank - deployment.workers if serving else node.rank * processes + local_rank
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(workers + deployment.servers),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(1 if serving else processes),
        **({"MLCD_PLACE_GIVEN": "1"} if _PLACE.search(task.run) else {}),
    }


def roles(deployment: Deployment, node: Node, processes: int) -> dict[str, str]:
    """Who trains and who serves, where there are parameter servers."""
    if not deployment.servers:
        return {}
    return {
        "MLCD_ROLE": "server" if is_server(deployment, node) else "worker",
        "MLCD_WORKERS": str(deployment.workers * processes),
        "MLCD_SERVERS": str(deployment.servers),
        "MLCD_SERVER_ADDRESSES": ",".join(node.endpoints[deployment.workers :]),
    }


def contract(task: Task) -> dict[str, str]:
    """What mlcd.worker wants to know of the task, whatever the cloud."""
    epoch = {"MLCD_EPOCH_SAMPLES": f"{task.samples_per_epoch:.0f}"} if task.samples_per_epoch > 0 else {}
    target = {"MLCD_TARGET": json.dumps(to_data(task.until))} if task.until is not None else {}
    # With a pattern it is the log that counts, and not the worker.
    watched = task.checkpoint_path and not task.progress.pattern
    saves = {"MLCD_CHECKPOINT_PATH": task.checkpoint_path} if watched else {}
    known = task.samples > 0 or task.all_trained
    total = task.samples_before + task.samples if known else 0.0
    # Never more than was done, and a part of a sample is a whole one: what is trained then is all the work.
    total = math.floor(total) if task.all_trained else math.ceil(total - _ROUNDING)
    return {
        "MLCD_TASK_ID": task.id,
        "MLCD_JOB_ID": task.job_id,
        "MLCD_WORK_SAMPLES": str(total),
        "MLCD_SAMPLES_BEFORE": f"{task.samples_before:.0f}",
        "MLCD_CHECKPOINT_KEEP": str(task.checkpoint_keep),
        **epoch,
        **saves,
        **save_times(task),
        **target,
    }


def save_times(task: Task) -> dict[str, str]:
    """What `mlcd.checkpoint_due()` goes by, where it is known."""
    known = {"MLCD_SAVE_SECONDS": task.save_seconds, "MLCD_LOSS_SECONDS": task.loss_seconds}
    return {name: f"{seconds:.6g}" for name, seconds in known.items() if seconds > 0}


def batch_sizes(deployment: Deployment, ranks: int) -> dict[str, str]:
    """The batch size chosen, and each rank's share: the same for all, or ranks would run out of batches apart."""
    if deployment.batch_size is None:
        return {}
    share = max(1, round(deployment.batch_size / ranks))
    return {"MLCD_BATCH_SIZE": str(deployment.batch_size), "MLCD_LOCAL_BATCH_SIZE": str(share)}


def learning_rate(task: Task, deployment: Deployment) -> dict[str, str]:
    """How the learning rate follows the batch size; adascale is worked out by the worker, from the noise."""
    settings = task.learning_rate
    variables = {
        "MLCD_ACCUMULATION_STEPS": str(deployment.accumulation),
        "MLCD_NOISE": str(int(task.measure_noise)),
    }
    if task.noise_scale is not None:
        variables["MLCD_NOISE_SCALE"] = f"{task.noise_scale:g}"
    if settings.base_batch_size is not None:
        variables["MLCD_BASE_BATCH_SIZE"] = str(settings.base_batch_size)
    return {**variables, "MLCD_LR_RULE": settings.rule.value}


def skypilot_aliases(node: Node) -> dict[str, str]:
    """The names that programs written for SkyPilot look for."""
    return {
        "SKYPILOT_NODE_RANK": str(node.rank),
        "SKYPILOT_NODE_IPS": "\n".join(node.addresses),
        "SKYPILOT_NUM_NODES": str(len(node.addresses)),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(len(node.gpus)),
    }


def loopback_interface(node: Node) -> dict[str, str]:
    """Where all nodes are one computer, say so: gloo and nccl would go by the host's name, which may lead nowhere."""
    if not all(_is_loopback(address) for address in node.addresses):
        return {}
    return dict.fromkeys(_INTERFACES, "lo0" if sys.platform == "darwin" else "lo")


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def unless_chosen(task: Task, variables: dict[str, str]) -> dict[str, str]:
    """Those that the user has not set in the job."""
    return {name: value for name, value in variables.items() if name not in task.envs}

"""PyTorch: DistributedDataParallel by the environment that torchrun would give.

    CPU nodes    one process on each, backend gloo
    GPU nodes    one process for each GPU, backend nccl
    ps           the last nodes run one process each, whose role is to serve; all of them are one world of gloo

A command that brings its own launcher (torchrun, accelerate launch, deepspeed …) is started once on each node instead. It
is not told a rank, which the launcher gives; torchrun takes nodes and address from PET_* variables, so that a plain
`torchrun train.py` becomes a training on all nodes.
"""

from __future__ import annotations

import re

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.environment import is_server, node_environment, rank_environment

_LAUNCHER = re.compile(
    r"(?:^|[\s;&|(/\"'])(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate\s+launch|accelerate\.commands\.launch"
    r"|deepspeed|colossalai\s+run|horovodrun|mpirun)(?=$|[\s;&|)\"'])"
)

# A rank that waits for one that is gone should fail within minutes: nodes cost money while they wait.
_NCCL_TIMEOUTS = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "180"}


class PyTorchPlatform:
    """Runs the command once for each rank of a process group."""

    topologies = (Topology.ALLREDUCE, Topology.PS)
    packages = ("torch*", "lightning", "pytorch_lightning", "accelerate", "transformers")
    launchers = ("torchrun", "torch")

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The ranks of the node, or its launcher."""
        ranks = max(1, len(node.gpus))
        serving = is_server(deployment, node)
        env = {**node_environment(task, deployment, node, ranks), **_backend(task, deployment, node)}
        if has_launcher(task.run):
            return (Process(task.run, {**env, **_torchrun_arguments(node, ranks)}, serving),)
        return tuple(
            Process(task.run, {**env, **rank_environment(task, deployment, node, ranks, rank)}, serving)
            for rank in range(1 if serving else ranks)
        )


def has_launcher(command: str) -> bool:
    """Whether the command starts its ranks itself."""
    bare = "\n".join(line for line in command.splitlines() if not line.lstrip().startswith("#"))
    return _LAUNCHER.search(bare) is not None


def _backend(task: Task, deployment: Deployment, node: Node) -> dict[str, str]:
    if not node.gpus or deployment.servers:
        return {"MLCD_BACKEND": "gloo"}
    timeouts = {name: value for name, value in _NCCL_TIMEOUTS.items() if name not in task.envs}
    return {"MLCD_BACKEND": "nccl", **timeouts}


def _torchrun_arguments(node: Node, ranks: int) -> dict[str, str]:
    """The defaults of torchrun's options; what the command says itself goes before them."""
    return {
        "PET_NNODES": str(len(node.addresses)),
        "PET_NODE_RANK": str(node.rank),
        "PET_NPROC_PER_NODE": str(ranks),
        "PET_MASTER_ADDR": node.addresses[0],
        "PET_MASTER_PORT": str(node.port),
    }

"""TensorFlow: the processes find each other in TF_CONFIG.

    allreduce    MultiWorkerMirroredStrategy: one worker on every node; the first of them is the chief
    ps           ParameterServerStrategy: a TensorFlow server on every node, for a worker or for parameters, and on the
                 first node the chief beside it, which holds the loop and trains through the workers

One process uses all GPUs of its node. A single node gets no TF_CONFIG: a strategy then takes it for the whole cluster.
"""

from __future__ import annotations

import json

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.environment import is_server, node_environment, one_process


class TensorFlowPlatform:
    """Runs the command once on each node, and once more for the chief of parameter servers."""

    topologies = (Topology.ALLREDUCE, Topology.PS)
    packages = ("tensorflow", "keras")

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The processes of the node; the first one logs, saves and counts."""
        if deployment.servers:
            return _chief_and_servers(task, deployment, node)
        cluster = {"worker": list(node.endpoints)}
        config = _config(cluster, "worker", node.rank) if len(node.addresses) > 1 else {}
        return (one_process(task, deployment, node, config),)


def _chief_and_servers(task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
    cluster = {
        "chief": [f"{node.addresses[0]}:{node.port}"],
        "worker": list(node.endpoints[: deployment.workers]),
        "ps": list(node.endpoints[deployment.workers :]),
    }
    serving = is_server(deployment, node)
    place = _config(cluster, "ps" if serving else "worker", node.rank - deployment.workers if serving else node.rank)
    server = _process(task, deployment, node, {**place, "MLCD_ROLE": "server"}, rank=1 + node.rank)
    if node.rank:
        return (server,)
    return _process(task, deployment, node, _config(cluster, "chief", 0), rank=0), server


def _process(task: Task, deployment: Deployment, node: Node, more: dict[str, str], rank: int) -> Process:
    """The chief counts for all, so it is alone in the eyes of who adds up the ranks."""
    alone = {"RANK": str(rank), "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    env = node_environment(task, deployment, node, processes=1)
    return Process(task.run, {**env, **alone, **more}, serves=rank > 0)


def _config(cluster: dict[str, list[str]], kind: str, index: int) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}

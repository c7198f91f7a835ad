"""MXNet: workers, servers and a scheduler, which find each other through DMLC_* variables.

    ps           servers on nodes of their own
    allreduce    a server beside each worker, as MXNet's own launcher does by default: the parameters are spread evenly

All of them run the user's command: in a server or the scheduler `import mxnet` does the work and never returns. The
scheduler is on the first node.
"""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.environment import is_server, one_process


class MXNetPlatform:
    """Runs the command once for each role that a node has."""

    topologies = (Topology.ALLREDUCE, Topology.PS)
    packages = ("mxnet",)

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The node's roles; where it trains, the worker first."""
        process = one_process(task, deployment, node, _cluster(deployment, node))
        return tuple(_in_role(process, role) for role in _roles(deployment, node))


def _roles(deployment: Deployment, node: Node) -> list[str]:
    roles = ["server"] if is_server(deployment, node) else ["worker"]
    if not deployment.servers:
        roles.append("server")
    return [*roles, "scheduler"] if node.rank == 0 else roles


def _cluster(deployment: Deployment, node: Node) -> dict[str, str]:
    return {
        "DMLC_PS_ROOT_URI": node.addresses[0],
        "DMLC_PS_ROOT_PORT": str(node.port),
        "DMLC_NUM_WORKER": str(deployment.workers),
        "DMLC_NUM_SERVER": str(deployment.servers or len(node.addresses)),
        "DMLC_NODE_HOST": node.addresses[node.rank],
    }


def _in_role(process: Process, role: str) -> Process:
    return replace(process, env={**process.env, "DMLC_ROLE": role}, serves=role != "worker")

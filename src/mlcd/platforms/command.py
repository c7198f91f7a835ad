"""Any program: one process on each node, which finds its rank and the other nodes in its environment."""

from __future__ import annotations

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.environment import one_process


class CommandPlatform:
    """Runs the command once on every node."""

    topologies = (Topology.ALLREDUCE, Topology.PS)

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The one process of the node."""
        return (one_process(task, deployment, node),)

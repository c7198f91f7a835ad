"""Any program: one process on each node, which is told where it is and does the rest by itself."""

from __future__ import annotations

from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.environment import node_environment, rank_environment


class CommandPlatform:
    """Runs the command once on every node."""

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The one process of the node."""
        env = {**node_environment(task, deployment, node, processes=1), **rank_environment(node, 1, 0)}
        return (Process(task.run, env),)

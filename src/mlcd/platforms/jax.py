"""JAX: one process on each node, which uses all its devices.

JAX reads the address of the coordinator by itself, the rest is handed to it:

    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
    )

It has no parameter servers: its nodes exchange with each other.
"""

from __future__ import annotations

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.environment import one_process


class JaxPlatform:
    """Runs the command once on every node."""

    topologies = (Topology.ALLREDUCE,)
    packages = ("jax", "flax", "optax")

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The one process of the node."""
        places = {
            "JAX_COORDINATOR_ADDRESS": f"{node.addresses[0]}:{node.port}",
            "JAX_NUM_PROCESSES": str(len(node.addresses)),
            "JAX_PROCESS_ID": str(node.rank),
        }
        return (one_process(task, deployment, node, places),)

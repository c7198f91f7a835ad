"""What process runs on which node with which environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task


@dataclass(frozen=True)
class Node:
    """One machine of a deployment, as the processes on it will see it."""

    rank: int
    addresses: tuple[str, ...]  # of all nodes, by rank
    port: int  # free on the first node; where nodes share an address, so are as many more as there are nodes
    cores: int
    gpus: tuple[str, ...] = ()  # device ids

    @property
    def endpoints(self) -> tuple[str, ...]:
        """A free address and port of each node, by rank, for platforms that want one of every process."""
        return tuple(f"{address}:{self.port + 1 + rank}" for rank, address in enumerate(self.addresses))


@dataclass(frozen=True)
class Process:
    """One process to start on a node."""

    command: str  # for bash
    env: dict[str, str] = field(default_factory=dict)
    serves: bool = False  # for as long as the others work: it is not waited for, and ended after them


@dataclass(frozen=True)
class Tool:
    """A program that a platform starts on every node, beside the user's own."""

    name: str
    install: str  # a line for `setup`
    variable: str = ""  # that says where it is, were it not among the other programs: JAVA_HOME


class Platform(Protocol):
    """An ML platform: PyTorch, any command, …

    Three attributes are optional. Two let mlcd recognise the platform's programs in jobs that name no platform; a `*` stands for
    the rest of a name:

        packages     Python packages that its scripts import, as in ("torch*", "lightning")
        launchers    words of its commands, as in ("torchrun",)
        tools        a Tool for each program that has to be on every node: `mlcd check` says what is missing
    """

    topologies: tuple[Topology, ...]  # how its nodes can exchange what they learn

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The processes of one node."""

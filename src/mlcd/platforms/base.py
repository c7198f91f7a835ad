"""What process runs on which node with which environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from mlcd.core.machines import Deployment
from mlcd.core.task import Task


@dataclass(frozen=True)
class Node:
    """One machine of a deployment, as the processes on it will see it."""

    rank: int
    addresses: tuple[str, ...]  # of all nodes, by rank
    port: int  # free on the first node
    cores: int
    gpus: tuple[str, ...] = ()  # device ids


@dataclass(frozen=True)
class Process:
    """One process to start on a node."""

    command: str  # for bash
    env: dict[str, str] = field(default_factory=dict)


class Platform(Protocol):
    """An ML platform: PyTorch, any command, …"""

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The processes of one node."""
        ...

"""How far a task has come, as its cloud reports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """Steps and samples done, over all ranks, at a moment of the task."""

    seconds: float  # since the task's started_at
    steps: float
    samples: float


@dataclass(frozen=True)
class MetricPoint:
    """A training metric at a moment of the task."""

    seconds: float
    step: float
    name: str
    value: float


@dataclass(frozen=True)
class NodeUsage:
    """What one node uses, as last seen."""

    cpu_share: float = 0.0  # of its cores, 0 to 1
    memory_gib: float = 0.0
    gpu_share: float | None = None  # of its GPUs together; None: it has none, or nobody knows
    gpu_memory_gib: float | None = None  # of the fullest of them
    network_mbps: float | None = None  # received; None: nobody knows which node it was
    peak_memory_gib: float = 0.0
    peak_gpu_memory_gib: float = 0.0


@dataclass(frozen=True)
class Usage:
    """What the nodes used: means but for the peaks."""

    cpu_share: float = 0.0  # of the cores rented, 0 to 1
    peak_memory_gib: float = 0.0  # of the fullest node
    gpu_share: float = 0.0
    peak_gpu_memory_gib: float = 0.0
    network_mbps: float = 0.0  # received by a node
    nodes: tuple[NodeUsage, ...] = ()  # each, by rank; empty: known of all together only

    @classmethod
    def of(cls, nodes: Sequence[NodeUsage | None]) -> Usage:
        """All nodes together, means over those that have been heard of."""
        known = [node for node in nodes if node is not None]
        if not known:
            return cls()
        return cls(
            cpu_share=sum(node.cpu_share for node in known) / len(known),
            peak_memory_gib=max(node.peak_memory_gib for node in known),
            gpu_share=sum(node.gpu_share or 0.0 for node in known) / len(known),
            peak_gpu_memory_gib=max(node.peak_gpu_memory_gib for node in known),
            network_mbps=sum(node.network_mbps or 0.0 for node in known) / len(known),
            nodes=tuple(node or NodeUsage() for node in nodes),
        )


@dataclass(frozen=True)
class Saving:
    """How often a program saves that asks mlcd when to."""

    every_seconds: float
    takes_seconds: float = 0.0  # of the training's time; 0: none was seen yet
    loss_seconds: float = 0.0  # mean time between two losses that this rests on; 0: the job itself says how often


@dataclass(frozen=True)
class Progress:
    """All that is known of a task's progress, oldest point first."""

    points: tuple[Point, ...] = ()
    metrics: tuple[MetricPoint, ...] = ()
    usage: Usage = Usage()
    alone: bool = False  # the ranks do not share the work: each trains the same, which is counted once
    saving: Saving | None = None  # None: the program saves when it wants

    @property
    def steps(self) -> float:
        """Steps done since this task began."""
        return self.points[-1].steps if self.points else 0.0

    @property
    def samples(self) -> float:
        """Samples done since this task began."""
        return self.points[-1].samples if self.points else 0.0

    def latest(self, metric: str) -> float | None:
        """The newest value of a metric."""
        return next((point.value for point in reversed(self.metrics) if point.name == metric), None)

"""What the nodes use of what was rented, sampled twice a second."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mlcd.clouds.local.preparation import LocalNode
from mlcd.clouds.tasks.gpus import GpuUse, gpu_use
from mlcd.clouds.tasks.meter import NodeMeter
from mlcd.clouds.tasks.processes import ProcessInfo, private_bytes, seen
from mlcd.clouds.tasks.sockets import Received, tcp_connections
from mlcd.core.progress import Usage

SAMPLE_SECONDS = 0.5
SLOW_SECONDS = 2.0  # between two looks at GPUs and connections, which cost more than processes
_GIB = 2.0**30


class UsageMeter:
    """Looks at all nodes of a task, which share this computer: the GPUs and connections of each are told apart."""

    def __init__(self, nodes: Sequence[LocalNode], memory_gib: Sequence[float]) -> None:
        self._nodes = nodes
        self._meters = [NodeMeter(node.node.cores) for node in nodes]
        self._received = [Received() for _ in nodes]
        self._memory_bytes = [share * _GIB for share in memory_gib]
        self._sampled_at = self._slow_at = -SLOW_SECONDS
        self._uses: dict[str, GpuUse] = {}
        self.usage = Usage()

    def due(self) -> bool:
        """Whether the next sample is due."""
        return time.monotonic() - self._sampled_at >= SAMPLE_SECONDS

    def sample(self) -> int | None:
        """Look once; the node that has passed its share of memory, if one has."""
        now = self._sampled_at = time.monotonic()
        everyone = seen()
        families = [node.family(everyone) for node in self._nodes]
        if now - self._slow_at >= SLOW_SECONDS:
            self._slow_at = now
            self._look_longer(families)
        for rank, node in enumerate(self._nodes):
            gpus = [self._uses[gpu] for gpu in node.node.gpus if gpu in self._uses]
            self._meters[rank].sample(now, families[rank], gpus, self._received[rank].bytes)
        self.usage = Usage.of([meter.usage for meter in self._meters])
        return next(
            (rank for rank, group in enumerate(families) if self._too_much(group, self._memory_bytes[rank])), None
        )

    def _look_longer(self, families: Sequence[Sequence[ProcessInfo]]) -> None:
        self._uses = {use.id: use for use in gpu_use([gpu for node in self._nodes for gpu in node.node.gpus])}
        connections = tcp_connections()
        for received, group in zip(self._received, families, strict=True):
            received.count(connections, [process.pid for process in group])

    def _too_much(self, group: list[ProcessInfo], most_bytes: float) -> bool:
        """Pages shared by forked workers count once: the exact sum is asked for only when it matters."""
        if not 0 < most_bytes < sum(process.memory_bytes for process in group):
            return False
        return sum(private_bytes(process.pid) for process in group) > most_bytes

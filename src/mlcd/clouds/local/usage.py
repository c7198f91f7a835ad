"""What the nodes use of what was rented, sampled twice a second."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from mlcd.clouds.local.gpus import GpuUse, gpu_use
from mlcd.clouds.local.preparation import LocalNode
from mlcd.clouds.local.sockets import received_bytes, sockets_of
from mlcd.clouds.tasks.processes import Seen, private_bytes, seen
from mlcd.clouds.tasks.window import Window
from mlcd.core.progress import NodeUsage, Usage

SAMPLE_SECONDS = 0.5
SLOW_SECONDS = 2.0  # between two looks at GPUs and connections, which cost more than processes
_GIB = 2.0**30


class NodeMeter:
    """One node: its processes, its GPUs, and what its connections receive."""

    def __init__(self, node: LocalNode) -> None:
        self.node = node
        self.window = Window()
        self.received_bytes = 0.0
        self._known: dict[int, int] = {}  # connections by inode, with what each has received

    def count(self, connections: Mapping[int, int], processes: Sequence[Seen]) -> None:
        """Add what has come in since the last look, by connections that are new too."""
        mine = sockets_of(process.pid for process in processes)
        now = {inode: connections[inode] for inode in mine & connections.keys()}
        self.received_bytes += sum(max(0, count - self._known.get(inode, 0)) for inode, count in now.items())
        self._known = now

    def add(
        self, now: float, processes: Sequence[Seen], uses: Mapping[str, GpuUse], networked: bool
    ) -> NodeUsage:
        """Look at its processes; gives what it uses."""
        gpus = [uses[gpu] for gpu in self.node.node.gpus if gpu in uses]
        share = sum(use.share for use in gpus) / len(gpus) if gpus else 0.0
        cpu_seconds = sum(process.cpu_seconds for process in processes)
        self.window.add(now, cpu_seconds, self.received_bytes, share)
        return NodeUsage(
            cpu_share=self.window.cpu_share(self.node.node.cores),
            memory_gib=sum(process.memory_bytes for process in processes) / _GIB,
            gpu_share=self.window.gpu_share() if gpus else None,
            gpu_memory_gib=max(use.memory_gib for use in gpus) if gpus else None,
            network_mbps=self.window.network_mbps() if networked else None,
        )


class UsageMeter:
    """Adds up the samples; means are of a sliding window, peaks of all time."""

    def __init__(self, nodes: Sequence[LocalNode], memory_gib: float) -> None:
        self._meters = [NodeMeter(node) for node in nodes]
        self._memory_bytes = memory_gib * _GIB
        self._cores = sum(node.node.cores for node in nodes)
        self._gpus = [gpu for node in nodes for gpu in node.node.gpus]
        self._all = Window()
        self._sampled_at = self._slow_at = -SLOW_SECONDS
        self._uses: dict[str, GpuUse] = {}
        self._networked = False
        self.usage = Usage()

    def due(self) -> bool:
        """Whether the next sample is due."""
        return time.monotonic() - self._sampled_at >= SAMPLE_SECONDS

    def sample(self) -> int | None:
        """Look once; the node that has passed its share of memory, if one has."""
        now = self._sampled_at = time.monotonic()
        everyone = seen()
        families = [meter.node.family(everyone) for meter in self._meters]
        if now - self._slow_at >= SLOW_SECONDS:
            self._slow_at = now
            self._look_longer(families)
        pairs = list(zip(self._meters, families, strict=True))
        nodes = [meter.add(now, group, self._uses, self._networked) for meter, group in pairs]
        self.usage = self._together(now, tuple(nodes))
        return next((rank for rank, group in enumerate(families) if self._too_much(group)), None)

    def _look_longer(self, families: Sequence[Sequence[Seen]]) -> None:
        self._uses = {use.id: use for use in gpu_use(self._gpus)}
        connections = received_bytes()
        self._networked = connections is not None
        for meter, group in zip(self._meters, families, strict=True):
            meter.count(connections or {}, group)

    def _together(self, now: float, nodes: tuple[NodeUsage, ...]) -> Usage:
        """All nodes as one; of the network what their own connections received, by node as on machines elsewhere."""
        shares = [use.share for use in self._uses.values()]
        cpu_seconds = sum(meter.window.cpu_seconds for meter in self._meters)
        received = sum(meter.received_bytes for meter in self._meters) / len(self._meters)
        self._all.add(now, cpu_seconds, received, sum(shares) / len(shares) if shares else 0.0)
        before = self.usage
        gpu_memory = max((use.memory_gib for use in self._uses.values()), default=0.0)
        return Usage(
            cpu_share=self._all.cpu_share(self._cores),
            peak_memory_gib=max([before.peak_memory_gib, *(node.memory_gib for node in nodes)]),
            gpu_share=self._all.gpu_share(),
            peak_gpu_memory_gib=max(before.peak_gpu_memory_gib, gpu_memory),
            network_mbps=self._all.network_mbps(),
            nodes=nodes,
        )

    def _too_much(self, group: list[Seen]) -> bool:
        """Pages shared by forked workers count once: the exact sum is asked for only when it matters."""
        if not 0 < self._memory_bytes < sum(process.memory_bytes for process in group):
            return False
        return sum(private_bytes(process.pid) for process in group) > self._memory_bytes

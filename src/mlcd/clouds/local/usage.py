"""What the nodes use of what was rented, sampled twice a second."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.local.gpus import gpu_use
from mlcd.clouds.local.nodes import LocalNode
from mlcd.clouds.local.processes import Seen, private_bytes, seen
from mlcd.core.progress import Usage

SAMPLE_SECONDS = 0.5
GPU_SECONDS = 2.0
WINDOW_SECONDS = 30.0  # the means are of the last half minute
_GIB = 2.0**30


@dataclass(frozen=True)
class _Sample:
    at: float
    cpu_seconds: float
    network_bytes: float
    gpu_share: float


class UsageMeter:
    """Adds up the samples; means are of a sliding window, peaks of all time."""

    def __init__(self, nodes: Sequence[LocalNode], memory_gib: float) -> None:
        self._nodes = nodes
        self._memory_bytes = memory_gib * _GIB
        self._cores = sum(node.node.cores for node in nodes)
        self._gpus = [gpu for node in nodes for gpu in node.node.gpus]
        self._samples: deque[_Sample] = deque()
        self._gpu_at = 0.0
        self._gpu_share = 0.0
        self.usage = Usage()

    def due(self) -> bool:
        """Whether it is time to look again."""
        return not self._samples or time.monotonic() - self._samples[-1].at >= SAMPLE_SECONDS

    def sample(self) -> int | None:
        """Look once; the node that has passed its share of memory, if one has."""
        everyone = seen()
        families = [node.family(everyone) for node in self._nodes]
        memory = [sum(process.memory_bytes for process in group) for group in families]
        gpu_memory_gib = self._look_at_gpus()
        self._add(sum(process.cpu_seconds for group in families for process in group))
        self.usage = self._means(max([*memory, 0]) / _GIB, gpu_memory_gib)
        return next(
            (rank for rank, group in enumerate(families) if self._too_much(memory[rank], group)), None
        )

    def _too_much(self, resident_bytes: float, group: list[Seen]) -> bool:
        """Pages shared by forked workers count once: the exact sum is asked for only when it matters."""
        if not 0 < self._memory_bytes < resident_bytes:
            return False
        return sum(private_bytes(process.pid) for process in group) > self._memory_bytes

    def _add(self, cpu_seconds: float) -> None:
        now = time.monotonic()
        floor = self._samples[-1].cpu_seconds if self._samples else 0.0  # what ended is no longer counted
        self._samples.append(_Sample(now, max(floor, cpu_seconds), network_bytes(), self._gpu_share))
        while now - self._samples[0].at > WINDOW_SECONDS:
            self._samples.popleft()

    def _means(self, memory_gib: float, gpu_memory_gib: float) -> Usage:
        first, last = self._samples[0], self._samples[-1]
        seconds = max(last.at - first.at, 1e-9)
        enough = len(self._samples) > 1
        busy = (last.cpu_seconds - first.cpu_seconds) / seconds / max(1, self._cores)
        return Usage(
            cpu_share=min(1.0, busy) if enough else 0.0,
            peak_memory_gib=max(self.usage.peak_memory_gib, memory_gib),
            gpu_share=sum(sample.gpu_share for sample in self._samples) / len(self._samples),
            peak_gpu_memory_gib=max(self.usage.peak_gpu_memory_gib, gpu_memory_gib),
            network_mbps=(last.network_bytes - first.network_bytes) * 8 / 1e6 / seconds if enough else 0.0,
        )

    def _look_at_gpus(self) -> float:
        """Take note of how busy the GPUs are; memory of the fullest."""
        if not self._gpus or time.monotonic() - self._gpu_at < GPU_SECONDS:
            return 0.0
        self._gpu_at = time.monotonic()
        uses = gpu_use(self._gpus)
        self._gpu_share = sum(use.share for use in uses) / len(uses) if uses else 0.0
        return max((use.memory_gib for use in uses), default=0.0)


def network_bytes(table: Path = Path("/proc/net/dev")) -> float:
    """Bytes received over all interfaces of this computer: between its own nodes they go over the loopback."""
    try:
        rows = [line.split(":", 1)[1].split() for line in table.read_text().splitlines() if ":" in line]
    except OSError:
        return 0.0
    return float(sum(int(row[0]) for row in rows))

"""What a node uses of what was rented: its processes, its GPUs and its network.

It travels to machines and into functions: standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mlcd.clouds.tasks.gpus import GpuUse
from mlcd.clouds.tasks.processes import ProcessInfo
from mlcd.core.progress import NodeUsage

WINDOW_SECONDS = 30.0
NETWORK_SECONDS = 6.0  # shorter: what a program sends while it starts says nothing of its steps
_GIB = 2.0**30


@dataclass(frozen=True)
class _Sample:
    at: float
    cpu_seconds: float  # used so far
    received_bytes: float | None  # so far
    gpu_share: float | None


class NodeMeter:
    """Adds up samples of one node; means are over the last half minute, of the network over seconds, peaks of all time."""

    def __init__(self, cores: float) -> None:
        self._cores = cores
        self._samples: deque[_Sample] = deque()
        self._running_seconds = 0.0  # of CPU, by the processes of the last sample
        self.usage = NodeUsage()

    def sample(
        self,
        now: float,
        processes: Sequence[ProcessInfo],
        gpus: Sequence[GpuUse] = (),
        received_bytes: float | None = None,
    ) -> NodeUsage:
        """Add what is seen now; `received_bytes` so far, None: nobody knows."""
        gpu_share = sum(use.share for use in gpus) / len(gpus) if gpus else None
        self._add(_Sample(now, self._used_by(processes), received_bytes, gpu_share))
        memory_gib = sum(process.memory_bytes for process in processes) / _GIB
        gpu_memory_gib = max((use.memory_gib for use in gpus), default=0.0)
        self.usage = NodeUsage(
            cpu_share=min(1.0, (self._rate("cpu_seconds") or 0.0) / self._cores),
            memory_gib=memory_gib,
            gpu_share=self._mean_gpu_share(),
            gpu_memory_gib=gpu_memory_gib if gpus else None,
            network_mbps=self._network_mbps(),
            peak_memory_gib=max(self.usage.peak_memory_gib, memory_gib),
            peak_gpu_memory_gib=max(self.usage.peak_gpu_memory_gib, gpu_memory_gib),
        )
        return self.usage

    def _used_by(self, processes: Sequence[ProcessInfo]) -> float:
        """CPU seconds so far; what has ended is no longer listed, but was used."""
        before = self._running_seconds
        self._running_seconds = sum(process.cpu_seconds for process in processes)
        used = self._samples[-1].cpu_seconds if self._samples else 0.0
        return used + max(0.0, self._running_seconds - before)

    def _add(self, sample: _Sample) -> None:
        self._samples.append(sample)
        while sample.at - self._samples[0].at > WINDOW_SECONDS:
            self._samples.popleft()

    def _rate(self, name: str, seconds: float = WINDOW_SECONDS) -> float | None:
        """How much a count grows in a second, over so many seconds if it was seen so long; None: it is not known."""
        last = self._samples[-1]
        first = next((each for each in reversed(self._samples) if last.at - each.at >= seconds), self._samples[0])
        old, new = getattr(first, name), getattr(last, name)
        return None if old is None or new is None else float((new - old) / max(last.at - first.at, 1e-9))

    def _network_mbps(self) -> float | None:
        rate = self._rate("received_bytes", NETWORK_SECONDS)
        return None if rate is None else rate * 8 / 1e6

    def _mean_gpu_share(self) -> float | None:
        shares = [sample.gpu_share for sample in self._samples if sample.gpu_share is not None]
        return sum(shares) / len(shares) if shares else None

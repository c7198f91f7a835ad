"""Means over the last half minute of what a node uses. It travels: standard library only, Python 3.9 or newer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW_SECONDS = 30.0


@dataclass(frozen=True)
class _Sample:
    at: float
    cpu_seconds: float
    received_bytes: float
    gpu_share: float = 0.0


class Window:
    """The samples of the last half minute."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def add(self, now: float, cpu_seconds: float, received: float, gpu_share: float) -> None:
        """One more; what has ended is no longer counted, but it was used."""
        floor = self._samples[-1].cpu_seconds if self._samples else 0.0
        self._samples.append(_Sample(now, max(floor, cpu_seconds), received, gpu_share))
        while now - self._samples[0].at > WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def cpu_seconds(self) -> float:
        """Used so far."""
        return self._samples[-1].cpu_seconds if self._samples else 0.0

    def cpu_share(self, cores: float) -> float:
        """Of these cores."""
        busy = self._last.cpu_seconds - self._first.cpu_seconds
        return min(1.0, busy / self._seconds / max(1, cores))

    def network_mbps(self) -> float:
        """Received."""
        return (self._last.received_bytes - self._first.received_bytes) * 8 / 1e6 / self._seconds

    def gpu_share(self) -> float:
        """Of the GPUs that were looked at."""
        return sum(sample.gpu_share for sample in self._samples) / len(self._samples)

    @property
    def _first(self) -> _Sample:
        return self._samples[0]

    @property
    def _last(self) -> _Sample:
        return self._samples[-1]

    @property
    def _seconds(self) -> float:
        return max(self._last.at - self._first.at, 1e-9)

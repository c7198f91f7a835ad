"""How busy a machine is with its node: the program's processes, the GPUs, and what these receive over the network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from mlcd.clouds.tasks.gpus import GpuUse, gpu_use
from mlcd.clouds.tasks.meter import NodeMeter
from mlcd.clouds.tasks.processes import ProcessInfo
from mlcd.clouds.tasks.sockets import Received, tcp_connections
from mlcd.core.progress import NodeUsage

GPU_SECONDS = 5.0  # between two looks at the GPUs, which cost more than processes
CONNECTIONS_SECONDS = 1.5  # and at connections


class MachineMeter:
    """A node that has its machine for itself."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._meter = NodeMeter(max(1.0, spec["cores"]))
        self._gpus = [str(number) for number in range(spec["gpus"])]
        self._uses: Sequence[GpuUse] = ()
        self._received = Received()
        self._used_at = self._counted_at = -GPU_SECONDS

    def sample(self, processes: Sequence[ProcessInfo]) -> NodeUsage:
        """Look once."""
        now = time.monotonic()
        if now - self._used_at >= GPU_SECONDS:
            self._used_at, self._uses = now, gpu_use(self._gpus)
        if now - self._counted_at >= CONNECTIONS_SECONDS:
            self._counted_at = now
            self._received.count(tcp_connections(), [process.pid for process in processes])
        return self._meter.sample(now, processes, self._uses, self._received.bytes)

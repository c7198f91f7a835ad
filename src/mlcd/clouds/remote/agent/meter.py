"""How busy a machine is with its node: the program's processes, the GPUs, and all that comes over the network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.gpus import GpuUse, gpu_use
from mlcd.clouds.tasks.meter import NodeMeter
from mlcd.clouds.tasks.processes import ProcessInfo
from mlcd.core.progress import NodeUsage

GPU_SECONDS = 5.0  # between two looks at the GPUs, which cost more than processes


class MachineMeter:
    """A node that has its machine for itself."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._meter = NodeMeter(max(1.0, spec["cores"]))
        self._gpus = [str(number) for number in range(spec["gpus"])]
        self._uses: Sequence[GpuUse] = ()
        self._used_at = -GPU_SECONDS

    def sample(self, processes: Sequence[ProcessInfo]) -> NodeUsage:
        """Look once."""
        now = time.monotonic()
        if now - self._used_at >= GPU_SECONDS:
            self._used_at, self._uses = now, gpu_use(self._gpus)
        return self._meter.sample(now, processes, self._uses, received_bytes())


def received_bytes(table: Path = Path("/proc/net/dev")) -> float:
    """Bytes received from other machines."""
    try:
        lines = [line.split(":", 1) for line in table.read_text().splitlines() if ":" in line]
    except OSError:
        return 0.0
    return float(sum(int(rest.split()[0]) for name, rest in lines if name.strip() != "lo"))

"""How busy a node is, from /proc and, where it has GPUs, nvidia-smi."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.processes import family, seen
from mlcd.clouds.tasks.window import Window

GPU_SECONDS = 5.0
_GIB = 2**30
_QUERY = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]


class Meter:
    """Adds up samples; means are of a sliding window, peaks of all time."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._cores = max(1.0, spec["cores"])
        self._gpus = spec["gpus"]
        self._window = Window()
        self._peak_bytes = 0
        self._gpu_at = 0.0
        self._gpu_share = 0.0
        self._gpu_peak_gib = 0.0

    def read(self, roots: set[int]) -> dict[str, float]:
        """The node's use by now, in the words of mlcd.core.progress.Usage."""
        group = family(roots, seen())
        memory_bytes = sum(process.memory_bytes for process in group)
        self._peak_bytes = max(self._peak_bytes, memory_bytes)
        cpu_seconds = sum(process.cpu_seconds for process in group)
        self._look_at_gpus()
        self._window.add(time.monotonic(), cpu_seconds, received_bytes(), self._gpu_share)
        return {
            "cpu_share": self._window.cpu_share(self._cores),
            "memory_gib": memory_bytes / _GIB,
            "peak_memory_gib": self._peak_bytes / _GIB,
            "gpus": float(self._gpus),
            "gpu_share": self._gpu_share,
            "peak_gpu_memory_gib": self._gpu_peak_gib,
            "network_mbps": self._window.network_mbps(),
        }

    def _look_at_gpus(self) -> None:
        if not self._gpus or time.monotonic() - self._gpu_at < GPU_SECONDS:
            return
        self._gpu_at = time.monotonic()
        with suppress(OSError, subprocess.SubprocessError, ValueError):
            text = subprocess.run(_QUERY, capture_output=True, text=True, timeout=3, check=True).stdout
            rows = [[float(cell) for cell in line.split(",")] for line in text.splitlines()]
            self._gpu_share = sum(row[0] for row in rows) / len(rows) / 100.0 if rows else 0.0
            self._gpu_peak_gib = max([self._gpu_peak_gib, *(row[1] / 1024.0 for row in rows)])


def received_bytes(table: Path = Path("/proc/net/dev")) -> float:
    """Bytes received from other machines."""
    try:
        lines = [line.split(":", 1) for line in table.read_text().splitlines() if ":" in line]
    except OSError:
        return 0.0
    return float(sum(int(rest.split()[0]) for name, rest in lines if name.strip() != "lo"))

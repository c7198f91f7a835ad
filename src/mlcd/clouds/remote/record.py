"""How a task stands, kept on disk by its courier."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import Machines
from mlcd.clouds.remote.bringing import Bringer
from mlcd.clouds.remote.files import Spec, State, TaskFiles
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.tasks.files import working_folder
from mlcd.clouds.tasks.following import Follower
from mlcd.core.progress import NodeUsage, Usage
from mlcd.errors import MlcdError

BEAT_SECONDS = 0.5


class Record:
    """The one writer of a task's state while its courier lives, and what the courier works with."""

    def __init__(self, files: TaskFiles, spec: Spec, machines: Machines) -> None:
        self.files = files
        self.spec = spec
        self.task = spec.task
        self.folder = working_folder(spec.task, files)
        self.home = Path(spec.home)
        self.machines = machines
        self.nodes: list[RemoteNode] = []
        self.state = files.read_state() or State()
        self._received_before = self.state.received_bytes  # by couriers before us
        self._beat_at = 0.0
        self._told_at = time.monotonic()

    def change(self, **facts: Any) -> None:
        """Write down what has changed."""
        self._beat_at = time.monotonic()
        self.state = replace(self.state, **facts)
        self.files.write_state(self.state)

    def beat(self) -> None:
        """Renew the leases and give a sign of life, not too often."""
        if time.monotonic() - self._beat_at < BEAT_SECONDS:
            return
        if self.state.agents:
            for node in self.nodes:
                node.wants_lease(self.machines.lease_seconds)
            self._tell_seller()
        self.change(usage=usage_of(self.nodes), received_bytes=self.received_bytes)

    def _tell_seller(self) -> None:
        """Have the seller's books say how long the leases run, for whoever looks from elsewhere."""
        if time.monotonic() - self._told_at > self.machines.lease_seconds / 4:
            self._told_at = time.monotonic()
            with suppress(MlcdError):
                self.machines.renewed(self.state.machines, time.time() + self.machines.lease_seconds)

    @property
    def checkpoints(self) -> Path:
        """Where committed checkpoints go."""
        return Path(self.task.checkpoints) if self.task.checkpoints else self.folder.root / "checkpoints"

    @property
    def received_bytes(self) -> int:
        """What came from the machines, to all couriers of the task."""
        return self._received_before + sum(node.received_bytes for node in self.nodes)

    def bringer(self) -> Bringer:
        """Who brings checkpoints home from the first node."""
        follower = Follower(self.spec, self.folder, self.state.started_at or time.time())
        keep = self.task.checkpoint_keep
        return Bringer(self.nodes[0], self.checkpoints, keep, follower.samples_at, self.task.id)


def usage_of(nodes: list[RemoteNode]) -> Usage:
    """Means over the nodes, peaks of the fullest, and each node by itself."""
    uses = [node.agent.get("usage") or {} for node in nodes]
    known = [use for use in uses if use]
    if not known:
        return Usage()
    means = {name: _mean(known, name) for name in ("cpu_share", "gpu_share", "network_mbps")}
    peaks = {name: max(use[name] for use in known) for name in ("peak_memory_gib", "peak_gpu_memory_gib")}
    return Usage(**means, **peaks, nodes=tuple(_one(use) for use in uses))


def _mean(uses: list[dict[str, float]], name: str) -> float:
    return sum(use[name] for use in uses) / len(uses)


def _one(use: dict[str, float]) -> NodeUsage:
    return NodeUsage(
        cpu_share=use.get("cpu_share", 0.0),
        memory_gib=use.get("memory_gib", 0.0),
        gpu_share=use.get("gpu_share") if use.get("gpus") else None,
        gpu_memory_gib=use.get("peak_gpu_memory_gib") if use.get("gpus") else None,
        network_mbps=use.get("network_mbps", 0.0),
    )

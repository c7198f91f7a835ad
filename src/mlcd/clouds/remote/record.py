"""How a task stands, kept on disk by its runner."""

from __future__ import annotations

import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import Machine, Machines
from mlcd.clouds.remote.download import Downloader
from mlcd.clouds.remote.files import Spec, State, TaskFiles
from mlcd.clouds.remote.lease import Lease
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.tasks.files import checkpoint_folder, working_folder
from mlcd.clouds.tasks.progress import Follower
from mlcd.clouds.tasks.recorder import Recorder
from mlcd.core.progress import Usage
from mlcd.errors import MlcdError

LEASE_SECONDS = 1.0  # how often the leases are looked at


class Record(Recorder[State]):
    """The state of a task on disk, its machines and their leases."""

    files: TaskFiles

    def __init__(self, files: TaskFiles, spec: Spec, machines: Machines) -> None:
        super().__init__(files, files.read_state() or State())
        self.spec = spec
        self.task = spec.task
        self.folder = working_folder(spec.task, files)
        self.checkpoints = checkpoint_folder(spec.task, self.folder)
        self.home = Path(spec.home)
        self.machines = machines
        self.nodes: list[RemoteNode] = []
        self._received_before = self.state.received_bytes  # by runners before us
        self._told_at = time.monotonic()
        self._leases: dict[str, Lease] = {}  # by the machine's id
        self._left = threading.Event()  # the leases are renewed no more

    def beat(self, **facts: Any) -> None:
        """Give a sign of life, not too often."""
        super().beat(usage=Usage.of([node.usage for node in self.nodes]), received_bytes=self.received_bytes, **facts)

    def lease_of(self, machine: Machine) -> Lease:
        """Its lease, which is renewed over a connection of its own once it is held."""
        if machine.id not in self._leases:
            reach, seconds = self.machines.reach(machine), self.machines.lease_seconds
            self._leases[machine.id] = Lease(reach, self.machines.control, seconds)
        return self._leases[machine.id]

    def watch_leases(self) -> None:
        """Record the leases, in a thread: it must go on however long something is sent or fetched."""
        threading.Thread(target=self._watch_leases, name="leases", daemon=True).start()

    def leave_leases(self) -> None:
        """Renew no lease any more: the machines are to be given back."""
        self._left.set()
        for lease in self._leases.values():
            lease.close()
        self._write_leases()

    def _watch_leases(self) -> None:
        while not self._left.wait(LEASE_SECONDS):
            try:
                self._write_leases()
                self._tell_provider()
            except Exception:  # whatever it is, the next renewal must be told
                traceback.print_exc()

    def _write_leases(self) -> None:
        """Write down until when each machine lives without us, for the bill of whoever finds it gone."""
        renewed = {id_: lease.until for id_, lease in self._leases.copy().items() if lease.until}
        if self.state.machines and not renewed.items() <= self.state.leased_until.items():
            self.change(leased_until={**self.state.leased_until, **renewed})

    def _tell_provider(self) -> None:
        """Have the provider's records say how long the leases run; for some providers these records are the lease."""
        renewed = max((lease.until for lease in self._leases.copy().values()), default=0.0)
        due = time.monotonic() - self._told_at > self.machines.lease_seconds / 4
        if due and renewed and self.state.machines:
            self._told_at = time.monotonic()
            with suppress(MlcdError):
                self.machines.renewed(self.state.machines, renewed)

    @property
    def received_bytes(self) -> int:
        """What came from the machines, to all runners of the task."""
        return self._received_before + sum(node.received_bytes for node in self.nodes)

    def downloader(self) -> Downloader:
        """Downloads checkpoints from the first node."""
        started_at = self.state.started_at or time.time()
        follower = Follower(self.spec, self.folder, started_at, self.state.clock_ahead)
        keep = self.task.checkpoint_keep
        return Downloader(self.nodes[0], self.checkpoints, keep, follower.trained_at, self.task.id)

"""Makes the hosts match the API, and the API match the hosts.

the API has an instance without a host      → a host boots, then the instance runs
the API ended an instance                   → its host goes
a host powered itself off                   → its instance is terminated or stopped, as it was launched to be
a host died                                 → its instance is terminated, with the reason
a spot instance's notice has run out        → both go
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlcd.errors import CloudError
from mlcd_emulate.api.account import Account, set_ended, set_state
from mlcd_emulate.cgroups import Cgroups
from mlcd_emulate.emulation import Emulation
from mlcd_emulate.host import BOOTS_AGAIN, POWERED_OFF
from mlcd_emulate.machine import Machine, build_machine
from mlcd_emulate.shares import Shares

STEP_S = 0.1
_AT_ONCE = 8  # hosts that are made side by side
_LOG = logging.getLogger(__name__)


@dataclass
class Reconciler:
    """The hosts of one emulation."""

    emulation: Emulation
    account: Account
    cgroups: Cgroups
    shares: Shares
    vcpus_per_core: float
    private: Sequence[Path] = ()
    owner: int = 0  # a process that the emulation does not outlive; 0: none
    machines: dict[str, Machine] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)
    _starting: dict[str, Future[None]] = field(default_factory=dict)
    _leaving: dict[str, Future[None]] = field(default_factory=dict)
    _workers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_AT_ONCE))

    def run(self) -> None:
        """Reconcile until asked to end, or until the owner has ended; then remove every host."""
        while not self.ending.wait(STEP_S) and self._owned():
            self.step()
        self.ending.set()
        self.remove_all()
        self.shares.close()

    def step(self) -> None:
        """Reconcile once."""
        alive = {each.id: each for each in self.account.alive()}
        for instance_id in alive.keys() - self.machines.keys() - self._leaving.keys():
            self._start(alive[instance_id])
        for machine in list(self.machines.values()):
            try:
                with self.account.lock:
                    self._reconcile(machine)
            except (CloudError, OSError):
                _LOG.exception("%s could not be reconciled", machine.id)
        for instance_id in [each for each in self.machines if not _lives(self.machines[each])]:
            self._remove(instance_id)
        self._forget_removed()

    def remove_all(self) -> None:
        """Remove every host, and wait until that is done."""
        for instance_id in list(self.machines):
            self._remove(instance_id)
        self._workers.shutdown(wait=True)

    def console(self, instance_id: str) -> str:
        """What a host said while booting."""
        machine = self.machines.get(instance_id)
        file = machine.host.console if machine else None
        return file.read_text(errors="replace") if file and file.exists() else ""

    def _owned(self) -> bool:
        return not self.owner or Path(f"/proc/{self.owner}").exists()

    def _start(self, instance: Any) -> None:
        machine = build_machine(
            instance,
            self.account,
            self.emulation,
            self.cgroups,
            self.shares,
            self.private,
            self.vcpus_per_core,
        )
        self.machines[instance.id] = machine
        self._starting[instance.id] = self._workers.submit(machine.start)
        _LOG.info("%s starts at %s", instance.id, machine.address)

    def _reconcile(self, machine: Machine) -> None:
        """Make one machine and its instance match."""
        starting = self._starting.get(machine.id)
        if starting and not starting.done():
            return
        if starting:
            self._started(machine, self._starting.pop(machine.id))
        elif machine.reclaim_at is not None and time.time() >= machine.reclaim_at:
            set_ended(machine.instance, "Server.SpotInstanceTermination", "Spot instance termination")
        elif machine.host.ended() is not None:
            _set_ended_or_reboot(machine, machine.host.ended() or 0)

    def _started(self, machine: Machine, starting: Future[None]) -> None:
        error = starting.exception()
        if error:
            _LOG.error("%s did not start", machine.id, exc_info=error)
            set_ended(machine.instance, "Server.InternalError", f"Internal error on launch: {error}")
        elif machine.instance.state == "pending":
            set_state(machine.instance, "running")

    def _remove(self, instance_id: str) -> None:
        machine = self.machines.pop(instance_id)
        starting = self._starting.pop(instance_id, None)
        self._leaving[instance_id] = self._workers.submit(_remove_machine, machine, starting)

    def _forget_removed(self) -> None:
        for instance_id in [each for each, leaving in self._leaving.items() if leaving.done()]:
            error = self._leaving.pop(instance_id).exception()
            _LOG.log(logging.ERROR if error else logging.INFO, "%s is gone", instance_id, exc_info=error)


def _lives(machine: Machine) -> bool:
    return machine.instance.state in ("pending", "running")


def _set_ended_or_reboot(machine: Machine, status: int) -> None:
    """Record in the API why a host ended, or boot it again."""
    if status in BOOTS_AGAIN:
        machine.host.boot()
    elif status in POWERED_OFF:
        stays = machine.instance.instance_initiated_shutdown_behavior != "terminate"
        set_ended(machine.instance, "Client.InstanceInitiatedShutdown", "Instance initiated shutdown", stays)
    else:
        _LOG.error("%s died with status %d: %s", machine.id, status, machine.host.console_tail())
        set_ended(machine.instance, "Server.InternalError", f"The host died (status {status})")


def _remove_machine(machine: Machine, starting: Future[None] | None) -> None:
    """Remove a machine once it has finished starting: half a host is removed as a whole one is."""
    if starting:
        try:
            starting.result()
        except (CloudError, OSError):
            _LOG.info("%s had not started", machine.id)
    machine.remove()

"""Machines for rent on this computer whose provider is asked too often, for as long as a file is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopback_machines import LoopbackCloud, LoopbackMachines
from mlcd.clouds.remote.base import BusyError, Machine, Notes
from mlcd.core.machines import Deployment


class BusyMachines(LoopbackMachines):
    """A provider with too many customers."""

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """Not now."""
        self._record("asked", task_id)
        self._refuse_if("busy")
        rented = super().acquire(task_id, job_id, deployment, had)
        return [replace(machine, host="") for machine in rented]

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """Where they are is told by the provider alone."""
        self._record("located", machines[0].id)
        self._refuse_if("busy_locating")
        return [replace(machine, host="127.0.0.1") for machine in machines]

    def adopt(self, machines: Sequence[Machine], task_id: str) -> None:
        """Write down whose they are now, where there are any."""
        if machines:
            self._record("adopt", machines[0].id)
            self._refuse_if("busy")
        super().adopt(machines, task_id)

    def _refuse_if(self, name: str) -> None:
        if Path(self._options[name]).exists():
            raise BusyError("The provider was asked too often.", "Try again a little later.")


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> BusyMachines:
    """For the runner."""
    return BusyMachines(home, options)


class BusyCloud(LoopbackCloud):
    """A cloud of such machines."""

    provider = "busy_machines:open_machines"

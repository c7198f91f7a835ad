"""The life of a task on a Slurm cluster: that of all machines elsewhere, its end told by Slurm's own word."""

from __future__ import annotations

from mlcd.clouds.remote.task import RemoteTask
from mlcd.clouds.slurm.machines import SlurmMachines
from mlcd.clouds.tasks.outcome import Outcome


class SlurmTask(RemoteTask):
    """Agents that are told to go do not know why: preempted, cancelled, out of time. Slurm does."""

    _machines: SlurmMachines

    def _live(self) -> Outcome:
        return self._machines.explain(self._task.id, super()._live())

"""The life of a task on a Slurm cluster: that of all machines elsewhere, its queue and its end told by Slurm's own word."""

from __future__ import annotations

from collections.abc import Sequence

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.task import RemoteTask
from mlcd.clouds.slurm.machines import SCHEDULING_SECONDS, SlurmMachines
from mlcd.clouds.tasks.outcome import Outcome


class SlurmTask(RemoteTask):
    """Agents that are told to go do not know why: preempted, cancelled, out of time. Slurm does."""

    _machines: SlurmMachines

    def _live(self) -> Outcome:
        return self._machines.explain(self._task.id, super()._live())

    @property
    def _seconds_left(self) -> float | None:
        """The queue costs nothing, but the deadline does not wait: what was spent there counts, too."""
        return less_the_queue(super()._seconds_left, self._spec.launched_at, self._record.state.started_at)

    def _know(self, machines: Sequence[Machine]) -> None:
        super()._know(machines)
        if self._machines.waiting and not self._record.state.notes:
            self._record.change(notes=(self._machines.waiting,))


def less_the_queue(left: float | None, launched_at: float, started_at: float | None) -> float | None:
    """What is left of a task's time that counts from its start, once its turn in the queue counts, too."""
    if left is None or started_at is None:
        return left
    return max(0.0, left - max(0.0, started_at - launched_at - SCHEDULING_SECONDS))

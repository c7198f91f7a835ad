"""A Slurm cluster, with the promises of a cloud: what all remote machines share, and what Slurm lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import NoNotes
from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.clouds.remote.files import Spec
from mlcd.clouds.slurm.commands import Slurm
from mlcd.clouds.slurm.kinds import make_offers
from mlcd.clouds.slurm.login import open_login
from mlcd.clouds.slurm.machines import SlurmMachines
from mlcd.clouds.slurm.prices import read_prices
from mlcd.clouds.slurm.script import read_comment
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.clouds.slurm.tables import JobRow
from mlcd.core.clock import moment
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Owned, Task

START_SECONDS = 10.0  # from an allocation to the program, until a probe has shown it; queueing is not billed


class SlurmCloud(RemoteCloud):
    """See mlcd.clouds.base.Cloud for what it promises."""

    name = "slurm"
    poll_seconds = 1.0
    provider = "mlcd.clouds.slurm.machines:open_machines"
    life = "mlcd.clouds.slurm.task:SlurmTask"

    def __init__(self, home: Path, settings: SlurmSettings) -> None:
        super().__init__(home)
        self._settings = settings
        self._login = open_login(self.home, settings)
        self._slurm = Slurm(self._login)

    def offers(self) -> Sequence[Offer]:
        """The nodes of all partitions that are up, busy or not: a task waits for its turn, free of charge."""
        prices = read_prices(self._settings.prices, self._settings.usd_per_unit)
        date = moment(self.clock.now()).date().isoformat()
        return make_offers(self._slurm.kinds(self._settings.qos), prices, date)

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """Starting there, and the measuring."""
        return ProbeTime(START_SECONDS + measuring_seconds, step_seconds=1.0, nodes_per_step=1)

    def owned(self) -> Iterable[Owned]:
        """Every job of ours in the queue or running, whoever submitted it."""
        return [owned for job in self._slurm.jobs() if (owned := _owned(job)) is not None]

    def make_spec(self, task: Task, deployment: Deployment) -> Spec:
        """With the task's limit and its forecast, which say how long an allocation is asked for."""
        spec = super().make_spec(task, deployment)
        times = {"max_seconds": task.max_seconds, "expected_seconds": task.expected_seconds}
        return replace(spec, options={**spec.options, **times})

    def machines(self) -> SlurmMachines:
        """For what is to be ended without a runner."""
        return SlurmMachines(self.home, asdict(self._settings), NoNotes())

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """The settings; the same for every deployment."""
        return asdict(self._settings)

    def close(self) -> None:
        """Let go of the login node; what runs goes on."""
        self._login.close()


def _owned(job: JobRow) -> Owned | None:
    comment = read_comment(job.comment)
    if comment is None or not (job.waits or job.holds):
        return None
    since = job.started_at if job.holds else job.submitted_at
    return Owned(comment.task_id, comment.task_id, comment.job_id, comment.what, since or 0.0)

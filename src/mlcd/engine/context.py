"""What a controller has at hand for one job: the store, the cloud, and the right to act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcd.clouds.base import Cloud, Recorded
from mlcd.core.goal import Goal
from mlcd.core.job import Job, Work
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.study import Ledger
from mlcd.core.task import Handle, Task, TaskKind, TaskStatus
from mlcd.engine.buckets import refuse_unfit, with_fetches
from mlcd.engine.datasets import with_data_sets
from mlcd.engine.secrets import redact
from mlcd.errors import InvalidJobError
from mlcd.settings import Settings
from mlcd.store import Store


@dataclass(frozen=True)
class JobContext:
    """The means of driving one job; every write is guarded by the controller's token."""

    store: Store
    cloud: Cloud
    settings: Settings
    job_id: str
    token: str
    secrets: Mapping[str, str]

    def load_record(self) -> JobRecord:
        """The job as it stands now, read from the store."""
        return self.store.job(self.job_id)

    @property
    def folder(self) -> Path:
        """Everything that this job leaves on this computer."""
        return job_folder(self.settings, self.job_id)

    def now(self) -> float:
        """On the cloud's clock."""
        return self.cloud.clock.now()

    def change(self, **changes: Any) -> JobRecord:
        """Write the job's new facts, unless another controller has taken over."""
        return self.store.change_job(self.job_id, self.token, **changes)

    def add_event(self, kind: str, message: str, **data: Any) -> None:
        """Tell everyone who follows the job."""
        self.store.add_event(self.job_id, self.now(), kind, redact(message, self.secrets), data)

    def add_event_once(self, kind: str, message: str, data: Mapping[str, Any]) -> None:
        """The same once for these data, whatever controllers die in between."""
        self.store.add_event_once(self.job_id, self.now(), kind, redact(message, self.secrets), data)

    def status(self, handle: Handle) -> TaskStatus:
        """How a task stands; what goes wrong with it becomes an event, once."""
        status = self.cloud.status(handle)
        if status.warning:
            self.add_event_once("warning", status.warning, {"handle": handle})
        return status

    def spent(self, record: JobRecord) -> Ledger:
        """Time since submission and the bill so far."""
        return Ledger(self.now() - record.submitted_at, self.store.spent(self.job_id))

    def intend(self, kind: TaskKind, deployment: Deployment, carries: bool = False) -> TaskRecord:
        """Write down that a task is about to be launched, before it can cost anything."""
        number = 1 + sum(task.kind is kind for task in self.store.tasks(self.job_id))
        record = TaskRecord(
            id=f"{self.job_id}-{kind.value[0]}{number}",
            job_id=self.job_id,
            kind=kind,
            number=number,
            deployment=deployment,
            cloud=self.cloud.name,
            intended_at=self.now(),
            carries=carries,
        )
        self.store.add_task(record, self.token)
        return record

    def refuse_unfit(self, task: Task, deployment: Deployment) -> None:
        """Raise where the task cannot be launched there, by what it says itself."""
        if not isinstance(self.cloud, Recorded):
            refuse_unfit(task, deployment.workers)

    def launch(self, record: TaskRecord, task: Task) -> str:
        """Start the task, or find it again if an earlier controller did and died."""
        if record.handle is not None:
            return record.handle
        secrets = self.secrets
        if not isinstance(self.cloud, Recorded):
            task = with_data_sets(task, self.settings.data_sets)
            task, secrets = with_fetches(task, secrets, record.deployment.workers)
        handle = self.cloud.launch(task, record.deployment, secrets)
        self.store.set_handle(record.id, handle)
        return handle


def job_folder(settings: Settings, job_id: str) -> Path:
    """The folder of a job."""
    return settings.jobs / job_id


def goal_of(record: JobRecord) -> Goal:
    """The aim with the limits in force, counted from the submission."""
    deadline = None if record.deadline_at is None else record.deadline_at - record.submitted_at
    return Goal(record.job.aim, deadline, record.budget_usd)


def work_of(job: Job) -> Work:
    """How much is to be trained."""
    if job.work is None:
        raise InvalidJobError(
            f"Job '{job.name}' does not say how much is to be trained.",
            "Add for example `work: {epochs: 10, dataset_size: 50000}` or `work: {samples: 500000}`.",
            "work",
        )
    return job.work

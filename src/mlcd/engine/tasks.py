"""Jobs and deployments to tasks."""

from __future__ import annotations

from pathlib import Path

from mlcd.core.job import Job
from mlcd.core.records import TaskRecord
from mlcd.core.task import Task, TaskKind
from mlcd.engine.desk import work_of

SETUP_SECONDS = 1800.0  # a probe's `setup` may install packages


def probe_task(
    job: Job, record: TaskRecord, folder: Path, expected_seconds: float, max_seconds: float
) -> Task:
    """The program on one deployment, for as long as a measurement takes."""
    settings = job.probe
    measuring = settings.silent_seconds + settings.warmup_seconds + settings.max_seconds
    longest = SETUP_SECONDS + expected_seconds + measuring
    return _task(
        job,
        record,
        folder,
        max_seconds=min(longest, max_seconds),
        samples=work_of(job).samples,
        samples_before=0.0,
        measuring_seconds=settings.measuring_seconds,
    )


def training_task(
    job: Job, record: TaskRecord, folder: Path, samples: float, samples_before: float, max_seconds: float
) -> Task:
    """The program until its work is done."""
    endless = max_seconds == float("inf")
    return _task(job, record, folder, None if endless else max_seconds, samples, samples_before, 0.0)


def task_folder(job_folder: Path, task_id: str) -> Path:
    """Where the cloud keeps what one task leaves."""
    return job_folder / "tasks" / task_id


def checkpoint_folder(job_folder: Path) -> Path:
    """Where the job's committed checkpoints are."""
    return job_folder / "checkpoints"


def _task(
    job: Job,
    record: TaskRecord,
    folder: Path,
    max_seconds: float | None,
    samples: float,
    samples_before: float,
    measuring_seconds: float,
) -> Task:
    probing = record.kind is TaskKind.PROBE
    place = task_folder(folder, record.id)
    return Task(
        id=record.id,
        job_id=record.job_id,
        kind=record.kind,
        platform=job.platform,
        run=job.run,
        setup=job.setup,
        workdir=job.workdir,
        envs=job.envs,
        file_mounts=job.file_mounts,
        outputs=job.outputs,
        progress=job.progress,
        folder=str(place),
        checkpoints=str(place / "checkpoints" if probing else checkpoint_folder(folder)),
        checkpoint_path=job.checkpoint.path,
        checkpoint_keep=job.checkpoint.keep,
        grace_seconds=min(2.0, job.checkpoint.grace_seconds) if probing else job.checkpoint.grace_seconds,
        max_seconds=max_seconds,
        samples=max(0.0, samples - samples_before),
        samples_before=samples_before,
        until=work_of(job).until,
        measuring_seconds=measuring_seconds,
    )

"""Jobs and deployments to tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mlcd.clouds.checkpoints import newest_complete, samples_of
from mlcd.core.job import Job, LearningRate
from mlcd.core.records import TaskRecord
from mlcd.core.scripts import keeping_python_path
from mlcd.core.task import Task
from mlcd.engine.context import work_of

SETUP_SECONDS = 1800.0  # a probe's `setup` may install packages
PROBE_GRACE = 0.5  # a probe that carries nothing on has nothing to save


def probe_task(job: Job, record: TaskRecord, folder: Path, expected_seconds: float, max_seconds: float) -> Task:
    """The program on one deployment, for as long as a measurement takes.

    One that carries the training on goes on from the job's newest checkpoint and leaves one: its steps are training.
    """
    settings = job.probe
    measuring = settings.silent_seconds + settings.warmup_seconds + settings.max_seconds
    task = _task(job, record, folder, work_of(job).samples, carried_samples(folder) if record.carries else 0.0)
    alone = replace(
        task,
        checkpoints=str(Path(task.folder) / "checkpoints"),
        grace_seconds=min(PROBE_GRACE, task.grace_seconds),
    )
    return replace(
        task if record.carries else alone,
        max_seconds=min(SETUP_SECONDS + expected_seconds + measuring, max_seconds),
        measuring_seconds=settings.measuring_seconds,
    )


def training_task(
    job: Job,
    record: TaskRecord,
    folder: Path,
    samples: float,
    samples_before: float,
    max_seconds: float,
    loss_seconds: float = 0.0,
) -> Task:
    """The program from a checkpoint with so many samples until its work is done, told when to save on its way."""
    interval = job.checkpoint.interval_seconds or 0.0
    task = _task(job, record, folder, samples, samples_before)
    task = replace(task, save_seconds=interval, loss_seconds=loss_seconds)
    return task if max_seconds == float("inf") else replace(task, max_seconds=max_seconds)


def carried_samples(job_folder: Path) -> float:
    """What has been trained for good: the samples in the newest complete checkpoint."""
    newest = newest_complete(checkpoint_folder(job_folder))
    return 0.0 if newest is None else samples_of(newest)


def task_folder(job_folder: Path, task_id: str) -> Path:
    """Where the cloud keeps what one task leaves."""
    return job_folder / "tasks" / task_id


def checkpoint_folder(job_folder: Path) -> Path:
    """Where the job's committed checkpoints are."""
    return job_folder / "checkpoints"


def _task(job: Job, record: TaskRecord, folder: Path, samples: float, samples_before: float) -> Task:
    return Task(
        id=record.id,
        job_id=record.job_id,
        kind=record.kind,
        platform=job.platform,
        run=keeping_python_path(job.run),
        setup=job.setup,
        workdir=job.workdir,
        envs=job.envs,
        file_mounts=job.file_mounts,
        shard_mounts=job.shard_mounts,
        outputs=job.outputs,
        progress=job.progress,
        folder=str(task_folder(folder, record.id)),
        checkpoints=str(checkpoint_folder(folder)),
        checkpoint_path=job.checkpoint.path,
        checkpoint_keep=job.checkpoint.keep,
        grace_seconds=job.checkpoint.grace_seconds,
        samples=max(0.0, samples - samples_before),
        all_trained=0.0 < samples <= samples_before,
        samples_before=samples_before,
        samples_per_epoch=float(work_of(job).dataset_size or 0),
        until=work_of(job).until,
        learning_rate=with_base(job),
        measure_noise=measures_noise(job),
    )


def measures_noise(job: Job) -> bool:
    """Whether the gradient noise matters: there are batch sizes to choose from."""
    return len(job.batch_sizes.choices) > 1


def with_base(job: Job) -> LearningRate:
    """The learning-rate rule with the batch size that it starts from."""
    sizes = job.batch_sizes.choices
    if job.learning_rate.base_batch_size is not None or not sizes:
        return job.learning_rate
    return replace(job.learning_rate, base_batch_size=min(sizes))

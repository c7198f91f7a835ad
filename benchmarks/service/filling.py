"""A store with many jobs and many metric points, filled in bulk: quickly, and with rows like real ones."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import psutil
from sqlalchemy import Connection, create_engine, insert, text

from mlcd.core.goal import Aim
from mlcd.core.job import BatchSizes, Job, NodeRange, Work
from mlcd.core.live import Live
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.plan import Forecast, Plan
from mlcd.core.records import Controller, JobRecord, TaskRecord
from mlcd.core.run import Attempt, AttemptEnd, JobState
from mlcd.core.study import Ledger
from mlcd.core.task import Charge, TaskKind, TaskState
from mlcd.core.trial import Measurement, Trial
from mlcd.store import Store
from mlcd.store.documents import write
from mlcd.store.jobs import words_of
from mlcd.store.tables import attempts, charges, jobs, metrics, series, tasks, trials

LONG_AGO = 1_790_000_000.0
BATCH = 5000
SERIES_OF_A_TASK = 10
OFFERS = tuple(
    Offer(
        "local",
        InstanceType(f"type-{number}", vcpus=2**number, memory_gib=4.0 * 2**number),
        0.1 * 2**number,
        16,
    )
    for number in range(6)
)
ENDS = (JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


@dataclass(frozen=True)
class Size:
    """How much is in the store."""

    jobs: int
    points: int
    points_of_a_series: int = 1000

    @property
    def jobs_with_curves(self) -> int:
        """Those that the points are spread over."""
        return max(1, self.points // (SERIES_OF_A_TASK * self.points_of_a_series))


def fill(url: str, size: Size) -> float:
    """Put it all in; gives how many seconds that took."""
    began = time.monotonic()
    engine = create_engine(url)
    with engine.begin() as connection:
        for first in range(0, size.jobs, BATCH):
            _add_jobs(connection, range(first, min(first + BATCH, size.jobs)))
        _add_curves(connection, size)
    with engine.begin() as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()
    return time.monotonic() - began


def add_live_jobs(store: Store, count: int) -> list[str]:
    """Jobs in training, driven by this very process as far as anyone can see."""
    me = psutil.Process()
    ids = []
    for number in range(count):
        driver = Controller(f"token-{number}", socket.gethostname(), me.pid, me.create_time(), time.time())
        record = replace(
            job_record(number, JobState.TRAINING),
            id=f"live-{number}",
            submitted_at=time.time(),
            ended_at=None,
        )
        store.add_job(replace(record, job=replace(record.job, name=f"live-{number}"), controller=driver))
        ids.append(record.id)
    return ids


def live(job_id: str, samples: float) -> Live:
    """What a controller writes of a training each second."""
    where = Deployment(OFFERS[2], 4, 256)
    seen = {"loss": 1.0 / (1.0 + samples), "accuracy": 0.9}
    return Live(
        f"{job_id}-t1",
        TaskKind.TRAINING,
        TaskState.RUNNING,
        where,
        60.0,
        1.0,
        samples,
        800.0,
        90.0,
        150.0,
        2.0,
        seen,
    )


def job_record(number: int, state: JobState) -> JobRecord:
    """A job as they are: planned, with its offers, its limits and its end."""
    job = Job(
        name=f"model-{number % 500}-{'abcdefgh'[number % 8]}",
        run="python train.py --lr 0.1",
        envs={"EPOCHS": "10", "DATA": "s3://bucket/data"},
        nodes=NodeRange(1, 16),
        batch_sizes=BatchSizes((256,)),
        work=Work(6_000_000.0),
        aim=Aim.CHEAPEST,
    )
    forecast = Forecast(3600.0, 3500.0, 3700.0, 3.0, 2.9, 3.1)
    plan = Plan(Deployment(OFFERS[2], 4, 256), forecast, Ledger(1200.0, 0.8), "The cheapest of those measured.")
    at = LONG_AGO + 60.0 * number
    return JobRecord(
        f"{job.name}-{number:06x}",
        job,
        state,
        at,
        "local",
        plan=plan,
        offers=OFFERS,
        confirmed=True,
        ended_at=at + 4800.0,
    )


def _add_jobs(connection: Connection, numbers: range) -> None:
    """A job with three probes, one training, and their bill."""
    records = [job_record(number, ENDS[number % len(ENDS)]) for number in numbers]
    connection.execute(insert(jobs), [_job_row(record) for record in records])
    tasks_of = [
        (number, record, task) for number, record in zip(numbers, records, strict=True) for task in _tasks(record)
    ]
    rows = []
    for number, record, task in tasks_of:
        key = number * 4 + (3 if task.kind is TaskKind.TRAINING else task.number - 1) + 1
        rows.append((key, record, task))
    connection.execute(insert(tasks), [_task_row(key, task) for key, _, task in rows])
    connection.execute(insert(charges), [_charge_row(key, task) for key, _, task in rows])
    probes = [(record, task) for _, record, task in rows if task.kind is TaskKind.PROBE]
    connection.execute(insert(trials), [_trial_row(record, task) for record, task in probes])
    trainings = [(record, task) for _, record, task in rows if task.kind is TaskKind.TRAINING]
    connection.execute(insert(attempts), [_attempt_row(record, task) for record, task in trainings])


def _add_curves(connection: Connection, size: Size) -> None:
    """Points made by the database itself: a row for each is too much to send."""
    number = 0
    for job in range(size.jobs_with_curves):
        names = [
            {"number": number + n + 1, "task": job * 4 + 4, "name": f"metric-{n}"} for n in range(SERIES_OF_A_TASK)
        ]
        connection.execute(insert(series), names)
        number += SERIES_OF_A_TASK
    counted = (
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :count) "
        f"INSERT INTO {metrics.name} (series, seconds, step, value) "
        "SELECT s.number, n.i * 1.0, n.i * 10.0, 1.0 / (1 + n.i) FROM series s, n ORDER BY s.number, n.i"
    )
    connection.execute(text(counted), {"count": size.points_of_a_series})


def _tasks(record: JobRecord) -> Iterator[TaskRecord]:
    for number in range(1, 4):
        yield _task(record, TaskKind.PROBE, number)
    yield _task(record, TaskKind.TRAINING, 1)


def _task(record: JobRecord, kind: TaskKind, number: int) -> TaskRecord:
    where = Deployment(OFFERS[number], number, 256)
    at = record.submitted_at + 600.0 * number
    return TaskRecord(
        f"{record.id}-{kind[0]}{number}", record.id, kind, number, where, "local", at, "handle", at + 600.0
    )


def _job_row(record: JobRecord) -> dict[str, Any]:
    columns = {"id": record.id, "name": record.job.name, "state": record.state.value, "doc": write(record)}
    return {**columns, "owner": "", "virtual": False, "words": words_of(record.job.name, record.id)}


def _task_row(key: int, task: TaskRecord) -> dict[str, Any]:
    times = {"handle": task.handle, "ended_at": task.ended_at, "intended_at": task.intended_at}
    return {"number": key, "id": task.id, "job_id": task.job_id, "doc": write(task), **times}


def _charge_row(key: int, task: TaskRecord) -> dict[str, Any]:
    charge = Charge(f"{task.deployment.nodes} × type", 600.0, 0.2)
    return {"task": key, "position": 0, "kind": task.kind.value, **json.loads(write(charge))}


def _trial_row(record: JobRecord, task: TaskRecord) -> dict[str, Any]:
    trial = Trial(task.deployment, Measurement(100.0, 97.0, 103.0), 600.0, 0.2, task_id=task.id)
    return {"job_id": record.id, "task_id": task.id, "doc": write(trial)}


def _attempt_row(record: JobRecord, task: TaskRecord) -> dict[str, Any]:
    end = AttemptEnd.FINISHED
    attempt = Attempt(task.id, 1, task.deployment, task.intended_at, samples=6e6, seconds=3600.0, usd=2.0, end=end)
    return {"job_id": record.id, "task_id": task.id, "number": 1, "doc": write(attempt)}

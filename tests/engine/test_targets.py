"""A metric that ends the training, and one that nobody reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.api import Client
from mlcd.core.job import Direction, Target
from mlcd.core.progress import MetricPoint, Point, Progress
from mlcd.core.run import JobState
from mlcd.core.task import Task, TaskKind, TaskState, TaskStatus
from mlcd.engine.targets import target_reached, unseen_target
from small_jobs import MakeJob

TASK = Task("t", "j", TaskKind.TRAINING, "command", "true", samples=1000.0)


def status(*names: str, samples: float = 500.0, value: float = 0.5) -> TaskStatus:
    metrics = tuple(MetricPoint(float(k), float(k), name, value) for k in range(12) for name in names)
    progress = Progress(points=(Point(12.0, 12.0, samples),), metrics=metrics)
    return TaskStatus(TaskState.RUNNING, progress)


def wanting(metric: str) -> Task:
    return replace(TASK, until=Target(metric, 0.9, Direction.UP))


def test_a_target_that_is_not_reported_is_told_with_what_is() -> None:
    told = unseen_target(wanting("Accuracy"), status("accuracy", "loss", "mlcd/parameters"))
    assert "reports accuracy, loss." in told
    assert "Did you mean 'accuracy'?" in told


@pytest.mark.parametrize(
    ("task", "seen"),
    [
        (TASK, status("loss")),
        (wanting("accuracy"), status("accuracy", "loss")),
        (wanting("accuracy"), status("mlcd/parameters")),
        (wanting("accuracy"), status("loss", samples=50.0)),
        (replace(wanting("accuracy"), samples_per_epoch=500.0), status("loss")),
    ],
    ids=["no target", "it is reported", "nothing is reported", "too early", "no epoch is over"],
)
def test_nothing_is_said_where_it_may_still_come(task: Task, seen: TaskStatus) -> None:
    assert unseen_target(task, seen) == ""


def test_a_target_that_was_reached_between_two_looks_counts() -> None:
    reached, later = status("accuracy", value=0.95), status("accuracy", value=0.8)
    both = replace(
        later,
        progress=replace(later.progress, metrics=(*reached.progress.metrics, *later.progress.metrics)),
    )
    assert target_reached(wanting("accuracy"), both)
    assert not target_reached(wanting("accuracy"), later)


PROGRAM = """
import time, mlcd
for done in range(10, 1010, 10):
    time.sleep(0.05)
    mlcd.report(step=done / 10, samples=done, accuracy=0.1)
"""


@pytest.mark.slow
def test_whoever_follows_a_job_is_told_of_a_target_that_it_never_reports(client: Client, make_job: MakeJob) -> None:
    work = {"samples": 1000, "until": {"metric": "Accuracy", "value": 0.9, "direction": "up"}}
    job_id = client.submit(client.load(make_job(PROGRAM, work=work, checkpoint={"carry": False})))
    client.confirm(job_id)
    assert client.drive(job_id).record.state is JobState.SUCCEEDED
    told = [event.message for event in client.events(job_id) if "has not reported so far" in event.message]
    assert len(told) == 1

"""A program that trains the same on every node is never given several: it would be paid twice and be no faster."""

from __future__ import annotations

from typing import Any

import pytest

from mlcd.api import Client
from mlcd.core.job import ProbeSettings
from mlcd.core.progress import Point, Progress
from mlcd.core.run import JobState
from mlcd.core.task import TaskState, TaskStatus
from mlcd.core.trial import Failure, FailureKind, Measurement
from mlcd.core.view import JobView
from mlcd.engine.probe_result import probe_result
from small_jobs import MakeJob

PLAIN = """
import time, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.randn(400, 4)), batch_size=10):
        model(x).pow(2).mean().backward()
        time.sleep(0.01)
        optimizer.step()
        optimizer.zero_grad()
torch.save(model.state_dict(), "model.pt")
"""


# The same without torch and without a word to mlcd but for its batches.
LOOP = """
import time, mlcd
for batch in mlcd.steps([[0] * 10] * 400):
    time.sleep(0.01)
"""
# Nor that: only its log tells of its steps.
PRINTS = """
import time
for step in range(1, 401):
    time.sleep(0.01)
    print(f"step {step} loss={1 / step}", flush=True)
"""


def run(client: Client, job: dict[str, Any]) -> JobView:
    """Submit, accept any plan, and be the controller."""
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    return client.drive(job_id)


@pytest.mark.slow
def test_two_nodes_are_never_chosen_for_a_program_that_does_not_share_its_work(
    client: Client, make_job: MakeJob
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    patient = {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 120}
    view = run(client, make_job(PLAIN, num_nodes="1..2", work={"samples": 4000}, platform="pytorch", probe=patient))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    outcomes = {trial.deployment.nodes: trial.outcome for trial in view.trials}
    assert isinstance(outcomes[1], Measurement)
    assert isinstance(outcomes[2], Failure)
    assert outcomes[2].reason is FailureKind.NOT_SHARED
    assert [attempt.deployment.nodes for attempt in view.run.attempts] == [1]
    assert view.run.samples == 4000


@pytest.mark.slow
def test_so_it_is_without_torch(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(LOOP, num_nodes="1..2", work={"samples": 4000}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    outcomes = {trial.deployment.nodes: trial.outcome for trial in view.trials}
    assert isinstance(outcomes[2], Failure)
    assert outcomes[2].reason is FailureKind.NOT_SHARED
    assert [attempt.deployment.nodes for attempt in view.run.attempts] == [1]
    assert view.run.samples == 4000


@pytest.mark.slow
def test_a_program_that_is_counted_by_its_log_is_counted_once_on_two_nodes(client: Client, make_job: MakeJob) -> None:
    progress = {"pattern": r"step (?P<step>\d+)"}
    settings = {"work": {"samples": 4000}, "progress": progress, "batch_size": 10, "resources": {}}
    view = run(client, make_job(PRINTS, num_nodes="1..2", checkpoint={"carry": False}, **settings))
    speeds = {
        trial.deployment.nodes: trial.measurement.samples_per_second
        for trial in view.trials
        if trial.measurement is not None
    }
    assert speeds[2] < 1.5 * speeds[1]
    assert view.run.samples == 4000


@pytest.mark.slow
def test_a_job_that_allows_two_nodes_only_is_told_what_to_do(client: Client, make_job: MakeJob) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    patient = {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 120}
    view = run(client, make_job(PLAIN, num_nodes=2, work={"samples": 4000}, platform="pytorch", probe=patient))
    assert view.record.state is JobState.FAILED
    assert view.record.exit_code == 100
    assert "did the same work on every rank on the deployment tried" in view.record.error
    assert "DistributedDataParallel" in view.record.error
    assert "`num_nodes: 1`" in view.record.error


def working(seconds: float, alone: bool, **facts: Any) -> TaskStatus:
    points = tuple(Point(0.5 * n, n, 10.0 * n) for n in range(1, int(2 * seconds) + 1))
    progress = Progress(points, alone=alone)
    return TaskStatus(
        **{"state": TaskState.RUNNING, "progress": progress, "started_at": 0.0, "running_at": 0.0, **facts}
    )


SETTINGS = ProbeSettings(warmup_seconds=5.0, min_seconds=10.0, max_seconds=60.0, silent_seconds=30.0)


def test_a_probe_of_ranks_that_train_alone_fails_once_it_is_warm() -> None:
    assert probe_result(working(4.0, alone=True), 4.0, SETTINGS) is None
    outcome = probe_result(working(9.0, alone=True), 9.0, SETTINGS)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureKind.NOT_SHARED
    assert probe_result(working(9.0, alone=False), 9.0, SETTINGS) is None


def test_a_probe_that_crashed_crashed_whether_its_ranks_were_alone_or_not() -> None:
    outcome = probe_result(working(9.0, alone=True, state=TaskState.FAILED, exit_code=1), 9.0, SETTINGS)
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureKind.CRASHED

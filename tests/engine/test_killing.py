"""The controller killed with SIGKILL at random moments: nothing lost, nothing paid twice, nothing left running."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from mlcd.api import Client
from mlcd.core.run import JobState
from small_jobs import MakeJob

KILLS = 20


@pytest.mark.slow
def test_a_controller_killed_twenty_times_loses_nothing(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job(num_nodes="1..2", work={"samples": 6000})))
    client.confirm(job_id)
    client.start(job_id)
    kill_at_random(client, job_id, random.Random(7))
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(view.trials) == len({trial.deployment for trial in view.trials}) == 2
    assert len(view.run.attempts) == 1
    tasks = client.store.tasks(job_id)
    assert all(task.ended_at is not None for task in tasks)
    assert {item.task_id for item in view.bill} == {task.id for task in tasks}
    assert client.sweep() == []


def kill_at_random(client: Client, job_id: str, draw: random.Random) -> None:
    kills, until = 0, time.monotonic() + 120
    while kills < KILLS and time.monotonic() < until:
        time.sleep(draw.uniform(0.0, 0.8))
        record = client.store.job(job_id)
        if not record.state.active and record.state is not JobState.PLANNED:
            return
        if record.controller is not None:
            try:
                os.kill(record.controller.pid, signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
        client.start(job_id)

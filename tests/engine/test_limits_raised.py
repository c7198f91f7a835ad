"""Limits that are changed while a job is at work hold from then on."""

from __future__ import annotations

import pytest

from mlcd.api import Client
from mlcd.core.run import AttemptEnd, JobState
from small_jobs import PROGRAM, MakeJob

SLOWS_DOWN = PROGRAM.replace("time.sleep(0.02)", "time.sleep(0.02 if done < 2000 else 0.06)")


@pytest.mark.slow
def test_a_training_goes_on_past_the_deadline_that_it_was_begun_with(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job(SLOWS_DOWN, work={"samples": 6000}, elastic=False)))
    client.start(job_id)
    assert list(client.follow(job_id))[-1].record.state is JobState.PLANNED
    client.resume(job_id, deadline="20s")  # from now on: a search on a busy computer does not use it up
    client.confirm(job_id)
    next(view for view in client.follow(job_id) if view.run.attempts)
    client.resume(job_id, deadline="10m")
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    ends = [(attempt.end, attempt.why) for attempt in view.run.attempts]
    assert (AttemptEnd.STOPPED, "time limit") in ends
    assert view.run.samples == pytest.approx(6000, rel=0.05)

"""How often a job's training is expected to lose work, and what is told of how often it saves."""

from __future__ import annotations

from dataclasses import replace

import pytest

import stories
from mlcd.core.job import CheckpointSettings
from mlcd.core.live import Live
from mlcd.core.machines import Deployment
from mlcd.core.progress import Saving
from mlcd.core.records import JobRecord
from mlcd.core.run import Attempt, AttemptEnd, JobState
from mlcd.core.task import EndCause, TaskKind, TaskState
from mlcd.engine.losses import losses_of, saves_in_words

HOUR = 3600.0


def spot() -> Deployment:
    here = stories.deployment(2, 4)
    return replace(here, offer=replace(here.offer, spot=True, losses_per_hour=0.05))


def attempt(end: AttemptEnd, cause: EndCause, deployment: Deployment | None = None) -> Attempt:
    return Attempt("t1", 1, deployment or spot(), 0.0, seconds=HOUR, end=end, cause=cause)


def record(**checkpoint: object) -> JobRecord:
    planned = stories.record(JobState.TRAINING)
    return replace(planned, job=replace(planned.job, checkpoint=CheckpointSettings(**checkpoint)))  # type: ignore[arg-type]


def live(saving: Saving | None) -> Live:
    return Live("t1", TaskKind.TRAINING, TaskState.RUNNING, spot(), 9.0, 0.1, 9.0, 1.0, 9.0, 9.0, 1.0, saving=saving)


def test_losses_of_machines_count_and_the_programs_own_failures_do_not() -> None:
    attempts = [
        attempt(AttemptEnd.LOST, EndCause.SPOT_NOTICE),
        attempt(AttemptEnd.LOST, EndCause.NODE_LOST),
        attempt(AttemptEnd.FAILED, EndCause.CRASHED),
        attempt(AttemptEnd.LOST, EndCause.NO_CAPACITY),
    ]
    losses = losses_of(spot(), attempts)
    assert (losses.seen, losses.in_seconds) == (2, 4 * HOUR)


def test_what_happened_on_demand_says_nothing_of_spot_machines() -> None:
    elsewhere = attempt(AttemptEnd.LOST, EndCause.NODE_LOST, stories.deployment(2, 4))
    assert losses_of(spot(), [elsewhere]).seen == 0


def test_a_program_that_asks_is_told_of() -> None:
    told = saves_in_words(record(), [], live(Saving(120.0, 1.0, 7200.0)))
    assert told.startswith("every 2m 00s, as a save takes 1 s and a loss is expected every 2h 00m")


def test_a_program_that_never_asks_on_machines_that_stay_is_not_spoken_of() -> None:
    assert saves_in_words(record(), [], live(None)) == ""


@pytest.mark.parametrize("running", [None, live(Saving(60.0, 1.0))])
def test_the_jobs_own_interval_is_told(running: Live | None) -> None:
    assert saves_in_words(record(interval_seconds=60.0), [], running) == "every 1m 00s, as the job says"

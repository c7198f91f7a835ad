"""A job that changes while it trains: it is replanned, and the training goes on where it is best."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.adapt.base import Situation, Speed
from mlcd.adapt.changes import Replan
from mlcd.adapt.limits import Keep
from mlcd.api import Client
from mlcd.core.conditions import Change, Conditions
from mlcd.core.goal import Aim, Goal
from mlcd.core.job import Job
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.records import JobRecord
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.study import Ledger, Study
from mlcd.core.task import EndCause
from mlcd.core.trial import Measurement, Phases, Trial, of_search
from mlcd.core.view import JobView
from mlcd.engine.replan import search_cost, worth_replanning
from small_jobs import MakeJob

SMALL, LARGE = 8, 160  # samples in a step, before and after
CHANGES_AT, WORK = 15_000, 75_000  # samples

# Two nodes lose 20 ms a step on talking to each other: bad for small batches, little for large ones.
PROGRAM = f"""
import json, os, time
import mlcd

ranks = int(os.environ.get("WORLD_SIZE", "1"))
done, saved = 0, mlcd.last_checkpoint()
if saved is not None:
    done = json.loads((saved / "state.json").read_text())["done"]


def batches():
    while done < {WORK}:
        yield [0] * ((({SMALL} if done < {CHANGES_AT} else {LARGE})) // ranks)


def save():
    with mlcd.checkpoint() as folder:
        (folder / "state.json").write_text(json.dumps({{"done": done}}))


saved_at = time.monotonic()
for batch in mlcd.steps(batches()):
    time.sleep(0.02 * (ranks - 1) + 0.001 * len(batch))
    done += len(batch) * ranks
    if time.monotonic() - saved_at > 1.0:
        save()
        saved_at = time.monotonic()
save()
"""

OFFER = Offer("local", InstanceType("m", vcpus=1), usd_per_hour=3.6, max_nodes=4)
HERE, THERE = Deployment(OFFER, 1), Deployment(OFFER, 2)


def trial(deployment: Deployment, rate: float, seconds: float = 10.0) -> Trial:
    seen = Measurement(rate, rate, rate)
    return Trial(deployment, seen, seconds, deployment.usd(seconds), Phases(start=4.0, measuring=6.0))


def situation(samples_left: float) -> Situation:
    return Situation(
        goal=Goal(Aim.FASTEST),
        spent=Ledger(),
        deployment=HERE,
        now=Speed(100.0, 95.0, 105.0),
        watched_seconds=10.0,
        samples_left=samples_left,
        speeds={},
        move_seconds=2.0,
    )


def study(carries: bool = True) -> Study:
    made = (trial(HERE, 100.0), trial(THERE, 90.0))
    return Study(Goal(Aim.FASTEST), (HERE, THERE), 1e6, made, probe_training_share=0.6 if carries else 0.0)


def record(*changes: Change) -> JobRecord:
    return JobRecord("j", Job("j", run="true"), JobState.TRAINING, 0.0, "local", changes=changes)


def test_a_search_costs_what_the_last_one_lost_and_a_move() -> None:
    assert search_cost(study(), HERE, 2.0).seconds == pytest.approx(2 * 4.0 + 2.0)
    assert search_cost(study(carries=False), HERE, 2.0).seconds == pytest.approx(2 * 10.0 + 2.0)
    assert search_cost(study(), HERE, 2.0).usd == pytest.approx(0.001 * (4.0 + 2 * 4.0 + 2.0))


def test_replanning_must_be_worth_more_than_it_costs() -> None:
    before, now = Conditions(batch_size=SMALL), Conditions(batch_size=LARGE)
    long, short = situation(samples_left=1e5), situation(samples_left=1e3)
    decision = worth_replanning(long, record(), before, now, study())
    assert isinstance(decision, Replan)
    assert "batch size has changed 20.0 times" in decision.why
    assert worth_replanning(short, record(), before, now, study()) == Keep()


def test_the_users_cap_on_probes_holds_for_replanning() -> None:
    before, now = Conditions(batch_size=SMALL), Conditions(batch_size=LARGE)
    used_up = replace(study(), max_probes=2)
    assert worth_replanning(situation(samples_left=1e5), record(), before, now, used_up) == Keep()


def test_searches_that_gained_nothing_make_the_next_less_likely() -> None:
    before, now = Conditions(parameters=1e6), Conditions(parameters=4e6)
    enough = situation(samples_left=7e3)
    assert isinstance(worth_replanning(enough, record(), before, now, study()), Replan)
    in_vain = [Change(float(n), factor=1.4, gain=0.0) for n in range(3)]
    assert worth_replanning(enough, record(*in_vain), before, now, study()) == Keep()


def test_trials_from_before_the_change_are_not_of_the_job_as_it_is() -> None:
    before, since = trial(HERE, 1.0), replace(trial(HERE, 3.0), search_number=1)
    assert of_search([before, since], record().search_number) == (before,)
    assert of_search([before, since], record(Change(0.0, 1.0)).search_number) == (since,)


def changing_job(make_job: MakeJob) -> dict[str, object]:
    return make_job(
        PROGRAM,
        num_nodes="1..2",
        work={"samples": WORK},
        probe={"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 1.5, "silent_seconds": 60},
        checkpoint={"grace_seconds": 10},
    )


def assert_moved_well(view: JobView) -> None:
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.deployment.nodes for attempt in view.run.attempts] == [1, 2]
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.MOVED, AttemptEnd.FINISHED]
    assert [attempt.cause for attempt in view.run.attempts] == [EndCause.REPLAN, EndCause.COMPLETED]
    (change,) = view.record.changes
    assert change.factor == pytest.approx(3.0, abs=0.15)  # ln 20
    assert change.gain is not None and change.gain > 0.2  # noqa: PT018  # one fact
    assert view.run.samples == pytest.approx(WORK, rel=0.01)
    assert {trial.deployment.nodes for trial in view.later_trials} == {1, 2}
    assert view.later_trials[0].usd == 0.0, "what the training showed itself costs nothing"
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)


@pytest.mark.slow
def test_a_training_whose_batch_grows_is_moved_to_more_nodes(client: Client, make_job: MakeJob, tmp_path: Path) -> None:
    job_id = client.submit(client.load(changing_job(make_job)))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert_moved_well(view)
    told = [event.message for event in client.events(job_id) if event.kind == "decision"]
    assert any("the batch size has changed 20.0 times" in message for message in told)
    assert any(message.startswith("Moving to 2 ×") and "replanning took" in message for message in told)
    report = client.report(job_id, tmp_path / "report.html")
    assert "Replanned, when" in report.read_text()


@pytest.mark.slow
def test_a_controller_killed_while_it_replans_is_followed_by_one_that_does(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(changing_job(make_job)))
    client.confirm(job_id)
    client.start(job_id)
    looking = next(view for view in client.follow(job_id) if view.record.replanning)
    assert looking.record.controller is not None
    os.kill(looking.record.controller.pid, signal.SIGKILL)
    client.start(job_id)
    view = list(client.follow(job_id))[-1]
    assert_moved_well(view)
    assert not any("goes on after" in event.message for event in client.events(job_id))

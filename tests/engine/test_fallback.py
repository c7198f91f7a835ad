"""A checkpoint that the program cannot start from is set aside, and the training goes on from the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlcd.api import Client
from mlcd.core.machines import Deployment
from mlcd.core.progress import Point, Progress
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.task import EndCause, TaskKind, TaskState, TaskStatus
from mlcd.core.trial import Failure, FailureKind
from mlcd.core.view import JobView
from mlcd.engine.context import JobContext, job_folder
from mlcd.engine.control import controlling
from mlcd.engine.controller import open_cloud
from mlcd.engine.probe_result import fails_to_start
from mlcd.engine.tasks import checkpoint_folder
from mlcd.worker.checkpoints import (
    Facts,
    accept_all,
    begin,
    commit,
    complete_checkpoints,
    newest_intact,
    prune,
    refuse,
)
from small_jobs import PROGRAM, MakeJob

pytestmark = pytest.mark.slow  # each trains

BREAKS = """
import os, pathlib
mark = pathlib.Path(os.environ["MARK"])
"""
# The first training saves twice, the second time something that cannot be loaded, and dies.
SAVES_RUBBISH = BREAKS + PROGRAM.replace(
    "    if number % 25 == 24:",
    "    if '-t' in os.environ['MLCD_TASK_ID'] and not mark.exists() and number == 60:\n"
    "        with mlcd.checkpoint() as folder:\n"
    "            (folder / 'state.json').write_text('{')\n"
    "        mark.write_text('')\n"
    "        os._exit(7)\n"
    "    if number % 25 == 24:",
)
# The first probe saves well, and when it is stopped something that cannot be loaded.
PROBE_SAVES_RUBBISH = BREAKS + PROGRAM.replace(
    "if mlcd.stopping():\n    with mlcd.checkpoint() as folder:",
    "if mlcd.stopping() and not mark.exists():\n"
    "    mark.write_text('')\n"
    "    with mlcd.checkpoint() as folder:\n"
    "        (folder / 'state.json').write_text('{')\n"
    "elif mlcd.stopping():\n    with mlcd.checkpoint() as folder:",
)
# Once a training has died, nothing can be loaded any more: the fault is the program's.
LOADS_NOTHING = BREAKS + PROGRAM.replace(
    "if saved is not None:",
    "if saved is not None and mark.exists(): raise ValueError('bad state')\nif saved is not None:",
).replace(
    "    if number % 25 == 24:",
    "    if '-t' in os.environ['MLCD_TASK_ID'] and number == 60: mark.write_text(''); os._exit(7)\n"
    "    if number % 25 == 24:",
)


def run(client: Client, job: dict[str, Any]) -> JobView:
    """Submit, accept any plan, and be the controller."""
    job["envs"] = {"MARK": str(Path(str(job["workdir"])).parent / "mark")}
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    return client.drive(job_id)


def test_a_checkpoint_that_cannot_be_loaded_is_passed_over_for_the_one_before(
    client: Client, make_job: MakeJob
) -> None:
    view = run(client, make_job(SAVES_RUBBISH, checkpoint={"grace_seconds": 2, "carry": False}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    ends = [attempt.end for attempt in view.run.attempts]
    assert ends == [AttemptEnd.FAILED, AttemptEnd.FAILED, AttemptEnd.FINISHED]
    assert [attempt.samples_before for attempt in view.run.attempts] == [0, 610, 500]
    told = [event.message for event in client.store.events(view.record.id)]
    assert any("000003-610; going back to the one before, 000002-500" in text for text in told)


def test_a_program_that_starts_from_no_checkpoint_is_at_fault_itself_and_all_are_kept(
    client: Client, make_job: MakeJob
) -> None:
    view = run(client, make_job(LOADS_NOTHING, checkpoint={"grace_seconds": 2, "carry": False, "max_failures": 9}))
    assert view.record.state is JobState.FAILED
    assert "before its first step from each of its checkpoints" in view.record.error
    assert [attempt.samples_before for attempt in view.run.attempts] == [0, 500, 250]
    root = job_folder(client.settings, view.record.id) / "checkpoints"
    assert [one.facts.samples for one in complete_checkpoints(root)] == [500, 250]
    newest = newest_intact(root)
    assert newest is not None
    assert newest.facts.samples == 500


def test_going_back_is_not_counted_among_the_failures_of_the_program(client: Client, make_job: MakeJob) -> None:
    settings = {"grace_seconds": 2, "carry": False, "max_failures": 1}
    view = run(client, make_job(SAVES_RUBBISH, checkpoint=settings))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.samples_before for attempt in view.run.attempts] == [0, 610, 500]


def test_a_probe_that_cannot_load_its_checkpoint_goes_back_and_its_deployment_is_tried_again(
    client: Client, make_job: MakeJob
) -> None:
    view = run(client, make_job(PROBE_SAVES_RUBBISH, resources={}, work={"samples": 6000}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    outcomes = [trial.outcome for trial in view.trials]
    failures = [outcome.reason for outcome in outcomes if isinstance(outcome, Failure)]
    assert failures == [FailureKind.NOT_LOADED]
    assert view.trials[1].failure is not None
    assert view.trials[1].deployment == view.trials[2].deployment
    told = [event.message for event in client.store.events(view.record.id)]
    assert any("going back to the one before" in text for text in told)


def made(root: Path, samples: float) -> Path:
    partial = begin(root)
    (partial / "state").write_text(str(samples))
    return commit(partial, Facts(samples))


@pytest.mark.parametrize(("carries", "reason"), [(True, FailureKind.NOT_LOADED), (False, FailureKind.CRASHED)])
def test_a_probe_that_is_taken_over_blames_a_checkpoint_only_if_it_carries_the_training(
    client: Client, make_job: MakeJob, carries: bool, reason: FailureKind
) -> None:
    job_id = client.submit(client.load(make_job("raise SystemExit(1)")))
    for samples in (10.0, 20.0):
        made(checkpoint_folder(job_folder(client.settings, job_id)), samples)
    cloud = open_cloud(client.settings, client.store.job(job_id))
    offer = next(offer for offer in cloud.offers() if offer.name == "local-1c")
    with controlling(client.store, job_id) as token:
        assert token is not None
        context = JobContext(client.store, cloud, client.settings, job_id, token, {})
        context.intend(TaskKind.PROBE, Deployment(offer, 1), carries)  # and then this controller dies
    cloud.close()
    first = client.drive(job_id).trials[0]
    assert first.failure is not None
    assert first.failure.reason is reason
    told = [event.message for event in client.store.events(job_id)]
    assert any("going back" in text for text in told) is carries


def test_a_refused_checkpoint_is_not_the_newest_and_does_not_count_among_those_kept(tmp_path: Path) -> None:
    paths = [made(tmp_path, samples) for samples in (1.0, 2.0, 3.0)]
    newest = newest_intact(tmp_path)
    assert newest is not None
    refuse(newest, "task-7")
    found = newest_intact(tmp_path)
    assert found is not None
    assert (found.path, newest.refused_by) == (paths[1], "task-7")
    prune(tmp_path, keep=1)
    assert sorted(tmp_path.iterdir()) == paths
    accept_all(tmp_path)
    found = newest_intact(tmp_path)
    assert found is not None
    assert found.path == paths[2]


def ended(reason: str = "exit code 1", steps: float = 0.0, **facts: Any) -> TaskStatus:
    points = (Point(1.0, steps, steps),) if steps else ()
    return TaskStatus(
        **{
            "state": TaskState.FAILED,
            "reason": reason,
            "progress": Progress(points),
            "running_at": 5.0,
            **facts,
        }
    )


@pytest.mark.parametrize(
    ("status", "fails"),
    [
        (ended(), True),
        (ended(steps=3.0), False),
        (ended(running_at=None), False),  # its setup failed
        (ended(cause=EndCause.OUT_OF_MEMORY), False),
        (ended(cause=EndCause.NO_CAPACITY), False),
        (ended(log_tail="ModuleNotFoundError: No module named 'torch'"), False),
        (ended(state=TaskState.LOST), False),
    ],
)
def test_only_a_program_that_fails_by_itself_before_its_first_step_failed_to_start(
    status: TaskStatus, fails: bool
) -> None:
    assert fails_to_start(status) is fails

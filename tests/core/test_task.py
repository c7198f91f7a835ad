"""A status says why its task ended in a form that decisions can read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.task import Charge, EndCause, Refusal, TaskState, TaskStatus, beside, main_task


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (TaskStatus(TaskState.RUNNING), None),
        (TaskStatus(TaskState.SUCCEEDED), EndCause.COMPLETED),
        (TaskStatus(TaskState.STOPPED, reason="time limit"), EndCause.STOPPED),
        (TaskStatus(TaskState.STOPPED, cause=EndCause.TIME_LIMIT), EndCause.TIME_LIMIT),
        (TaskStatus(TaskState.LOST, reason="spot notice"), EndCause.NODE_LOST),
        (TaskStatus(TaskState.FAILED, reason="no capacity"), EndCause.CRASHED),
        (TaskStatus(TaskState.FAILED, refused=Refusal.NO_CAPACITY), EndCause.NO_CAPACITY),
        (TaskStatus(TaskState.FAILED, refused=Refusal.USER), EndCause.REFUSED),
        (TaskStatus(TaskState.FAILED, refused=Refusal.CLOUD), EndCause.CLOUD_FAILED),
        (TaskStatus(TaskState.FAILED, reason="time limit", cause=EndCause.CRASHED), EndCause.CRASHED),
    ],
)
def test_a_status_has_a_cause_once_its_task_has_ended_whatever_its_words(
    status: TaskStatus, cause: EndCause | None
) -> None:
    assert status.cause is cause


def test_a_refusal_that_is_added_later_is_the_cause() -> None:
    failed = TaskStatus(TaskState.FAILED, reason="The key is wrong.")
    assert replace(failed, refused=Refusal.USER).cause is EndCause.REFUSED


def test_what_runs_beside_a_task_names_it() -> None:
    assert main_task(beside("job-t1", "store-1")) == "job-t1"
    assert main_task("job-t1") == "job-t1"


def test_a_task_on_machines_that_an_earlier_one_has_paid_for_costs_nothing_and_never_less() -> None:
    ahead = Charge("paid while kept ready", -45.0, -0.045)
    so_far = [TaskStatus(TaskState.RUNNING, charges=(Charge("1 × c5", 1.0, usd), ahead)).usd for usd in (0.005, 0.06)]
    assert so_far == [0.0, pytest.approx(0.015)]

"""What there is to tell of a job as it stands."""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.notices import NotificationEvent
from mlcd.core.run import JobState
from mlcd.notify.occurrences import Occurrence, occurrences
from stories import SUBMITTED, record, training


def told(**facts: object) -> list[Occurrence]:
    state = facts.pop("state", JobState.TRAINING)
    live, spent = facts.pop("live", None), facts.pop("spent", 0.0)
    return occurrences(record(state, **facts), live, spent)  # type: ignore[arg-type]


def test_a_job_at_work_within_its_limits_is_not_worth_telling() -> None:
    assert told(budget_usd=100.0, spent=79.9, deadline_at=SUBMITTED + 1e6, live=training().live) == []


def test_the_end_is_told_with_time_money_and_the_first_line_of_why() -> None:
    error = "The program crashed.\nThe end of the log:\npassword=hunter2"
    (failed,) = told(state=JobState.FAILED, ended_at=SUBMITTED + 90.0, error=error, spent=1.5)
    assert failed.occasion is NotificationEvent.FAILED
    assert failed.message == "char-rnn failed (1m 30s and $1.50 in all): The program crashed."


def test_finished_and_paused_are_told_and_stopped_is_not() -> None:
    ends = {state: told(state=state, ended_at=SUBMITTED + 1) for state in JobState if not state.active}
    assert [one.occasion for one in ends[JobState.SUCCEEDED]] == [NotificationEvent.FINISHED]
    assert [one.occasion for one in ends[JobState.PAUSED]] == [NotificationEvent.PAUSED]
    assert ends[JobState.STOPPED] == []


def test_four_fifths_of_the_budget_are_told_and_a_higher_one_is_another_thing() -> None:
    (first,) = told(budget_usd=100.0, spent=80.0)
    (second,) = told(budget_usd=200.0, spent=160.0)
    assert first.occasion is second.occasion is NotificationEvent.BUDGET
    assert first.key != second.key
    assert "80% of its budget ($80.00 of $100.00)" in first.message


def test_a_forecast_past_the_deadline_is_told() -> None:
    live = training().live
    assert live is not None
    assert live.total_seconds is not None
    deadline = SUBMITTED + live.total_seconds - 60.0
    (late,) = told(deadline_at=deadline, live=live)
    assert late.occasion is NotificationEvent.DEADLINE
    assert "1m 00s after its deadline" in late.message
    assert told(deadline_at=deadline, live=replace(live, total_seconds=None)) == []


def test_a_training_without_a_step_is_told_at_half_its_limit_and_each_pause_is_another_thing() -> None:
    live = training().live
    assert live is not None
    stalls = replace(live, no_step_seconds=59.0, hang_seconds=120.0)
    assert told(live=stalls) == []
    (first,) = told(live=replace(stalls, no_step_seconds=60.0))
    (later,) = told(live=replace(stalls, no_step_seconds=70.0, samples=live.samples + 1))
    assert first.occasion is NotificationEvent.HANG
    assert "no step for 1m" in first.message
    assert first.key != later.key
    assert told(live=replace(stalls, no_step_seconds=999.0, hang_seconds=None)) == []


def test_a_loss_that_is_nan_is_told_once_of_each_attempt() -> None:
    live = training().live
    assert live is not None
    lost = replace(live, nan_loss="loss", metrics={"loss": float("nan")})
    (first,) = told(live=lost)
    (again,) = told(live=replace(lost, samples=live.samples + 1))
    (next_attempt,) = told(live=replace(lost, task_id="t2"))
    assert first.occasion is NotificationEvent.NAN
    assert first.message == "char-rnn: loss is nan; the training continues"
    assert first.key == again.key != next_attempt.key

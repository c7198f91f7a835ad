"""Time and money of every deployment known."""

from __future__ import annotations

from dataclasses import replace

import pytest

import stories
from mlcd.core.study import Ledger, Stop, Study
from mlcd.core.trial import Measurement
from mlcd.core.view import JobStory
from mlcd.forecast.curves import pareto_front
from mlcd.reporting.training_estimates import TrainingEstimate, chosen, estimate_of_trial, training_estimates
from mlcd.search.choose import make_plan


def test_measured_deployments_are_not_believed_in_again() -> None:
    known = training_estimates(stories.story())
    assert len(known) == len({one.deployment for one in known}) == len(stories.SPACE) - 1  # one failed
    assert sum(one.measured for one in known) == len(stories.TRIALS) - 1


def test_time_is_start_and_work_over_speed() -> None:
    trial = stories.trial(0, 1)
    trial = replace(trial, outcome=Measurement(100.0, 80.0, 125.0))
    view = replace(stories.searching(), start_seconds=30.0)
    found = estimate_of_trial(view, trial)
    assert found is not None
    assert found.seconds == 60_030.0
    assert found.usd == pytest.approx(0.68 * 60_030 / 3600)
    assert found.total(Ledger(10.0, 1.0)).seconds == 60_040.0


def test_while_the_search_runs_the_band_is_the_one_that_the_plan_will_have() -> None:
    """It holds what a probe cannot see, too, and how far off the samples at that batch size may be."""
    trial = replace(stories.trial(0, 1), outcome=Measurement(100.0, 99.0, 101.0, spread=0.05))
    view = stories.searching()
    view = replace(view, record=replace(view.record, samples_at={256: 1e6}, samples_spread={256: 0.2}))
    found = estimate_of_trial(view, trial)
    study = Study(view.goal, (trial.deployment,), 6e6, start_seconds=view.start_seconds).with_trial(trial)
    study = replace(study, samples_at={256: 1e6}, samples_spread={256: 0.2}, spent=Ledger())
    plan = make_plan(study, Stop(trial.deployment, ""))
    assert found is not None
    assert (found.seconds, found.low_seconds, found.high_seconds, found.usd) == (
        plan.forecast.seconds,
        plan.forecast.low_seconds,
        plan.forecast.high_seconds,
        plan.forecast.usd,
    )
    assert found.high_seconds > 1.4 * found.seconds


def test_the_work_of_a_batch_size_counts_where_it_differs() -> None:
    view = stories.searching()
    view = replace(view, record=replace(view.record, samples_at={256: 1000.0}))
    found = estimate_of_trial(view, replace(stories.trial(0, 1), outcome=Measurement(100.0, 90.0, 110.0)))
    assert found is not None
    assert found.seconds == 10.0


def test_the_plan_s_own_forecast_is_taken_for_its_deployment() -> None:
    best = chosen(stories.story())
    assert best is not None
    assert best.seconds == stories.plan().forecast.seconds
    assert chosen(JobStory(stories.searching())) is None


def test_unknown_work_gives_no_prospect() -> None:
    view = stories.searching()
    job = replace(view.record.job, work=None)
    assert estimate_of_trial(replace(view, record=replace(view.record, job=job)), stories.TRIALS[0]) is None


def test_the_front_keeps_what_nothing_beats_in_both() -> None:
    def at(seconds: float, usd: float) -> TrainingEstimate:
        return TrainingEstimate(stories.deployment(0, 1), seconds, seconds, seconds, usd, measured=True)

    front = pareto_front([at(3, 1), at(1, 9), at(2, 9), at(2, 4), at(4, 2)])
    assert [(one.seconds, one.usd) for one in front] == [(1, 9), (2, 4), (3, 1)]

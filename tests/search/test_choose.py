"""From the end of a search to a plan in plain words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Belief, Stop, Study
from mlcd.core.trial import Measurement, Trial
from mlcd.core.units import show_duration, show_usd
from mlcd.errors import GoalUnreachableError, UserError
from mlcd.search.choose import best_feasible, make_plan
from search_worlds import deployment, failed, measured, study_of

FAST = deployment("p3", 1, usd_per_hour=10.0)  # 360,000 samples at 100/s: 1 h, $10
SLOW = deployment("c5", 1, usd_per_hour=1.0)  # at 25/s: 4 h, $4
FULL = deployment("t2", 1)


def test_a_plan_tells_the_forecast_the_search_and_the_reason() -> None:
    study = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), aim=Aim.FASTEST)
    plan = make_plan(study, Stop(FAST, "nothing else is worth a probe"))
    assert plan.forecast.seconds == pytest.approx(3600.0)
    assert plan.forecast.usd == pytest.approx(10.0)
    assert plan.search == study.spent
    assert plan.total.seconds == pytest.approx(3600.0 + 1200.0)
    assert "1 × p3 is the fastest of 2 measured deployments." in plan.reason
    assert "about 1h 00m and $10.00" in plan.reason
    assert plan.reason.endswith("Nothing else is worth a probe.")


def test_the_reason_says_how_much_of_the_limits_is_used() -> None:
    study = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), aim=Aim.CHEAPEST, deadline_hours=3.0)
    plan = make_plan(study, Stop(FAST, ""))
    assert "the only measured deployment that can keep the deadline" in plan.reason
    assert "1h 20m of the 3h 00m deadline" in plan.reason


def test_alternatives_say_why_they_were_not_taken() -> None:
    trials = (measured(FAST, 100.0), measured(SLOW, 25.0), failed(FULL))
    late = make_plan(study_of(*trials, aim=Aim.FASTEST, deadline_hours=3.0), Stop(FAST, ""))
    dear = make_plan(study_of(*trials, aim=Aim.CHEAPEST), Stop(SLOW, ""))
    assert [a.why_not for a in late.alternatives] == [
        "too slow: would end 1h 21m after the deadline",
        "failed: out of memory",
    ]
    assert [a.why_not for a in dear.alternatives] == ["dearer by $6.00", "failed: out of memory"]


def test_a_plan_on_spot_machines_tells_what_being_taken_back_costs() -> None:
    spot = deployment("c5", usd_per_hour=1.0, spot=True, losses_per_hour=0.5)
    study = replace(study_of(measured(spot, 25.0)), start_seconds=1000.0)
    plan = make_plan(study, Stop(spot, ""))
    lost = plan.forecast.seconds - (1000.0 + 4 * 3600.0)
    assert plan.forecast.seconds == pytest.approx(1000.0 + 4 * 3600.0 * study.stretch(0.5))
    assert f"Of that, {show_duration(lost)} and {show_usd(lost / 3600.0)} are for its machines" in plan.reason
    assert "expected 2.5 times" in plan.reason


def test_spot_machines_that_are_taken_back_too_often_are_not_worth_their_price() -> None:
    plain = measured(deployment("c5", usd_per_hour=1.0), 25.0)
    for losses_per_hour, choice_is_spot in ((0.05, True), (2.0, False)):
        spot = measured(deployment("c5", usd_per_hour=0.4, spot=True, losses_per_hour=losses_per_hour), 25.0)
        study = replace(study_of(plain, spot, aim=Aim.CHEAPEST), start_seconds=1800.0)
        best = best_feasible(study)
        assert best is not None
        assert best.deployment.offer.spot is choice_is_spot


def test_a_budget_and_a_slower_time_are_named_as_well() -> None:
    study = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), aim=Aim.FASTEST, budget_usd=8.0)
    assert (
        make_plan(study, Stop(SLOW, ""))
        .alternatives[0]
        .why_not.startswith("too dear: would pass the budget by $3.8")
    )
    free = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), aim=Aim.FASTEST)
    assert make_plan(free, Stop(FAST, "")).alternatives[0].why_not == "slower by 3h 00m"


def test_untried_deployments_are_shown_with_what_is_expected_of_them() -> None:
    other = deployment("m5", 1)
    study = study_of(measured(FAST, 100.0), space=(FAST, other), aim=Aim.FASTEST)
    plan = make_plan(
        study, Stop(FAST, ""), (Belief(other, 50.0, 40.0, 60.0), Belief(FAST, 100.0, 99.0, 101.0))
    )
    (alternative,) = plan.alternatives
    assert alternative.deployment == other
    assert alternative.why_not == "not tried; expected slower by 1h 00m"


def test_a_choice_that_was_never_tried_is_planned_from_beliefs() -> None:
    study = study_of(space=(FAST, SLOW), aim=Aim.FASTEST)
    plan = make_plan(study, Stop(FAST, ""), (Belief(FAST, 100.0, 50.0, 200.0),))
    assert plan.forecast.seconds == pytest.approx(3600.0)
    assert plan.forecast.high_seconds == pytest.approx(7200.0, rel=0.01)
    with pytest.raises(UserError, match="without trying it"):
        make_plan(study, Stop(FAST, ""))


def test_a_search_that_found_nothing_names_the_nearest_and_what_would_do() -> None:
    study = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), aim=Aim.CHEAPEST, deadline_hours=1.0)
    with pytest.raises(GoalUnreachableError) as caught:
        make_plan(study, Stop(None, "no deployment is fast enough"))
    assert caught.value.message == "No deployment can keep the deadline. No deployment is fast enough."
    assert caught.value.hint.startswith("The nearest is 1 × p3: a deadline of 1h 22m would do")


def test_what_was_never_measured_is_no_advice() -> None:
    study = study_of(space=(FAST, SLOW), aim=Aim.FASTEST, budget_usd=0.01)
    with pytest.raises(GoalUnreachableError) as caught:
        make_plan(study, Stop(None, ""), (Belief(FAST, 100.0, 1.0, 900.0),))
    assert caught.value.hint.startswith("Nothing could be tried within the limits: trying")


def test_the_nearest_may_be_one_that_was_not_tried_and_says_so() -> None:
    study = study_of(measured(SLOW, 1.0), space=(FAST, SLOW), aim=Aim.FASTEST, budget_usd=0.01)
    with pytest.raises(GoalUnreachableError) as caught:
        make_plan(study, Stop(None, ""), (Belief(FAST, 100.0, 1.0, 900.0),))
    assert "without trying it" in caught.value.hint


def test_a_choice_that_passes_a_limit_is_refused() -> None:
    study = study_of(measured(FAST, 100.0), aim=Aim.FASTEST, budget_usd=5.0)
    with pytest.raises(GoalUnreachableError, match="a budget of \\$12"):
        make_plan(study, Stop(FAST, ""))


def test_when_everything_failed_the_logs_are_pointed_at() -> None:
    with pytest.raises(GoalUnreachableError, match="see their logs"):
        make_plan(study_of(failed(FULL)), Stop(None, "every deployment failed"))


def test_the_balanced_aim_takes_the_knee_of_what_was_measured() -> None:
    offer = Offer("local", InstanceType("m"), usd_per_hour=1.0, max_nodes=64)
    speeds = {1: 10.0, 2: 19.0, 4: 36.0, 8: 60.0, 16: 66.0, 32: 68.0}
    trials = tuple(
        Trial(Deployment(offer, nodes), Measurement(speed, speed, speed), seconds=1.0, usd=0.0)
        for nodes, speed in speeds.items()
    )
    space = tuple(trial.deployment for trial in trials)
    study = Study(Goal(Aim.BALANCED), space, samples=36_000.0, trials=trials)
    plan = make_plan(study, Stop(space[-1], "enough"))
    assert plan.deployment.nodes in (4, 8)

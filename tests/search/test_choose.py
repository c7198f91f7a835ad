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
    assert [a.why_not for a in dear.alternatives] == ["more expensive by $6.00", "failed: out of memory"]


def test_a_plan_on_spot_machines_tells_what_being_taken_back_costs() -> None:
    spot = deployment("c5", usd_per_hour=1.0, spot=True, losses_per_hour=0.5)
    study = replace(study_of(measured(spot, 25.0)), start_seconds=1000.0)
    plan = make_plan(study, Stop(spot, ""))
    lost = plan.forecast.seconds - (1000.0 + 4 * 3600.0)
    assert plan.forecast.seconds == pytest.approx(1000.0 + 4 * 3600.0 * study.slowdown(0.5))
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
        .why_not.startswith("too expensive: would pass the budget by $3.8")
    )
    free = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), aim=Aim.FASTEST)
    assert make_plan(free, Stop(FAST, "")).alternatives[0].why_not == "slower by 3h 00m"


def test_untried_deployments_are_shown_with_what_is_expected_of_them() -> None:
    other = deployment("m5", 1)
    study = study_of(measured(FAST, 100.0), space=(FAST, other), aim=Aim.FASTEST)
    plan = make_plan(study, Stop(FAST, ""), (Belief(other, 50.0, 40.0, 60.0), Belief(FAST, 100.0, 99.0, 101.0)))
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
    # An hour of training at the slow end of its band and twenty minutes of search, a tenth added.
    assert caught.value.hint == "The nearest is 1 × p3: a deadline of 1h 31m would be enough."
    assert caught.value.deadline_seconds == 91 * 60.0
    assert caught.value.budget_usd is None


def refused(study: Study, *beliefs: Belief) -> GoalUnreachableError:
    with pytest.raises(GoalUnreachableError) as caught:
        make_plan(study, Stop(None, ""), beliefs)
    return caught.value


def test_only_the_limit_that_nothing_keeps_is_blamed() -> None:
    trials = (measured(FAST, 100.0), measured(SLOW, 25.0))
    late = refused(study_of(*trials, deadline_hours=0.5, budget_usd=100.0))
    dear = refused(study_of(*trials, deadline_hours=24.0, budget_usd=1.0))
    assert late.message == "No deployment can keep the deadline."
    assert (late.deadline_seconds is None, late.budget_usd) == (False, None)
    assert dear.message == "No deployment can keep the budget."
    assert (dear.deadline_seconds, dear.budget_usd is None) == (None, False)


def test_of_two_limits_that_exclude_each_other_either_may_be_raised() -> None:
    error = refused(study_of(measured(FAST, 100.0), measured(SLOW, 25.0), deadline_hours=2.0, budget_usd=8.0))
    assert error.message == "No deployment can keep the deadline and the budget."
    assert "1 × c5: a deadline of " in error.hint
    assert "; or 1 × p3: a budget of " in error.hint
    assert error.budget_usd is None  # the first way out is the one to try


def test_two_limits_that_nothing_keeps_are_raised_together() -> None:
    error = refused(study_of(measured(FAST, 100.0), measured(SLOW, 25.0), deadline_hours=0.4, budget_usd=1.0))
    assert error.message == "No deployment can keep the deadline and the budget."
    assert error.deadline_seconds is not None
    assert error.budget_usd is not None


@pytest.mark.parametrize(("deadline_hours", "budget_usd"), [(0.5, None), (None, 1.0), (0.5, 1.0)])
def test_the_limit_that_is_named_does(deadline_hours: float | None, budget_usd: float | None) -> None:
    study = study_of(measured(FAST, 100.0), measured(SLOW, 25.0), deadline_hours=deadline_hours, budget_usd=budget_usd)
    error = refused(study)
    raised = replace(
        study.goal,
        deadline_seconds=error.deadline_seconds or study.goal.deadline_seconds,
        budget_usd=error.budget_usd or study.goal.budget_usd,
    )
    best = best_feasible(replace(study, goal=raised))
    assert best is not None
    assert make_plan(replace(study, goal=raised), Stop(best.deployment, "")).deployment == best.deployment


def test_an_untried_deployment_that_would_do_has_to_be_tried_first() -> None:
    study = study_of(measured(SLOW, 1.0), space=(FAST, SLOW), aim=Aim.FASTEST, deadline_hours=0.5)
    error = refused(study, Belief(FAST, 100.0, 99.0, 101.0))
    assert error.deadline_seconds is not None
    assert error.deadline_seconds > study.spent.seconds + study.probe_seconds(FAST) + 3600.0


def test_what_surely_keeps_the_limits_is_not_called_less_sure() -> None:
    study = study_of(measured(SLOW, 25.0), space=(FAST, SLOW), aim=Aim.FASTEST, deadline_hours=120.0)
    plan = make_plan(study, Stop(SLOW, ""), (Belief(FAST, 25.5, 24.0, 27.0),))
    why = plan.alternatives[0].why_not
    assert why == "not tried; expected faster by 4m 42s, less than trying it takes (10m 00s)"
    tight = make_plan(
        replace(study, goal=Goal(Aim.FASTEST, 4.4 * 3600.0)),
        Stop(SLOW, ""),
        (Belief(FAST, 25.5, 24.0, 36.0),),
    )
    assert "but less sure to keep the limits" in tight.alternatives[0].why_not


def test_what_was_never_measured_is_no_advice() -> None:
    study = study_of(space=(FAST, SLOW), aim=Aim.FASTEST, budget_usd=0.01)
    with pytest.raises(GoalUnreachableError) as caught:
        make_plan(study, Stop(None, ""), (Belief(FAST, 100.0, 1.0, 900.0),))
    assert caught.value.hint.startswith("Nothing could be tried within the limits: trying")


def test_no_limit_is_blamed_where_the_job_has_none() -> None:
    with pytest.raises(GoalUnreachableError) as caught:
        make_plan(study_of(space=(FAST, SLOW)), Stop(None, "no cluster costs $0.01 an hour or less"), ())
    assert caught.value.message == "No deployment can be trained on. No cluster costs $0.01 an hour or less."
    assert "limit that forbids it: see `search.options`" in caught.value.hint


def test_the_nearest_may_be_one_that_was_not_tried_and_says_so() -> None:
    study = study_of(measured(SLOW, 1.0), space=(FAST, SLOW), aim=Aim.FASTEST, budget_usd=0.01)
    with pytest.raises(GoalUnreachableError) as caught:
        make_plan(study, Stop(None, ""), (Belief(FAST, 100.0, 1.0, 900.0),))
    assert "without trying it" in caught.value.hint


def test_a_choice_that_passes_a_limit_is_refused() -> None:
    study = study_of(measured(FAST, 100.0), aim=Aim.FASTEST, budget_usd=5.0)
    with pytest.raises(GoalUnreachableError, match=r"a budget of \$13\.28"):
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


def test_the_balanced_aim_leaves_a_choice_that_was_not_tried_as_it_is() -> None:
    """Scavenger's models and Scala-Opt's bandwidths choose among all deployments, and not among the few that were measured."""
    offer = Offer("local", InstanceType("m"), usd_per_hour=1.0, max_nodes=64)
    trials = tuple(
        Trial(Deployment(offer, nodes), Measurement(speed, speed, speed), seconds=1.0, usd=0.0)
        for nodes, speed in {1: 10.0, 2: 19.0, 4: 36.0, 32: 68.0}.items()
    )
    best = Deployment(offer, 8)
    space = (*(trial.deployment for trial in trials), best)
    study = Study(Goal(Aim.BALANCED), space, samples=36_000.0, trials=trials)
    plan = make_plan(study, Stop(best, "the models say so"), (Belief(best, 65.0, 60.0, 70.0),))
    assert plan.deployment == best
    assert "it was not tried" in plan.reason

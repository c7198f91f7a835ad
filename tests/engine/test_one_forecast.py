"""Plan, curves and report tell the same of every deployment, and a later job does without probes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.run import JobState
from mlcd.core.view import JobView
from mlcd.reporting.training_estimates import chosen, training_estimates

pytestmark = pytest.mark.slow

TRACE = Path(__file__).parents[2] / "docs" / "tutorial" / "trace.csv"


def replay(client: Client, search: object, run: str = "python train.py", name: str = "one") -> JobView:
    job = {
        "name": "images",
        "run": run,
        "num_nodes": "1..16",
        "work": {"samples": 12_000_000},
        "batch_size": "128..1024",
        "goal": "cheapest",
        "deadline": "10h",
        "search": search,
    }
    options = {"trace": str(TRACE), "state": str(client.settings.home / f"{name}.json")}
    return client.drive(client.submit(client.load(job), cloud="replay", cloud_options=options))


@pytest.mark.parametrize("strategy", ["auto", "scavenger", "heterbo"])
def test_the_plan_and_the_curve_tell_the_same(client: Client, strategy: str) -> None:
    view = replay(client, strategy)
    plan, curve = view.record.plan, client.curve(view.record.id)
    assert plan is not None
    points = {point.deployment: point for point in curve.points}
    told = {plan.deployment: plan.forecast}
    told |= {other.deployment: other.forecast for other in plan.alternatives if other.forecast is not None}
    untried = set(told) - {trial.deployment for trial in view.trials}
    assert untried
    for deployment, forecast in told.items():
        point = points[deployment]
        assert point.seconds == pytest.approx(forecast.seconds)
        assert (point.low_seconds, point.high_seconds) == pytest.approx((forecast.low_seconds, forecast.high_seconds))
        assert point.usd == pytest.approx(forecast.usd)
    best = chosen(client.story(view.record.id))
    assert best is not None
    assert best.measured == (plan.deployment not in untried)


def test_a_job_with_a_batch_range_is_foretold_by_its_models_where_they_have_seen_enough(client: Client) -> None:
    view = replay(client, {"strategy": "exhaustive", "options": {"nodes": [1, 4, 16]}})
    points = client.curve(view.record.id).points
    assert {point.known_by for point in points} >= {"a probe", "the models"}
    truth = {
        int(line.split(",")[3]): line
        for line in TRACE.read_text().splitlines()[1:]
        if line.startswith("images,cpu16,8,")
    }
    for point in points:
        place = point.deployment
        if place.offer.instance.name == "cpu16" and place.nodes == 8 and point.known_by == "the models":
            fields = truth[place.batch_size or 0].split(",")
            took = float(fields[5]) / float(fields[4])
            assert point.low_seconds < took < point.high_seconds


def test_the_next_job_of_the_program_is_planned_without_a_probe_and_says_how_good_the_models_are(
    client: Client,
) -> None:
    first = replay(client, "scavenger")
    none = {"strategy": "scavenger", "options": {"mode": "none"}}
    for run in ("python train.py", "python train.py --lr 0.1"):
        again = replay(client, none, run, name=run.replace(" ", ""))
        assert again.record.state is JobState.PLANNED, again.record.error
        assert again.trials == ()
        assert again.search.usd == 0.0
        assert again.record.plan is not None
        assert f"No probe was needed: the models of {first.record.id} (the same program" in again.record.plan.reason
        story = client.story(again.record.id)
        assert story.beliefs
        estimates = {each.deployment: each for each in training_estimates(story)}
        assert estimates[again.record.plan.deployment].seconds == pytest.approx(again.record.plan.forecast.seconds)


def test_without_an_earlier_job_mode_none_goes_on_as_partial(client: Client) -> None:
    view = replay(client, {"strategy": "scavenger", "options": {"mode": "none"}})
    assert view.trials
    assert view.record.plan is not None
    assert "ode none went on as partial, for no earlier job of this program left 3 profiles" in view.record.plan.reason


def test_a_job_that_does_not_want_to_learn_is_probed(client: Client) -> None:
    replay(client, "scavenger")
    view = replay(client, {"strategy": "scavenger", "options": {"mode": "none"}, "learn": False}, name="two")
    assert view.trials

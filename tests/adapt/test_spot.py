"""When a run leaves the spot market, and where it goes when machines are sold out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.adapt.base import Keep, Move, Situation, Speed
from mlcd.adapt.policies import decide
from mlcd.adapt.prospects import stay
from mlcd.adapt.spot import leave_spot, leave_what_is_sold_out, with_twins
from mlcd.core.goal import Aim, Goal
from mlcd.core.losses import slowdown
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Ledger

PLAIN = Offer("ec2", InstanceType("c5.large", 2, 4), usd_per_hour=1.0, max_nodes=8)
SPOT = replace(PLAIN, usd_per_hour=0.3, spot=True)
OTHER = replace(PLAIN, instance=InstanceType("m5.large", 2, 8), usd_per_hour=1.2)
HOUR = 3600.0


def situation(left_hours: float, deadline_hours: float | None = 10.0, **changes: object) -> Situation:
    """A run on two spot machines at 100 samples a second, an hour in, with so many hours of work left."""
    speed = Speed(100.0, 95.0, 105.0)
    seconds = None if deadline_hours is None else deadline_hours * HOUR
    made = Situation(
        goal=Goal(Aim.CHEAPEST, seconds),
        spent=Ledger(HOUR, 1.0),
        deployment=Deployment(SPOT, 2),
        now=speed,
        watched_seconds=60.0,
        samples_left=left_hours * HOUR * 95.0,
        speeds={Deployment(SPOT, 2): speed, Deployment(PLAIN, 2): speed, Deployment(OTHER, 2): speed},
        move_seconds=300.0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_there_is_time_to_lose() -> None:
    assert leave_spot(situation(left_hours=6.0)) == Keep()


def test_without_slack_the_same_machines_are_taken_on_demand() -> None:
    decision = leave_spot(situation(left_hours=8.9))
    assert isinstance(decision, Move)
    assert decision.deployment == Deployment(PLAIN, 2)
    assert "no time left to lose" in decision.why
    assert decide(situation(left_hours=8.9)) == decision


def test_without_a_deadline_or_machines_on_demand_a_run_stays() -> None:
    assert leave_spot(situation(left_hours=8.9, deadline_hours=None)) == Keep()
    only_spot = {Deployment(SPOT, 2): Speed(100.0, 95.0, 105.0)}
    assert leave_spot(situation(left_hours=8.9, speeds=only_spot)) == Keep()
    assert leave_spot(situation(left_hours=8.9, deployment=Deployment(PLAIN, 2))) == Keep()


def test_what_is_sold_out_is_left_for_the_best_that_keeps_the_limits() -> None:
    decision = leave_what_is_sold_out(situation(left_hours=6.0))
    assert isinstance(decision, Move)
    assert decision.deployment == Deployment(PLAIN, 2)
    assert leave_what_is_sold_out(situation(left_hours=20.0)) == Keep()


def test_a_speed_seen_on_spot_machines_holds_on_demand() -> None:
    seen, guess = Speed(100.0, 95.0, 105.0), Speed(50.0, 10.0, 200.0)
    speeds = with_twins(
        {Deployment(SPOT, 2): seen, Deployment(PLAIN, 2): guess, Deployment(PLAIN, 3): guess},
        {Deployment(SPOT, 2): seen},
    )
    assert speeds[Deployment(PLAIN, 2)] == seen
    assert speeds[Deployment(PLAIN, 3)] == guess


def test_going_on_with_machines_that_are_taken_back_takes_longer() -> None:
    often = replace(SPOT, losses_per_hour=1.0)
    calm, stormy = (stay(situation(left_hours=6.0, deployment=Deployment(offer, 2))) for offer in (SPOT, often))
    rest = calm.expected.seconds - HOUR
    assert stormy.expected.seconds == pytest.approx(HOUR + rest * slowdown(1.0, 300.0))
    assert stormy.expected.usd > calm.expected.usd

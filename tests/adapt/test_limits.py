"""Keeping the deadline and the budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.adapt.limits import (
    LEAST_STOP_SECONDS,
    Halt,
    Keep,
    Limit,
    allowed_seconds,
    held_back,
    keep_or_halt,
    promised_usd,
    rent_or_halt,
    rental_seconds,
)
from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Ledger

TWO = Deployment(Offer("local", InstanceType("m"), usd_per_hour=1.0, max_nodes=4), nodes=2)


def test_without_limits_it_goes_on_for_ever() -> None:
    assert allowed_seconds(Goal(Aim.FASTEST), Ledger(1e9, 1e9), TWO, 15) == float("inf")


def test_the_budget_leaves_room_for_stopping() -> None:
    goal = Goal(Aim.FASTEST, budget_usd=10.0)
    assert allowed_seconds(goal, Ledger(0, 9.0), TWO, 60) == pytest.approx(1800 - 60)


def test_it_halts_before_the_budget_is_passed_and_says_so() -> None:
    goal = Goal(Aim.FASTEST, budget_usd=10.0)
    decision = keep_or_halt(goal, Ledger(100, 9.98), TWO, 60)
    assert isinstance(decision, Halt)
    assert decision.limit is Limit.BUDGET
    assert "$9.98" in decision.why


def test_it_halts_at_the_deadline() -> None:
    goal = Goal(Aim.CHEAPEST, deadline_seconds=3600, budget_usd=1000.0)
    assert isinstance(keep_or_halt(goal, Ledger(3000, 1), TWO, 60), Keep)
    decision = keep_or_halt(goal, Ledger(3560, 1), TWO, 60)
    assert isinstance(decision, Halt)
    assert decision.limit is Limit.DEADLINE


def test_nothing_is_rented_whose_least_charge_passes_the_budget() -> None:
    goal, minute = Goal(Aim.FASTEST, budget_usd=0.30), replace(TWO.offer, usd_per_hour=16.0, least_seconds=60)
    dear = Deployment(minute, nodes=2)
    assert allowed_seconds(goal, Ledger(), dear, 0.0) > 30.0
    assert rental_seconds(goal, Ledger(), dear, 0.0) == 0.0
    assert rental_seconds(goal, Ledger(), TWO, 0.0) == allowed_seconds(goal, Ledger(), TWO, 0.0)
    decision = rent_or_halt(goal, Ledger(), dear, 0.0)
    assert isinstance(decision, Halt)
    assert decision.limit is Limit.BUDGET


def test_a_free_machine_cannot_pass_a_budget() -> None:
    free = Deployment(Offer("local", InstanceType("m"), usd_per_hour=0.0, max_nodes=4), nodes=2)
    assert allowed_seconds(Goal(Aim.FASTEST, budget_usd=1.0), Ledger(0, 0.5), free, 60) == float("inf")


def test_what_is_held_back_for_stopping_gives_way_to_work_that_can_be_done() -> None:
    assert held_back(room_seconds=100, needed_seconds=50, stop_seconds=15) == 15
    assert held_back(room_seconds=100, needed_seconds=85, stop_seconds=15) == pytest.approx(6.5)
    assert held_back(room_seconds=10, needed_seconds=5, stop_seconds=15) == pytest.approx(4.5)


def test_work_that_cannot_be_done_in_time_leaves_all_the_time_for_stopping() -> None:
    assert held_back(room_seconds=100, needed_seconds=90, stop_seconds=15) == 15
    assert held_back(room_seconds=10, needed_seconds=8, stop_seconds=15) == 15
    assert held_back(room_seconds=10, needed_seconds=1, stop_seconds=15, least_seconds=9) == 15


def test_a_training_on_forecast_is_never_halted_on_its_way_and_a_slower_one_in_time() -> None:
    """Ten seconds of work in 13.5 of room: on time it ends; at half the speed it is stopped."""
    goal = Goal(Aim.CHEAPEST, deadline_seconds=13.5)
    told = held_back(13.5, 10.0, stop_seconds=15.4)  # what the cloud is launched with
    assert told >= LEAST_STOP_SECONDS
    for second in range(10):
        held = held_back(13.5 - second, 10.0 - second, 15.4, least_seconds=told)
        assert isinstance(keep_or_halt(goal, Ledger(second, 0), TWO, held), Keep)
    slow = held_back(13.5 - 1, 10.0 - 0.5, 15.4, least_seconds=told)
    assert slow == 15.4
    assert isinstance(keep_or_halt(goal, Ledger(1, 0), TWO, slow), Halt)


def test_probes_side_by_side_share_what_is_left_of_the_budget() -> None:
    goal, spent, under_way = Goal(Aim.FASTEST, budget_usd=12.0), 2.0, 0.0
    for to_join in (3, 2, 1, 0):
        mine = 12.0 - spent - promised_usd(goal, spent, under_way, to_join)
        assert mine == pytest.approx(2.5)
        under_way += mine
    assert spent + under_way == pytest.approx(12.0)


def test_without_a_budget_nothing_is_promised() -> None:
    assert promised_usd(Goal(Aim.FASTEST), 2.0, float("inf"), 3) == 0.0

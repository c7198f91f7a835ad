"""Keeping the deadline and the budget."""

from __future__ import annotations

import pytest

from mlcd.adapt.limits import Halt, Keep, Limit, allowed_seconds, keep_or_halt
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
    verdict = keep_or_halt(goal, Ledger(100, 9.98), TWO, 60)
    assert isinstance(verdict, Halt)
    assert verdict.limit is Limit.BUDGET
    assert "$9.98" in verdict.why


def test_it_halts_at_the_deadline() -> None:
    goal = Goal(Aim.CHEAPEST, deadline_seconds=3600, budget_usd=1000.0)
    assert isinstance(keep_or_halt(goal, Ledger(3000, 1), TWO, 60), Keep)
    verdict = keep_or_halt(goal, Ledger(3560, 1), TWO, 60)
    assert isinstance(verdict, Halt)
    assert verdict.limit is Limit.DEADLINE


def test_a_free_machine_cannot_pass_a_budget() -> None:
    free = Deployment(Offer("local", InstanceType("m"), usd_per_hour=0.0, max_nodes=4), nodes=2)
    assert allowed_seconds(Goal(Aim.FASTEST, budget_usd=1.0), Ledger(0, 0.5), free, 60) == float("inf")

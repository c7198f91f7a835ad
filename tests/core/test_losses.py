"""How much longer a training takes on machines that are taken back."""

from __future__ import annotations

import random

import pytest

from mlcd.core.losses import slowdown

HOUR = 3600.0


def test_machines_that_nobody_takes_back_cost_no_time() -> None:
    assert slowdown(0.0, restart_seconds=300.0) == 1.0


def test_rare_losses_cost_the_restart_and_half_of_the_work_between_checkpoints() -> None:
    each_seconds = 120.0 + 300.0 / 2
    assert slowdown(0.01, 120.0, 300.0) - 1.0 == pytest.approx(0.01 / HOUR * each_seconds, rel=0.01)


def test_machines_that_live_for_a_while_cost_a_start_in_every_life() -> None:
    work, life, start = 10_000.0, 45.0, 19.0
    seconds, left = 0.0, work
    while left > 0:
        done = min(left, life - start)
        seconds, left = seconds + start + done, left - done
    assert work * slowdown(0.0, start, lifetime_seconds=life) == pytest.approx(seconds, rel=0.01)


def test_a_start_that_takes_a_whole_life_gives_no_endless_forecast() -> None:
    assert 1.0 < slowdown(0.0, 100.0, lifetime_seconds=45.0) < 100.0


@pytest.mark.parametrize(("losses_per_hour", "restart_seconds"), [(0.5, 120.0), (2.0, 600.0)])
def test_frequent_losses_cost_what_chance_makes_of_them(losses_per_hour: float, restart_seconds: float) -> None:
    dice = random.Random(3)
    pieces, tau = 40_000, 900.0
    seconds = sum(_one_piece(dice, losses_per_hour / HOUR, restart_seconds, tau) for _ in range(pieces))
    expected = slowdown(losses_per_hour, restart_seconds, tau)
    assert seconds / (pieces * tau) == pytest.approx(expected, rel=0.03)


def _one_piece(dice: random.Random, rate: float, restart_seconds: float, tau: float) -> float:
    """Seconds until a piece of work between two checkpoints is done; what is lost, also while starting again, is repeated."""
    seconds, needed = 0.0, tau
    while (until_loss := dice.expovariate(rate)) < needed:
        seconds += until_loss
        needed = restart_seconds + tau
    return seconds + needed

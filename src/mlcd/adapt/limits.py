"""Keep the deadline and the budget: go on, or halt with a checkpoint while there is still room for one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mlcd.core.goal import Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger
from mlcd.core.units import show_duration, show_usd

LEAST_STOP_SECONDS = 2.0  # to save and end, in the shortest notice that a program gets
SLOWER = 1.1  # the rest of the work may take that much longer than it looks


class Limit(StrEnum):
    """What would be passed."""

    BUDGET = "budget"
    DEADLINE = "deadline"


@dataclass(frozen=True)
class Keep:
    """Go on as it is."""


@dataclass(frozen=True)
class Halt:
    """Stop with a checkpoint before the limit is passed."""

    limit: Limit
    why: str


def keep_or_halt(goal: Goal, spent: Ledger, deployment: Deployment, stop_seconds: float) -> Keep | Halt:
    """Whether there is room for more than the time that stopping takes.

    What is spent is at this moment; stopping costs the grace period on all nodes.
    """
    if allowed_seconds(goal, spent, deployment, stop_seconds) > 0:
        return Keep()
    return _halt(goal, spent, deployment.usd(stop_seconds))


def rent_or_halt(goal: Goal, spent: Ledger, deployment: Deployment, stop_seconds: float) -> Keep | Halt:
    """The same before a deployment is rented, which costs the least that is charged for it."""
    if rental_seconds(goal, spent, deployment, stop_seconds) > 0:
        return Keep()
    return _halt(goal, spent, deployment.rental_usd(stop_seconds))


def _halt(goal: Goal, spent: Ledger, more_usd: float) -> Halt:
    if goal.budget_usd is not None and spent.usd + more_usd >= goal.budget_usd:
        return Halt(Limit.BUDGET, f"{show_usd(spent.usd)} of the budget of {show_usd(goal.budget_usd)} are spent")
    return Halt(Limit.DEADLINE, f"the deadline ({show_duration(goal.deadline_seconds or 0)} in all) is reached")


def held_back(
    room_seconds: float,
    needed_seconds: float,
    stop_seconds: float,
    least_seconds: float = LEAST_STOP_SECONDS,
) -> float:
    """How much of the room before a limit is kept for stopping.

    All that stopping may take; but where the work can be done within the room, only what it leaves. So a plan
    that keeps its limits is not halted by the time that a halt would have taken.
    """
    spare = room_seconds - SLOWER * needed_seconds
    return stop_seconds if spare < least_seconds else min(stop_seconds, spare)


def allowed_seconds(goal: Goal, spent: Ledger, deployment: Deployment, stop_seconds: float) -> float:
    """How long this deployment may go on before it has to be told to stop."""
    seconds = [float("inf")]
    if goal.deadline_seconds is not None:
        seconds.append(goal.deadline_seconds - spent.seconds - stop_seconds)
    if goal.budget_usd is not None and deployment.usd_per_hour > 0:
        seconds.append((goal.budget_usd - spent.usd) / deployment.usd_per_hour * 3600.0 - stop_seconds)
    return min(seconds)


def rental_seconds(goal: Goal, spent: Ledger, deployment: Deployment, stop_seconds: float) -> float:
    """How long a deployment that is rented now may run; 0: the least that is charged for it is more than is left."""
    if goal.budget_usd is not None and spent.usd + deployment.rental_usd(0.0) > goal.budget_usd:
        return 0.0
    return allowed_seconds(goal, spent, deployment, stop_seconds)


def promised_usd(goal: Goal, spent_usd: float, under_way_usd: float, to_join: int) -> float:
    """What one of several probes side by side must leave of the budget, so that together they keep it.

    All that those under way may cost, and an equal share of the rest for each that may yet join them.
    """
    if goal.budget_usd is None:
        return 0.0
    left = max(0.0, goal.budget_usd - spent_usd - under_way_usd)
    return under_way_usd + left * to_join / (to_join + 1)

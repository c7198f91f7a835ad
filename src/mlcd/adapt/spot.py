"""Spot machines under a deadline: cheap for as long as there is time to lose them, on demand when there is none. Pure.

    slack = time to the deadline − the rest of the work on demand − what moving there and being lost once more cost

While the training makes steps, the time left and the work left shrink alike and the slack stays; what eats it is being
lost, and waiting for capacity. When it is gone, only machines that nobody takes back can still keep the deadline.
"""

from __future__ import annotations

from mlcd.adapt.base import Keep, Move, MoveCause, Situation, Speed
from mlcd.adapt.prospects import Prospect, allows, elsewhere, value
from mlcd.core.machines import Deployment
from mlcd.core.units import show_duration

# Moves for which there must be time: the one to machines on demand, and one more loss before it.
RESTARTS_HELD = 2.0
MARGIN_SHARE = 0.02  # of the rest of the work


def slack_seconds(left_seconds: float, rest_seconds: float, move_seconds: float) -> float:
    """Time that may still be lost, where the deadline is so far away and the rest on demand takes so long."""
    return left_seconds - rest_seconds * (1.0 + MARGIN_SHARE) - RESTARTS_HELD * move_seconds


def leave_spot(situation: Situation) -> Keep | Move:
    """Go on on demand once losing the machines again would break the deadline."""
    deadline, here = situation.goal.deadline_seconds, situation.deployment
    if deadline is None or not here.offer.spot:
        return Keep()
    twin = on_demand_twin(situation)
    if twin is None:
        return Keep()
    rest = situation.samples_left / situation.speeds[twin].low
    left = deadline - situation.spent.seconds
    if slack_seconds(left, rest, situation.move_seconds) > 0:
        return Keep()
    return Move(
        twin,
        f"there is no time left to lose: the deadline is in {show_duration(left)}, and the rest takes "
        f"{show_duration(rest)} on machines that are not taken back",
        MoveCause.SPOT,
    )


def leave_what_is_sold_out(situation: Situation) -> Keep | Move:
    """Where the deployment cannot be had now, take the best other that keeps the limits; none: try again later."""
    able = [
        other
        for other in elsewhere(situation)
        if allows(situation, other.slow) and other.deployment.types != situation.deployment.types
    ]
    best: Prospect | None = min(able, key=lambda other: value(situation, other.expected), default=None)
    if best is None:
        return Keep()
    return Move(best.deployment, f"{situation.deployment} cannot be had now", MoveCause.NO_CAPACITY)


def on_demand_twin(situation: Situation) -> Deployment | None:
    """The same deployment on machines that nobody takes back, where the job allows it."""
    ours = situation.deployment
    return next(
        (other for other in situation.speeds if not other.offer.spot and _market_free(other) == _market_free(ours)),
        None,
    )


def with_twins(speeds: dict[Deployment, Speed], measured: dict[Deployment, Speed]) -> dict[Deployment, Speed]:
    """Machines are as fast on demand as on the spot market: what was measured of the one holds for the other."""
    seen = {_market_free(deployment): speed for deployment, speed in measured.items()}
    return {
        deployment: measured.get(deployment, seen.get(_market_free(deployment), speed))
        for deployment, speed in speeds.items()
    }


def _market_free(deployment: Deployment) -> tuple[object, ...]:
    offer = deployment.offer
    return (
        offer.cloud,
        offer.region,
        offer.instance,
        deployment.nodes,
        deployment.servers,
        deployment.of_servers.instance,
        deployment.batch_size,
        deployment.accumulation,
    )

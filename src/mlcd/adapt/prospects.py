"""What the rest of the training would take, here or elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlcd.adapt.base import Situation, Speed
from mlcd.core.losses import slowdown
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger


@dataclass(frozen=True)
class Prospect:
    """The whole job's totals if the rest is trained there."""

    deployment: Deployment
    expected: Ledger
    slow: Ledger  # at the low end of the speed's band


def stay(situation: Situation) -> Prospect:
    """The totals if nothing changes."""
    return _prospect(situation, situation.deployment, situation.now, 0.0)


def elsewhere(situation: Situation) -> Iterator[Prospect]:
    """The totals for every other deployment that something is known of, the move included."""
    for deployment, speed in situation.speeds.items():
        if deployment != situation.deployment:
            yield _prospect(situation, deployment, speed, situation.move_seconds)


def value(situation: Situation, totals: Ledger) -> float:
    """What the aim makes small."""
    return situation.goal.value(totals.seconds, totals.usd)


def allows(situation: Situation, totals: Ledger) -> bool:
    """Whether these totals keep both limits."""
    return situation.goal.allows(totals.seconds, totals.usd)


def samples_left(situation: Situation, deployment: Deployment) -> float:
    """What is left to train at that deployment's batch size.

    The noise scale φ of this moment tells it, once it is stable: samples to the target grow as 1 + B/φ, so the
    rest is multiplied by (1 + B/φ) ÷ (1 + B₀/φ). Before that, what the whole job was expected to need.
    """
    ours, theirs = situation.deployment.batch_size, deployment.batch_size
    if ours is None or theirs is None or ours == theirs:
        return situation.samples_left
    known, noise = situation.samples_at, situation.noise_scale
    if noise is not None:
        return situation.samples_left * (noise + theirs) / (noise + ours)
    if ours in known and theirs in known:
        return situation.samples_left * known[theirs] / known[ours]
    return situation.samples_left


def _prospect(situation: Situation, deployment: Deployment, speed: Speed, move_seconds: float) -> Prospect:
    lifetime = deployment.offer.lifetime_seconds
    longer = slowdown(deployment.losses_per_hour, situation.move_seconds, lifetime_seconds=lifetime)
    left = longer * samples_left(situation, deployment)

    def totals(samples_per_second: float) -> Ledger:
        seconds = move_seconds + left / samples_per_second
        rented = deployment.rental_usd(seconds) if move_seconds > 0 else deployment.usd(seconds)
        return Ledger(situation.spent.seconds + seconds, situation.spent.usd + rented)

    return Prospect(deployment, totals(speed.samples_per_second), totals(speed.low))

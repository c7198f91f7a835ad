"""What it costs a training that its machines may be taken back, or live for a while only: it takes longer. Pure.

    λ   losses an hour of a deployment's machines: seldom of one alone, for those of one type and zone are nearly always
        taken back together (within three minutes in 92 % of 2,635 cases: Spot-and-Scoot, arXiv 2604.16457)
    R   from the loss to the next step: new machines, setup, the program's start
    τ   of work between two checkpoints, half of which is lost on average

    T   what a machine lives at the most; it saves just before, so nothing is lost but the next start

    expected time ÷ time without losses = e^(λR) (e^(λτ) − 1) ÷ (λτ)          Daly, 2006, with no time to save
    expected time ÷ time without restarts = T ÷ (T − R)

How often nobody promises. AWS's Spot Instance Advisor has bands from less than 5 % to more than 20 % a month, which is 0.0003
an hour; the prices of 70 types in us-east-1 rose by a tenth or more 0.00001 to 0.002 times an hour, at the median 0.0001
(December 2022 to August 2026, see benchmarks/spot).
Scarce types fare worse at bad times, so what is taken here is far more: a deadline is to be kept then, too.
"""

from __future__ import annotations

from math import exp, expm1

LEAST_WORKING_SHARE = 0.02  # of a lifetime: a start that takes all of it would make the forecast endless
SPOT_LOSSES_PER_HOUR = 0.05  # once in twenty hours
CHECKPOINT_SECONDS = 300.0


def slowdown(
    losses_per_hour: float,
    restart_seconds: float,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    lifetime_seconds: float = 0.0,
) -> float:
    """How many times longer a training takes than on machines that nobody takes back and that live for ever."""
    return _losses(losses_per_hour, restart_seconds, checkpoint_seconds) * _restarts(lifetime_seconds, restart_seconds)


def _restarts(lifetime_seconds: float, restart_seconds: float) -> float:
    if lifetime_seconds <= 0.0:
        return 1.0
    return 1.0 / max(LEAST_WORKING_SHARE, 1.0 - restart_seconds / lifetime_seconds)


def _losses(losses_per_hour: float, restart_seconds: float, checkpoint_seconds: float) -> float:
    if losses_per_hour <= 0.0:
        return 1.0
    rate = losses_per_hour / 3600.0
    return exp(rate * restart_seconds) * expm1(rate * checkpoint_seconds) / (rate * checkpoint_seconds)

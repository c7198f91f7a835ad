"""How often a training that asks mlcd saves, and why: by what a save takes and how often its machines are lost. Pure.

    λ   losses an hour that the kind of machine leads one to expect:
            its offer's (spot: the price list's or the setting's), of all its machines at once (see core.losses)
          + of each node by itself, whoever sells it
          + one in each of its lives, where it has but one: all functions of a task reach their end together
    k   losses that this job has seen in t hours of training

    M = (1/λ + t) ÷ (1 + k)       the expectation counts like one loss

The interval is Young's √(2 δ M) and is worked out where δ is measured, in the program (mlcd.worker.saving).

A node fails about once in 154 days: 6.5 failures in a thousand node-days of Meta's larger research cluster (Kokolis et al., 2025,
arXiv 2410.21680), the worse one of the two that they report. That nobody promises either.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlcd.core.machines import Deployment
from mlcd.core.progress import Saving
from mlcd.core.units import show_duration
from mlcd.worker.saving import interval_seconds, mean_loss_seconds

NODE_LOSSES_PER_HOUR = 6.5 / 1000.0 / 24.0
EXAMPLE_SAVE_SECONDS = 1.0


@dataclass(frozen=True)
class Losses:
    """How often a training is thrown back to its newest checkpoint."""

    expected_per_hour: float  # by the kind of machine
    because: str  # of that expectation, in words
    seen: int = 0
    in_seconds: float = 0.0  # of training, in which those were seen

    @property
    def mean_seconds(self) -> float:
        """M: between two of them."""
        return mean_loss_seconds(3600.0 / self.expected_per_hour, self.seen, self.in_seconds)


def expected_losses(deployment: Deployment, seen: int = 0, in_seconds: float = 0.0) -> Losses:
    """What is to be expected on a deployment, by the kind of its machines and what the job has seen."""
    offer, nodes = deployment.offer, deployment.nodes
    life = 3600.0 / offer.lifetime_seconds if offer.lifetime_seconds > 0 else 0.0
    rate = deployment.losses_per_hour + NODE_LOSSES_PER_HOUR * nodes + life
    return Losses(rate, _because(deployment), seen, in_seconds)


def interval_in_words(losses: Losses, set_seconds: float | None, saving: Saving | None) -> str:
    """Which interval is used and why; while no save was seen, what one of a second would give."""
    if set_seconds is not None:
        return f"every {show_duration(set_seconds)}, as the job says"
    if saving is None or saving.takes_seconds == 0:
        example = show_duration(interval_seconds(EXAMPLE_SAVE_SECONDS, losses.mean_seconds))
        what = f"where mlcd.checkpoint_due() is asked, every {example} if a save takes {EXAMPLE_SAVE_SECONDS:g} s"
        return f"{what}, as {_expected(losses, losses.mean_seconds)}"
    took = f"a save takes {_seconds(saving.takes_seconds)}"
    return f"every {show_duration(saving.every_seconds)}, as {took} and {_expected(losses, saving.loss_seconds)}"


def _expected(losses: Losses, mean_seconds: float) -> str:
    seen = "" if not losses.seen else f", {losses.seen} seen"
    return f"a loss is expected every {show_duration(mean_seconds)} ({losses.because}{seen})"


def _because(deployment: Deployment) -> str:
    offer = deployment.offer
    if offer.lifetime_seconds > 0:
        return f"functions live for {show_duration(offer.lifetime_seconds)}"
    what = "spot machines" if offer.spot else "machines on demand"
    return f"{deployment.nodes} {what}" if deployment.nodes > 1 else f"a {what.replace('machines', 'machine')}"


def _seconds(seconds: float) -> str:
    """Of a save, which may be short."""
    return show_duration(seconds) if seconds >= 10.0 else f"{seconds:.2g} s"
